# SPDX-License-Identifier: Apache-2.0
# What library and launcher share: log, environment table, status texts, time. Needs nothing above it.
noinst_LTLIBRARIES += %D%/libnxr_util.la
%C%_libnxr_util_la_SOURCES = \
	%D%/adapters.c %D%/adapters.h \
	%D%/announce.c %D%/announce.h \
	%D%/available.c %D%/available.h \
	%D%/barrier.c %D%/barrier.h \
	%D%/clock.h \
	%D%/debug.h \
	%D%/coll_table.c %D%/coll_table.h %D%/coll_table_file.c \
	%D%/copy.c %D%/copy.h %D%/copy_x86.c %D%/copy_x86.h \
	%D%/cuda_dyn.c %D%/cuda_dyn.def %D%/cuda_dyn.h %D%/cuda_types.h \
	%D%/cufile_dyn.c %D%/cufile_dyn.h \
	%D%/env.c %D%/env.def %D%/env.h \
	%D%/file_limit.c %D%/file_limit.h \
	%D%/handle.c %D%/handle.h \
	%D%/hash.h \
	%D%/line.h \
	%D%/list.h \
	%D%/loader.c %D%/loader.h \
	%D%/lock.h \
	%D%/spare.h \
	%D%/log.c %D%/log.h %D%/log_limit.c %D%/log_limit.h \
	%D%/meet.h \
	%D%/module.c %D%/module.h \
	%D%/parent.c %D%/parent.h \
	%D%/pool.c %D%/pool.h \
	%D%/probe.h \
	%D%/random.h \
	%D%/rank_message.h \
	%D%/rendezvous.h \
	%D%/nearest.c %D%/nearest.h \
	%D%/observe.c %D%/observe.h \
	%D%/thread_priority.c %D%/thread_priority.h \
	%D%/ring.c %D%/ring.h \
	%D%/stats_page.c %D%/stats_page.h \
	%D%/status.c %D%/status.h \
	%D%/struct.c %D%/struct.h \
	%D%/symbol.h \
	%D%/signals.h \
	%D%/thread.c %D%/thread.h \
	%D%/ticks.h \
	%D%/trace_page.c %D%/trace_page.h \
	%D%/wait_text.c %D%/wait_text.h \
	%D%/atomic.c %D%/atomic.h
if HAVE_VULKAN
%C%_libnxr_util_la_SOURCES += %D%/vulkan_dyn.c %D%/vulkan_dyn.h
endif
%C%_libnxr_util_la_CFLAGS = $(AM_CFLAGS) -DNXR_MODULE_DIR='"$(pkglibdir)"'

# Where devices lie in the machine, for what is linked with hwloc.
noinst_LTLIBRARIES += %D%/libnxr_locality.la
%C%_libnxr_locality_la_SOURCES = %D%/locality.c %D%/locality.h %D%/topology.h
%C%_libnxr_locality_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
%C%_libnxr_locality_la_LIBADD = $(HWLOC_LIBS)
