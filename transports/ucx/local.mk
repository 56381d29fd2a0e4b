# SPDX-License-Identifier: Apache-2.0
# The UCX network, a module that the library loads where it is wanted. It stays when the library is
# unloaded (nodelete): UCX has threads and hooks that do not go.
if HAVE_UCX
pkglib_LTLIBRARIES += %D%/nixlrun_ucx.la
%C%_nixlrun_ucx_la_SOURCES = \
	src/util/adapters.c src/util/adapters.h \
	transports/interface.c transports/interface.h \
	transports/reason.c transports/reason.h \
	transports/rail.h transports/tcp_health.c transports/tcp_health.h \
	%D%/bulk.c \
	%D%/devices.c \
	%D%/endpoint.c \
	%D%/envelope.c %D%/envelope.h \
	%D%/log.c \
	%D%/message.c \
	%D%/operation.c \
	%D%/rma.c \
	%D%/sender.c \
	%D%/settings.c \
	%D%/ucx.c %D%/ucx.h
%C%_nixlrun_ucx_la_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS)
%C%_nixlrun_ucx_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -no-undefined \
	-export-symbols-regex '^nxr_network_ucx$$' -Wl,-z,nodelete
%C%_nixlrun_ucx_la_LIBADD = $(UCX_LIBS)
endif
