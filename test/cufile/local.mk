# SPDX-License-Identifier: Apache-2.0
# A stand-in for NVIDIA's libcufile, over the one for its driver. Tests put %D%/.libs into
# LD_LIBRARY_PATH, after test/cuda/.libs. Never installed; see libcufile.c.
check_LTLIBRARIES += %D%/libcufile.la
%C%_libcufile_la_SOURCES = %D%/libcufile.c
%C%_libcufile_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere -version-info 0
%C%_libcufile_la_LIBADD = test/cuda/libcuda.la -lpthread
EXTRA_DIST += %D%/with
