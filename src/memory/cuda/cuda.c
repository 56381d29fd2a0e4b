/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory: the kind's table, which uses all other files of the folder, and stopping the kind.
 * No state of its own. Lock: nxr_cuda.lock.
 */
#include "config.h"

#include "memory/cuda/cuda.h"

#include <stdlib.h>

static void deactivate(struct nxr_cuda_device *device)
{
    cu_context context = nxr_cuda_context(device);
    bool was_pushed;

    if (context == NULL) {
        return;
    }
    was_pushed = nxr_cuda_enter(context);
    nxr_cuda_lanes_free(device);
    nxr_cuda_kernels_stop(device);
    nxr_cuda_leave(was_pushed);
    atomic_store(&device->context, NULL);
    nxr_cu.DevicePrimaryCtxRelease(device->device);
}

/*
 * Memory that could not be closed, because a copy did not end, keeps its context until the process
 * ends.
 */
static void cuda_stop(void)
{
    pthread_mutex_lock(&nxr_cuda.lock);
    if (nxr_cuda.is_started && nxr_list_is_empty(&nxr_cuda.memories) && nxr_cuda.n_imports == 0) {
        nxr_cuda_unpin_all();
        for (int i = 0; i < nxr_cuda.n_devices; i++) {
            deactivate(&nxr_cuda.devices[i]);
        }
        free(nxr_cuda.devices);
        nxr_cuda.devices = NULL;
        nxr_cuda.n_devices = 0;
        nxr_cuda.is_started = false;
        atomic_store(&nxr_cuda.is_ready, false);
    }
    pthread_mutex_unlock(&nxr_cuda.lock);
}

/*
 * Measured on two H200 joined by NVLink, and on their bus: 8 bytes put and flushed, 1 GiB, 16 MiB.
 */
static struct nxr_copy_rate cuda_expect(const struct nxr_range *range, bool is_with_host)
{
    (void)range;
    return (struct nxr_copy_rate){7000, is_with_host ? 55000 : 390000};
}

static const char *cuda_pci(const struct nxr_range *range)
{
    const struct nxr_cuda_memory *memory = range->memory;

    if (memory->home >= 0) {
        return nxr_cuda.devices[memory->home].pci;
    }
    return memory->device != NULL ? memory->device->pci : ""; /* no device here can copy it */
}

const struct nxr_memory_kind nxr_memory_cuda = {
    .kind = NIXL_MEM_CUDA,
    .name = "cuda",
    .start = nxr_cuda_start,
    .stop = cuda_stop,
    .alloc = nxr_cuda_alloc,
    .adopt = nxr_cuda_adopt,
    .release = nxr_cuda_release,
    .owns = nxr_cuda_owns,
    .import = nxr_cuda_import,
    .unimport = nxr_cuda_unimport,
    .copy_start = nxr_cuda_copy_start,
    .copy_test = nxr_cuda_copy_test,
    .copy_arm = nxr_cuda_copy_arm,
    .pin = nxr_cuda_pin,
    .unpin = nxr_cuda_unpin,
    .page_lock = nxr_cuda_pin_now,
    .expect = cuda_expect,
    .is_in_process = nxr_cuda_is_in_process,
    .classify = nxr_cuda_loose_range,
    .pci = cuda_pci,
    .streams = &nxr_cuda_streams,
};
