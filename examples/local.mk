# SPDX-License-Identifier: Apache-2.0
# Examples: installed as sources.
examplesdir = $(docdir)/examples
dist_examples_DATA = %D%/hello.c %D%/ring.c %D%/kv_transfer.c %D%/kv_options.c %D%/kv_options.h \
	%D%/kv_cache.c %D%/kv_cache.h %D%/kv_report.c %D%/kv_report.h
