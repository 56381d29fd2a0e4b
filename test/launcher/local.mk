# SPDX-License-Identifier: Apache-2.0
dist_check_SCRIPTS += \
	%D%/test_completion.sh \
	%D%/test_effects.sh \
	%D%/test_engines.sh \
	%D%/test_help.sh \
	%D%/test_options.sh \
	%D%/test_placement.sh \
	%D%/transcript.sh
TESTS += \
	%D%/test_completion.sh \
	%D%/test_effects.sh \
	%D%/test_engines.sh \
	%D%/test_help.sh \
	%D%/test_options.sh \
	%D%/test_placement.sh
EXTRA_DIST += \
	%D%/effects.transcript \
	%D%/engines.transcript \
	%D%/engines/fake \
	%D%/options.transcript \
	%D%/placement.transcript \
	%D%/topologies/1-core.xml \
	%D%/topologies/2-sockets-cgroup.xml \
	%D%/topologies/2-sockets-smt.xml \
	%D%/topologies/8-numa.xml

# The local engine: PMIx clients that use one service each, and scripts that run them.
launcher_clients = %D%/pmix_data %D%/pmix_events %D%/pmix_jobs
launcher_tests = %D%/test_alone.sh %D%/test_death.sh %D%/test_exit.sh %D%/test_gdb.sh %D%/test_info.sh %D%/test_lacking.sh %D%/test_mpi.sh %D%/test_output.sh \
	%D%/test_ps.sh %D%/test_rank.sh %D%/test_restart.sh %D%/test_scale.sh %D%/test_services.sh %D%/test_signals.sh %D%/test_stats.sh %D%/test_trace.sh %D%/test_waits.sh %D%/test_world.sh
EXTRA_PROGRAMS += $(launcher_clients)
dist_check_SCRIPTS += $(launcher_tests)
TESTS += $(launcher_tests)
EXTRA_DIST += %D%/lib.sh %D%/read_trace.py %D%/mpi_program.c %D%/steps.sh

%C%_pmix_data_SOURCES = %D%/pmix_client.h %D%/pmix_data.c
%C%_pmix_data_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS)
%C%_pmix_data_LDADD = $(PMIX_LIBS) $(HWLOC_LIBS)
%C%_pmix_events_SOURCES = %D%/pmix_client.h %D%/pmix_events.c
%C%_pmix_events_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_pmix_events_LDADD = $(PMIX_LIBS)
%C%_pmix_jobs_SOURCES = %D%/pmix_client.h %D%/pmix_jobs.c
%C%_pmix_jobs_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_pmix_jobs_LDADD = $(PMIX_LIBS)

# What nixlrun does for clients of a PMIx that is newer than the system's. The rpath is never used: it
# makes libtool build the module as a shared object.
check_LTLIBRARIES += %D%/other_version.la
%C%_other_version_la_SOURCES = %D%/other_version.c
%C%_other_version_la_CFLAGS = $(AM_CFLAGS)
%C%_other_version_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_LTLIBRARIES += %D%/lacking.la
%C%_lacking_la_SOURCES = %D%/lacking.c
%C%_lacking_la_CFLAGS = $(AM_CFLAGS)
%C%_lacking_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_LTLIBRARIES += %D%/newer_pmix.la
%C%_newer_pmix_la_SOURCES = %D%/newer_pmix.c
%C%_newer_pmix_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_newer_pmix_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
