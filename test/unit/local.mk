# SPDX-License-Identifier: Apache-2.0
# Tests of parts of the library in one process: Criterion, one program per source file.
if HAVE_CRITERION
unit_cflags = $(AM_CFLAGS) $(CRITERION_CFLAGS)
unit_libs = src/libnixlrun_core.la $(CRITERION_LIBS)
unit_programs = %D%/abi %D%/copy %D%/env %D%/log %D%/status
check_PROGRAMS += $(unit_programs)
TESTS += $(unit_programs)

%C%_abi_CFLAGS = $(unit_cflags)
%C%_abi_LDADD = $(unit_libs)
%C%_copy_CFLAGS = $(unit_cflags)
%C%_copy_LDADD = $(unit_libs)
%C%_env_CFLAGS = $(unit_cflags)
%C%_env_LDADD = $(unit_libs)
%C%_log_CFLAGS = $(unit_cflags)
%C%_log_LDADD = $(unit_libs)
%C%_status_CFLAGS = $(unit_cflags)
%C%_status_LDADD = $(unit_libs)
endif
