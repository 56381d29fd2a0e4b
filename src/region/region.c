/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Region handles: opening, closing, and finding the region of an address. Lock: job.lock guards the
 * lists; the fields of a handle for this rank's own memory are constant while it is open.
 */
#include "config.h"

#include "core/service.h"
#include "region/extents.h"
#include "region/region.h"
#include "region/region_handle.h"
#include "region/region_name.h"
#include "core/subsystem.h"
#include "core/form.h"
#include "memory/memory.h"
#include "core/carrier.h"
#include "core/progress.h"
#include "core/trace.h"
#include "util/handle.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>

static struct nxr_list open_regions = {&open_regions, &open_regions};
static struct nxr_handle_cache region_handles =
    NXR_HANDLE_CACHE(region_handles, struct nixl_region, link, 64);

/* ---- handles --------------------------------------------------------------------------------- */

/*
 * The chunks of a region, found by the number of a peer. A table that was outgrown stays until the
 * handle is reused, since other threads may still read it.
 */
struct nxr_segment_table {
    struct nxr_segment_table *older;
    size_t n_chunks;
    struct nxr_segment_chunk *_Atomic chunks[];
};

/* A table for peers' numbers below n_numbers, and as many again. NULL: no memory. */
static struct nxr_segment_table *table_new(int n_numbers)
{
    size_t n_chunks = (size_t)n_numbers / NXR_SEGMENTS_PER_CHUNK + 1;
    struct nxr_segment_table *table;

    n_chunks = n_numbers > nxr_job.size ? 2 * n_chunks : n_chunks;
    table = calloc(1, sizeof(*table) + n_chunks * sizeof(table->chunks[0]));
    if (table != NULL) {
        table->n_chunks = n_chunks;
    }
    return table;
}

/* Free the tables of a region that is used no more; the latest has all chunks. */
static void table_free(struct nxr_segment_table *table)
{
    for (size_t i = 0; table != NULL && i < table->n_chunks; i++) {
        free(atomic_load(&table->chunks[i]));
    }
    while (table != NULL) {
        struct nxr_segment_table *older = table->older;

        free(table);
        table = older;
    }
}

/* Make room in a region's table. Caller holds job.lock. */
static bool region_grow(struct nixl_region *region, int n_numbers)
{
    struct nxr_segment_table *old = region->table, *table;

    if ((size_t)n_numbers <= old->n_chunks * NXR_SEGMENTS_PER_CHUNK) {
        return true;
    }
    table = table_new(n_numbers);
    if (table == NULL) {
        return false;
    }
    for (size_t i = 0; i < old->n_chunks; i++) {
        atomic_init(&table->chunks[i], atomic_load(&old->chunks[i]));
    }
    table->older = old;
    region->table = table;
    atomic_store_explicit(&region->chunks, table->chunks, memory_order_release);
    return true;
}

bool nxr_regions_grow(int n_numbers)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &open_regions) {
        if (!region_grow(nxr_list_entry(link, struct nixl_region, link), n_numbers)) {
            return false;
        }
    }
    return true;
}

void nxr_regions_forget(int number)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &open_regions) {
        struct nxr_segment_chunk *chunk =
            atomic_load(&nxr_list_entry(link, struct nixl_region, link)
                             ->chunks[number / NXR_SEGMENTS_PER_CHUNK]);

        if (chunk != NULL) {
            nxr_region_drop_segment(&chunk->segments[number % NXR_SEGMENTS_PER_CHUNK]);
        }
    }
}

struct nixl_region *nxr_region_new(const char *name)
{
    struct nxr_segment_table *table = table_new(atomic_load(&nxr_job.n_numbers));
    struct nixl_region *region = table != NULL ? nxr_handle_take(&region_handles) : NULL;

    if (region == NULL) {
        free(table);
        return NULL;
    }
    table_free(region->table);
    memset(region, 0, sizeof(*region));
    region->table = table;
    region->chunks = table->chunks;
    memcpy(region->name, name, strlen(name) + 1);
    region->context = &nxr_context_default;
    nxr_list_append(&open_regions, &region->link);
    return region;
}

void nxr_region_retire(struct nixl_region *region)
{
    atomic_store_explicit(&region->magic, 0, memory_order_release);
    nxr_region_drop_segments(region);
    nxr_list_remove(&region->link);
    nxr_handle_retire(&region_handles, region);
}

struct nixl_region *nxr_region_open(const char *name)
{
    struct nixl_region *region = nxr_region_new(name);

    if (region != NULL) {
        atomic_store_explicit(&region->magic, NXR_REGION_OPEN, memory_order_release);
    }
    return region;
}

int nxr_region_open_internal(const char *name, struct nixl_region **region_p)
{
    struct nixl_region *region;

    pthread_mutex_lock(&nxr_job.lock);
    region = nxr_region_open(name);
    pthread_mutex_unlock(&nxr_job.lock);
    if (region == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, "nixl_region_open", -1, "", 0, "no memory for a handle");
    }
    *region_p = region;
    return NIXL_OK;
}

static int region_open(const char *operation, struct nixl_context *context, const char *name,
                       struct nixl_region **region_p)
{
    struct nxr_scoped_name scoped = {.context = NULL};
    int status = nxr_region_scope(operation, name, false, context, region_p, &scoped);

    if (status == NIXL_OK) {
        status = nxr_region_open_internal(scoped.name, region_p);
    }
    if (status == NIXL_OK) {
        (*region_p)->context = context;
    }
    return status;
}

static int call_region_open(const char *name, struct nixl_region **region_p)
{
    int status = nxr_check_ready("nixl_region_open");

    return status == NIXL_OK ? region_open("nixl_region_open", &nxr_context_default, name, region_p)
                             : status;
}

int nixl_region_open(const char *name, struct nixl_region **region_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_region_open", -1, 0, 0,
                      call_region_open(name, region_p));
}

int nixl_region_open_x(const char *name, const struct nixl_op *op, struct nixl_region **region_p)
{
    struct nxr_form form;
    int status = nxr_form_read("nixl_region_open_x", op, 0, 0, &form);

    return status == NIXL_OK ? region_open("nixl_region_open_x", form.context, name, region_p)
                             : status;
}

/* ---- closing --------------------------------------------------------------------------------- */

int nxr_region_check(const char *operation, const struct nixl_region *region, int64_t timeout_ns)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_region_is_open(region)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s",
                        region == NULL ? "the region is NULL" : "the region is closed");
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, -1, timeout_ns);
    }
    return NIXL_OK;
}

static int quiesce(const struct nxr_published *published, int64_t timeout_ns, int64_t deadline)
{
    int status = nxr_inflight_quiesce_own(published->key.id,
                                          timeout_ns == 0 ? 0 : nxr_left(timeout_ns, deadline));

    return status == NIXL_OK ? nxr_carrier_far()->quiesce(published, nxr_left(timeout_ns, deadline))
                             : status;
}

/* Wait for the copies of a region and of its extents. */
static int quiesce_all(const struct nxr_published *published, int64_t timeout_ns, int64_t deadline)
{
    int status = quiesce(published, timeout_ns, deadline);

    for (uint32_t i = 0;
         status == NIXL_OK && published->extents != NULL && i < published->extents->n; i++) {
        status = quiesce(published->extents->list[i].published, timeout_ns, deadline);
    }
    return status;
}

/* Free this rank's memory of the region. Caller holds job.lock, but for storage. */
static void free_memory(struct nixl_region *region)
{
    if (region->extents == NULL) {
        nxr_region_free_memory(&region->memory);
    }
    for (uint32_t i = 0; region->extents != NULL && i < region->extents->n; i++) {
        nxr_region_free_memory(&region->extents->list[i].memory);
    }
    free(region->extents);
    region->extents = NULL;
    region->memory = (struct nxr_memory){.fd = -1};
}

static int call_region_close(struct nixl_region *region, int64_t timeout_ns)
{
    int status = nxr_region_check("nixl_region_close", region, timeout_ns);
    int64_t deadline = nxr_deadline(timeout_ns);

    if (status != NIXL_OK) {
        return status;
    }
    if (region->published != NULL) {
        nxr_subsystems_region_closing(region);
        pthread_mutex_lock(&nxr_job.lock);
        if (!region->is_revoked) {
            region->is_revoked = true;
            nxr_publish_revoke(region->published);
            nxr_service_kick();
        }
        pthread_mutex_unlock(&nxr_job.lock);
        status = quiesce_all(region->published, timeout_ns, deadline);
        if (status == NIXL_E_TIMEOUT) {
            return nxr_fail(status, "nixl_region_close", -1, "", 0,
                            "region '%s' is revoked, but a copy is still in flight; close it again "
                            "before its memory is freed",
                            nxr_region_label(region->name));
        }
        if (status != NIXL_OK) {
            return status;
        }
    }
    pthread_mutex_lock(&nxr_job.lock);
    if (region->published != NULL) {
        nxr_publish_free(region->published);
        region->published = NULL;
        if (nxr_memory_is_storage(&region->memory)) { /* it may wait for a disk, or a server */
            pthread_mutex_unlock(&nxr_job.lock);
            free_memory(region);
            pthread_mutex_lock(&nxr_job.lock);
        } else {
            free_memory(region);
        }
    }
    nxr_region_retire(region);
    pthread_mutex_unlock(&nxr_job.lock);
    return NIXL_OK;
}

int nixl_region_close(struct nixl_region *region, int64_t timeout_ns)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_region_close", -1, 0, 0,
                      call_region_close(region, timeout_ns));
}

/*
 * Drop all segments of peers before closing the first region of this rank. Device memory that is
 * open here blocks its owner's close, and this rank's close may be blocked by the owner in the
 * same way.
 */
static void drop_all_segments(void)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &open_regions) {
        nxr_region_drop_segments(nxr_list_entry(link, struct nixl_region, link));
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

void nxr_regions_close_all(void)
{
    struct nxr_list *link, *after;

    drop_all_segments();
    nxr_list_for_each (link, after, &open_regions) {
        struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);

        if (nixl_region_close(region, nxr_env.finalize_timeout) != NIXL_OK) {
            nxr_warn(CORE, "region '%s' is kept until the process ends: %s",
                     nxr_region_label(region->name), nixl_last_error()->text);
            pthread_mutex_lock(&nxr_job.lock);
            nxr_region_retire(region);
            pthread_mutex_unlock(&nxr_job.lock);
        }
    }
    /* The next init may reuse these handles, with tables of another size. */
    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &region_handles.retired) {
        struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);

        table_free(region->table);
        region->table = NULL;
        region->chunks = NULL;
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* Can other processes on the host open it, and may they do with it what they like? */
static bool is_shared(const struct nxr_memory *memory)
{
    if (memory->access != 0) {
        return false;
    }
    return memory->kind == &nxr_memory_host
               ? !memory->is_registered
               : memory->export.type != NXR_EXPORT_NONE && !memory->kind->is_storage;
}

bool nxr_region_find_own(const void *addr, size_t nbytes, struct nxr_region_location *place_p)
{
    struct nxr_list *link, *after;
    bool is_found = false;

    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &open_regions) {
        const struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);
        size_t offset = (uintptr_t)addr - (uintptr_t)region->memory.addr;

        if (region->published == NULL || region->extents != NULL || !is_shared(&region->memory) ||
            region->is_revoked || offset > region->memory.nbytes ||
            nbytes > region->memory.nbytes - offset) {
            continue;
        }
        place_p->generation = region->published->key.generation;
        place_p->offset = offset;
        memcpy(place_p->name, region->name, strlen(region->name) + 1);
        is_found = true;
        break;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return is_found;
}

/* Does the memory hold the address? *offset_p: at which offset. */
static bool holds(const struct nxr_memory *memory, const void *addr, uint64_t *offset_p)
{
    *offset_p = (uintptr_t)addr - (uintptr_t)memory->addr;
    return memory->addr != NULL && *offset_p < memory->nbytes;
}

/*
 * This rank's own memory of a region that holds the address, and the address's offset in the
 * region; NULL: none. Caller holds job.lock.
 */
static const struct nxr_memory *own_memory_at(const struct nixl_region *region, const void *addr,
                                              uint64_t *offset_p)
{
    const struct nxr_extents *extents = region->extents;

    if (extents == NULL) {
        return holds(&region->memory, addr, offset_p) ? &region->memory : NULL;
    }
    for (uint32_t i = 0; i < extents->n; i++) {
        if (holds(&extents->list[i].memory, addr, offset_p)) {
            *offset_p += extents->list[i].start;
            return &extents->list[i].memory;
        }
    }
    return NULL;
}

/* Of a region of extents, each extent is a segment. */
static void find_storage(const struct nixl_region *region, int rank,
                         void (*found)(struct nxr_segment *segment, void *arg), void *arg)
{
    const struct nxr_segment_chunk *chunk =
        atomic_load(&region->chunks[rank / NXR_SEGMENTS_PER_CHUNK]);
    struct nxr_region_segment *segment =
        chunk != NULL ? atomic_load(&chunk->segments[rank % NXR_SEGMENTS_PER_CHUNK]) : NULL;
    const struct nxr_extents *extents;

    if (segment == NULL || atomic_load(&segment->state) != NXR_SEGMENT_READY) {
        return;
    }
    extents = atomic_load(&segment->extents);
    if (extents == NULL && nxr_segment_is_storage(&segment->segment)) {
        found(&segment->segment, arg);
    }
    for (uint32_t i = 0; extents != NULL && i < extents->n; i++) {
        if (nxr_segment_is_storage(extents->list[i].place.segment)) {
            found(extents->list[i].place.segment, arg);
        }
    }
}

void nxr_regions_find_storage(int rank, const struct nixl_region *only,
                              void (*found)(struct nxr_segment *segment, void *arg), void *arg)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &open_regions) {
        const struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);

        if ((only == NULL || only == region) && nxr_region_is_open(region)) {
            find_storage(region, rank, found, arg);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

bool nxr_region_own_memory(const void *addr, struct nxr_memory *memory_p)
{
    struct nxr_list *link, *after;
    bool is_found = false;

    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &open_regions) {
        uint64_t offset;
        const struct nxr_memory *memory =
            own_memory_at(nxr_list_entry(link, struct nixl_region, link), addr, &offset);

        if (memory != NULL) {
            *memory_p = *memory;
            is_found = true;
            break;
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return is_found;
}

/* Is it an open region of the program's, with memory of this rank? */
static bool is_users(const struct nixl_region *region)
{
    return region->published != NULL && !region->is_revoked &&
           region->name[0] != NXR_REGION_INTERNAL && region->name[0] != NXR_WINDOW_NAME;
}

int nixl_region_of(const void *addr, struct nixl_region **region_p, uint64_t *offset_p)
{
    struct nixl_region *found = NULL;
    struct nxr_list *link, *after;
    uint64_t least = UINT64_MAX;
    int status = nxr_check_ready("nixl_region_of");

    if (status != NIXL_OK) {
        return status;
    }
    if (region_p == NULL || offset_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, "nixl_region_of", -1, "", 0, "%s is NULL",
                        region_p == NULL ? "region_p" : "offset_p");
    }
    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &open_regions) {
        struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);
        uint64_t offset;
        const struct nxr_memory *memory =
            is_users(region) ? own_memory_at(region, addr, &offset) : NULL;

        if (memory != NULL && memory->nbytes < least) {
            least = memory->nbytes;
            found = region;
            *offset_p = offset;
        }
    }
    if (found != NULL) {
        *region_p = found;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return found != NULL ? NIXL_OK
                         : nxr_fail(NIXL_E_NOT_FOUND, "nixl_region_of", -1, "", 0,
                                    "%p lies in no open region of this rank", addr);
}
