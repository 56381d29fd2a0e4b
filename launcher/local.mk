# SPDX-License-Identifier: Apache-2.0
# The launcher: everything but main() is one library, so that tests and fuzz targets can link it.
noinst_LTLIBRARIES += %D%/libnxr_launcher.la
%C%_libnxr_launcher_la_SOURCES = \
	%D%/allocation.c \
	%D%/allocation.h \
	%D%/command.c \
	%D%/descendants.c \
	%D%/descendants.h \
	%D%/end_order.c %D%/end_order.h \
	%D%/ending.h \
	%D%/engine.h \
	%D%/engine_flux.c \
	%D%/engine_openmpi.c \
	%D%/engine_prrte.c \
	%D%/engine_slurm.c \
	%D%/engine_table.c \
	%D%/envfile.c \
	%D%/envfile.h \
	%D%/environ.c \
	%D%/environ.h \
	%D%/envlist.c \
	%D%/envlist.h \
	%D%/finish.c \
	%D%/foreign.c \
	%D%/foreign.h \
	%D%/foreign_copy.h \
	%D%/foreign_end.c \
	%D%/foreign_output.c \
	%D%/foreign_output.h \
	%D%/foreign_pages.c \
	%D%/foreign_ranks.c \
	%D%/foreign_ranks.h \
	%D%/foreign_waits.c \
	%D%/rendezvous.c %D%/rendezvous.h \
	%D%/foreign_verdict.c \
	%D%/foundation.c \
	%D%/foundation.h \
	%D%/frame.c \
	%D%/frame.h \
	%D%/guardian.c \
	%D%/guardian.h \
	%D%/guardian_client.c \
	%D%/help.c \
	%D%/help.h \
	%D%/help_topics.c \
	%D%/help_topics.h \
	%D%/helper.c \
	%D%/helper.h \
	%D%/here.c \
	%D%/here.h \
	%D%/hosts.c \
	%D%/hosts.h \
	%D%/info.c \
	%D%/info.h \
	%D%/info_host.c \
	%D%/info_sharing.c \
	%D%/input.c \
	%D%/input.h \
	%D%/inspect.h \
	%D%/job.h \
	%D%/jobs.c \
	%D%/jobs_attached.c \
	%D%/jobs_attached.h \
	%D%/jobs.h \
	%D%/line.c \
	%D%/line.h \
	%D%/local.c \
	%D%/local.h \
	%D%/loop.c \
	%D%/loop.h \
	%D%/option_set.c \
	%D%/option_table.c \
	%D%/option_table.h \
	%D%/options.c \
	%D%/options.h \
	%D%/pages.c \
	%D%/pages.h \
	%D%/perfetto.c \
	%D%/perfetto.h \
	%D%/parser.h \
	%D%/placement.c \
	%D%/placement.h \
	%D%/probe.c \
	%D%/processes.c \
	%D%/processes.h \
	%D%/probe.h \
	%D%/program.c \
	%D%/program.h \
	%D%/pty.c \
	%D%/pty.h \
	%D%/rank.c \
	%D%/rank_report.h \
	%D%/rank_waits.c \
	%D%/rank_waits.h \
	%D%/reach.c %D%/reach.h \
	%D%/report.c \
	%D%/report.h \
	%D%/restart.c \
	%D%/server.c \
	%D%/server.h \
	%D%/server_control.c \
	%D%/server_data.c \
	%D%/server_iof.c \
	%D%/server_meet.c \
	%D%/server_query.c \
	%D%/server_queue.c \
	%D%/server_topology.c \
	%D%/server_upcalls.c \
	%D%/server_upcalls.h \
	%D%/signals.c \
	%D%/signals.h \
	%D%/sink.c \
	%D%/sink.h \
	%D%/space.c \
	%D%/spawn.c \
	%D%/stats.h \
	%D%/stats_end.c \
	%D%/stats_read.c \
	%D%/stats_show.c \
	%D%/stats_items.c \
	%D%/stats_named.c \
	%D%/stats_sum.c \
	%D%/metrics.c \
	%D%/metrics_parse.c \
	%D%/metrics_text.c \
	%D%/top.c \
	%D%/top_screen.c \
	%D%/top_screen.h \
	%D%/stream.c \
	%D%/stream.h \
	%D%/table.c \
	%D%/table.h \
	%D%/tagged.c \
	%D%/tagged.h \
	%D%/textfile.c \
	%D%/textfile.h \
	%D%/tmpdir.c \
	%D%/tmpdir.h \
	%D%/trace.h \
	%D%/trace_clock.c \
	%D%/trace_end.c \
	%D%/trace_read.c \
	%D%/trace_tracks.c \
	%D%/values.c \
	%D%/waits.h \
	%D%/waits_graph.c \
	%D%/waits_read.c \
	%D%/waits_show.c \
	%D%/waits_tell.c \
	%D%/values.h \
	%D%/world.c \
	%D%/world.h \
	%D%/xalloc.h
%C%_libnxr_launcher_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS) $(MICROHTTPD_CFLAGS)
%C%_libnxr_launcher_la_CPPFLAGS = $(AM_CPPFLAGS) -DNXR_LIBEXECDIR='"$(pkglibexecdir)"'
%C%_libnxr_launcher_la_LIBADD = src/util/libnxr_util.la $(PMIX_LIBS) $(HWLOC_LIBS)
EXTRA_DIST += %D%/README

bin_PROGRAMS += %D%/nixlrun
# server_answer.c stands before functions of the C library. In a library, nothing would ask for it.
%C%_nixlrun_SOURCES = %D%/main.c %D%/server_answer.c
%C%_nixlrun_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_nixlrun_LDADD = %D%/libnxr_launcher.la

# Between the daemons of other engines and the ranks. It needs nothing but the C library.
pkglibexec_PROGRAMS += %D%/nixlrun-rank
%C%_nixlrun_rank_SOURCES = %D%/descendants.c %D%/frame.c %D%/frame.h %D%/pages.c %D%/pages.h \
	%D%/program.c %D%/program.h %D%/pty.c %D%/pty.h \
	%D%/processes.c %D%/processes.h %D%/rank_socket.c %D%/rank_socket.h %D%/rank_main.c \
	%D%/rank_pages.c %D%/rank_pages.h %D%/rank_say.c %D%/rank_say.h %D%/rank_waits.c \
	%D%/rank_waits.h %D%/rank_world.c %D%/rank_world.h %D%/waits.h %D%/waits_read.c %D%/world.c %D%/world.h
%C%_nixlrun_rank_LDADD = src/util/libnxr_util.la

# The rank that --info and --explain start: the public calls, and the table of variables.
pkglibexec_PROGRAMS += %D%/nixlrun-inspect
%C%_nixlrun_inspect_SOURCES = %D%/explain.c %D%/explain.h \
	%D%/explain_measured.c %D%/explain_measured.h \
	%D%/explain_tell.c %D%/explain_tell.h %D%/inspect_main.c %D%/storage_facts.c \
	%D%/storage_facts.h %D%/table.c
%C%_nixlrun_inspect_LDADD = $(nixlrun_la) src/util/libnxr_util.la

bashcompletiondir = $(bashcompdir)
dist_bashcompletion_DATA = %D%/completion/nixlrun
