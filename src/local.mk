# SPDX-License-Identifier: Apache-2.0
include src/util/local.mk

# The core. Hidden symbols are seen by the unit tests, which link this and not the library.
noinst_LTLIBRARIES += %D%/libnixlrun_core.la
%C%_libnixlrun_core_la_SOURCES = \
	%D%/boot/boot.h \
	%D%/boot/card.c %D%/boot/card.h \
	%D%/boot/pmix.c \
	%D%/event.c %D%/event.h \
	%D%/guard.c \
	%D%/host/bounce.c %D%/host/bounce.h %D%/host/bounce_buffer.h \
	%D%/host/bounce_serve.c \
	%D%/host/conn.c %D%/host/conn.h \
	%D%/host/control.c %D%/host/control.h \
	%D%/host/deathwatch.c %D%/host/deathwatch.h \
	%D%/host/dispatch.c \
	%D%/host/link.c %D%/host/link.h \
	%D%/host/liveness.c %D%/host/liveness.h \
	%D%/host/publish.c %D%/host/publish.h \
	%D%/host/ring.c %D%/host/ring.h \
	%D%/host/service.c %D%/host/service.h \
	%D%/host/wire.c %D%/host/wire.h \
	%D%/host/word_ask.c %D%/host/word_ask.h \
	%D%/inbox.c %D%/inbox.h \
	%D%/init.c \
	%D%/job.h \
	%D%/memory/host.c %D%/memory/memory.h \
	%D%/notify.c %D%/notify.h \
	%D%/part.c \
	%D%/peer.c \
	%D%/progress.c %D%/progress.h \
	%D%/region.c %D%/region.h \
	%D%/request.c %D%/request.h \
	%D%/route.c %D%/route.h \
	%D%/signal_wait.c \
	%D%/transfer.c %D%/transfer.h \
	%D%/util/list.h \
	%D%/wait.c %D%/wait.h \
	%D%/word.c
%C%_libnixlrun_core_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_libnixlrun_core_la_LIBADD = transports/libnxr_transports.la src/util/libnxr_util.la $(PMIX_LIBS)

lib_LTLIBRARIES += %D%/libnixlrun.la
%C%_libnixlrun_la_SOURCES =
# libtool's current:revision:age. 0:0:0 until 1.0; then: source changed, revision+1; interfaces added,
# current+1, revision 0, age+1; interfaces removed or changed, current+1, revision 0, age 0.
%C%_libnixlrun_la_LDFLAGS = $(AM_LDFLAGS) $(NODEFS_LDFLAGS) -version-info 0:0:0
%C%_libnixlrun_la_LIBADD = %D%/libnixlrun_core.la
EXTRA_DIST += %D%/libnixlrun.map
%C%_libnixlrun_la_DEPENDENCIES = %D%/libnixlrun_core.la %D%/libnixlrun.map
if HAVE_VERSION_SCRIPT
%C%_libnixlrun_la_LDFLAGS += -Wl,--version-script=$(srcdir)/%D%/libnixlrun.map
endif

bin_SCRIPTS += %D%/nixlcc
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = %D%/nixlrun.pc
