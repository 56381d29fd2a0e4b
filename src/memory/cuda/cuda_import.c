/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the CUDA memory of peers. The whole allocation is opened, once for all regions in it: the
 * driver may refuse to open a legacy handle twice. It is closed with its last segment. Whether a
 * device can reach a peer's memory is determined by actually opening it there; that another GPU is
 * visible says little (MIG, containers, CUDA_VISIBLE_DEVICES). Nothing that came from a peer is
 * trusted: the driver is queried for the real size. Lock: nxr_cuda.lock.
 */
#include "config.h"

#include "core/job.h"
#include "memory/cuda/cuda.h"
#include "util/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A peer's pool. */
struct pool {
    struct nxr_list link;
    int rank;
    uint64_t id; /* in its owner's process */
    cu_pool pool;
    unsigned n_pointers;
};

/* A peer's allocation. */
struct nxr_import {
    struct nxr_list link;
    int rank;
    struct nxr_export export; /* as received; offset 0 */
    struct nxr_cuda_memory memory;
    struct pool *pool; /* NXR_EXPORT_CUDA_POOL */
    bool shares_pids;  /* with the peer */
};

static struct nxr_list imports = {&imports, &imports};
static struct nxr_list pools = {&pools, &pools};

static cu_result cuda_import_refuse(char *why, size_t why_nbytes, const char *format, ...)
    NIXL_PRINTF(3, 4);

/* Fill in one line, and return a result that stops the rest. */
static cu_result cuda_import_refuse(char *why, size_t why_nbytes, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, why_nbytes, format, arguments);
    va_end(arguments);
    return CU_INVALID_VALUE;
}

static cu_result cuda_import_tell(const char *call, cu_result result, char *why, size_t why_nbytes)
{
    if (result != CU_OK) {
        snprintf(why, why_nbytes, "%s: %s", call, nxr_cuda_name(result));
    }
    return result;
}

/* ---- each way of opening: the context of import->memory.device is current -------------------- */

/*
 * Is the opened memory as large as the peer says? Small allocations share a block, and then the
 * block was opened: the address may be inside it.
 */
static cu_result check_size(const struct nxr_import *import, char *why, size_t why_nbytes)
{
    cu_address start = 0, address = import->memory.start;
    size_t nbytes = 0;
    cu_result result =
        cuda_import_tell("cuMemGetAddressRange",
                         nxr_cu.MemGetAddressRange(&start, &nbytes, address), why, why_nbytes);

    if (result != CU_OK) {
        return result;
    }
    nbytes = address >= start && address - start <= nbytes ? nbytes - (address - start) : 0;
    if (nbytes < import->export.nbytes) {
        return cuda_import_refuse(
            why, why_nbytes, "%s announced %llu bytes of memory, but it has %zu",
            nxr_rank_name(import->rank), (unsigned long long)import->export.nbytes, nbytes);
    }
    return CU_OK;
}

static cu_result open_legacy(struct nxr_import *import, char *why, size_t why_nbytes)
{
    cu_ipc_handle handle;
    cu_result result;

    if (!import->shares_pids) { /* the driver finds the owner by a pid in the handle */
        return cuda_import_refuse(
            why, why_nbytes,
            "memory of cudaMalloc() in another PID namespace: share one, or let its owner set "
            "NIXLRUN_SHARED_DIR and use nixl_region_alloc()");
    }
    memcpy(handle.bytes, import->export.handle, sizeof(handle.bytes));
    result = cuda_import_tell(
        "cuIpcOpenMemHandle",
        nxr_cu.IpcOpenMemHandle(&import->memory.start, handle, CU_IPC_LAZY_PEER_ACCESS), why,
        why_nbytes);
    if (result != CU_OK) {
        return result;
    }
    import->memory.origin = NXR_CUDA_LEGACY;
    result = check_size(import, why, why_nbytes);
    if (result != CU_OK) {
        nxr_cu.IpcCloseMemHandle(import->memory.start);
    }
    return result;
}

/* The driver maps no more than exists, and whole blocks only. */
static cu_result open_vmm(struct nxr_import *import, void *handle, cu_handle_type type, char *why,
                          size_t why_nbytes)
{
    cu_allocation allocation;
    cu_result result;

    if (nxr_cu.MemImportFromShareableHandle == NULL) {
        return cuda_import_refuse(why, why_nbytes,
                                  "the driver is too old to open memory of cuMemCreate");
    }
    result = cuda_import_tell("cuMemImportFromShareableHandle",
                              nxr_cu.MemImportFromShareableHandle(&allocation, handle, type), why,
                              why_nbytes);
    if (result != CU_OK) {
        return result;
    }
    result = cuda_import_tell("mapping a peer's memory",
                              nxr_cuda_map(allocation, import->export.nbytes,
                                           import->memory.device->index, &import->memory.start),
                              why, why_nbytes);
    nxr_cu.MemRelease(allocation); /* the mapping keeps it alive */
    import->memory.origin = NXR_CUDA_VMM;
    import->memory.is_vmm = true;
    return result;
}

static void close_pool(struct pool *pool)
{
    if (--pool->n_pointers == 0) {
        nxr_list_remove(&pool->link);
        nxr_cu.MemPoolDestroy(pool->pool);
        free(pool);
    }
}

/* Open the pool, once, and count one more pointer in it. NULL and `why`: it cannot be opened. */
static struct pool *open_pool(const struct nxr_import *import, int fd, char *why, size_t why_nbytes)
{
    struct nxr_list *link, *after;
    struct pool *pool;
    cu_result result;
    uint64_t id;

    memcpy(&id, import->export.driver, sizeof(id));
    nxr_list_for_each (link, after, &pools) {
        pool = nxr_list_entry(link, struct pool, link);
        if (pool->rank == import->rank && pool->id == id) {
            pool->n_pointers++;
            return pool;
        }
    }
    pool = malloc(sizeof(*pool));
    if (pool == NULL) {
        snprintf(why, why_nbytes, "no memory to remember a pool");
        return NULL;
    }
    *pool = (struct pool){.rank = import->rank, .id = id, .n_pointers = 1};
    result = cuda_import_tell("cuMemPoolImportFromShareableHandle",
                              nxr_cu.MemPoolImportFromShareableHandle(
                                  &pool->pool, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD, 0),
                              why, why_nbytes);
    if (result != CU_OK) {
        free(pool);
        return NULL;
    }
    nxr_list_append(&pools, &pool->link);
    return pool;
}

static cu_result open_pooled(struct nxr_import *import, int fd, char *why, size_t why_nbytes)
{
    const cu_access access = {{CU_LOCATION_DEVICE, import->memory.device->device},
                              CU_ACCESS_READ_WRITE};
    cu_pool_pointer pointer;
    struct pool *pool;
    cu_result result;

    if (nxr_cu.MemPoolImportPointer == NULL) {
        return cuda_import_refuse(why, why_nbytes, "the driver is too old to open memory of pools");
    }
    pool = open_pool(import, fd, why, why_nbytes);
    if (pool == NULL) {
        return CU_INVALID_VALUE;
    }
    memcpy(pointer.bytes, import->export.handle, sizeof(pointer.bytes));
    result = cuda_import_tell("cuMemPoolSetAccess", nxr_cu.MemPoolSetAccess(pool->pool, &access, 1),
                              why, why_nbytes);
    if (result == CU_OK) {
        result = cuda_import_tell(
            "cuMemPoolImportPointer",
            nxr_cu.MemPoolImportPointer(&import->memory.start, pool->pool, &pointer), why,
            why_nbytes);
    }
    import->memory.origin = NXR_CUDA_POOL;
    if (result == CU_OK) {
        result = check_size(import, why, why_nbytes);
        if (result != CU_OK) {
            nxr_cu.MemFree(import->memory.start);
        }
    }
    if (result != CU_OK) {
        close_pool(pool);
        return result;
    }
    import->pool = pool;
    return CU_OK;
}

static cu_result open_there(struct nxr_import *import, int fd, char *why, size_t why_nbytes)
{
    switch (import->export.type) {
    case NXR_EXPORT_CUDA_LEGACY:
        return open_legacy(import, why, why_nbytes);
    case NXR_EXPORT_CUDA_VMM:
        return open_vmm(import, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD, why, why_nbytes);
    case NXR_EXPORT_CUDA_FABRIC:
        return open_vmm(import, import->export.handle, CU_HANDLE_FABRIC, why, why_nbytes);
    case NXR_EXPORT_CUDA_POOL:
        return open_pooled(import, fd, why, why_nbytes);
    default:
        return cuda_import_refuse(why, why_nbytes, "%s does not share this memory",
                                  nxr_rank_name(import->rank));
    }
}

static void close_import(struct nxr_import *import)
{
    bool was_pushed = nxr_cuda_enter(nxr_cuda_context(import->memory.device));

    switch (import->memory.origin) {
    case NXR_CUDA_LEGACY:
        nxr_cu.IpcCloseMemHandle(import->memory.start);
        break;
    case NXR_CUDA_VMM:
        nxr_cuda_unmap(import->memory.start, import->memory.nbytes);
        break;
    case NXR_CUDA_POOL:
        nxr_cu.MemFree(import->memory.start);
        close_pool(import->pool);
        break;
    default:
        break;
    }
    nxr_cuda_leave(was_pushed);
}

/* ---- segments -------------------------------------------------------------------------------- */

static bool is_same(const struct nxr_import *import, int rank, const struct nxr_export *export)
{
    const struct nxr_export *mine = &import->export;

    return import->rank == rank && mine->type == export->type && mine->serial == export->serial &&
           mine->nbytes == export->nbytes &&
           memcmp(mine->device, export->device, sizeof(mine->device)) == 0 &&
           memcmp(mine->driver, export->driver, sizeof(mine->driver)) == 0 &&
           memcmp(mine->handle, export->handle, sizeof(mine->handle)) == 0;
}

/*
 * Which devices to try: first the device that the memory is on if it is in use here, since it
 * copies fastest; then the one that is in use, so that no context is created on a GPU that this
 * rank does not use; last, the memory's own.
 */
static size_t cuda_import_candidates(struct nxr_cuda_device *home, struct nxr_cuda_device **list)
{
    struct nxr_cuda_device *any = nxr_cuda_any();
    size_t n = 0;

    bool is_first = home != NULL && (nxr_cuda_context(home) != NULL || any == NULL ||
                                     nxr_cuda_context(any) == NULL);

    if (any != NULL && !is_first) {
        list[n++] = any;
    }
    if (home != NULL) {
        list[n++] = home;
    }
    return n;
}

static int open_import(struct nxr_import *import, int fd, char *why, size_t why_nbytes)
{
    struct nxr_cuda_device *list[2], *home = nxr_cuda_find(import->export.device);
    size_t n = cuda_import_candidates(home, list);
    cu_result result = CU_INVALID_DEVICE;

    snprintf(why, why_nbytes, "no GPU to open it with");
    for (size_t i = 0; i < n && result != CU_OK; i++) {
        bool was_pushed;

        if (nxr_cuda_activate(list[i], why, why_nbytes) != NIXL_OK) {
            continue;
        }
        import->memory.device = list[i];
        was_pushed = nxr_cuda_enter(nxr_cuda_context(list[i]));
        result = open_there(import, fd, why, why_nbytes);
        nxr_cuda_leave(was_pushed);
    }
    if (result != CU_OK) {
        size_t length = strlen(why);

        snprintf(why + length, why_nbytes - length,
                 home == NULL ? " (its GPU is hidden here)" : "");
        return NIXL_E_UNSUPPORTED;
    }
    why[0] = '\0';
    import->memory.home = home != NULL ? home->index : -1;
    import->memory.nbytes = import->export.nbytes;
    import->memory.is_peer = true;
    atomic_init(&import->memory.reachers, 1ull << import->memory.device->index);
    return NIXL_OK;
}

static int import_new(struct nxr_segment *segment, int fd, struct nxr_import **import_p)
{
    struct nxr_import *import = calloc(1, sizeof(*import));
    int status;

    if (import == NULL) {
        snprintf(segment->note, sizeof(segment->note), "no memory to remember a peer's allocation");
        return NIXL_E_NO_MEMORY;
    }
    import->rank = segment->peer->rank;
    import->export = segment->export;
    import->export.offset = 0;
    import->shares_pids = nxr_card_shares_pids(&nxr_job.card.head, &segment->peer->card);
    status = open_import(import, fd, segment->note, sizeof(segment->note));
    if (status == NIXL_OK) {
        status = nxr_range_add((uintptr_t)import->memory.start, import->memory.nbytes,
                               &nxr_memory_cuda, &import->memory, &import->memory.range);
        if (status != NIXL_OK) {
            snprintf(segment->note, sizeof(segment->note),
                     "no memory to remember a peer's allocation");
            close_import(import);
        }
    }
    if (status != NIXL_OK) {
        free(import);
        return status;
    }
    nxr_list_append(&imports, &import->link);
    nxr_cuda.n_imports++;
    *import_p = import;
    return NIXL_OK;
}

int nxr_cuda_import(struct nxr_segment *segment, int fd)
{
    struct nxr_import *import = NULL;
    struct nxr_list *link, *after;
    int status = NIXL_OK;

    pthread_mutex_lock(&nxr_cuda.lock);
    nxr_list_for_each (link, after, &imports) {
        if (is_same(nxr_list_entry(link, struct nxr_import, link), segment->peer->rank,
                    &segment->export)) {
            import = nxr_list_entry(link, struct nxr_import, link);
            break;
        }
    }
    if (import == NULL) {
        status = import_new(segment, fd, &import);
    }
    if (status == NIXL_OK) {
        import->memory.n_users++;
        segment->import = import;
        segment->addr = (char *)(uintptr_t)(import->memory.start + segment->export.offset);
    }
    pthread_mutex_unlock(&nxr_cuda.lock);
    return status;
}

void nxr_cuda_unimport(struct nxr_segment *segment)
{
    struct nxr_import *import = segment->import;

    if (import == NULL) {
        return;
    }
    pthread_mutex_lock(&nxr_cuda.lock);
    if (--import->memory.n_users == 0) {
        nxr_range_remove(import->memory.range);
        nxr_list_remove(&import->link);
        nxr_cuda.n_imports--;
        close_import(import);
        free(import);
    }
    segment->import = NULL;
    segment->addr = NULL;
    pthread_mutex_unlock(&nxr_cuda.lock);
}
