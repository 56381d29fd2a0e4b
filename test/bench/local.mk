# SPDX-License-Identifier: Apache-2.0
noinst_PROGRAMS += %D%/copy_sweep
%C%_copy_sweep_SOURCES = %D%/copy_sweep.c
%C%_copy_sweep_LDADD = src/util/libnxr_util.la
