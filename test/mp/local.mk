# SPDX-License-Identifier: Apache-2.0
# Tests of several ranks. A .mp file says what to run; run-mp runs it and prints TAP.
EXTRA_DIST += %D%/one-core %D%/run-mp %D%/large.mp

check_LTLIBRARIES += %D%/libmptest.la
%C%_libmptest_la_SOURCES = %D%/barrier.c %D%/collective_call.c %D%/every_call.c %D%/mptest.c \
	%D%/mptest.h %D%/team_check.c %D%/usage.c %D%/waits.c

# No libtool wrapper script: it would cost each rank a shell.
mp_link = $(AM_LDFLAGS) -no-install
mp_libs = test/mp/libmptest.la $(nixlrun_la)

mp_programs = \
	%D%/abort \
	%D%/aside \
	%D%/bad_args \
	%D%/bounce_short \
	%D%/fault_words \
	%D%/bad_channel \
	%D%/bad_grant \
	%D%/bad_pair \
	%D%/bad_storage \
	%D%/bad_xfer \
	%D%/bad_env \
	%D%/closed \
	%D%/contact \
	%D%/collective_cases \
	%D%/count \
	%D%/crowd \
	%D%/device \
	%D%/directory \
	%D%/directory_fail \
	%D%/directory_scarce \
	%D%/elastic \
	%D%/fair \
	%D%/far_device \
	%D%/fault_channel \
	%D%/fault_collective \
	%D%/fault_first \
	%D%/fault_flush \
	%D%/fault_grant \
	%D%/fault_leave \
	%D%/fault_init \
	%D%/fault_launcher \
	%D%/fault_pair \
	%D%/fault_reach \
	%D%/fault_stop \
	%D%/fault_storm \
	%D%/fault_team \
	%D%/fault_visit \
	%D%/fault_wait \
	%D%/file \
	%D%/file_fail \
	%D%/file_gpu \
	%D%/file_durable \
	%D%/file_shared \
	%D%/first_flush \
	%D%/grant_cases \
	%D%/grant_leave \
	%D%/harness_probe \
	%D%/hello \
	%D%/idle_conn \
	%D%/hostile \
	%D%/hostile_net \
	%D%/large \
	%D%/late_ask \
	%D%/late_team \
	%D%/late_any \
	%D%/late_wait \
	%D%/notes_left \
	%D%/pair_again \
	%D%/leave \
	%D%/lean \
	%D%/leave_race \
	%D%/lifecycle \
	%D%/limits \
	%D%/no_device \
	%D%/object \
	%D%/object_fail \
	%D%/object_late \
	%D%/object_canceled \
	%D%/object_whole \
	%D%/odd_process \
	%D%/other_user \
	%D%/precedence \
	%D%/quiet \
	%D%/reform \
	%D%/reform_kill \
	%D%/reform_return \
	%D%/refusals \
	%D%/restart \
	%D%/restart_cases \
	%D%/channel_return \
	%D%/scarce \
	%D%/scarce_job \
	%D%/scarce_owner \
	%D%/seals \
	%D%/second_program \
	%D%/starved \
	%D%/starved_sender \
	%D%/states \
	%D%/stats \
	%D%/stress \
	%D%/stuck \
	%D%/team_retry \
	%D%/team_started \
	%D%/traced \
	%D%/trial_again \
	%D%/two_copies \
	%D%/unload
EXTRA_PROGRAMS += $(mp_programs)
%C%_abort_LDFLAGS = $(mp_link)
%C%_abort_LDADD = $(mp_libs)
%C%_aside_LDFLAGS = $(mp_link)
%C%_aside_LDADD = $(mp_libs)
%C%_bad_args_LDFLAGS = $(mp_link)
%C%_bad_args_LDADD = $(mp_libs)
%C%_bad_channel_LDFLAGS = $(mp_link)
%C%_bad_channel_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_bad_grant_LDFLAGS = $(mp_link)
%C%_bad_grant_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_bad_pair_LDFLAGS = $(mp_link)
%C%_bad_pair_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_bad_storage_LDFLAGS = $(mp_link)
%C%_bad_storage_LDADD = $(mp_libs)
%C%_bad_xfer_LDFLAGS = $(mp_link)
%C%_bad_xfer_LDADD = $(mp_libs)
%C%_bad_env_LDFLAGS = $(mp_link)
%C%_bad_env_LDADD = $(mp_libs)
%C%_closed_LDFLAGS = $(mp_link)
%C%_closed_LDADD = $(mp_libs)
%C%_collective_cases_LDFLAGS = $(mp_link)
%C%_collective_cases_LDADD = $(mp_libs)
%C%_count_LDFLAGS = $(mp_link)
%C%_count_LDADD = $(mp_libs)
%C%_crowd_LDFLAGS = $(mp_link)
%C%_crowd_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_directory_LDFLAGS = $(mp_link)
%C%_directory_LDADD = $(mp_libs)
%C%_directory_fail_LDFLAGS = $(mp_link)
%C%_directory_fail_LDADD = $(mp_libs)
%C%_directory_scarce_LDFLAGS = $(mp_link)
%C%_directory_scarce_LDADD = $(mp_libs)
%C%_device_LDFLAGS = $(mp_link)
%C%_device_LDADD = $(mp_libs)
%C%_fair_LDFLAGS = $(mp_link)
%C%_fair_LDADD = $(mp_libs)
%C%_far_device_LDFLAGS = $(mp_link)
%C%_far_device_LDADD = $(mp_libs)
%C%_fault_channel_LDFLAGS = $(mp_link)
%C%_fault_channel_LDADD = $(mp_libs)
%C%_fault_collective_LDFLAGS = $(mp_link)
%C%_fault_collective_LDADD = $(mp_libs)
%C%_fault_first_LDFLAGS = $(mp_link)
%C%_fault_first_LDADD = $(mp_libs)
%C%_fault_flush_LDFLAGS = $(mp_link)
%C%_fault_flush_LDADD = $(mp_libs)
%C%_fault_leave_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_fault_leave_LDFLAGS = $(mp_link)
%C%_fault_leave_LDADD = $(mp_libs) $(PMIX_LIBS)
%C%_fault_grant_LDFLAGS = $(mp_link)
%C%_fault_grant_LDADD = $(mp_libs)
%C%_fault_init_SOURCES = %D%/fault_init.c test/net/bed.c test/net/bed.h
%C%_fault_init_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
%C%_fault_init_LDFLAGS = $(mp_link)
%C%_fault_init_LDADD = $(mp_libs) $(PMIX_LIBS)
%C%_fault_launcher_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_fault_launcher_LDFLAGS = $(mp_link)
%C%_fault_launcher_LDADD = $(mp_libs) $(PMIX_LIBS)
%C%_fault_pair_LDFLAGS = $(mp_link)
%C%_fault_pair_LDADD = $(mp_libs)
%C%_fault_reach_LDFLAGS = $(mp_link) -Wl,--wrap=nxr_node_wait_slow
%C%_fault_reach_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_fault_stop_LDFLAGS = $(mp_link)
%C%_fault_stop_LDADD = $(mp_libs)
%C%_fault_storm_LDFLAGS = $(mp_link)
%C%_fault_storm_LDADD = $(mp_libs)
%C%_fault_team_LDFLAGS = $(mp_link) -Wl,--wrap=nxr_mailbox_swap -Wl,--wrap=nxr_question_ask
%C%_fault_team_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_fault_visit_LDFLAGS = $(mp_link)
%C%_fault_visit_LDADD = $(mp_libs)
%C%_fault_wait_LDFLAGS = $(mp_link)
%C%_fault_wait_LDADD = $(mp_libs)
%C%_grant_cases_LDFLAGS = $(mp_link)
%C%_grant_cases_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_grant_leave_LDFLAGS = $(mp_link)
%C%_grant_leave_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_harness_probe_LDFLAGS = $(mp_link)
%C%_harness_probe_LDADD = $(mp_libs)
%C%_file_LDFLAGS = $(mp_link)
%C%_file_LDADD = $(mp_libs)
%C%_file_gpu_LDFLAGS = $(mp_link)
%C%_file_gpu_LDADD = $(mp_libs)
%C%_file_fail_LDFLAGS = $(mp_link)
%C%_file_fail_LDADD = $(mp_libs)
%C%_file_durable_LDFLAGS = $(mp_link)
%C%_file_durable_LDADD = $(mp_libs)
%C%_file_shared_LDFLAGS = $(mp_link)
%C%_file_shared_LDADD = $(mp_libs)
%C%_first_flush_LDFLAGS = $(mp_link)
%C%_first_flush_LDADD = $(mp_libs)
%C%_hello_LDFLAGS = $(mp_link)
%C%_hello_LDADD = $(mp_libs)
%C%_contact_SOURCES = %D%/contact.c test/net/bed.c test/net/bed.h
%C%_contact_LDFLAGS = $(mp_link)
%C%_contact_LDADD = $(mp_libs)
%C%_idle_conn_SOURCES = %D%/idle_conn.c test/net/bed.c test/net/bed.h
%C%_idle_conn_LDFLAGS = $(mp_link)
%C%_idle_conn_LDADD = $(mp_libs)
%C%_hostile_net_LDFLAGS = $(mp_link)
%C%_hostile_net_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_hostile_LDFLAGS = $(mp_link)
%C%_hostile_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_large_LDFLAGS = $(mp_link)
%C%_large_LDADD = $(mp_libs)
%C%_late_ask_LDADD = $(mp_libs)
%C%_late_team_LDADD = $(mp_libs)
%C%_late_any_LDADD = $(mp_libs)
%C%_late_wait_LDADD = $(mp_libs)
%C%_bounce_short_LDFLAGS = $(mp_link)
%C%_bounce_short_LDADD = $(mp_libs)
%C%_fault_words_LDFLAGS = $(mp_link)
%C%_fault_words_LDADD = $(mp_libs)
%C%_notes_left_LDFLAGS = $(mp_link)
%C%_notes_left_LDADD = $(mp_libs)
%C%_pair_again_LDFLAGS = $(mp_link)
%C%_pair_again_LDADD = $(mp_libs)
%C%_lean_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_lean_LDFLAGS = $(mp_link)
%C%_lean_LDADD = $(mp_libs) $(PMIX_LIBS) -ldl
%C%_leave_SOURCES = %D%/leave.c test/net/bed.c test/net/bed.h
%C%_leave_LDFLAGS = $(mp_link)
%C%_leave_LDADD = $(mp_libs)
%C%_leave_race_LDFLAGS = $(mp_link)
%C%_leave_race_LDADD = $(mp_libs)
%C%_lifecycle_LDFLAGS = $(mp_link)
%C%_lifecycle_LDADD = $(mp_libs)
%C%_limits_LDFLAGS = $(mp_link)
%C%_limits_LDADD = $(mp_libs)
%C%_no_device_LDFLAGS = $(mp_link)
%C%_no_device_LDADD = $(mp_libs)
%C%_object_LDFLAGS = $(mp_link)
%C%_object_LDADD = $(mp_libs)
%C%_object_fail_LDFLAGS = $(mp_link)
%C%_object_fail_LDADD = $(mp_libs)
%C%_object_late_LDFLAGS = $(mp_link)
%C%_object_late_LDADD = $(mp_libs)
%C%_object_canceled_LDFLAGS = $(mp_link)
%C%_object_canceled_LDADD = $(mp_libs)
%C%_object_whole_LDFLAGS = $(mp_link)
%C%_object_whole_LDADD = $(mp_libs)
%C%_odd_process_LDFLAGS = $(mp_link)
%C%_odd_process_LDADD = $(mp_libs)
%C%_other_user_LDFLAGS = $(mp_link)
%C%_other_user_LDADD = $(mp_libs)
%C%_precedence_LDFLAGS = $(mp_link)
%C%_precedence_LDADD = $(mp_libs)
%C%_quiet_LDFLAGS = $(mp_link)
%C%_quiet_LDADD = $(mp_libs)
%C%_reform_LDFLAGS = $(mp_link)
%C%_reform_LDADD = $(mp_libs)
%C%_reform_return_LDFLAGS = $(mp_link)
%C%_reform_return_LDADD = $(mp_libs)
%C%_reform_kill_LDFLAGS = $(mp_link) -Wl,--wrap=nxr_reform_tell -Wl,--wrap=nxr_mailbox_swap
%C%_reform_kill_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_refusals_LDFLAGS = $(mp_link)
%C%_refusals_LDADD = $(mp_libs)
%C%_elastic_LDFLAGS = $(mp_link)
%C%_elastic_LDADD = $(mp_libs)
%C%_restart_LDFLAGS = $(mp_link)
%C%_restart_LDADD = $(mp_libs)
%C%_restart_cases_LDFLAGS = $(mp_link)
%C%_restart_cases_LDADD = $(mp_libs)
%C%_channel_return_LDFLAGS = $(mp_link)
%C%_channel_return_LDADD = $(mp_libs)
%C%_scarce_SOURCES = %D%/lack.c %D%/lack.h %D%/scarce.c
%C%_scarce_LDFLAGS = $(mp_link)
%C%_scarce_LDADD = $(mp_libs)
%C%_scarce_job_SOURCES = %D%/lack.c %D%/lack.h %D%/scarce_job.c
%C%_scarce_job_LDFLAGS = $(mp_link)
%C%_scarce_job_LDADD = $(mp_libs)
%C%_scarce_owner_SOURCES = %D%/lack.c %D%/lack.h %D%/scarce_owner.c
%C%_scarce_owner_LDFLAGS = $(mp_link)
%C%_scarce_owner_LDADD = $(mp_libs)
%C%_second_program_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_second_program_LDFLAGS = $(mp_link)
%C%_second_program_LDADD = $(mp_libs) $(PMIX_LIBS) -ldl
%C%_seals_LDFLAGS = $(mp_link)
%C%_seals_LDADD = $(mp_libs)
%C%_starved_LDFLAGS = $(mp_link)
%C%_starved_LDADD = $(mp_libs)
%C%_starved_sender_LDFLAGS = $(mp_link)
%C%_starved_sender_LDADD = $(mp_libs)
%C%_states_LDFLAGS = $(mp_link)
%C%_states_LDADD = $(mp_libs)
%C%_stats_LDFLAGS = $(mp_link)
%C%_stats_LDADD = $(mp_libs)
%C%_stress_LDFLAGS = $(mp_link)
%C%_stress_LDADD = $(mp_libs)
%C%_stuck_LDFLAGS = $(mp_link)
%C%_stuck_LDADD = $(mp_libs)
%C%_team_retry_SOURCES = %D%/team_retry.c test/net/bed.c test/net/bed.h
%C%_team_retry_LDFLAGS = $(mp_link)
%C%_team_retry_LDADD = $(mp_libs)
%C%_team_started_LDADD = $(mp_libs)
%C%_traced_LDFLAGS = $(mp_link)
%C%_traced_LDADD = $(mp_libs) -lpthread
%C%_trial_again_LDFLAGS = $(mp_link)
%C%_trial_again_LDADD = $(mp_libs)
%C%_two_copies_CPPFLAGS = $(AM_CPPFLAGS) -DLIBRARY='"$(abs_top_builddir)/src/.libs/libnixlrun.so"'
%C%_two_copies_LDADD = test/mp/libmptest.la src/libnixlrun_core.la -ldl
%C%_unload_CPPFLAGS = $(AM_CPPFLAGS) -DLIBRARY='"$(abs_top_builddir)/src/.libs/libnixlrun.so"'
%C%_unload_LDADD = -ldl

mp_tests = %D%/abort.mp %D%/aside.mp %D%/bad_input.mp %D%/collective.mp %D%/cuda.mp %D%/directory.mp %D%/fair.mp %D%/fault.mp %D%/file.mp %D%/file_gpu.mp %D%/hello.mp %D%/late.mp %D%/life.mp %D%/limits.mp %D%/object.mp %D%/odd.mp %D%/reform.mp %D%/restart.mp %D%/stats.mp %D%/stress.mp
EXTRA_DIST += $(mp_tests) %D%/asan.mp %D%/tsan.mp
TESTS += $(mp_tests)

if HAVE_VULKAN
TESTS += %D%/no_device.sh %D%/vulkan.mp
endif
dist_check_SCRIPTS += %D%/no_device.sh
EXTRA_DIST += %D%/vulkan.mp

dist_check_SCRIPTS += %D%/harness.sh
TESTS += %D%/harness.sh

# A tool for NVTX, and its test. The rpath is never used: it makes libtool build a shared object.
if HAVE_NVTX
check_LTLIBRARIES += %D%/nvtx_tool.la
%C%_nvtx_tool_la_SOURCES = %D%/nvtx_tool.c
%C%_nvtx_tool_la_CFLAGS = $(AM_CFLAGS) $(NVTX_CFLAGS)
%C%_nvtx_tool_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
else
EXTRA_DIST += %D%/nvtx_tool.c
endif
dist_check_SCRIPTS += %D%/test_nvtx.sh
TESTS += %D%/test_nvtx.sh
