/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying many small pieces by a kernel (kernel_copy.cu): the driver takes half a microsecond and
 * more for each, a copy across NVLink of 64 KiB less than 0.2. The kernel is loaded when a device
 * first needs it; where that cannot be, or its loads and stores do not reach both ends, pieces go
 * the driver's way as before. An access that does not reach would end the context, so that what is
 * not known to be mapped for the device is not touched.
 *
 * Lists of pieces lie in page-locked memory that is kept for the next copy. Locks: nxr_cuda.lock
 * while loading, a spin lock for the free lists.
 */
#include "config.h"

#include "memory/cuda.h"
#include "memory/kernel.h"
#include "memory/kernel_copy_ptx.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>

/* Larger pieces on average are as fast by the driver, and leave the multiprocessors alone. */
#define MEAN_NBYTES_HERE   ((size_t)8 << 20)
#define MEAN_NBYTES_ACROSS ((size_t)512 << 10)

/* Pieces are cut into parts for one block of threads each. */
#define LIST_PARTS   ((size_t)2 * NXR_LIST_MAX)
#define LEAST_NBYTES ((size_t)4 << 10)
#define PART_NBYTES  ((size_t)64 << 10)
#define MIN_PARTS    ((size_t)512) /* as long as they are not smaller than LEAST_NBYTES */
#define MAX_LISTS    64u

/* ---- loading --------------------------------------------------------------------------------- */

static cu_result load_module(struct nxr_cuda_device *device, const char **call_p)
{
    struct nxr_cuda_kernel *kernel = &device->kernel;
    int value = 0;
    cu_result result = nxr_cu.ModuleLoadData(&kernel->module, nxr_kernel_copy_ptx);

    *call_p = "cuModuleLoadData";
    if (result != CU_OK) {
        return result;
    }
    *call_p = "cuModuleGetFunction";
    result = nxr_cu.ModuleGetFunction(&kernel->copy, kernel->module, NXR_KERNEL_COPY);
    if (result == CU_OK) {
        *call_p = "cuDeviceGetAttribute";
        result = nxr_cu.DeviceGetAttribute(&value, CU_DEVICE_MULTIPROCESSORS, device->device);
    }
    kernel->n_multiprocessors = value > 0 ? (unsigned)value : 1;
    if (result != CU_OK) {
        nxr_cu.ModuleUnload(kernel->module);
        kernel->module = NULL;
    }
    return result;
}

/* Whose memory do its loads and stores reach, if it is mapped? */
static uint64_t find_peers(const struct nxr_cuda_device *device)
{
    uint64_t peers = 1ull << device->index;

    for (int i = 0; i < nxr_cuda.n_devices; i++) {
        int can = 0;

        if (nxr_cu.DeviceCanAccessPeer(&can, device->device, nxr_cuda.devices[i].device) == CU_OK &&
            can != 0) {
            peers |= 1ull << i;
        }
    }
    return peers;
}

static void load(struct nxr_cuda_device *device)
{
    bool was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
    const char *call = "";
    cu_result result = load_module(device, &call);

    if (result == CU_OK) {
        device->kernel.peers = find_peers(device);
        nxr_debug(MEMORY, "CUDA device %d copies many small pieces by a kernel", device->index);
    } else {
        nxr_info(MEMORY, "CUDA device %d copies many small pieces without a kernel: %s: %s",
                 device->index, call, nxr_cuda_name(result));
    }
    nxr_cuda_leave(was_pushed);
    atomic_store_explicit(&device->kernel.state,
                          result == CU_OK ? NXR_CUDA_KERNEL_READY : NXR_CUDA_KERNEL_NONE,
                          memory_order_release);
}

static bool is_loaded(struct nxr_cuda_device *device)
{
    int state = atomic_load_explicit(&device->kernel.state, memory_order_acquire);

    if (state == NXR_CUDA_KERNEL_UNTRIED) {
        pthread_mutex_lock(&nxr_cuda.lock);
        if (atomic_load(&device->kernel.state) == NXR_CUDA_KERNEL_UNTRIED) {
            load(device);
        }
        state = atomic_load(&device->kernel.state);
        pthread_mutex_unlock(&nxr_cuda.lock);
    }
    return state == NXR_CUDA_KERNEL_READY;
}

void nxr_cuda_scatter_stop(struct nxr_cuda_device *device)
{
    struct nxr_cuda_kernel *kernel = &device->kernel;

    if (atomic_load(&kernel->state) == NXR_CUDA_KERNEL_UNTRIED) {
        return;
    }
    while (kernel->lists != NULL) {
        struct nxr_cuda_list *list = kernel->lists;

        kernel->lists = list->next;
        nxr_cu.MemFreeHost(list->pieces);
        free(list);
    }
    kernel->n_lists = 0;
    if (kernel->module != NULL) {
        nxr_cu.ModuleUnload(kernel->module);
        kernel->module = NULL;
    }
    atomic_store(&kernel->state, NXR_CUDA_KERNEL_UNTRIED);
}

/* ---- what it is for -------------------------------------------------------------------------- */

/* Do loads and stores of the device reach that memory? It was found to copy from and to it. */
static bool is_mapped(struct nxr_cuda_device *device, const struct nxr_cuda_memory *memory)
{
    bool is_near = memory->home >= 0 && (device->kernel.peers & 1ull << memory->home) != 0;

    switch (memory->origin) {
    case NXR_CUDA_VMM:
        return true; /* each device was given access */
    case NXR_CUDA_POOL:
        return memory->device == device; /* likewise */
    case NXR_CUDA_LEGACY:
        return memory->device == device && is_near;
    case NXR_CUDA_MALLOC:
        return is_near && (device->far & 1ull << memory->device->index) == 0;
    case NXR_CUDA_USERS:
    case NXR_CUDA_EXTERNAL:
        return memory->device == device && memory->home == device->index;
    }
    return false;
}

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
    return is_loaded(device) && is_mapped(device, dst) && is_mapped(device, src);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static struct nxr_cuda_list *list_new(void)
{
    struct nxr_cuda_list *list = malloc(sizeof(*list));
    void *pieces = NULL;

    if (list == NULL) {
        return NULL;
    }
    if (nxr_cu.MemHostAlloc(&pieces, LIST_PARTS * sizeof(list->pieces[0]),
                            CU_HOST_PORTABLE | CU_HOST_DEVICEMAP) != CU_OK) {
        free(list);
        return NULL;
    }
    list->pieces = pieces;
    return list;
}

/* NULL: there is no memory, or enough are in use. */
static struct nxr_cuda_list *list_take(struct nxr_cuda_kernel *kernel)
{
    struct nxr_cuda_list *list;
    bool may_make = false;

    nxr_spin_lock(&kernel->lists_lock);
    list = kernel->lists;
    if (list != NULL) {
        kernel->lists = list->next;
    } else if (kernel->n_lists < MAX_LISTS) {
        kernel->n_lists++;
        may_make = true;
    }
    nxr_spin_unlock(&kernel->lists_lock);
    if (!may_make) {
        return list;
    }
    list = list_new();
    if (list == NULL) {
        nxr_spin_lock(&kernel->lists_lock);
        kernel->n_lists--;
        nxr_spin_unlock(&kernel->lists_lock);
    }
    return list;
}

void nxr_cuda_scatter_end(struct nxr_device_copy *copy)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    struct nxr_cuda_list *list = copy->state[NXR_CUDA_COPY_LIST];

    if (list != NULL) {
        copy->state[NXR_CUDA_COPY_LIST] = NULL;
        nxr_spin_lock(&device->kernel.lists_lock);
        list->next = device->kernel.lists;
        device->kernel.lists = list;
        nxr_spin_unlock(&device->kernel.lists_lock);
    }
}

/*
 * Into how many bytes pieces are cut: small parts keep all multiprocessors busy, and all fit into a
 * list: there is one part for each piece, and one for each whole one in it.
 */
static size_t part_nbytes(size_t nbytes)
{
    size_t part = nbytes / MIN_PARTS, least = nbytes / (LIST_PARTS - NXR_LIST_MAX) + 1;

    part = part < PART_NBYTES ? part : PART_NBYTES;
    part = part > least ? part : least;
    return (part + LEAST_NBYTES - 1) / LEAST_NBYTES * LEAST_NBYTES;
}

/* How many parts there are; *n_head_p: those that have head_nbytes together. */
static size_t fill(struct nxr_kernel_piece *parts, const struct nxr_device_copy *copy,
                   size_t nbytes, size_t head_nbytes, size_t *n_head_p)
{
    size_t n = 0, part = part_nbytes(nbytes), before = 0;

    *n_head_p = 0;
    for (size_t i = 0; i < copy->n_pieces; i++) {
        struct nxr_kernel_piece left = {(uintptr_t)copy->pieces[i].dst,
                                        (uintptr_t)copy->pieces[i].src, copy->pieces[i].nbytes};

        for (; left.nbytes > part; left.nbytes -= part, left.dst += part, left.src += part) {
            parts[n++] = (struct nxr_kernel_piece){left.dst, left.src, part};
        }
        if (left.nbytes > 0) {
            parts[n++] = left;
        }
        before += copy->pieces[i].nbytes;
        *n_head_p = before <= head_nbytes ? n : *n_head_p;
    }
    return n;
}

/* ---- queuing --------------------------------------------------------------------------------- */

/* As many blocks as run at a time, all with as many parts to copy. */
static cu_result launch(struct nxr_cuda_kernel *kernel, const struct nxr_kernel_piece *parts,
                        size_t n, cu_stream stream)
{
    const struct nxr_kernel_piece *list = parts;
    unsigned n_parts = (unsigned)n, n_blocks = 2 * kernel->n_multiprocessors;
    unsigned n_rounds = (n_parts + n_blocks - 1) / n_blocks;
    void *arguments[] = {&list, &n_parts};

    if (n == 0) {
        return CU_OK;
    }
    n_blocks = (n_parts + n_rounds - 1) / n_rounds;
    return nxr_cu.LaunchKernel(kernel->copy, n_blocks, 1, 1, NXR_KERNEL_COPY_THREADS, 1, 1, 0,
                               stream, arguments, NULL);
}

bool nxr_cuda_scatter(struct nxr_device_copy *copy, size_t nbytes, size_t head_nbytes,
                      cu_stream stream)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    struct nxr_cuda_list *list = list_take(&device->kernel);
    size_t n, n_head;
    cu_result result;

    if (list == NULL) {
        return false;
    }
    copy->state[NXR_CUDA_COPY_LIST] = list;
    n = fill(list->pieces, copy, nbytes, head_nbytes, &n_head);
    result = launch(&device->kernel, list->pieces, n_head, stream);
    if (result == CU_OK && n_head > 0) {
        copy->state[NXR_CUDA_COPY_EARLY] = nxr_cuda_record(device, stream);
    }
    if (result == CU_OK) {
        result = launch(&device->kernel, list->pieces + n_head, n - n_head, stream);
    }
    if (result == CU_OK) {
        return true;
    }
    nxr_info(MEMORY, "CUDA device %d copies many small pieces without a kernel: cuLaunchKernel: %s",
             device->index, nxr_cuda_name(result));
    atomic_store(&device->kernel.state, NXR_CUDA_KERNEL_NONE);
    nxr_cu.StreamSynchronize(stream); /* what was queued of it does not read the list any more */
    nxr_cuda_forget_early(copy);
    nxr_cuda_scatter_end(copy);
    return false;
}
