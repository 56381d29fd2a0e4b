# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += %D%/nixl_bench
%C%_nixl_bench_SOURCES = \
	%D%/bench.h \
	%D%/apart.c \
	%D%/bare.c \
	%D%/bare_target.c \
	%D%/bare_tcp.c \
	%D%/bench_alloc.c \
	%D%/bench_attach.c \
	%D%/bench_channel.c \
	%D%/bench_collective.c \
	%D%/bench_contact.c \
	%D%/bench_death.c \
	%D%/bench_limits.c \
	%D%/bench_memory.c \
	%D%/bench_move.c \
	%D%/bench_notify.c \
	%D%/bench_object.c \
	%D%/bench_extents.c \
	%D%/bench_grant.c \
	%D%/bench_pair.c \
	%D%/bench_passive.c \
	%D%/bench_pattern.c \
	%D%/bench_signal.c \
	%D%/bench_storage.c \
	%D%/bench_storage_peer.c \
	%D%/bench_team.c \
	%D%/bench_trace.c \
	%D%/bench_tune.c \
	%D%/bench_wait.c \
	%D%/bench_word.c \
	%D%/bench_xfer.c \
	%D%/device.c \
	%D%/figures.c \
	%D%/fresh.c \
	%D%/nixl_bench.c \
	%D%/options.c \
	%D%/report.c \
	%D%/report_json.c \
	%D%/sample.c \
	%D%/stage.c \
	%D%/storage_load.c %D%/storage_load.h \
	%D%/traffic.c \
	%D%/tune.h %D%/tune_storage.c \
	%D%/wire.c
%C%_nixl_bench_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_nixl_bench_CPPFLAGS = $(AM_CPPFLAGS) -DBENCH_LIBEXECDIR='"$(pkglibexecdir)"'
%C%_nixl_bench_LDADD = $(nixlrun_la) src/util/libnxr_util.la $(PMIX_LIBS) -lm

# Beside nixl_bench in the build folder, too. What they source or import from here becomes part of them.
pkglibexec_SCRIPTS += %D%/nixl_bench-figures %D%/nixl_bench-peers %D%/nixl_bench-peers-net
EXTRA_DIST += %D%/counters.sh %D%/figures.py %D%/noise.py %D%/peers.sh %D%/peers_net.sh $(%C%_peers_parts)
CLEANFILES += %D%/nixl_bench-figures %D%/nixl_bench-peers %D%/nixl_bench-peers-net
%C%_peers_parts = %D%/turns.sh %D%/peers_report.sh %D%/netpair.sh
%C%_join = awk -v folder='$(srcdir)/%D%' '\
	/^\. "\$$\(dirname "\$$0"\)\// { sub(/.*\//, ""); sub(/"$$/, ""); while ((getline line < (folder "/" $$0)) > 0) print line; next } \
	/^\# shellcheck source=/ { next } { print }'
%C%_paths = sed -e 's|@''pkgdatadir@|$(pkgdatadir)|g' -e 's|@''bindir@|$(bindir)|g'
%D%/nixl_bench-peers: %D%/peers.sh $(%C%_peers_parts)
	$(AM_V_GEN)$(%C%_join) $(srcdir)/%D%/peers.sh | $(%C%_paths) >$@.new && chmod +x $@.new && mv $@.new $@
	$(AM_V_at)ln -sfn '$(abs_srcdir)/%D%/peers' $@.src
%D%/nixl_bench-peers-net: %D%/peers_net.sh $(%C%_peers_parts)
	$(AM_V_GEN)$(%C%_join) $(srcdir)/%D%/peers_net.sh | $(%C%_paths) >$@.new && chmod +x $@.new && mv $@.new $@
CLEANFILES += %D%/nixl_bench-peers.new %D%/nixl_bench-peers-net.new %D%/nixl_bench-peers.src
%D%/nixl_bench-figures: %D%/figures.py %D%/noise.py
	$(AM_V_GEN)sed -e '/^from noise import .*Difference/r $(srcdir)/%D%/noise.py' -e '/^from noise import /d' \
		$(srcdir)/%D%/figures.py >$@.new && \
		chmod +x $@.new && mv $@.new $@
CLEANFILES += %D%/nixl_bench-figures.new

dist_check_SCRIPTS += %D%/test_bench.sh %D%/test_bench_net.sh %D%/test_figures.sh %D%/test_peers.sh
TESTS += %D%/test_bench.sh %D%/test_bench_net.sh %D%/test_figures.sh %D%/test_peers.sh

noinst_PROGRAMS += %D%/copy_sweep
%C%_copy_sweep_SOURCES = %D%/copy_sweep.c
%C%_copy_sweep_LDADD = src/util/libnxr_util.la

noinst_PROGRAMS += %D%/start %D%/start_client
%C%_start_SOURCES = %D%/start.c
%C%_start_client_SOURCES = %D%/start_client.c
%C%_start_client_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_start_client_LDADD = $(PMIX_LIBS)

# Compiled by nixl_bench-peers when it runs, never by make: they need the peers' packages.
peersdir = $(pkgdatadir)/peers
dist_peers_DATA = \
	%D%/peers/collective.h \
	%D%/peers/collective_limit.c \
	%D%/peers/collective_mpi.c \
	%D%/peers/collective_nixlrun.c \
	%D%/peers/collective_shmem.c \
	%D%/peers/pair.h \
	%D%/peers/pair.py \
	%D%/peers/peer.h \
	%D%/peers/peer_mooncake.py \
	%D%/peers/peer_mpi.c \
	%D%/peers/peer_nixl.py \
	%D%/peers/peer_nixlrun.c \
	%D%/peers/peer_ofi.c \
	%D%/peers/peer_shmem.c \
	%D%/peers/peer_tcp.c \
	%D%/peers/peer_ucx.c \
	%D%/peers/peer_ucx.h \
	%D%/peers/peer_ucx_am.c \
	%D%/peers/sentinel.c
