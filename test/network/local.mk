# SPDX-License-Identifier: Apache-2.0
# The interface of networks, held against each module.
EXTRA_PROGRAMS += %D%/network_test
%C%_network_test_SOURCES = \
	%D%/bulk.c \
	%D%/core.c \
	%D%/death.c \
	%D%/harness.c \
	%D%/life.c \
	%D%/main.c \
	%D%/network_test.h \
	%D%/order.c \
	%D%/rma.c \
	%D%/wait.c
%C%_network_test_LDFLAGS = $(mp_link)
%C%_network_test_LDADD = test/mp/libmptest.la src/libnixlrun_core.la

dist_check_SCRIPTS += %D%/test_ofi.sh %D%/test_ofi_rxm.sh %D%/test_tcp.sh %D%/test_ucx.sh %D%/test_ucx_tcp.sh
EXTRA_DIST += %D%/module.sh
TESTS += %D%/test_ofi.sh %D%/test_ofi_rxm.sh %D%/test_tcp.sh %D%/test_ucx.sh %D%/test_ucx_tcp.sh
