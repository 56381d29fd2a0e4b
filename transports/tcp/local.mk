# SPDX-License-Identifier: Apache-2.0
# The TCP network, a module like the others, which needs nothing but the kernel's sockets.
pkglib_LTLIBRARIES += %D%/nixlrun_tcp.la
%C%_nixlrun_tcp_la_SOURCES = \
	transports/host_token.c transports/host_token.h \
	transports/interface.c transports/interface.h \
	transports/reason.c transports/reason.h \
	transports/rail.h transports/stripe.h transports/tcp_health.c transports/tcp_health.h \
	%D%/connect.c \
	%D%/connection.c %D%/connection.h \
	%D%/endpoint.c \
	%D%/events.c \
	%D%/interfaces.c \
	%D%/listen.c \
	%D%/ops.c \
	%D%/outbox.c \
	%D%/pieces.c \
	%D%/processes.c \
	%D%/rails.c %D%/rails.h \
	%D%/stream.c \
	%D%/stripes.c \
	%D%/tcp.c %D%/tcp.h
%C%_nixlrun_tcp_la_CFLAGS = $(AM_CFLAGS)
%C%_nixlrun_tcp_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -no-undefined \
	-export-symbols-regex '^nxr_network_tcp$$'
%C%_nixlrun_tcp_la_LIBADD = %D%/libnxr_tcp_pure.la

# What needs no sockets; unit tests link it, too.
noinst_LTLIBRARIES += %D%/libnxr_tcp_pure.la
%C%_libnxr_tcp_pure_la_SOURCES = \
	src/util/announce.c src/util/announce.h \
	%D%/address.c %D%/address.h \
	%D%/choice.c %D%/choice.h \
	%D%/frame.c %D%/frame.h
%C%_libnxr_tcp_pure_la_CFLAGS = $(AM_CFLAGS)

EXTRA_DIST += %D%/README
