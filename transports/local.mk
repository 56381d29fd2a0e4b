# SPDX-License-Identifier: Apache-2.0
# The list of transports, and what those that lack something do: below the folders of src/.
noinst_LTLIBRARIES += %D%/libnxr_transport.la
%C%_libnxr_transport_la_SOURCES = %D%/export.h %D%/host_paths.h %D%/network.h %D%/transport.c %D%/transport.h
%C%_libnxr_transport_la_CFLAGS = $(AM_CFLAGS)
EXTRA_DIST += %D%/README

# The transports of one host.
noinst_LTLIBRARIES += %D%/libnxr_transports.la
%C%_libnxr_transports_la_SOURCES = \
	%D%/gpu/gpu.c %D%/gpu/gpu.h \
	%D%/gpu/cuda_ipc.c \
	%D%/self/self.c %D%/self/self.h \
	%D%/shm/shm.c %D%/shm/shm.h \
	%D%/shm/vm.c \
	%D%/gpu/vulkan_ipc.c
%C%_libnxr_transports_la_CFLAGS = $(AM_CFLAGS)
include transports/ofi/local.mk
include transports/tcp/local.mk
include transports/ucx/local.mk

# Not installed yet, modules are found as they are later: in nixlrun/ beside the library.
all-local:
	@$(MKDIR_P) src/.libs/nixlrun && for module in $(pkglib_LTLIBRARIES); do \
	    ln -sf "$(abs_top_builddir)/`dirname $$module`/.libs/`basename $$module .la`.so" \
	        src/.libs/nixlrun/ || exit 1; done
