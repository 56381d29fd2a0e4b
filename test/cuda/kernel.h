/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that the stand-in runs: for kernel*.c. */
#ifndef FAKE_CUDA_KERNEL_H
#define FAKE_CUDA_KERNEL_H

#include "memory/kernels/kernel.h"
#include "test/cuda/fake.h"

/* A kernel in a stream, with its arguments. */
struct fake_launch {
    const struct fake_kernel *kernel;
    struct fake_stream *stream;
    unsigned n_blocks;
    union {
        struct {
            const struct nxr_kernel_piece *pieces;
            unsigned n_pieces;
        } copy;
        struct nxr_kernel_reduction reduction;
    };
};

struct fake_kernel {
    const char *name;
    unsigned n_threads;
    void (*take)(struct fake_launch *launch, void **arguments);
    void (*look)(const struct fake_launch *launch, struct fake_work *work); /* under the lock */
    void (*run)(const struct fake_launch *launch);
};

extern const struct fake_kernel fake_copy_kernel;

/* NULL: there is no such reduction. */
const struct fake_kernel *fake_reduce_find(const char *name);

/* The work uses those bytes; ends the process if the device does not reach them. Under the lock. */
void fake_kernel_use(const struct fake_launch *launch, struct fake_work *work, uint64_t addr,
                     uint64_t nbytes);

/* Where the bytes are, when the kernel runs. */
char *fake_kernel_bytes(const struct fake_launch *launch, uint64_t addr, uint64_t nbytes);

#endif
