include src/util/local.mk

noinst_LTLIBRARIES += %D%/libnixlrun_core.la
%C%_libnixlrun_core_la_SOURCES = %D%/version.c
%C%_libnixlrun_core_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_libnixlrun_core_la_LIBADD = src/util/libnxr_util.la $(PMIX_LIBS)

lib_LTLIBRARIES += %D%/libnixlrun.la
%C%_libnixlrun_la_SOURCES =
# libtool's current:revision:age. 0:0:0 until 1.0; then: source changed, revision+1; interfaces added,
# current+1, revision 0, age+1; interfaces removed or changed, current+1, revision 0, age 0.
%C%_libnixlrun_la_LDFLAGS = $(AM_LDFLAGS) $(NODEFS_LDFLAGS) -version-info 0:0:0
%C%_libnixlrun_la_LIBADD = %D%/libnixlrun_core.la
EXTRA_DIST += %D%/libnixlrun.map
%C%_libnixlrun_la_DEPENDENCIES = %D%/libnixlrun_core.la %D%/libnixlrun.map
if HAVE_VERSION_SCRIPT
%C%_libnixlrun_la_LDFLAGS += -Wl,--version-script=$(srcdir)/%D%/libnixlrun.map
endif

bin_SCRIPTS += %D%/nixlcc
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = %D%/nixlrun.pc
