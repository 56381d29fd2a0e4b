/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying many small pieces by a kernel (kernel_copy.cu): the driver needs half a microsecond or
 * more for each, a 64 KiB copy across NVLink less than 0.2. If the kernel cannot be loaded, or its
 * loads and stores do not reach both ends, the driver copies the pieces. No lock.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "memory/kernels/kernel.h"
#include "util/env.h"

/* If the mean piece is larger, the driver is as fast, and leaves the multiprocessors free. */
#define MEAN_NBYTES_HERE   ((size_t)8 << 20)
#define MEAN_NBYTES_ACROSS ((size_t)512 << 10)

/* Pieces are cut into parts for one block of threads each. */
#define LEAST_NBYTES ((size_t)4 << 10)
#define PART_NBYTES  ((size_t)64 << 10)
#define MIN_PARTS    ((size_t)512) /* unless they would be smaller than LEAST_NBYTES */

/* ---- what it is for -------------------------------------------------------------------------- */

bool nxr_cuda_scatter_suits(const struct nxr_device_copy *copy, size_t nbytes)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    const struct nxr_cuda_memory *dst, *src;
    size_t mean;

    if (copy->n_pieces < 2 || copy->n_pieces > NXR_LIST_MAX || copy->dst == NULL ||
        copy->src == NULL || !nxr_env.cuda_kernel) {
        return false;
    }
    dst = copy->dst->memory;
    src = copy->src->memory;
    mean = nbytes / copy->n_pieces;
    if (mean > (dst->home == src->home ? MEAN_NBYTES_HERE : MEAN_NBYTES_ACROSS)) {
        return false;
    }
    return nxr_cuda_kernels_need(device, NXR_CUDA_KERNELS_COPY) &&
           nxr_cuda_is_mapped(device, dst) && nxr_cuda_is_mapped(device, src);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/*
 * The part size that pieces are cut into. Small parts keep all multiprocessors busy, but all parts
 * must fit into a list: one for each piece, plus one for each whole part in it.
 */
static size_t part_nbytes(size_t nbytes)
{
    size_t part = nbytes / MIN_PARTS, least = nbytes / (NXR_CUDA_LIST_PARTS - NXR_LIST_MAX) + 1;

    part = part < PART_NBYTES ? part : PART_NBYTES;
    part = part > least ? part : least;
    return (part + LEAST_NBYTES - 1) / LEAST_NBYTES * LEAST_NBYTES;
}

/* Returns how many parts there are. */
static size_t cuda_scatter_fill(struct nxr_kernel_piece *parts, const struct nxr_device_copy *copy,
                                size_t nbytes)
{
    size_t n = 0, part = part_nbytes(nbytes);

    for (size_t i = 0; i < copy->n_pieces; i++) {
        struct nxr_kernel_piece left = {(uintptr_t)copy->pieces[i].dst,
                                        (uintptr_t)copy->pieces[i].src, copy->pieces[i].nbytes};

        for (; left.nbytes > part; left.nbytes -= part, left.dst += part, left.src += part) {
            parts[n++] = (struct nxr_kernel_piece){left.dst, left.src, part};
        }
        if (left.nbytes > 0) {
            parts[n++] = left;
        }
    }
    return n;
}

/* ---- queuing --------------------------------------------------------------------------------- */

/* Launch as many blocks as run at a time, all with equally many parts. */
static cu_result cuda_scatter_launch(struct nxr_cuda_kernel *kernel,
                                     const struct nxr_kernel_piece *parts, size_t n,
                                     cu_stream stream)
{
    const struct nxr_kernel_piece *list = parts;
    unsigned n_parts = (unsigned)n, n_blocks = 2 * kernel->n_multiprocessors;
    unsigned n_rounds = (n_parts + n_blocks - 1) / n_blocks;
    void *arguments[] = {&list, &n_parts};

    if (n == 0) {
        return CU_OK;
    }
    n_blocks = (n_parts + n_rounds - 1) / n_rounds;
    return nxr_cu.LaunchKernel(kernel->files[NXR_CUDA_KERNELS_COPY].functions[0], n_blocks, 1, 1,
                               NXR_KERNEL_COPY_THREADS, 1, 1, 0, stream, arguments, NULL);
}

bool nxr_cuda_scatter(struct nxr_device_copy *copy, size_t nbytes, cu_stream stream)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    struct nxr_cuda_list *list = nxr_cuda_list_take(&device->kernel);
    cu_result result;

    if (list == NULL) {
        return false;
    }
    copy->state[NXR_CUDA_COPY_LIST] = list;
    result = cuda_scatter_launch(&device->kernel, list->pieces,
                                 cuda_scatter_fill(list->pieces, copy, nbytes), stream);
    if (result == CU_OK) {
        return true;
    }
    nxr_cuda_kernels_fail(device, NXR_CUDA_KERNELS_COPY, "cuLaunchKernel", result);
    nxr_cu.StreamSynchronize(stream); /* afterwards nothing that was queued reads the list */
    nxr_cuda_list_give(copy);
    return false;
}
