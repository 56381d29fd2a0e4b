# SPDX-License-Identifier: Apache-2.0
# Processes that are started separately, and attach to each other.
EXTRA_PROGRAMS += %D%/attach_end %D%/attach_jobs %D%/attach_team %D%/confined %D%/hostile \
	%D%/attach_channel %D%/attach_enter %D%/attach_gpu %D%/attach_lend \
	%D%/attach_unread
%C%_attach_end_SOURCES = %D%/attach_calls.c %D%/attach_calls.h %D%/attach_end.c \
	%D%/attach_figures.c %D%/attach_figures.h
%C%_attach_end_LDFLAGS = $(mp_link)
%C%_attach_end_LDADD = $(mp_libs)
%C%_attach_jobs_SOURCES = %D%/attach_calls.c %D%/attach_calls.h %D%/attach_jobs.c
%C%_attach_jobs_LDFLAGS = $(mp_link)
%C%_attach_jobs_LDADD = $(mp_libs)
%C%_attach_team_LDFLAGS = $(mp_link)
%C%_attach_team_LDADD = $(mp_libs)
%C%_attach_channel_SOURCES = %D%/attach_channel.c %D%/attach_figures.c %D%/attach_figures.h
%C%_attach_channel_LDFLAGS = $(mp_link)
%C%_attach_channel_LDADD = $(mp_libs)
%C%_attach_enter_LDFLAGS = $(mp_link)
%C%_attach_enter_LDADD = $(mp_libs)
%C%_attach_gpu_LDFLAGS = $(mp_link)
%C%_attach_gpu_LDADD = $(mp_libs)
%C%_attach_lend_LDFLAGS = $(mp_link)
%C%_attach_lend_LDADD = $(mp_libs)
%C%_attach_unread_LDFLAGS = $(mp_link)
%C%_attach_unread_LDADD = $(mp_libs)
%C%_hostile_LDFLAGS = $(mp_link)
%C%_hostile_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
check_LTLIBRARIES += %D%/lost_port.la
%C%_lost_port_la_SOURCES = %D%/lost_port.c
%C%_lost_port_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -rpath /nowhere
%C%_lost_port_la_LIBADD = -ldl
dist_check_SCRIPTS += %D%/test_attach.sh %D%/test_containers.sh %D%/test_etcd.sh %D%/test_hosts.sh %D%/test_jobs.sh %D%/test_nat.sh %D%/test_port.sh %D%/test_shared.sh %D%/test_team.sh \
	%D%/test_channel.sh %D%/test_show.sh \
	%D%/test_engines.sh
EXTRA_DIST += %D%/beds.sh %D%/etcd_proxy.py %D%/lib.sh
TESTS += %D%/test_attach.sh %D%/test_containers.sh %D%/test_etcd.sh %D%/test_hosts.sh %D%/test_jobs.sh %D%/test_nat.sh %D%/test_port.sh %D%/test_shared.sh %D%/test_team.sh \
	%D%/test_channel.sh %D%/test_show.sh \
	%D%/test_engines.sh
