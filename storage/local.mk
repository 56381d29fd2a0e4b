# SPDX-License-Identifier: Apache-2.0
# What reads and writes files. The engine of threads is part of the library.
noinst_LTLIBRARIES += %D%/libnxr_storage.la
%C%_libnxr_storage_la_SOURCES = %D%/storage.h %D%/threads/threads.c
%C%_libnxr_storage_la_CFLAGS = $(AM_CFLAGS)

# That of io_uring is a module, so that the library needs no liburing. It uses nothing of the library.
if HAVE_LIBURING
pkglib_LTLIBRARIES += %D%/uring/nixlrun_uring.la
%C%_uring_nixlrun_uring_la_SOURCES = %D%/uring/uring.c
%C%_uring_nixlrun_uring_la_CFLAGS = $(AM_CFLAGS) $(LIBURING_CFLAGS)
%C%_uring_nixlrun_uring_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -no-undefined \
	-export-symbols-regex '^nxr_storage_uring$$'
%C%_uring_nixlrun_uring_la_LIBADD = $(LIBURING_LIBS)
endif
EXTRA_DIST += %D%/README
