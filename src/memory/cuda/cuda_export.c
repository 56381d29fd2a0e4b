/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exporting CUDA memory to peers: which of the driver's methods an allocation supports. Memory that
 * supports none is no error: its owner's library then moves the bytes, and the region's note says
 * why. No state; nxr_cuda.lock is held and the context is current.
 */
#include "config.h"

#include "memory/cuda/cuda.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Keep a descriptor made by the driver, which does not set the flags that ours must have. */
static void cuda_export_keep(struct nxr_memory *memory, int fd, enum nxr_export_type type)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    memory->fd = fd;
    memory->export.type = (uint8_t)type;
}

static cu_result export_legacy(cu_address start, struct nxr_memory *memory)
{
    cu_ipc_handle handle;
    cu_result result = nxr_cu.IpcGetMemHandle(&handle, start);

    if (result == CU_OK) {
        memory->export.type = NXR_EXPORT_CUDA_LEGACY;
        memcpy(memory->export.handle, handle.bytes, sizeof(memory->export.handle));
    }
    return result;
}

/* By descriptor if possible, since that grants the narrower right; else by fabric handle. */
static cu_result export_vmm(cu_address start, uint64_t types, struct nxr_memory *memory)
{
    cu_fabric_handle handle;
    cu_allocation allocation;
    cu_result result;
    int fd = -1;

    result = nxr_cu.MemRetainAllocationHandle(&allocation, (void *)(uintptr_t)start);
    if (result != CU_OK) {
        return result;
    }
    if ((types & CU_HANDLE_POSIX_FD) != 0) {
        result = nxr_cu.MemExportToShareableHandle(&fd, allocation, CU_HANDLE_POSIX_FD, 0);
        if (result == CU_OK) {
            cuda_export_keep(memory, fd, NXR_EXPORT_CUDA_VMM);
        }
    } else {
        result = nxr_cu.MemExportToShareableHandle(&handle, allocation, CU_HANDLE_FABRIC, 0);
        if (result == CU_OK) {
            memory->export.type = NXR_EXPORT_CUDA_FABRIC;
            memcpy(memory->export.handle, handle.bytes, sizeof(memory->export.handle));
        }
    }
    nxr_cu.MemRelease(allocation);
    return result;
}

/* The pool's descriptor and the pointer in it; `driver` names the pool, to open it once. */
static cu_result export_pooled(cu_address start, uint64_t pool, struct nxr_memory *memory)
{
    cu_pool_pointer pointer;
    cu_result result = nxr_cu.MemPoolExportPointer(&pointer, start);
    int fd = -1;

    if (result == CU_OK) {
        result = nxr_cu.MemPoolExportToShareableHandle(&fd, (cu_pool)(uintptr_t)pool,
                                                       CU_HANDLE_POSIX_FD, 0);
    }
    if (result == CU_OK) {
        cuda_export_keep(memory, fd, NXR_EXPORT_CUDA_POOL);
        memcpy(memory->export.handle, pointer.bytes, sizeof(memory->export.handle));
        memcpy(memory->export.driver, &pool, sizeof(pool));
    }
    return result;
}

void nxr_cuda_export(const struct nxr_cuda_device *device, const struct nxr_cuda_whole *whole,
                     struct nxr_memory *memory)
{
    struct nxr_export *export = &memory->export;
    struct nxr_cuda_whole pooled = {0};
    uint64_t types = nxr_cuda_attribute(whole->start, CU_POINTER_HANDLE_TYPES);
    uint64_t pool = nxr_cuda_attribute(whole->start, CU_POINTER_POOL);
    cu_result result = CU_NOT_SUPPORTED;
    const char *what;

    if (pool != 0) {
        what = "memory of a pool that was not created for sharing";
        /*
         * CU_POINTER_HANDLE_TYPES does not cover pools, so the pool itself is queried. The mapping
         * may be a chunk of many allocations; what can be exported is one of these.
         */
        if (nxr_cu.MemPoolExportPointer != NULL) {
            result = nxr_cu.MemGetAddressRange(&pooled.start, &pooled.nbytes,
                                               (cu_address)(uintptr_t)memory->addr);
            whole = &pooled;
        }
        if (result == CU_OK) {
            result = export_pooled(whole->start, pool, memory);
        }
    } else if (whole->is_vmm) {
        what = "memory of cuMemCreate that was not created for sharing";
        if ((types & (CU_HANDLE_POSIX_FD | CU_HANDLE_FABRIC)) != 0) {
            result = export_vmm(whole->start, types, memory);
        }
    } else {
        what = "memory that CUDA does not share between processes";
        result = export_legacy(whole->start, memory);
    }
    if (result != CU_OK) {
        memset(export, 0, sizeof(*export));
        snprintf(memory->note, sizeof(memory->note), "%s (%s): its owner moves the bytes", what,
                 nxr_cuda_name(result));
        return;
    }
    export->nbytes = whole->nbytes;
    export->offset = (uint64_t)(uintptr_t)memory->addr - whole->start;
    export->serial = nxr_cuda_attribute(whole->start, CU_POINTER_BUFFER_ID);
    memcpy(export->device, device->uuid, sizeof(export->device));
}
