/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory a device reaches: by copies, for which contexts enable access to each other when it
 * is first needed, and by the loads and stores of kernels. An invalid access would end the context,
 * so memory that is not known to be mapped for the device is not touched. Lock: nxr_cuda.lock while
 * access is being enabled.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "util/log.h"

/* Give `device` access to memory of another context. */
static bool allow(struct nxr_cuda_device *device, const struct nxr_cuda_memory *memory)
{
    const cu_access access = {{CU_LOCATION_DEVICE, device->device}, CU_ACCESS_READ_WRITE};
    uint64_t bit = 1ull << memory->device->index;
    cu_result result;

    if (memory->is_vmm) {
        /* The user's own mappings stay as the user made them. */
        return memory->origin != NXR_CUDA_USERS &&
               nxr_cu.MemSetAccess(memory->start, memory->nbytes, &access, 1) == CU_OK;
    }
    if ((device->peers & bit) == 0) {
        result = nxr_cu.CtxEnablePeerAccess(nxr_cuda_context(memory->device), 0);
        if (result != CU_OK && result != CU_PEER_ACCESS_ALREADY_ENABLED) {
            nxr_info(MEMORY,
                     "CUDA device %d does not reach device %d (%s): the driver copies between them "
                     "through the host",
                     device->index, memory->device->index, nxr_cuda_name(result));
            device->far |= bit;
        }
        device->peers |= bit; /* queried and enabled once */
    }
    return true; /* cuMemcpyAsync() finds a path */
}

bool nxr_cuda_reaches(struct nxr_cuda_device *device, struct nxr_cuda_memory *memory)
{
    uint64_t bit = 1ull << device->index;
    bool was_pushed, is_allowed;

    if (memory->device == NULL) {
        return false;
    }
    if ((atomic_load_explicit(&memory->reachers, memory_order_acquire) & bit) != 0) {
        return true;
    }
    pthread_mutex_lock(&nxr_cuda.lock);
    was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
    is_allowed = allow(device, memory);
    nxr_cuda_leave(was_pushed);
    if (is_allowed) {
        atomic_fetch_or_explicit(&memory->reachers, bit, memory_order_release);
    }
    pthread_mutex_unlock(&nxr_cuda.lock);
    return is_allowed;
}

bool nxr_cuda_is_mapped(struct nxr_cuda_device *device, const struct nxr_cuda_memory *memory)
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
