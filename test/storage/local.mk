# SPDX-License-Identifier: Apache-2.0
# Stores for objects, and disks that fail, are small, or have no io_uring, for tests of storage as regions.
check_LTLIBRARIES += %D%/bad_disk.la
%C%_bad_disk_la_SOURCES = %D%/bad_disk.c
%C%_bad_disk_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -rpath /nowhere
%C%_bad_disk_la_LIBADD = -ldl
EXTRA_PROGRAMS += %D%/without_uring
EXTRA_DIST += %D%/bad-disk %D%/loop-disk %D%/small-disk %D%/without-uring
dist_check_SCRIPTS += %D%/test_s3.sh
TESTS += %D%/test_s3.sh
EXTRA_DIST += %D%/s3_proxy.py %D%/s3_services.py %D%/s3_tool.py %D%/silent-names %D%/with-s3
check_LTLIBRARIES += %D%/old_kernel.la
%C%_old_kernel_la_SOURCES = %D%/old_kernel.c
%C%_old_kernel_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -rpath /nowhere
%C%_old_kernel_la_LIBADD = -ldl
EXTRA_DIST += %D%/old-kernel
dist_check_SCRIPTS += %D%/test_s3_killed.sh
TESTS += %D%/test_s3_killed.sh
# What a failure of power leaves.
check_LTLIBRARIES += %D%/power_record.la
%C%_power_record_la_SOURCES = %D%/power_record.c
%C%_power_record_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -rpath /nowhere
%C%_power_record_la_LIBADD = -ldl
EXTRA_PROGRAMS += %D%/power_puts
%C%_power_puts_LDADD = $(nixlrun_la) -ldl
%C%_power_puts_LDFLAGS = $(AM_LDFLAGS) -no-install
dist_check_SCRIPTS += %D%/test_power.sh
TESTS += %D%/test_power.sh
EXTRA_DIST += %D%/power.py
