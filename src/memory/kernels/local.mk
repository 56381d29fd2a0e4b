# SPDX-License-Identifier: Apache-2.0
# The kernels that run on GPUs, as PTX in the library. A library of its own, so that what its object
# is made of can be told: the assembler reads the PTX, which no compiler's list of dependencies names.
noinst_LTLIBRARIES += %D%/libnxr_kernels.la
%C%_libnxr_kernels_la_SOURCES = %D%/kernel.h %D%/ptx.c
%C%_libnxr_kernels_la_CFLAGS = $(AM_CFLAGS) -DNXR_KERNEL_DIR='"$(srcdir)/%D%"'
kernels_ptx = %D%/kernel_copy.ptx %D%/kernel_reduce.ptx
$(%C%_libnxr_kernels_la_OBJECTS): $(kernels_ptx)
EXTRA_DIST += $(kernels_ptx) %D%/kernel_copy.cu %D%/kernel_reduce.cu %D%/make-ptx

# Only where somebody asks for it: it writes into the sources, and needs the CUDA compiler.
ptx:
	@for kernel in copy reduce; do \
	    file=$(srcdir)/%D%/kernel_$$kernel; \
	    $(srcdir)/%D%/make-ptx $$file.cu >$$file.ptx.new && mv $$file.ptx.new $$file.ptx || \
	        { rm -f $$file.ptx.new; exit 1; }; \
	done
.PHONY: ptx
