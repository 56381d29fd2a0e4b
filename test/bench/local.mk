# SPDX-License-Identifier: Apache-2.0
noinst_PROGRAMS += %D%/copy_sweep
%C%_copy_sweep_SOURCES = %D%/copy_sweep.c
%C%_copy_sweep_LDADD = src/util/libnxr_util.la

noinst_PROGRAMS += %D%/start %D%/start_client
%C%_start_SOURCES = %D%/start.c
%C%_start_client_SOURCES = %D%/start_client.c
%C%_start_client_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_start_client_LDADD = $(PMIX_LIBS)
