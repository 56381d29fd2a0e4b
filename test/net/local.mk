# SPDX-License-Identifier: Apache-2.0
# Jobs on several hosts, which the tests make from namespaces: needs root.
EXTRA_PROGRAMS += %D%/nodes %D%/scope %D%/survive
%C%_nodes_LDADD = src/libnixlrun_core.la
%C%_scope_LDADD = $(nixlrun_la)
%C%_survive_LDADD = $(nixlrun_la)
dist_check_SCRIPTS += %D%/hosts %D%/test_openmpi.sh %D%/test_slurm.sh
TESTS += %D%/test_openmpi.sh %D%/test_slurm.sh
EXTRA_DIST += %D%/engines.sh %D%/lib.sh %D%/prrte.sh

# A bad wire between two hosts, and the test of it.
EXTRA_PROGRAMS += %D%/relay %D%/relay_test
%C%_relay_SOURCES = %D%/relay.c %D%/relay_queue.c %D%/relay_queue.h
%C%_relay_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_relay_test_LDFLAGS = $(mp_link)
%C%_relay_test_LDADD = $(mp_libs)

dist_check_SCRIPTS += %D%/test_waits.sh
TESTS += %D%/test_waits.sh
dist_check_SCRIPTS += %D%/links %D%/test_beds.sh %D%/test_explain.sh %D%/test_links.sh %D%/test_observe.sh
TESTS += %D%/test_beds.sh %D%/test_explain.sh %D%/test_links.sh %D%/test_observe.sh

# What can happen between hosts; the .mp files say over which networks.
EXTRA_PROGRAMS += %D%/broken %D%/callers %D%/cut_off %D%/dead_link %D%/farewell %D%/late_bulk %D%/quiet_death %D%/rails %D%/slow %D%/stall %D%/strangers %D%/unreached %D%/verdict \
	%D%/rails_fault %D%/rails_many %D%/reset_order %D%/wire_up
%C%_broken_SOURCES = %D%/bed.c %D%/bed.h %D%/broken.c
%C%_broken_LDFLAGS = $(mp_link)
%C%_broken_LDADD = $(mp_libs)
%C%_callers_SOURCES = %D%/callers.c
%C%_callers_LDFLAGS = $(mp_link)
%C%_callers_LDADD = $(mp_libs)
%C%_cut_off_SOURCES = %D%/bed.c %D%/bed.h %D%/cut_off.c
%C%_cut_off_LDFLAGS = $(mp_link)
%C%_cut_off_LDADD = $(mp_libs)
%C%_dead_link_SOURCES = %D%/bed.c %D%/bed.h %D%/dead_link.c
%C%_dead_link_LDFLAGS = $(mp_link)
%C%_dead_link_LDADD = $(mp_libs)
%C%_farewell_SOURCES = %D%/bed.c %D%/bed.h %D%/farewell.c
%C%_farewell_LDFLAGS = $(mp_link)
%C%_farewell_LDADD = $(mp_libs)
%C%_quiet_death_SOURCES = %D%/bed.c %D%/bed.h %D%/quiet_death.c
%C%_quiet_death_LDFLAGS = $(mp_link)
%C%_quiet_death_LDADD = $(mp_libs)
%C%_rails_SOURCES = %D%/bed.c %D%/bed.h %D%/rails.c
%C%_rails_LDFLAGS = $(mp_link)
%C%_rails_LDADD = $(mp_libs)
%C%_rails_fault_SOURCES = %D%/bed.c %D%/bed.h %D%/rails_fault.c
%C%_rails_fault_LDFLAGS = $(mp_link)
%C%_rails_fault_LDADD = $(mp_libs)
%C%_rails_many_LDFLAGS = $(mp_link)
%C%_rails_many_LDADD = $(mp_libs)
%C%_reset_order_LDFLAGS = $(mp_link)
%C%_reset_order_LDADD = $(mp_libs)
%C%_slow_SOURCES = %D%/bed.c %D%/bed.h %D%/slow.c
%C%_slow_LDFLAGS = $(mp_link)
%C%_slow_LDADD = $(mp_libs)
%C%_late_bulk_SOURCES = %D%/bed.c %D%/bed.h %D%/late_bulk.c
%C%_late_bulk_LDFLAGS = $(mp_link)
%C%_late_bulk_LDADD = $(mp_libs)
%C%_stall_SOURCES = %D%/bed.c %D%/bed.h %D%/stall.c
%C%_stall_LDFLAGS = $(mp_link)
%C%_stall_LDADD = $(mp_libs)
%C%_strangers_LDFLAGS = $(mp_link)
%C%_strangers_LDADD = test/mp/libmptest.la transports/tcp/libnxr_tcp_pure.la \
	src/libnixlrun_core.la
%C%_unreached_SOURCES = %D%/bed.c %D%/bed.h %D%/unreached.c
%C%_unreached_LDFLAGS = $(mp_link)
%C%_unreached_LDADD = $(mp_libs)
%C%_verdict_SOURCES = %D%/bed.c %D%/bed.h %D%/verdict.c
%C%_verdict_LDFLAGS = $(mp_link)
%C%_verdict_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_wire_up_LDFLAGS = $(mp_link)
%C%_wire_up_LDADD = $(mp_libs)

net_tests = %D%/dead_link.mp %D%/engine.mp %D%/faults.mp %D%/hostile.mp %D%/hosts.mp %D%/loopback.mp \
	%D%/rails.mp %D%/ranks.mp %D%/relay.mp
EXTRA_DIST += $(net_tests) %D%/asan.mp %D%/tsan.mp %D%/beds.sh %D%/soak/run %D%/soak/kills \
	%D%/soak/death.mp %D%/soak/links.mp %D%/soak/ranks.mp
TESTS += $(net_tests)
