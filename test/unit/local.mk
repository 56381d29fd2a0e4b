# SPDX-License-Identifier: Apache-2.0
# Tests of parts of the library in one process: Criterion, one program per source file.
if HAVE_CRITERION
unit_cflags = $(AM_CFLAGS) $(CRITERION_CFLAGS)
unit_libs = src/libnixlrun_core.la $(CRITERION_LIBS)
unit_launcher_libs = launcher/libnxr_launcher.la $(CRITERION_LIBS)
unit_programs = %D%/abi %D%/copy %D%/env %D%/log %D%/options %D%/placement %D%/ring \
	%D%/status %D%/values %D%/wire %D%/word
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
%C%_options_CFLAGS = $(unit_cflags)
%C%_options_LDADD = $(unit_launcher_libs)
%C%_placement_CFLAGS = $(unit_cflags)
%C%_placement_LDADD = $(unit_launcher_libs)
%C%_ring_CFLAGS = $(unit_cflags)
%C%_ring_LDADD = $(unit_libs)
%C%_status_CFLAGS = $(unit_cflags)
%C%_status_LDADD = $(unit_libs)
%C%_values_CFLAGS = $(unit_cflags)
%C%_values_LDADD = $(unit_launcher_libs)
%C%_wire_CFLAGS = $(unit_cflags)
%C%_wire_LDADD = $(unit_libs)
%C%_word_CFLAGS = $(unit_cflags)
%C%_word_LDADD = $(unit_libs)
endif

# Protocols of the shared memory with both sides in one process: ThreadSanitizer sees no other
# process. Plain programs, since Criterion aborts under it.
tsan_programs = %D%/tsan_close %D%/tsan_ring %D%/tsan_sleep %D%/tsan_word
check_PROGRAMS += $(tsan_programs)
TESTS += $(tsan_programs)
%C%_tsan_close_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_tsan_ring_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_tsan_sleep_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_tsan_word_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
