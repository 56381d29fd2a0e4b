# SPDX-License-Identifier: Apache-2.0
# Tests of several ranks. A .mp file says what to run; run-mp runs it and prints TAP.
MP_LOG_COMPILER = $(top_srcdir)/%D%/run-mp
EXTRA_DIST += %D%/run-mp

check_LTLIBRARIES = %D%/libmptest.la
%C%_libmptest_la_SOURCES = %D%/barrier.c %D%/mptest.c %D%/mptest.h
%C%_libmptest_la_LIBADD = src/libnixlrun.la

# No libtool wrapper script: it would cost each rank a shell.
mp_link = $(AM_LDFLAGS) -no-install
mp_libs = test/mp/libmptest.la src/libnixlrun.la

check_PROGRAMS += %D%/harness_probe
%C%_harness_probe_LDFLAGS = $(mp_link)
%C%_harness_probe_LDADD = $(mp_libs)
dist_check_SCRIPTS += %D%/harness.sh
TESTS += %D%/harness.sh
