# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libnxr_transports.la
%C%_libnxr_transports_la_SOURCES = \
	%D%/transport.c %D%/transport.h \
	%D%/self/self.c \
	%D%/shm/shm.c %D%/shm/shm.h \
	%D%/shm/vm.c
%C%_libnxr_transports_la_CFLAGS = $(AM_CFLAGS)
