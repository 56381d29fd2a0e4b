# SPDX-License-Identifier: Apache-2.0
# What reads and writes files. The engines of threads and of directories are part of it.
noinst_LTLIBRARIES += %D%/libnxr_storage.la
%C%_libnxr_storage_la_SOURCES = %D%/object.h %D%/storage.h %D%/threads/threads.c \
	%D%/cufile/cufile.c %D%/cufile/cufile.h \
	%D%/move.c %D%/move.h \
	%D%/directory/beneath.c %D%/directory/beneath.h \
	%D%/directory/bytes.c \
	%D%/directory/delay.c \
	%D%/directory/directory.c %D%/directory/directory.h \
	%D%/directory/opened.c %D%/directory/opened.h \
	%D%/directory/unfinished.c \
	%D%/directory/unsynced.c %D%/directory/unsynced.h \
	%D%/directory/walk.c
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

# That of S3 is another, so that the library needs no libcurl. It stays when the library is unloaded
# (nodelete): libcurl and its TLS library have exit handlers.
if HAVE_S3
pkglib_LTLIBRARIES += %D%/s3/nixlrun_s3.la
%C%_s3_nixlrun_s3_la_SOURCES = %D%/s3/credentials.c %D%/s3/judge.c %D%/s3/loop.c %D%/s3/request.c \
	%D%/s3/s3.h %D%/s3/settings.c
%C%_s3_nixlrun_s3_la_CFLAGS = $(AM_CFLAGS) $(S3_CFLAGS) $(NETTLE_CFLAGS)
%C%_s3_nixlrun_s3_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -no-undefined \
	-export-symbols-regex '^nxr_object_engine$$' -Wl,-z,nodelete
%C%_s3_nixlrun_s3_la_LIBADD = %D%/libnxr_s3_pure.la $(S3_LIBS) $(NETTLE_LIBS)
endif

# What needs no libcurl; unit tests and fuzz targets link it, too.
noinst_LTLIBRARIES += %D%/libnxr_s3_pure.la
%C%_libnxr_s3_pure_la_SOURCES = \
	%D%/s3/answer.c %D%/s3/answer.h \
	%D%/s3/crc32c.c \
	%D%/s3/place.c %D%/s3/place.h \
	%D%/s3/profile.c %D%/s3/profile.h \
	%D%/s3/sign.c %D%/s3/sign.h
%C%_libnxr_s3_pure_la_CFLAGS = $(AM_CFLAGS) $(NETTLE_CFLAGS)
EXTRA_DIST += %D%/README
