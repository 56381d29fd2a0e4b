/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions by a kernel (kernel_reduce.cu), queued in a lane as copies are. A few blocks report in
 * page-locked memory that they are done, which is seen some microseconds before the driver knows
 * that the stream is empty. The stream is still queried, since a kernel that has failed reports
 * nothing. No lock.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "memory/kernels/kernel.h"
#include "memory/reduce.h"
#include "util/barrier.h"
#include "util/env.h"
#include "util/lock.h"

_Static_assert(NXR_REDUCE_MAX == NXR_KERNEL_REDUCE_MAX, "a list of operands fits");

#define MAX_TELLERS 32u /* blocks that report that they are done */
#define TOLD_LOOKS  32  /* checks, a microsecond or two */

/* Blocks that run on a multiprocessor at a time. */
#define BLOCKS_PER_MULTIPROCESSOR 2

/* ---- which devices can reduce ---------------------------------------------------------------- */

static struct nxr_cuda_memory *own_memory(const void *addr)
{
    const struct nxr_range *range = nxr_range_find(addr);
    struct nxr_cuda_memory *memory =
        range != NULL && range->kind == &nxr_memory_cuda ? range->memory : NULL;

    return memory != NULL && !memory->is_peer ? memory : NULL;
}

static bool is_reached(struct nxr_cuda_device *device, struct nxr_cuda_memory *memory)
{
    return nxr_cuda_reaches(device, memory) && nxr_cuda_is_mapped(device, memory);
}

const struct nxr_range *nxr_reduce_by(const void *src, const void *dst)
{
    struct nxr_cuda_memory *from = own_memory(src), *to = dst != NULL ? own_memory(dst) : from;
    struct nxr_cuda_device *device = to != NULL ? to->device : NULL;

    if (from == NULL || device == NULL || !nxr_env.cuda_kernel ||
        atomic_load_explicit(&device->is_broken, memory_order_relaxed) ||
        !nxr_cuda_kernels_need(device, NXR_CUDA_KERNELS_REDUCE) || !is_reached(device, from) ||
        !is_reached(device, to)) {
        return NULL;
    }
    return to->range;
}

bool nxr_reduce_reaches(const struct nxr_range *by, const void *addr)
{
    const struct nxr_cuda_memory *mine = by->memory;
    const struct nxr_range *range = nxr_range_find(addr);

    return range != NULL && range->kind == &nxr_memory_cuda &&
           is_reached(mine->device, range->memory);
}

/* ---- arguments of a kernel ------------------------------------------------------------------- */

/* A type: its kernel, its size, and whether it is a signed integer. */
struct type {
    enum nxr_cuda_number kernel;
    unsigned nbytes;
    bool is_signed;
};

static const struct type types[] = {
    [NIXL_TYPE_INT8] = {NXR_CUDA_U8, 1, true},      [NIXL_TYPE_UINT8] = {NXR_CUDA_U8, 1, false},
    [NIXL_TYPE_INT16] = {NXR_CUDA_U16, 2, true},    [NIXL_TYPE_UINT16] = {NXR_CUDA_U16, 2, false},
    [NIXL_TYPE_INT32] = {NXR_CUDA_U32, 4, true},    [NIXL_TYPE_UINT32] = {NXR_CUDA_U32, 4, false},
    [NIXL_TYPE_INT64] = {NXR_CUDA_U64, 8, true},    [NIXL_TYPE_UINT64] = {NXR_CUDA_U64, 8, false},
    [NIXL_TYPE_FLOAT16] = {NXR_CUDA_F16, 2, false}, [NIXL_TYPE_BFLOAT16] = {NXR_CUDA_B16, 2, false},
    [NIXL_TYPE_FLOAT] = {NXR_CUDA_F32, 4, false},   [NIXL_TYPE_DOUBLE] = {NXR_CUDA_F64, 8, false},
};

static uint32_t cuda_reduce_operation_of(const struct nxr_device_reduction *reduction)
{
    static const unsigned char operations[] = {
        [NIXL_REDUCE_SUM] = NXR_KERNEL_SUM, [NIXL_REDUCE_PROD] = NXR_KERNEL_PROD,
        [NIXL_REDUCE_MIN] = NXR_KERNEL_MIN, [NIXL_REDUCE_MAX] = NXR_KERNEL_MAX,
        [NIXL_REDUCE_AND] = NXR_KERNEL_AND, [NIXL_REDUCE_OR] = NXR_KERNEL_OR,
        [NIXL_REDUCE_XOR] = NXR_KERNEL_XOR,
    };

    if (types[reduction->type].is_signed && reduction->op == NIXL_REDUCE_MIN) {
        return NXR_KERNEL_MIN_SIGNED;
    }
    if (types[reduction->type].is_signed && reduction->op == NIXL_REDUCE_MAX) {
        return NXR_KERNEL_MAX_SIGNED;
    }
    return operations[reduction->op];
}

/*
 * Cut into whole words and the elements around them; no words if the addresses are misaligned
 * differently.
 */
static void cuda_reduce_cut(struct nxr_kernel_reduction *what, uint64_t nbytes, uint64_t element)
{
    uint64_t apart = 0, head = (0 - what->srcs[0]) % NXR_KERNEL_WORD_NBYTES;

    for (unsigned i = 0; i < what->n_srcs; i++) {
        apart |= what->srcs[i] ^ what->srcs[0];
    }
    for (unsigned i = 0; i < what->n_dsts; i++) {
        apart |= what->dsts[i] ^ what->srcs[0];
    }
    if (apart % NXR_KERNEL_WORD_NBYTES != 0 || head > nbytes) {
        head = nbytes;
    }
    what->n_head = head / element;
    what->n_words = (nbytes - head) / NXR_KERNEL_WORD_NBYTES;
    what->n_tail = (nbytes - head) % NXR_KERNEL_WORD_NBYTES / element;
}

/* ---- queuing --------------------------------------------------------------------------------- */

static cu_result cuda_reduce_launch(struct nxr_device_copy *copy, cu_stream stream)
{
    const struct nxr_device_reduction *reduction = copy->reduction;
    const struct type *type = &types[reduction->type];
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    struct nxr_cuda_kernel *kernel = &device->kernel;
    struct nxr_kernel_reduction what = {.n_srcs = reduction->n_srcs,
                                        .n_dsts = reduction->n_dsts,
                                        .op = cuda_reduce_operation_of(reduction)};
    uint64_t n_blocks, most = (uint64_t)BLOCKS_PER_MULTIPROCESSOR * kernel->n_multiprocessors;
    void *arguments[] = {&what};
    struct nxr_cuda_list *list = NULL;

    for (unsigned i = 0; i < what.n_srcs; i++) {
        what.srcs[i] = (uintptr_t)reduction->srcs[i];
    }
    for (unsigned i = 0; i < what.n_dsts; i++) {
        what.dsts[i] = (uintptr_t)reduction->dsts[i];
    }
    cuda_reduce_cut(&what, reduction->nbytes, type->nbytes);
    n_blocks = (what.n_words + what.n_head + what.n_tail + NXR_KERNEL_REDUCE_THREADS - 1) /
               NXR_KERNEL_REDUCE_THREADS;
    n_blocks = n_blocks < most ? n_blocks : most;
    list = n_blocks <= MAX_TELLERS ? nxr_cuda_list_take(kernel) : NULL;
    if (list != NULL) {
        for (unsigned i = 0; i < n_blocks; i++) {
            list->done[i] = 0;
        }
        what.done = (uintptr_t)list->done;
        copy->state[NXR_CUDA_COPY_LIST] = list;
        copy->state[NXR_CUDA_COPY_BLOCKS] = (void *)(uintptr_t)n_blocks;
    }
    return nxr_cu.LaunchKernel(kernel->files[NXR_CUDA_KERNELS_REDUCE].functions[type->kernel],
                               (unsigned)n_blocks, 1, 1, NXR_KERNEL_REDUCE_THREADS, 1, 1, 0, stream,
                               arguments, NULL);
}

cu_result nxr_cuda_reduce(struct nxr_device_copy *copy, cu_stream stream)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    cu_result result = cuda_reduce_launch(copy, stream);

    if (result != CU_OK) {
        nxr_cuda_kernels_fail(device, NXR_CUDA_KERNELS_REDUCE, "cuLaunchKernel", result);
    }
    return result;
}

bool nxr_cuda_reduce_is_told(const struct nxr_device_copy *copy)
{
    const struct nxr_cuda_list *list = copy->state[NXR_CUDA_COPY_LIST];
    uintptr_t n_blocks = (uintptr_t)copy->state[NXR_CUDA_COPY_BLOCKS], n = 0;

    for (int i = 0; n < n_blocks && i < TOLD_LOOKS; i++) {
        while (n < n_blocks && list->done[n] != 0) {
            n++;
        }
        if (n < n_blocks) {
            nxr_pause();
        }
    }
    nxr_fence_acquire();
    return n_blocks > 0 && n == n_blocks;
}
