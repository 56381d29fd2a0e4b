# SPDX-License-Identifier: Apache-2.0
# Disks that fail, are small, or have no io_uring, for tests of files as regions.
check_LTLIBRARIES += %D%/bad_disk.la
%C%_bad_disk_la_SOURCES = %D%/bad_disk.c
%C%_bad_disk_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -rpath /nowhere
%C%_bad_disk_la_LIBADD = -ldl
EXTRA_PROGRAMS += %D%/without_uring
EXTRA_DIST += %D%/bad-disk %D%/loop-disk %D%/small-disk %D%/without-uring
