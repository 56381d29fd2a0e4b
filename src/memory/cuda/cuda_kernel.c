/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own kernels on a device: loading them when they are first needed, and page-locked
 * memory that they and the processor share.
 *
 * The page-locked memory is kept for the next kernel. Locks: nxr_cuda.lock while loading, a spin
 * lock for the free lists.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "memory/kernels/kernel.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_LISTS 64u

/* ---- loading --------------------------------------------------------------------------------- */

static const struct {
    const char *what; /* the device does */
    const char *ptx;
    const char *prefix; /* of the names */
    const char *names[NXR_CUDA_KERNELS_EACH];
} files[NXR_CUDA_KERNELS_N] = {
    [NXR_CUDA_KERNELS_COPY] = {"copies many small pieces",
                               nxr_kernel_copy_ptx,
                               NXR_KERNEL_COPY,
                               {""}},
    [NXR_CUDA_KERNELS_REDUCE] = {"reduces",
                                 nxr_kernel_reduce_ptx,
                                 NXR_KERNEL_REDUCE,
                                 {[NXR_CUDA_U8] = "u8",
                                  [NXR_CUDA_U16] = "u16",
                                  [NXR_CUDA_U32] = "u32",
                                  [NXR_CUDA_U64] = "u64",
                                  [NXR_CUDA_F16] = "f16",
                                  [NXR_CUDA_B16] = "b16",
                                  [NXR_CUDA_F32] = "f32",
                                  [NXR_CUDA_F64] = "f64"}},
};

static cu_result load_file(struct nxr_cuda_kernel_file *file, enum nxr_cuda_kernels which,
                           const char **call_p)
{
    cu_result result = nxr_cu.ModuleLoadData(&file->module, files[which].ptx);
    char name[64];

    *call_p = "cuModuleLoadData";
    if (result != CU_OK) {
        return result;
    }
    for (int i = 0; i < NXR_CUDA_KERNELS_EACH && files[which].names[i] != NULL; i++) {
        snprintf(name, sizeof(name), "%s%s", files[which].prefix, files[which].names[i]);
        result = nxr_cu.ModuleGetFunction(&file->functions[i], file->module, name);
        if (result != CU_OK) {
            *call_p = "cuModuleGetFunction";
            nxr_cu.ModuleUnload(file->module);
            file->module = NULL;
            break;
        }
    }
    return result;
}

/* Which devices' memory do its loads and stores reach, if mapped? */
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

static void cuda_kernel_look_at(struct nxr_cuda_device *device)
{
    int value = 0;

    if (device->kernel.n_multiprocessors == 0) {
        device->kernel.peers = find_peers(device);
        if (nxr_cu.DeviceGetAttribute(&value, CU_DEVICE_MULTIPROCESSORS, device->device) != CU_OK ||
            value <= 0) {
            value = 1;
        }
        device->kernel.n_multiprocessors = (unsigned)value;
    }
}

void nxr_cuda_kernels_fail(struct nxr_cuda_device *device, enum nxr_cuda_kernels which,
                           const char *call, cu_result result)
{
    nxr_info(MEMORY, "CUDA device %d %s without a kernel: %s: %s", device->index, files[which].what,
             call, nxr_cuda_name(result));
    atomic_store_explicit(&device->kernel.files[which].state, NXR_CUDA_KERNEL_NONE,
                          memory_order_release);
}

static void cuda_kernel_load(struct nxr_cuda_device *device, enum nxr_cuda_kernels which)
{
    struct nxr_cuda_kernel_file *file = &device->kernel.files[which];
    bool was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
    const char *call = "";
    cu_result result = load_file(file, which, &call);

    if (result == CU_OK) {
        cuda_kernel_look_at(device);
        nxr_debug(MEMORY, "CUDA device %d %s by a kernel", device->index, files[which].what);
        atomic_store_explicit(&file->state, NXR_CUDA_KERNEL_READY, memory_order_release);
    } else {
        nxr_cuda_kernels_fail(device, which, call, result);
    }
    nxr_cuda_leave(was_pushed);
}

bool nxr_cuda_kernels_need(struct nxr_cuda_device *device, enum nxr_cuda_kernels which)
{
    struct nxr_cuda_kernel_file *file = &device->kernel.files[which];
    int state = atomic_load_explicit(&file->state, memory_order_acquire);

    if (state == NXR_CUDA_KERNEL_UNTRIED) {
        pthread_mutex_lock(&nxr_cuda.lock);
        if (atomic_load(&file->state) == NXR_CUDA_KERNEL_UNTRIED) {
            cuda_kernel_load(device, which);
        }
        state = atomic_load(&file->state);
        pthread_mutex_unlock(&nxr_cuda.lock);
    }
    return state == NXR_CUDA_KERNEL_READY;
}

void nxr_cuda_kernels_stop(struct nxr_cuda_device *device)
{
    struct nxr_cuda_kernel *kernel = &device->kernel;

    while (kernel->lists != NULL) {
        struct nxr_cuda_list *list = kernel->lists;

        kernel->lists = list->next;
        nxr_cu.MemFreeHost(list->pieces);
        free(list);
    }
    kernel->n_lists = 0;
    for (int i = 0; i < NXR_CUDA_KERNELS_N; i++) {
        if (kernel->files[i].module != NULL) {
            nxr_cu.ModuleUnload(kernel->files[i].module);
            kernel->files[i].module = NULL;
        }
        atomic_store(&kernel->files[i].state, NXR_CUDA_KERNEL_UNTRIED);
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

static struct nxr_cuda_list *list_new(void)
{
    struct nxr_cuda_list *list = malloc(sizeof(*list));
    void *pieces = NULL;

    if (list == NULL) {
        return NULL;
    }
    if (nxr_cu.MemHostAlloc(&pieces, NXR_CUDA_LIST_PARTS * sizeof(list->pieces[0]),
                            CU_HOST_PORTABLE | CU_HOST_DEVICEMAP) != CU_OK) {
        free(list);
        return NULL;
    }
    list->pieces = pieces;
    return list;
}

struct nxr_cuda_list *nxr_cuda_list_take(struct nxr_cuda_kernel *kernel)
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

void nxr_cuda_list_give(struct nxr_device_copy *copy)
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
