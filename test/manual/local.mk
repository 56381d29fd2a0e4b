# SPDX-License-Identifier: Apache-2.0
EXTRA_PROGRAMS += %D%/scale
EXTRA_DIST += %D%/other_pmix
%C%_scale_SOURCES = %D%/scale.c
%C%_scale_LDADD = src/libnixlrun_core.la
