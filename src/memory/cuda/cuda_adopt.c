/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's CUDA memory: what it really is, as reported by the driver. The driver reports whole
 * allocations; a region is a window in one. Memory that is in no region is copied, too: all that is
 * known of it is its device. Lock: nxr_cuda.lock.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "util/log.h"

#include <stdio.h>
#include <string.h>

/* The mapping of cuMemCreate() memory that an address lies in; false: it is no such memory. */
static bool find_mapping(cu_address address, struct nxr_cuda_whole *whole)
{
    cu_allocation allocation;

    if (nxr_cu.MemRetainAllocationHandle == NULL || nxr_cu.MemRelease == NULL ||
        nxr_cu.MemRetainAllocationHandle(&allocation, (void *)(uintptr_t)address) != CU_OK) {
        return false;
    }
    nxr_cu.MemRelease(allocation);
    whole->is_vmm = true;
    whole->start = nxr_cuda_attribute(address, CU_POINTER_MAPPING_START);
    whole->nbytes = nxr_cuda_attribute(address, CU_POINTER_MAPPING_SIZE);
    return whole->nbytes > 0 ||
           nxr_cu.MemGetAddressRange(&whole->start, &whole->nbytes, address) == CU_OK;
}

static bool contains(cu_address start, size_t size, cu_address address, size_t nbytes)
{
    return address >= start && nbytes <= size && address - start <= size - nbytes;
}

static int refuse_window(const struct nxr_cuda_whole *whole, cu_address address, size_t nbytes,
                         char *why, size_t why_nbytes)
{
    snprintf(why, why_nbytes,
             "%zu bytes at %#llx are not all inside the allocation of %zu bytes at %#llx", nbytes,
             address, whole->nbytes, whole->start);
    return NIXL_E_INVALID_ARG;
}

/*
 * Find the allocation that the window lies in, and the addresses around it that belong together.
 * Mapped memory may be several adjacent allocations: then *n_p is more than 1.
 */
static int find_whole(cu_address address, size_t nbytes, struct nxr_cuda_whole *whole,
                      struct nxr_cuda_memory *memory, size_t *n_p, char *why, size_t why_nbytes)
{
    struct nxr_cuda_whole mapping = {0};

    *n_p = 1;
    if (!find_mapping(address, whole)) {
        if (nxr_cu.MemGetAddressRange(&whole->start, &whole->nbytes, address) != CU_OK) {
            snprintf(why, why_nbytes, "CUDA does not report which allocation %#llx lies in",
                     address);
            return NIXL_E_INVALID_ARG;
        }
        memory->start = whole->start;
        memory->nbytes = whole->nbytes;
        return contains(whole->start, whole->nbytes, address, nbytes)
                   ? NIXL_OK
                   : refuse_window(whole, address, nbytes, why, why_nbytes);
    }
    mapping = *whole;
    while (mapping.start + mapping.nbytes - address < nbytes) {
        if (!find_mapping(mapping.start + mapping.nbytes, &mapping)) {
            return refuse_window(whole, address, nbytes, why, why_nbytes);
        }
        ++*n_p;
    }
    /* Everything that was reserved together, so that windows in it share one range. */
    memory->is_vmm = true;
    memory->start = nxr_cuda_attribute(address, CU_POINTER_RANGE_START);
    memory->nbytes = nxr_cuda_attribute(address, CU_POINTER_RANGE_SIZE);
    if (!contains(memory->start, memory->nbytes, address, nbytes)) {
        memory->start = whole->start;
        memory->nbytes = mapping.start + mapping.nbytes - whole->start;
    }
    return NIXL_OK;
}

/* Is it memory of a GPU? Returns the device that it is on, or NULL and `why`. */
static struct nxr_cuda_device *classify(cu_address address, bool *is_managed_p, char *why,
                                        size_t why_nbytes)
{
    uint64_t type = nxr_cuda_attribute(address, CU_POINTER_MEMORY_TYPE);
    uint64_t ordinal = nxr_cuda_attribute(address, CU_POINTER_DEVICE_ORDINAL);

    *is_managed_p = nxr_cuda_attribute(address, CU_POINTER_IS_MANAGED) != 0;
    if (type == CU_MEMORY_HOST && !*is_managed_p) {
        snprintf(why, why_nbytes,
                 "%#llx is host memory, page-locked for CUDA: register it as NIXL_MEM_HOST",
                 address);
        return NULL;
    }
    if (type != CU_MEMORY_DEVICE && !*is_managed_p) {
        snprintf(why, why_nbytes, "%#llx is not CUDA memory", address);
        return NULL;
    }
    if (ordinal >= (uint64_t)nxr_cuda.n_devices) {
        if (!*is_managed_p) {
            snprintf(why, why_nbytes, "%#llx lies on a device that CUDA does not list", address);
            return NULL;
        }
        return nxr_cuda_any(); /* currently it is on no device */
    }
    return &nxr_cuda.devices[ordinal];
}

static int adopt_in_context(struct nxr_cuda_memory *fresh, struct nxr_memory *memory,
                            bool is_managed, char *why, size_t why_nbytes)
{
    cu_address address = (cu_address)(uintptr_t)memory->addr;
    struct nxr_cuda_whole whole = {0};
    struct nxr_cuda_memory *entry;
    size_t n_mappings;
    int status = find_whole(address, memory->nbytes, &whole, fresh, &n_mappings, why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_cuda_sync_memops(address);
    entry = nxr_cuda_memory_use(fresh, why, why_nbytes);
    if (entry == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    memory->range = entry->range;
    if (is_managed) {
        snprintf(memory->note, sizeof(memory->note),
                 "managed memory: no other process can open it; its owner moves the bytes");
    } else if (n_mappings > 1) {
        snprintf(
            memory->note, sizeof(memory->note),
            "the region spans %zu allocations, and peers can open only one: its owner moves the "
            "bytes",
            n_mappings);
    } else {
        nxr_cuda_export(fresh->device, &whole, memory);
    }
    return NIXL_OK;
}

static int adopt_locked(struct nxr_memory *memory, char *why, size_t why_nbytes)
{
    struct nxr_cuda_memory fresh = {.origin = NXR_CUDA_USERS};
    bool is_managed, was_pushed;
    int status;

    fresh.device = classify((cu_address)(uintptr_t)memory->addr, &is_managed, why, why_nbytes);
    if (fresh.device == NULL) {
        return NIXL_E_UNSUPPORTED;
    }
    status = nxr_cuda_activate(fresh.device, why, why_nbytes);
    if (status != NIXL_OK) {
        return status;
    }
    fresh.home = fresh.device->index;
    atomic_init(&fresh.reachers, 1ull << fresh.home);
    memcpy(memory->device, fresh.device->text, sizeof(memory->device));
    was_pushed = nxr_cuda_enter(nxr_cuda_context(fresh.device));
    status = adopt_in_context(&fresh, memory, is_managed, why, why_nbytes);
    nxr_cuda_leave(was_pushed);
    return status;
}

int nxr_cuda_adopt(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                   struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    struct nxr_memory memory = {
        .kind = &nxr_memory_cuda, .addr = addr, .nbytes = nbytes, .fd = -1, .is_registered = true};
    int status = nxr_cuda_start(why, why_nbytes);

    (void)params; /* the memory determines the device */
    if (status != NIXL_OK) {
        return status;
    }
    pthread_mutex_lock(&nxr_cuda.lock);
    status = adopt_locked(&memory, why, why_nbytes);
    pthread_mutex_unlock(&nxr_cuda.lock);
    if (status == NIXL_OK) {
        *memory_p = memory;
    }
    return status;
}

bool nxr_cuda_owns(const void *addr)
{
    int ordinal;

    return nxr_cuda_is_in_process() && nxr_cuda_classify(addr, &ordinal) != NXR_CUDA_ADDRESS_HOST;
}

/* ---- memory of no region --------------------------------------------------------------------- */

/* Memory that no device here can copy: each copy is refused, and nothing reads it. */
static struct nxr_cuda_memory nowhere = {.origin = NXR_CUDA_USERS, .home = -1};
static const struct nxr_range out_of_reach = {
    .nbytes = UINTPTR_MAX, .kind = &nxr_memory_cuda, .memory = &nowhere, .is_loose = true};

/* The context of the device is retained when its memory is first seen. */
static int activate(int ordinal, char *why, size_t why_nbytes)
{
    int status = nxr_cuda_start(why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    if (ordinal < 0 || ordinal >= nxr_cuda.n_devices) {
        snprintf(why, why_nbytes, "CUDA lists no device %d", ordinal);
        return NIXL_E_NO_DEVICE;
    }
    if (nxr_cuda_context(&nxr_cuda.devices[ordinal]) != NULL) {
        return NIXL_OK;
    }
    pthread_mutex_lock(&nxr_cuda.lock);
    status = nxr_cuda_activate(&nxr_cuda.devices[ordinal], why, why_nbytes);
    pthread_mutex_unlock(&nxr_cuda.lock);
    return status;
}

const struct nxr_range *nxr_cuda_loose_range(const void *addr)
{
    struct nxr_cuda_device *device;
    char why[160];
    int ordinal;

    if (nxr_cuda_classify(addr, &ordinal) != NXR_CUDA_ADDRESS_DEVICE) {
        return NULL;
    }
    if (activate(ordinal, why, sizeof(why)) != NIXL_OK) {
        nxr_error(MEMORY, "%p is memory of a GPU that cannot be used: %s", addr, why);
        return &out_of_reach;
    }
    device = &nxr_cuda.devices[ordinal];
    return &device->loose_range;
}
