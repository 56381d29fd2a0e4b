/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is not shared by handles of its own: cuMemAlloc and its legacy handles, managed
 * memory, host memory of the driver's and of the caller's.
 */
#define _GNU_SOURCE
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Device memory of a fresh backing at fresh addresses; under the lock. */
static int range_new(size_t nbytes, enum fake_kind kind, struct fake_range **range_p)
{
    int device = fake_current()->device;
    struct fake_backing *backing;
    uintptr_t addr;

    if (nbytes > fake_settings.nbytes || fake_used[device] > fake_settings.nbytes - nbytes) {
        return CU_OUT_OF_MEMORY;
    }
    backing = fake_backing_new(nbytes, fake_physical(device), 0);
    addr = backing != NULL ? fake_reserve(nbytes) : 0;
    *range_p = addr != 0 ? fake_range_add(addr, nbytes, backing->bytes, kind, backing) : NULL;
    if (*range_p == NULL) {
        if (addr != 0) {
            fake_unreserve(addr, nbytes);
        }
        if (backing != NULL) {
            fake_backing_unref(backing);
        }
        return CU_OUT_OF_MEMORY;
    }
    fake_used[device] += nbytes;
    return CU_OK;
}

/* Wait for all work, then give addresses and backing back; under the lock. */
static void range_end(struct fake_range *range)
{
    struct fake_backing *backing = range->backing;
    uintptr_t addr = range->addr;
    size_t nbytes = range->nbytes;

    fake_range_wait(range);
    fake_range_remove(range);
    fake_unreserve(addr, nbytes);
    fake_backing_unref(backing);
}

FAKE_API int cuMemAlloc_v2(uintptr_t *addr_p, size_t nbytes)
{
    struct fake_range *range;
    int result;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (nbytes == 0) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    result = range_new(nbytes, FAKE_MALLOC, &range);
    if (result == CU_OK) {
        *addr_p = range->addr;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* What cuMemFree does with a range of each kind; under the lock. */
static int range_free(struct fake_range *range)
{
    size_t nbytes = range->nbytes;

    switch (range->kind) {
    case FAKE_MALLOC:
        fake_range_wait(range);
        fake_backing_check_closed(range->backing, "cuMemFree");
        fake_used[range->context->device] -= nbytes;
        range_end(range);
        return CU_OK;
    case FAKE_MANAGED:
        fake_range_wait(range);
        munmap(range->bytes, nbytes);
        fake_range_remove(range);
        return CU_OK;
    case FAKE_POOLED:
    case FAKE_POOL_IPC:
        fake_range_wait(range);
        fake_pool_free(range);
        return CU_OK;
    case FAKE_EXTERNAL:
        range_end(range);
        return CU_OK;
    default:
        return CU_INVALID_VALUE;
    }
}

FAKE_API int cuMemFree_v2(uintptr_t addr)
{
    struct fake_range *range;
    int result;

    ENTER();
    if (addr == 0) {
        return CU_OK;
    }
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(addr);
    if (range == NULL || range->addr != addr) {
        fake_misuse("cuMemFree(): %#lx is the start of no memory", (unsigned long)addr);
    }
    result = range_free(range);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuMemGetInfo_v2(size_t *free_p, size_t *total_p)
{
    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&fake_lock);
    *free_p = fake_settings.nbytes - fake_used[fake_current()->device];
    *total_p = fake_settings.nbytes;
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuMemGetAddressRange_v2(uintptr_t *addr_p, size_t *nbytes_p, uintptr_t addr)
{
    struct fake_range *range;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(addr);
    if (range != NULL && addr_p != NULL) {
        *addr_p = range->addr;
    }
    if (range != NULL && nbytes_p != NULL) {
        *nbytes_p = range->nbytes;
    }
    pthread_mutex_unlock(&fake_lock);
    return range != NULL ? CU_OK : CU_NOT_FOUND;
}

/* ---- legacy handles -------------------------------------------------------------------------- */

FAKE_API int cuIpcGetMemHandle(struct cu_ipc_handle *handle_p, uintptr_t addr)
{
    struct fake_range *range;
    bool can;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(addr);
    can = range != NULL && range->kind == FAKE_MALLOC;
    if (can) {
        fake_backing_name(range->backing, handle_p);
    }
    pthread_mutex_unlock(&fake_lock);
    return can ? CU_OK : CU_INVALID_VALUE;
}

/* Under the lock. */
static int open_backing(struct fake_backing *backing, uintptr_t *addr_p)
{
    struct fake_range *range = NULL;
    uintptr_t addr;

    if (!fake_backing_import(backing)) {
        return CU_OUT_OF_MEMORY;
    }
    addr = fake_reserve(backing->nbytes);
    if (addr != 0) {
        range = fake_range_add(addr, backing->nbytes, backing->bytes, FAKE_IPC, backing);
    }
    if (range == NULL) {
        fake_backing_unimport(backing);
        return CU_OUT_OF_MEMORY;
    }
    *addr_p = addr;
    return CU_OK;
}

FAKE_API int cuIpcOpenMemHandle_v2(uintptr_t *addr_p, struct cu_ipc_handle handle, unsigned flags)
{
    struct fake_backing *backing;
    int result;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (flags != 1) {
        return CU_INVALID_VALUE;
    }
    backing = fake_backing_of_name(&handle);
    if (backing == NULL) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    if (backing->head->serial >> 32 == (uint64_t)fake_pid()) {
        result = CU_INVALID_CONTEXT; /* as the driver says of a handle of the process's own */
    } else if (backing->head->device != fake_physical(fake_current()->device) &&
               !fake_settings.has_p2p) {
        result = CU_PEER_UNSUPPORTED;
    } else {
        result = open_backing(backing, addr_p);
    }
    if (result != CU_OK) {
        fake_backing_unref(backing);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuIpcCloseMemHandle(uintptr_t addr)
{
    struct fake_range *range;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(addr);
    if (range == NULL || range->kind != FAKE_IPC || range->addr != addr) {
        fake_misuse("cuIpcCloseMemHandle(): %#lx was not opened", (unsigned long)addr);
    }
    if (range->context != fake_current()) {
        fake_misuse("cuIpcCloseMemHandle(): opened in another context");
    }
    fake_range_wait(range);
    fake_backing_unimport(range->backing);
    range_end(range);
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

/*
 * ---- memory that the CPU may touch -------------------------------------------------------------
 */

static int host_new(size_t nbytes, enum fake_kind kind, void **addr_p)
{
    struct fake_range *range;
    void *memory;

    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (nbytes == 0) {
        return CU_INVALID_VALUE;
    }
    nbytes = (nbytes + 4095) / 4096 * 4096;
    memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return CU_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&fake_lock);
    range = fake_range_add((uintptr_t)memory, nbytes, memory, kind, NULL);
    pthread_mutex_unlock(&fake_lock);
    if (range == NULL) {
        munmap(memory, nbytes);
        return CU_OUT_OF_MEMORY;
    }
    *addr_p = memory;
    return CU_OK;
}

FAKE_API int cuMemAllocManaged(uintptr_t *addr_p, size_t nbytes, unsigned flags)
{
    ENTER();
    return flags == 1 || flags == 2 ? host_new(nbytes, FAKE_MANAGED, (void **)addr_p)
                                    : CU_INVALID_VALUE;
}

FAKE_API int cuMemHostAlloc(void **addr_p, size_t nbytes, unsigned flags)
{
    ENTER();
    (void)flags;
    return host_new(nbytes, FAKE_PINNED, addr_p);
}

FAKE_API int cuMemFreeHost(void *addr)
{
    struct fake_range *range;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at((uintptr_t)addr);
    if (range == NULL || range->kind != FAKE_PINNED) {
        fake_misuse("cuMemFreeHost(): %p is not of cuMemHostAlloc()", addr);
    }
    fake_range_wait(range);
    munmap(range->bytes, range->nbytes);
    fake_range_remove(range);
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuMemHostRegister_v2(void *addr, size_t nbytes, unsigned flags)
{
    unsigned char resident;
    int result = CU_OK;

    ENTER();
    (void)flags;
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (addr == NULL || nbytes == 0 ||
        mincore((void *)((uintptr_t)addr / 4096 * 4096), 1, &resident) != 0) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    if (fake_range_at((uintptr_t)addr) != NULL ||
        fake_range_at((uintptr_t)addr + nbytes - 1) != NULL) {
        result = CU_REGISTERED;
    } else if (fake_range_add((uintptr_t)addr, nbytes, addr, FAKE_REGISTERED, NULL) == NULL) {
        result = CU_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuMemHostUnregister(void *addr)
{
    struct fake_range *range;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at((uintptr_t)addr);
    if (range == NULL || range->kind != FAKE_REGISTERED || range->addr != (uintptr_t)addr) {
        pthread_mutex_unlock(&fake_lock);
        return CU_NOT_REGISTERED;
    }
    if (range->n_uses > 0) {
        fake_misuse("cuMemHostUnregister(): a copy from or to %p is under way", addr);
    }
    fake_range_remove(range);
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuMemHostGetDevicePointer_v2(uintptr_t *device_p, void *addr, unsigned flags)
{
    struct fake_range *range;

    ENTER();
    (void)flags;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at((uintptr_t)addr);
    pthread_mutex_unlock(&fake_lock);
    if (range == NULL || (range->kind != FAKE_REGISTERED && range->kind != FAKE_PINNED)) {
        return CU_INVALID_VALUE;
    }
    *device_p = (uintptr_t)addr;
    return CU_OK;
}
