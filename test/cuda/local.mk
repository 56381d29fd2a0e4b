# SPDX-License-Identifier: Apache-2.0
# A stand-in for NVIDIA's driver, so that what is written for CUDA runs where there is no GPU. Tests
# put %D%/.libs into LD_LIBRARY_PATH. Never installed; see fake.h.
check_LTLIBRARIES += %D%/libcuda.la
%C%_libcuda_la_SOURCES = %D%/abi.h %D%/attribute.c %D%/backing.c %D%/check_abi.c %D%/copy.c \
	%D%/device.c %D%/event.c %D%/external.c %D%/fake.h %D%/functions.h %D%/kernel.c %D%/kernel.h %D%/kernel_reduce.c %D%/memory.c %D%/pool.c \
	%D%/range.c %D%/setup.c %D%/stream.c %D%/vmm.c \
	src/collective/combine.c src/collective/half.c src/util/copy.c src/util/copy_x86.c
%C%_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere -version-info 1
%C%_libcuda_la_LIBADD = -lpthread

EXTRA_PROGRAMS += %D%/test_stand_in
TESTS += %D%/test_stand_in
%C%_test_stand_in_CPPFLAGS = $(AM_CPPFLAGS) -DSTAND_IN='"$(abs_top_builddir)/%D%/.libs/libcuda.so.1"'
%C%_test_stand_in_SOURCES = %D%/test_stand_in.c %D%/driver.c %D%/driver.h
%C%_test_stand_in_LDADD = -ldl
EXTRA_DIST += %D%/with
