# SPDX-License-Identifier: Apache-2.0

# NXR_CHECK_CFLAGS(VARIABLE, FLAGS): put those of FLAGS that the compiler takes into VARIABLE.
AC_DEFUN([NXR_CHECK_CFLAGS], [
    $1=
    for nxr_flag in $2; do
        nxr_save_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS -Werror $nxr_flag"
        AC_MSG_CHECKING([whether $CC takes $nxr_flag])
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
            [AC_MSG_RESULT([yes]); $1="$$1 $nxr_flag"], [AC_MSG_RESULT([no])])
        CFLAGS=$nxr_save_CFLAGS
    done
    AC_SUBST([$1])
])

# NXR_CHECK_LDFLAG(VARIABLE, FLAG, CONDITION): FLAG in VARIABLE where the linker takes it and CONDITION holds.
AC_DEFUN([NXR_CHECK_LDFLAG], [
    $1=
    nxr_save_LDFLAGS=$LDFLAGS
    LDFLAGS="$LDFLAGS $2"
    AC_MSG_CHECKING([whether the linker takes $2])
    AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes]); AS_IF([$3], [$1="$2"])], [AC_MSG_RESULT([no])])
    LDFLAGS=$nxr_save_LDFLAGS
    AC_SUBST([$1])
])

# NXR_CHECK_VERSION_SCRIPT: can the linker take a symbol map?
AC_DEFUN([NXR_CHECK_VERSION_SCRIPT], [
    AC_MSG_CHECKING([whether the linker takes a version script])
    nxr_save_LDFLAGS=$LDFLAGS
    echo "{ global: main; local: *; };" > conftest.map
    LDFLAGS="$LDFLAGS -Wl,--version-script=conftest.map"
    AC_LINK_IFELSE([AC_LANG_PROGRAM()], [nxr_map=yes], [nxr_map=no])
    AC_MSG_RESULT([$nxr_map])
    rm -f conftest.map
    LDFLAGS=$nxr_save_LDFLAGS
    AM_CONDITIONAL([HAVE_VERSION_SCRIPT], [test "x$nxr_map" = xyes])
])
