# SPDX-License-Identifier: Apache-2.0
# The launcher: everything but main() is one library, so that tests and fuzz targets can link it.
noinst_LTLIBRARIES += %D%/libnxr_launcher.la
%C%_libnxr_launcher_la_SOURCES = \
	%D%/engine.h \
	%D%/environ.c \
	%D%/environ.h \
	%D%/envfile.c \
	%D%/envfile.h \
	%D%/envlist.c \
	%D%/envlist.h \
	%D%/help.c \
	%D%/help.h \
	%D%/help_topics.c \
	%D%/help_topics.h \
	%D%/finish.c \
	%D%/guardian.c \
	%D%/guardian.h \
	%D%/guardian_link.c \
	%D%/input.c \
	%D%/input.h \
	%D%/job.h \
	%D%/local.c \
	%D%/local.h \
	%D%/loop.c \
	%D%/loop.h \
	%D%/option_set.c \
	%D%/option_table.c \
	%D%/option_table.h \
	%D%/options.c \
	%D%/options.h \
	%D%/parser.h \
	%D%/placement.c \
	%D%/placement.h \
	%D%/report.c \
	%D%/report.h \
	%D%/rank.c \
	%D%/server.c \
	%D%/server.h \
	%D%/server_control.c \
	%D%/server_data.c \
	%D%/server_iof.c \
	%D%/server_query.c \
	%D%/server_upcalls.c \
	%D%/server_upcalls.h \
	%D%/signals.c \
	%D%/signals.h \
	%D%/sink.c \
	%D%/sink.h \
	%D%/space.c \
	%D%/spawn.c \
	%D%/stream.c \
	%D%/stream.h \
	%D%/tmpdir.c \
	%D%/tmpdir.h \
	%D%/values.c \
	%D%/values.h \
	%D%/xalloc.h
%C%_libnxr_launcher_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS)
%C%_libnxr_launcher_la_LIBADD = src/util/libnxr_util.la $(PMIX_LIBS) $(HWLOC_LIBS)

bin_PROGRAMS += %D%/nixlrun
%C%_nixlrun_SOURCES = %D%/main.c
%C%_nixlrun_LDADD = %D%/libnxr_launcher.la

bashcompletiondir = $(bashcompdir)
dist_bashcompletion_DATA = %D%/completion/nixlrun
