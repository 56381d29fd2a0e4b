# SPDX-License-Identifier: Apache-2.0
# The libfabric network, a module that the library loads where it is wanted. It stays when the
# library is unloaded (nodelete): libfabric's providers have threads and exit handlers.
if HAVE_OFI
pkglib_LTLIBRARIES += %D%/nixlrun_ofi.la

# What needs no libfabric; unit tests link it, too.
noinst_LTLIBRARIES += %D%/libnxr_ofi_pure.la
%C%_libnxr_ofi_pure_la_SOURCES = \
	%D%/address.c %D%/address.h \
	%D%/frame.c %D%/frame.h \
	%D%/nearest.c %D%/nearest.h
%C%_libnxr_ofi_pure_la_CFLAGS = $(AM_CFLAGS)

%C%_nixlrun_ofi_la_SOURCES = \
	transports/host_token.c transports/host_token.h \
	transports/interface.c transports/interface.h \
	transports/reason.c transports/reason.h \
	transports/rail.h transports/stripe.h transports/tcp_health.c transports/tcp_health.h \
	%D%/aside.c \
	%D%/liveness.c \
	%D%/memory.c \
	%D%/message.c \
	%D%/near.c \
	%D%/ofi.c %D%/ofi.h \
	%D%/outbox.c %D%/outbox.h \
	%D%/peer.c \
	%D%/provider.c \
	%D%/rail.c \
	%D%/receive.c \
	%D%/registration.c \
	%D%/repair.c %D%/repair.h \
	%D%/rma.c %D%/rma.h \
	%D%/sleep.c \
	%D%/strangers.c
%C%_nixlrun_ofi_la_CFLAGS = $(AM_CFLAGS) $(OFI_CFLAGS) $(HWLOC_CFLAGS)
%C%_nixlrun_ofi_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -no-undefined \
	-export-symbols-regex '^nxr_network_ofi$$' -Wl,-z,nodelete
%C%_nixlrun_ofi_la_LIBADD = %D%/libnxr_ofi_pure.la src/util/libnxr_locality.la \
	$(OFI_LIBS)
endif
