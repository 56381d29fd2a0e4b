/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This folder is the code that GPUs run: the kernels of kernel_copy.cu and kernel_reduce.cu, both
 * files as PTX (`make ptx` regenerates that), and this header, which kernels and callers share. It
 * depends on nothing in the library and has no state; memory/cuda loads and launches the kernels.
 * When pieces are copied, each block of threads copies one at a time.
 */
#ifndef NXR_MEMORY_KERNELS_KERNEL_H
#define NXR_MEMORY_KERNELS_KERNEL_H

#include <stdint.h>

#ifndef __CUDACC__
/* The two files as PTX, terminated by a 0: ptx.c. */
extern const char nxr_kernel_copy_ptx[], nxr_kernel_reduce_ptx[];
#endif

#define NXR_KERNEL_COPY         "nixlrun_copy"
#define NXR_KERNEL_COPY_THREADS 512

/* Bytes to copy: addresses that the device reaches, of any alignment. */
struct nxr_kernel_piece {
    uint64_t dst;
    uint64_t src;
    uint64_t nbytes;
};

/*
 * There is a kernel for each type of number, named by this prefix and "u8", "u16", "u32", "u64",
 * "f16"...
 */
#define NXR_KERNEL_REDUCE         "nixlrun_reduce_"
#define NXR_KERNEL_REDUCE_THREADS 512
#define NXR_KERNEL_REDUCE_MAX     32 /* operands, and destinations of the result */
#define NXR_KERNEL_WORD_NBYTES    16

enum nxr_kernel_op {
    NXR_KERNEL_SUM,
    NXR_KERNEL_PROD,
    NXR_KERNEL_MIN,
    NXR_KERNEL_MAX,
    NXR_KERNEL_AND, /* this and all others: whole numbers only */
    NXR_KERNEL_OR,
    NXR_KERNEL_XOR,
    NXR_KERNEL_MIN_SIGNED,
    NXR_KERNEL_MAX_SIGNED,
};

/*
 * Every destination of the result becomes the first operand OP the second OP ..., element by
 * element. A destination may be exactly one of the operands. Addresses are aligned to the element;
 * from `n_head` elements on, all are aligned to a word, for n_words words.
 */
struct nxr_kernel_reduction {
    uint64_t srcs[NXR_KERNEL_REDUCE_MAX];
    uint64_t dsts[NXR_KERNEL_REDUCE_MAX];
    uint32_t n_srcs;
    uint32_t n_dsts;
    uint32_t op; /* enum nxr_kernel_op */
    uint64_t n_head;
    uint64_t n_words;
    uint64_t n_tail; /* elements after the words */
    uint64_t done; /* where each block writes a 1 when its part is done, 8 bytes each; 0: nowhere */
};

#endif
