/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools. A pool is one backing of which pieces are given out one after the other; the
 * exported form of a pointer says where it lies in it. Memory of an importer must be freed before
 * its owner frees it.
 */
#define _GNU_SOURCE
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL_NBYTES  ((size_t)256 << 20)
#define POOL_ALIGN   512
#define EXPORT_MAGIC 0x74706f4c4f4f5043U

struct fake_pool {
    struct fake_backing *backing;
    size_t used;  /* from the start */
    int n_pieces; /* that are given out: at 0 the pool starts over */
    bool is_import;
    int device; /* ordinal */
    unsigned reachers;
};

struct export_data {
    uint64_t magic, serial, offset, nbytes;
};

static struct fake_pool *default_pools[FAKE_MAX_DEVICES];

static struct fake_pool *pool_new(struct fake_backing *backing, int device, bool is_import)
{
    struct fake_pool *pool = backing != NULL ? calloc(1, sizeof(*pool)) : NULL;

    if (pool == NULL) {
        return NULL;
    }
    pool->backing = backing;
    pool->device = device;
    pool->is_import = is_import;
    pool->reachers = 1U << device;
    return pool;
}

FAKE_API int cuMemPoolCreate(struct fake_pool **pool_p, const struct cu_pool_props *props)
{
    int device = props->location.id;

    ENTER();
    if (props->type != CU_ALLOCATION_PINNED || props->location.type != CU_LOCATION_DEVICE ||
        !fake_is_ordinal(device) || (props->handle_types & ~CU_HANDLE_POSIX_FD) != 0) {
        return CU_INVALID_VALUE;
    }
    *pool_p = pool_new(fake_backing_new(POOL_NBYTES, fake_physical(device), props->handle_types),
                       device, false);
    return *pool_p != NULL ? CU_OK : CU_OUT_OF_MEMORY;
}

FAKE_API int cuMemPoolDestroy(struct fake_pool *pool)
{
    ENTER();
    pthread_mutex_lock(&fake_lock);
    if (pool->n_pieces > 0) {
        fake_misuse("cuMemPoolDestroy(): %d pieces of memory were not freed", pool->n_pieces);
    }
    fake_backing_unref(pool->backing);
    free(pool);
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuDeviceGetDefaultMemPool(struct fake_pool **pool_p, int device)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    pthread_mutex_lock(&fake_lock);
    if (default_pools[device] == NULL) {
        default_pools[device] =
            pool_new(fake_backing_new(POOL_NBYTES, fake_physical(device), 0), device, false);
    }
    *pool_p = default_pools[device];
    pthread_mutex_unlock(&fake_lock);
    return *pool_p != NULL ? CU_OK : CU_OUT_OF_MEMORY;
}

FAKE_API int cuDeviceGetMemPool(struct fake_pool **pool_p, int device)
{
    return cuDeviceGetDefaultMemPool(pool_p, device);
}

FAKE_API int cuMemPoolSetAttribute(struct fake_pool *pool, int attribute, void *value)
{
    ENTER();
    (void)pool;
    return attribute > 0 && value != NULL ? CU_OK : CU_INVALID_VALUE;
}

FAKE_API int cuMemPoolSetAccess(struct fake_pool *pool, const struct cu_access *access, size_t n)
{
    ENTER();
    pthread_mutex_lock(&fake_lock);
    for (size_t i = 0; i < n; ++i) {
        if (!fake_is_ordinal(access[i].location.id) ||
            (access[i].location.id != pool->device && !fake_settings.has_p2p)) {
            pthread_mutex_unlock(&fake_lock);
            return CU_INVALID_DEVICE;
        }
        pool->reachers |= 1U << access[i].location.id;
    }
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

/* Give out bytes of the pool at fresh addresses. Under the lock. */
static int piece_new(struct fake_pool *pool, uint64_t offset, size_t nbytes, enum fake_kind kind,
                     uintptr_t *addr_p)
{
    struct fake_range *range = NULL;
    uintptr_t addr = fake_reserve(nbytes);

    if (addr != 0) {
        range = fake_range_add(addr, nbytes, pool->backing->bytes + offset, kind, pool->backing);
    }
    if (range == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    range->pool = pool;
    range->reachers = pool->reachers;
    ++pool->n_pieces;
    *addr_p = addr;
    return CU_OK;
}

FAKE_API int cuMemAllocFromPoolAsync(uintptr_t *addr_p, size_t nbytes, struct fake_pool *pool,
                                     struct fake_stream *stream)
{
    int result = CU_OUT_OF_MEMORY;
    size_t padded = (nbytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;

    ENTER();
    if (nbytes == 0 || pool->is_import) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    if (fake_stream_find(stream) == NULL) {
        result = CU_INVALID_CONTEXT;
    } else if (padded <= pool->backing->nbytes - pool->used) {
        result = piece_new(pool, pool->used, nbytes, FAKE_POOLED, addr_p);
        pool->used += result == CU_OK ? padded : 0;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuMemAllocAsync(uintptr_t *addr_p, size_t nbytes, struct fake_stream *stream)
{
    struct fake_pool *pool;
    int result;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    result = cuDeviceGetDefaultMemPool(&pool, fake_current()->device);
    return result == CU_OK ? cuMemAllocFromPoolAsync(addr_p, nbytes, pool, stream) : result;
}

/* Pieces that are open elsewhere are counted together: the pool must be free of them at 0. */
void fake_pool_free(struct fake_range *range)
{
    struct fake_pool *pool = range->pool;
    uintptr_t addr = range->addr;
    size_t nbytes = range->nbytes;

    if (range->kind == FAKE_POOL_IPC) {
        fake_backing_unimport(pool->backing);
    }
    fake_range_remove(range);
    fake_unreserve(addr, nbytes);
    if (--pool->n_pieces == 0 && !pool->is_import) {
        fake_backing_check_closed(pool->backing, "cuMemFreeAsync");
        pool->backing->head->is_freed = 0; /* of its bytes, not the pool */
        pool->used = 0;
    }
}

FAKE_API int cuMemFreeAsync(uintptr_t addr, struct fake_stream *stream)
{
    struct fake_range *range;
    struct fake_work work = {.kind = FAKE_FREE};
    int result;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    range = fake_range_at(addr);
    if (range == NULL || range->addr != addr || range->pool == NULL) {
        fake_misuse("cuMemFreeAsync(): %#lx is of no pool", (unsigned long)addr);
    }
    work.data = range;
    result = stream != NULL ? fake_stream_add(stream, &work) : CU_INVALID_CONTEXT;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuMemPoolExportToShareableHandle(void *shareable_p, struct fake_pool *pool, int type,
                                              unsigned long long flags)
{
    int fd;

    ENTER();
    if (flags != 0 || (pool->backing->head->handle_types & type) == 0 || pool->is_import) {
        return CU_INVALID_VALUE;
    }
    fd = dup(pool->backing->fd);
    if (fd < 0) {
        return CU_NOT_SUPPORTED;
    }
    *(int *)shareable_p = fd;
    return CU_OK;
}

FAKE_API int cuMemPoolImportFromShareableHandle(struct fake_pool **pool_p, void *shareable,
                                                int type, unsigned long long flags)
{
    struct fake_backing *backing;

    ENTER();
    if (flags != 0 || type != CU_HANDLE_POSIX_FD) {
        return CU_INVALID_VALUE;
    }
    backing = fake_backing_of_fd((int)(intptr_t)shareable);
    if (backing == NULL || backing->head->handle_types == 0) {
        if (backing != NULL) {
            fake_backing_unref(backing);
        }
        return CU_INVALID_VALUE;
    }
    if (fake_ordinal(backing->head->device) < 0) {
        fake_backing_unref(backing);
        return CU_INVALID_DEVICE;
    }
    *pool_p = pool_new(backing, fake_ordinal(backing->head->device), true);
    return *pool_p != NULL ? CU_OK : CU_OUT_OF_MEMORY;
}

FAKE_API int cuMemPoolExportPointer(struct cu_ipc_handle *data_p, uintptr_t addr)
{
    struct fake_range *range;
    struct export_data data = {.magic = EXPORT_MAGIC};

    ENTER();
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(addr);
    if (range == NULL || range->kind != FAKE_POOLED || range->addr != addr ||
        range->backing->head->handle_types == 0) {
        pthread_mutex_unlock(&fake_lock);
        return CU_INVALID_VALUE;
    }
    data.serial = range->backing->head->serial;
    data.offset = (uint64_t)(range->bytes - range->backing->bytes);
    data.nbytes = range->nbytes;
    pthread_mutex_unlock(&fake_lock);
    memset(data_p, 0, sizeof(*data_p));
    memcpy(data_p, &data, sizeof(data));
    return CU_OK;
}

FAKE_API int cuMemPoolImportPointer(uintptr_t *addr_p, struct fake_pool *pool,
                                    const struct cu_ipc_handle *handle)
{
    struct export_data data;
    int result = CU_OUT_OF_MEMORY;

    ENTER();
    memcpy(&data, handle, sizeof(data));
    if (!pool->is_import || data.magic != EXPORT_MAGIC ||
        data.serial != pool->backing->head->serial || data.offset > pool->backing->nbytes ||
        data.nbytes > pool->backing->nbytes - data.offset) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    if (fake_backing_import(pool->backing)) {
        result = piece_new(pool, data.offset, data.nbytes, FAKE_POOL_IPC, addr_p);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
