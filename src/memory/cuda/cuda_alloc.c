/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory that the library allocates, and the list of this process's allocations. cuMemAlloc()
 * is preferred: its legacy handles are opened faster than descriptors (72 us, not 91), need no
 * descriptor in each process, and can be opened even if the owner's GPU is hidden from the peer.
 * Whole blocks of 2 MiB are requested, because smaller allocations share a block, and a peer that
 * opens a handle gets all of the block. If such memory cannot be exported, cuMemCreate() is used;
 * and where NIXLRUN_SHARED_DIR is set, for processes in other containers: the driver finds the
 * owner of a legacy handle by a pid, which means nothing in another PID namespace.
 * Lock: nxr_cuda.lock.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_NBYTES ((size_t)2 << 20)

/* ---- the list of own allocations ------------------------------------------------------------- */

static cu_address cuda_alloc_end_of(const struct nxr_cuda_memory *memory)
{
    return memory->start + memory->nbytes;
}

/*
 * May adapters read and write it? What they have written must be visible to the GPU when the host
 * is notified, without another call into the driver.
 */
static bool is_direct(const struct nxr_cuda_memory *memory)
{
    int order = 0;

    return nxr_cuda_attribute(memory->start, CU_POINTER_IS_RDMA_CAPABLE) != 0 &&
           nxr_cu.DeviceGetAttribute(&order, CU_DEVICE_RDMA_WRITES_ORDERING,
                                     memory->device->device) == CU_OK &&
           order >= CU_RDMA_WRITES_ORDERED_FOR_OWNER;
}

struct nxr_cuda_memory *nxr_cuda_memory_use(const struct nxr_cuda_memory *fresh, char *why,
                                            size_t why_nbytes)
{
    struct nxr_list *link, *after;
    struct nxr_cuda_memory *memory;

    nxr_list_for_each (link, after, &nxr_cuda.memories) {
        memory = nxr_list_entry(link, struct nxr_cuda_memory, link);
        if (fresh->start >= memory->start &&
            cuda_alloc_end_of(fresh) <= cuda_alloc_end_of(memory)) {
            memory->n_users++;
            return memory;
        }
        if (fresh->start < cuda_alloc_end_of(memory) && memory->start < cuda_alloc_end_of(fresh)) {
            snprintf(why, why_nbytes,
                     "%zu bytes at %#llx overlap %zu bytes at %#llx, which have a region already: "
                     "register the larger one first",
                     fresh->nbytes, fresh->start, memory->nbytes, memory->start);
            return NULL;
        }
    }
    memory = malloc(sizeof(*memory));
    if (memory != NULL) {
        memcpy(memory, fresh, sizeof(*memory));
        memory->n_users = 1;
    }
    if (memory == NULL || nxr_range_add((uintptr_t)memory->start, memory->nbytes, &nxr_memory_cuda,
                                        memory, &memory->range) != NIXL_OK) {
        snprintf(why, why_nbytes, "no memory to remember an allocation");
        free(memory);
        return NULL;
    }
    memory->range->is_direct = is_direct(memory);
    nxr_list_append(&nxr_cuda.memories, &memory->link);
    return memory;
}

bool nxr_cuda_memory_unuse(struct nxr_cuda_memory *memory)
{
    if (--memory->n_users > 0) {
        return false;
    }
    nxr_range_remove(memory->range);
    nxr_list_remove(&memory->link);
    return true;
}

/* ---- mapped memory --------------------------------------------------------------------------- */

cu_result nxr_cuda_map(cu_allocation allocation, size_t nbytes, int index, cu_address *start_p)
{
    const cu_access access = {{CU_LOCATION_DEVICE, nxr_cuda.devices[index].device},
                              CU_ACCESS_READ_WRITE};
    cu_address start = 0;
    cu_result result = nxr_cu.MemAddressReserve(&start, nbytes, 0, 0, 0);

    if (result != CU_OK) {
        return result;
    }
    result = nxr_cu.MemMap(start, nbytes, 0, allocation, 0);
    if (result == CU_OK) {
        result = nxr_cu.MemSetAccess(start, nbytes, &access, 1);
        if (result != CU_OK) {
            nxr_cu.MemUnmap(start, nbytes);
        }
    }
    if (result != CU_OK) {
        nxr_cu.MemAddressFree(start, nbytes);
        return result;
    }
    *start_p = start;
    return CU_OK;
}

void nxr_cuda_unmap(cu_address start, size_t nbytes)
{
    nxr_cu.MemUnmap(start, nbytes);
    nxr_cu.MemAddressFree(start, nbytes);
}

/* cuMemCreate() with a descriptor for peers; `whole` gets start and size. */
static cu_result cuda_alloc_create(struct nxr_cuda_memory *whole, size_t nbytes)
{
    const cu_allocation_props props = {
        .type = CU_ALLOCATION_PINNED,
        .handle_types = CU_HANDLE_POSIX_FD,
        .location = {CU_LOCATION_DEVICE, whole->device->device},
        .flags.is_gpu_direct_rdma = whole->device->has_vmm_rdma,
    };
    cu_allocation allocation;
    size_t unit = BLOCK_NBYTES;
    cu_result result;

    result = nxr_cu.MemGetAllocationGranularity(&unit, &props, CU_GRANULARITY_MINIMUM);
    if (result != CU_OK) {
        return result;
    }
    whole->nbytes = (nbytes + unit - 1) / unit * unit;
    result = nxr_cu.MemCreate(&allocation, whole->nbytes, &props, 0);
    if (result != CU_OK) {
        return result;
    }
    result = nxr_cuda_map(allocation, whole->nbytes, whole->device->index, &whole->start);
    nxr_cu.MemRelease(allocation); /* the mapping keeps it alive */
    whole->origin = NXR_CUDA_VMM;
    whole->is_vmm = true;
    return result;
}

/* ---- allocating ------------------------------------------------------------------------------ */

static void cuda_alloc_give_back(const struct nxr_cuda_memory *whole)
{
    if (whole->origin == NXR_CUDA_MALLOC) {
        nxr_cu.MemFree(whole->start);
    } else if (whole->origin == NXR_CUDA_VMM) {
        nxr_cuda_unmap(whole->start, whole->nbytes);
    }
}

static cu_result obtain(struct nxr_cuda_memory *whole, size_t nbytes)
{
    bool has_containers = nxr_env.shared_dir != NULL && nxr_env.shared_dir[0] != '\0';
    cu_ipc_handle handle;
    cu_result result;

    if (whole->device->has_vmm && has_containers && cuda_alloc_create(whole, nbytes) == CU_OK) {
        return CU_OK;
    }
    whole->is_vmm = false;
    whole->origin = NXR_CUDA_MALLOC;
    whole->nbytes = (nbytes + BLOCK_NBYTES - 1) / BLOCK_NBYTES * BLOCK_NBYTES;
    result = nxr_cu.MemAlloc(&whole->start, whole->nbytes);
    if (result == CU_OK && whole->device->has_vmm &&
        nxr_cu.IpcGetMemHandle(&handle, whole->start) != CU_OK) {
        nxr_cu.MemFree(whole->start);
        result = cuda_alloc_create(whole, nbytes);
    }
    return result;
}

/* Zero it, before anything can read it. */
static cu_result clear(const struct nxr_cuda_memory *whole)
{
    struct nxr_cuda_lane *lane =
        nxr_cuda_lane_of(whole->device, whole->device->index, whole->nbytes, false);
    cu_result result = CU_OUT_OF_MEMORY;
    cu_stream stream;

    pthread_mutex_lock(&lane->lock);
    stream = nxr_cuda_lane_stream(lane);
    if (stream != NULL) {
        result = nxr_cu.MemsetD8Async(whole->start, 0, whole->nbytes, stream);
    }
    if (result == CU_OK) {
        result = nxr_cu.StreamSynchronize(stream);
    }
    pthread_mutex_unlock(&lane->lock);
    return result;
}

static int cuda_alloc_explain(const char *what, cu_result result,
                              const struct nxr_cuda_device *device, size_t nbytes, char *why,
                              size_t why_nbytes)
{
    size_t left = 0, all = 0;

    if (result == CU_OUT_OF_MEMORY && nxr_cu.MemGetInfo(&left, &all) == CU_OK) {
        snprintf(why, why_nbytes,
                 "cannot allocate %zu bytes on CUDA device %d: %zu of %zu are free", nbytes,
                 device->index, left, all);
        return NIXL_E_NO_MEMORY;
    }
    return nxr_cuda_explain(what, result, why, why_nbytes);
}

static int alloc_on(struct nxr_cuda_device *device, size_t nbytes, struct nxr_memory *memory_p,
                    char *why, size_t why_nbytes)
{
    struct nxr_memory memory = {.kind = &nxr_memory_cuda, .nbytes = nbytes, .fd = -1};
    struct nxr_cuda_memory whole = {
        .device = device, .home = device->index, .reachers = 1ull << device->index};
    struct nxr_cuda_memory *entry = NULL;
    cu_result result = obtain(&whole, nbytes);
    int status = NIXL_E_NO_MEMORY;

    if (result != CU_OK) {
        return cuda_alloc_explain("cuMemAlloc", result, device, nbytes, why, why_nbytes);
    }
    result = clear(&whole);
    if (result != CU_OK) {
        status = cuda_alloc_explain("cuMemsetD8Async", result, device, nbytes, why, why_nbytes);
    } else {
        entry = nxr_cuda_memory_use(&whole, why, why_nbytes);
    }
    if (entry == NULL) {
        cuda_alloc_give_back(&whole);
        return status;
    }
    nxr_cuda_sync_memops(whole.start);
    memory.addr = (void *)(uintptr_t)whole.start;
    memory.range = entry->range;
    memcpy(memory.device, device->text, sizeof(memory.device));
    nxr_cuda_export(device, &(struct nxr_cuda_whole){whole.start, whole.nbytes, whole.is_vmm},
                    &memory);
    *memory_p = memory;
    return NIXL_OK;
}

int nxr_cuda_alloc(size_t nbytes, const struct nixl_mem_params *params, struct nxr_memory *memory_p,
                   char *why, size_t why_nbytes)
{
    struct nxr_cuda_device *device;
    bool was_pushed;
    int status = nxr_cuda_start(why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    if (nbytes > INT64_MAX) {
        snprintf(why, why_nbytes, "no GPU has %zu bytes", nbytes);
        return NIXL_E_NO_MEMORY;
    }
    pthread_mutex_lock(&nxr_cuda.lock);
    device = nxr_cuda_choose(params->device, &status, why, why_nbytes);
    if (device != NULL) {
        status = nxr_cuda_activate(device, why, why_nbytes);
    }
    if (device != NULL && status == NIXL_OK) {
        was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
        status = alloc_on(device, nbytes, memory_p, why, why_nbytes);
        nxr_cuda_leave(was_pushed);
    }
    pthread_mutex_unlock(&nxr_cuda.lock);
    return status;
}

void nxr_cuda_release(struct nxr_memory *memory)
{
    struct nxr_cuda_memory *whole = memory->range->memory;
    bool was_pushed;

    pthread_mutex_lock(&nxr_cuda.lock);
    if (nxr_cuda_memory_unuse(whole)) {
        was_pushed = nxr_cuda_enter(nxr_cuda_context(whole->device));
        cuda_alloc_give_back(whole);
        nxr_cuda_leave(was_pushed);
        free(whole);
    }
    pthread_mutex_unlock(&nxr_cuda.lock);
}
