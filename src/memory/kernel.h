/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel of kernel_copy.cu and its caller have in common. A block of threads copies one
 * piece at a time.
 */
#ifndef NXR_MEMORY_KERNEL_H
#define NXR_MEMORY_KERNEL_H

#include <stdint.h>

#define NXR_KERNEL_COPY         "nixlrun_copy"
#define NXR_KERNEL_COPY_THREADS 512

/* Bytes to copy: addresses that the device reaches, of any alignment. */
struct nxr_kernel_piece {
    uint64_t dst;
    uint64_t src;
    uint64_t nbytes;
};

#endif
