/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: addresses, memory and mappings apart, and descriptors of the memory.
 * A handle is a backing; each mapping and each handle that was given out counts.
 */
#define _GNU_SOURCE
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <fcntl.h>
#include <unistd.h>

static bool is_whole(size_t nbytes)
{
    return nbytes > 0 && nbytes % FAKE_GRANULARITY == 0;
}

FAKE_API int cuMemGetAllocationGranularity(size_t *nbytes_p, const struct cu_allocation_prop *prop,
                                           int option)
{
    ENTER();
    (void)option;
    if (prop->type != CU_ALLOCATION_PINNED || prop->location.type != CU_LOCATION_DEVICE) {
        return CU_INVALID_VALUE;
    }
    *nbytes_p = FAKE_GRANULARITY;
    return CU_OK;
}

FAKE_API int cuMemCreate(struct fake_backing **handle_p, size_t nbytes,
                         const struct cu_allocation_prop *prop, unsigned long long flags)
{
    struct fake_backing *backing = NULL;
    int device = prop->location.id;

    ENTER();
    if (flags != 0 || !is_whole(nbytes) || prop->type != CU_ALLOCATION_PINNED ||
        prop->location.type != CU_LOCATION_DEVICE) {
        return CU_INVALID_VALUE;
    }
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    if ((prop->handle_types & ~CU_HANDLE_POSIX_FD) != 0) {
        return CU_NOT_SUPPORTED;
    }
    pthread_mutex_lock(&fake_lock);
    if (nbytes <= fake_settings.nbytes && fake_used[device] <= fake_settings.nbytes - nbytes) {
        backing = fake_backing_new(nbytes, fake_physical(device), prop->handle_types);
    }
    if (backing != NULL) {
        backing->head->is_rdma = prop->flags[1] != 0;
        fake_used[device] += nbytes;
    }
    pthread_mutex_unlock(&fake_lock);
    if (backing == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    *handle_p = backing;
    return CU_OK;
}

/* The last holder of own memory gives its bytes back to the device. Under the lock. */
static void backing_drop(struct fake_backing *backing)
{
    if (backing->n_refs == 1 && !backing->is_import) {
        fake_used[fake_ordinal(backing->head->device)] -= backing->nbytes;
    }
    fake_backing_unref(backing);
}

FAKE_API int cuMemRelease(struct fake_backing *backing)
{
    ENTER();
    pthread_mutex_lock(&fake_lock);
    backing_drop(backing);
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuMemRetainAllocationHandle(struct fake_backing **handle_p, void *addr)
{
    struct fake_range *range;
    bool can;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at((uintptr_t)addr);
    can = range != NULL && range->kind == FAKE_VMM;
    if (can) {
        fake_backing_ref(range->backing);
        *handle_p = range->backing;
    }
    pthread_mutex_unlock(&fake_lock);
    return can ? CU_OK : CU_INVALID_VALUE;
}

FAKE_API int cuMemGetAllocationPropertiesFromHandle(struct cu_allocation_prop *prop_p,
                                                    struct fake_backing *backing)
{
    ENTER();
    *prop_p = (struct cu_allocation_prop){
        .type = CU_ALLOCATION_PINNED,
        .handle_types = backing->head->handle_types,
        .location = {CU_LOCATION_DEVICE, fake_ordinal(backing->head->device)}};
    return CU_OK;
}

FAKE_API int cuMemExportToShareableHandle(void *shareable_p, struct fake_backing *backing, int type,
                                          unsigned long long flags)
{
    int fd;

    ENTER();
    if (flags != 0 || (backing->head->handle_types & type) == 0 || backing->is_import) {
        return CU_INVALID_VALUE;
    }
    fd = dup(backing->fd); /* without CLOEXEC: the caller must see to it */
    if (fd < 0) {
        return CU_NOT_SUPPORTED;
    }
    *(int *)shareable_p = fd;
    return CU_OK;
}

FAKE_API int cuMemImportFromShareableHandle(struct fake_backing **handle_p, void *shareable,
                                            int type)
{
    struct fake_backing *backing;

    ENTER();
    if (type != CU_HANDLE_POSIX_FD) {
        return CU_NOT_SUPPORTED;
    }
    backing = fake_backing_of_fd((int)(intptr_t)shareable);
    if (backing == NULL || (backing->head->handle_types & type) == 0) {
        if (backing != NULL) {
            fake_backing_unref(backing);
        }
        return CU_INVALID_VALUE;
    }
    if (fake_ordinal(backing->head->device) < 0) {
        fake_backing_unref(backing);
        return CU_INVALID_DEVICE;
    }
    *handle_p = backing;
    return CU_OK;
}

FAKE_API int cuMemAddressReserve(uintptr_t *addr_p, size_t nbytes, size_t alignment, uintptr_t wish,
                                 unsigned long long flags)
{
    ENTER();
    (void)wish;
    if (flags != 0 || !is_whole(nbytes) || alignment > FAKE_GRANULARITY) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    *addr_p = fake_reserve(nbytes);
    pthread_mutex_unlock(&fake_lock);
    return *addr_p != 0 ? CU_OK : CU_OUT_OF_MEMORY;
}

FAKE_API int cuMemAddressFree(uintptr_t addr, size_t nbytes)
{
    ENTER();
    pthread_mutex_lock(&fake_lock);
    for (size_t done = 0; done < nbytes; done += FAKE_GRANULARITY) {
        if (fake_range_at(addr + done) != NULL) {
            fake_misuse("cuMemAddressFree(): %#lx is still mapped", (unsigned long)(addr + done));
        }
    }
    fake_unreserve(addr, nbytes);
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuMemMap(uintptr_t addr, size_t nbytes, size_t offset, struct fake_backing *backing,
                      unsigned long long flags)
{
    struct fake_range *range;
    int result = CU_OK;

    ENTER();
    if (flags != 0 || offset != 0 || !is_whole(nbytes) || nbytes > backing->nbytes) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    if (!fake_is_reserved(addr, nbytes)) {
        result = CU_INVALID_VALUE;
    } else if (fake_range_at(addr) != NULL || fake_range_at(addr + nbytes - 1) != NULL) {
        result = CU_ALREADY_MAPPED;
    } else {
        range = fake_range_add(addr, nbytes, backing->bytes, FAKE_VMM, backing);
        result = range != NULL ? CU_OK : CU_OUT_OF_MEMORY;
        if (range != NULL) {
            range->reachers = 0; /* until cuMemSetAccess() */
            fake_backing_ref(backing);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuMemUnmap(uintptr_t addr, size_t nbytes)
{
    struct fake_range *range;
    struct fake_backing *backing;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    for (uintptr_t at = addr; at < addr + nbytes;) {
        range = fake_range_at(at);
        if (range == NULL || range->kind != FAKE_VMM || range->addr != at) {
            fake_misuse("cuMemUnmap(): %#lx is not mapped", (unsigned long)at);
        }
        if (range->n_uses > 0) {
            fake_misuse("cuMemUnmap(): a copy from or to %#lx is under way", (unsigned long)at);
        }
        at += range->nbytes;
        backing = range->backing;
        fake_range_remove(range);
        backing_drop(backing);
    }
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuMemSetAccess(uintptr_t addr, size_t nbytes, const struct cu_access *access, size_t n)
{
    struct fake_range *range;
    int result = CU_OK;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    for (uintptr_t at = addr; at < addr + nbytes && result == CU_OK;) {
        range = fake_range_at(at);
        if (range == NULL || range->kind != FAKE_VMM) {
            result = CU_INVALID_VALUE;
            break;
        }
        for (size_t i = 0; i < n && result == CU_OK; ++i) {
            if (access[i].location.type != CU_LOCATION_DEVICE ||
                !fake_is_ordinal(access[i].location.id)) {
                result = CU_INVALID_DEVICE;
            } else if (!fake_settings.has_p2p &&
                       fake_physical(access[i].location.id) != range->device) {
                result = CU_INVALID_DEVICE;
            } else {
                range->reachers |= 1U << access[i].location.id;
            }
        }
        at = range->addr + range->nbytes;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
