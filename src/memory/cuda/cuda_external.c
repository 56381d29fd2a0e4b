/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan memory imported into CUDA: into the device with the same UUID, so that CUDA copies it. The
 * Vulkan kind owns the memory; here it gets a second address. Lock: nxr_cuda.lock.
 */
#include "config.h"

#include "memory/cuda/cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct external {
    struct nxr_cuda_memory memory;
    cu_external_memory handle;
};

/* Open it and map all of it. The context is current; on success the driver owns `fd`. */
static int cuda_external_map(struct external *external, int fd, bool is_dedicated, char *why,
                             size_t why_nbytes)
{
    const cu_external_handle handle = {
        .type = CU_EXTERNAL_OPAQUE_FD,
        .handle.fd = fd,
        .size = external->memory.nbytes,
        .flags = is_dedicated ? CU_EXTERNAL_DEDICATED : 0,
    };
    const cu_external_buffer buffer = {.size = external->memory.nbytes};
    cu_result result = nxr_cu.ImportExternalMemory(&external->handle, &handle);

    if (result != CU_OK) {
        close(fd);
        return nxr_cuda_explain("cuImportExternalMemory", result, why, why_nbytes);
    }
    result =
        nxr_cu.ExternalMemoryGetMappedBuffer(&external->memory.start, external->handle, &buffer);
    if (result != CU_OK) {
        nxr_cu.DestroyExternalMemory(external->handle);
        return nxr_cuda_explain("cuExternalMemoryGetMappedBuffer", result, why, why_nbytes);
    }
    return NIXL_OK;
}

/* Lock held. */
static int open_locked(struct external *external, int fd, bool is_dedicated, char *why,
                       size_t why_nbytes)
{
    struct nxr_cuda_device *device = external->memory.device;
    int status = nxr_cuda_activate(device, why, why_nbytes), own;
    bool was_pushed;

    if (status != NIXL_OK) {
        return status;
    }
    own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) {
        snprintf(why, why_nbytes, "cannot copy descriptor %d: %s", fd, strerror(errno));
        return NIXL_E_LIMIT;
    }
    was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
    status = cuda_external_map(external, own, is_dedicated, why, why_nbytes);
    nxr_cuda_leave(was_pushed);
    if (status == NIXL_OK) {
        nxr_cuda.n_imports++;
    }
    return status;
}

int nxr_cuda_open_external(const unsigned char uuid[16], const struct nxr_cuda_external *what,
                           struct nxr_range *range_p, char *why, size_t why_nbytes)
{
    int status = nxr_cuda_start(why, why_nbytes);
    struct nxr_cuda_device *device = status == NIXL_OK ? nxr_cuda_find(uuid) : NULL;
    struct external *external;

    if (status == NIXL_OK && (device == NULL || nxr_cu.ImportExternalMemory == NULL ||
                              nxr_cu.ExternalMemoryGetMappedBuffer == NULL)) {
        snprintf(why, why_nbytes, "CUDA %s",
                 device == NULL ? "has no device of that UUID" : "is too old to open such memory");
        status = NIXL_E_NO_DEVICE;
    }
    if (status != NIXL_OK) {
        return status;
    }
    external = calloc(1, sizeof(*external));
    if (external == NULL) {
        snprintf(why, why_nbytes, "no memory");
        return NIXL_E_NO_MEMORY;
    }
    external->memory.device = device;
    external->memory.home = device->index;
    external->memory.origin = NXR_CUDA_EXTERNAL;
    external->memory.nbytes = what->nbytes;
    external->memory.is_peer = what->is_peer;
    atomic_init(&external->memory.reachers, 1ull << device->index);
    pthread_mutex_lock(&nxr_cuda.lock);
    status = open_locked(external, what->fd, what->is_dedicated, why, why_nbytes);
    pthread_mutex_unlock(&nxr_cuda.lock);
    if (status != NIXL_OK) {
        free(external);
        return status;
    }
    *range_p = (struct nxr_range){
        .addr = (uintptr_t)external->memory.start,
        .nbytes = what->nbytes,
        .kind = &nxr_memory_cuda,
        .memory = external,
    };
    return NIXL_OK;
}

void nxr_cuda_close_external(const struct nxr_range *range)
{
    struct external *external = range->memory;
    bool was_pushed;

    pthread_mutex_lock(&nxr_cuda.lock);
    was_pushed = nxr_cuda_enter(nxr_cuda_context(external->memory.device));
    nxr_cu.MemFree(external->memory.start);
    nxr_cu.DestroyExternalMemory(external->handle);
    nxr_cuda_leave(was_pushed);
    nxr_cuda.n_imports--;
    pthread_mutex_unlock(&nxr_cuda.lock);
    free(external);
}
