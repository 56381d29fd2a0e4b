# SPDX-License-Identifier: Apache-2.0
if HAVE_CRITERION
examples_unit_tests = %D%/test_kv_cache %D%/test_kv_options
EXTRA_PROGRAMS += $(examples_unit_tests)
TESTS += $(examples_unit_tests)
%C%_test_kv_cache_SOURCES = %D%/test_kv_cache.c examples/kv_cache.c
%C%_test_kv_cache_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
%C%_test_kv_cache_LDADD = $(CRITERION_LIBS)
%C%_test_kv_options_SOURCES = %D%/test_kv_options.c examples/kv_options.c examples/kv_cache.c
%C%_test_kv_options_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
%C%_test_kv_options_LDADD = $(CRITERION_LIBS)
endif

# The rpath is never used: it makes libtool build the module as a shared object.
check_LTLIBRARIES += %D%/flip_byte.la
%C%_flip_byte_la_SOURCES = %D%/flip_byte.c
%C%_flip_byte_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
dist_check_SCRIPTS += %D%/examples.sh %D%/serve_kills.sh
TESTS += %D%/examples.sh %D%/serve_kills.sh
