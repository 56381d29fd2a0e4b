/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Region handles and the public calls on them. Lock: job.lock guards the lists; the fields of a
 * handle for this rank's own memory are constant while it is open.
 */
#include "config.h"

#include "core/service.h"
#include "region/region.h"
#include "region/region_name.h"
#include "core/subsystem.h"
#include "core/form.h"
#include "core/route.h"
#include "memory/choose.h"
#include "memory/memory.h"
#include "core/carrier.h"
#include "core/progress.h"
#include "util/handle.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct nxr_list open_regions = {&open_regions, &open_regions};
static struct nxr_handle_cache region_handles =
    NXR_HANDLE_CACHE(region_handles, struct nixl_region, link, 64);

/* ---- handles --------------------------------------------------------------------------------- */

static size_t chunks_nbytes(void)
{
    return ((size_t)nxr_job.size + NXR_SEGMENTS_PER_CHUNK - 1) / NXR_SEGMENTS_PER_CHUNK *
           sizeof(struct nxr_segment_chunk *);
}

/* Caller holds job.lock. */
static struct nixl_region *region_new(const char *name)
{
    void *chunks = calloc(1, chunks_nbytes());
    struct nixl_region *region = chunks != NULL ? nxr_handle_take(&region_handles) : NULL;

    if (region == NULL) {
        free(chunks);
        return NULL;
    }
    for (int i = 0; region->chunks != NULL && i * NXR_SEGMENTS_PER_CHUNK < nxr_job.size; i++) {
        free(atomic_load(&region->chunks[i]));
    }
    free(region->chunks);
    memset(region, 0, sizeof(*region));
    region->chunks = chunks;
    memcpy(region->name, name, strlen(name) + 1);
    region->context = &nxr_context_default;
    nxr_list_append(&open_regions, &region->link);
    return region;
}

/* Caller holds job.lock. */
static void region_retire(struct nixl_region *region)
{
    atomic_store_explicit(&region->magic, 0, memory_order_release);
    nxr_region_drop_segments(region);
    nxr_list_remove(&region->link);
    nxr_handle_retire(&region_handles, region);
}

static const struct nixl_mem_params default_params = NIXL_MEM_PARAMS_INIT;

/* Room for the reason of a failure. */
struct why {
    char text[200];
};

/* Read the caller's params, NULL for the defaults, and check them. */
static int region_read_params(const char *operation, size_t nbytes,
                              const struct nixl_mem_params *theirs, struct nixl_mem_params *params)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_mem_params, NIXL_MEM_PARAMS_INIT, kind);
    int status;

    *params = default_params;
    if (nbytes == 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "nbytes is 0");
    }
    status = theirs != NULL ? nxr_struct_read(operation, "params", &type, theirs, params) : NIXL_OK;
    if (status != NIXL_OK) {
        return status;
    }
    params->kind = params->kind == NIXL_MEM_NONE ? default_params.kind : params->kind;
    if (params->kind < NIXL_MEM_HOST || params->kind > NIXL_MEM_AUTO) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "memory kind %d; allowed: 0 (NIXL_MEM_HOST) to NIXL_MEM_AUTO (%d)",
                        params->kind, NIXL_MEM_AUTO);
    }
    if ((params->flags & ~(uint32_t)NXR_MEM_FLAGS) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "memory flags %#x; allowed: NIXL_MEM_NUMA (%#x), _HUGE (%#x), _PINNED "
                        "(%#x) and _POPULATE (%#x)",
                        params->flags, NIXL_MEM_NUMA, NIXL_MEM_HUGE, NIXL_MEM_PINNED,
                        NIXL_MEM_POPULATE);
    }
    if ((params->access & ~(uint32_t)NXR_ACCESS_ALL) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "access %#x; allowed: 0, NIXL_ACCESS_NO_PUT (%#x), NIXL_ACCESS_NO_GET "
                        "(%#x), or both",
                        params->access, NIXL_ACCESS_NO_PUT, NIXL_ACCESS_NO_GET);
    }
    return NIXL_OK;
}

/* Read and check the arguments of a call that publishes memory. */
static int region_read_args(const char *operation, const char *name, size_t nbytes,
                            const struct nixl_mem_params *theirs, struct nixl_region **region_p,
                            struct nixl_mem_params *params, struct nxr_scoped_name *scoped)
{
    int status = nxr_check_ready(operation);
    struct nixl_context *context;

    if (status == NIXL_OK) {
        status = region_read_params(operation, nbytes, theirs, params);
    }
    if (status != NIXL_OK) {
        return status;
    }
    context = nxr_context_check(operation, params->context);
    return context != NULL ? nxr_region_scope(operation, name, true, context, region_p, scoped)
                           : NIXL_E_INVALID_ARG;
}

/*
 * Make a handle with memory of this rank. On success the handle owns `memory`; on failure `memory`
 * is released. Peers cannot find a region without a name, and must not reach it by a number either.
 */
static int region_publish(const char *operation, const struct nxr_scoped_name *scoped,
                          uint32_t access, struct nxr_memory *memory, struct nixl_region **region_p)
{
    struct nixl_region *region;
    int status = NIXL_E_NO_MEMORY;

    memory->access = scoped->name[0] != '\0' ? access : (uint32_t)NXR_ACCESS_ALL;
    pthread_mutex_lock(&nxr_job.lock);
    region = region_new(scoped->name);
    if (region != NULL) {
        region->context = scoped->context;
        status = nxr_publish(scoped->name, memory, &region->published);
        if (status == NIXL_OK) {
            region->memory = *memory;
            atomic_store_explicit(&region->magic, NXR_REGION_OPEN, memory_order_release);
            *region_p = region;
        } else {
            region_retire(region);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_service_kick();
    if (status != NIXL_OK) {
        memory->kind->release(memory);
        if (memory->fd >= 0) {
            close(memory->fd);
        }
        return nxr_fail(status, operation, -1, "", 0, "cannot publish region '%s': %s",
                        nxr_region_label(scoped->name),
                        status == NIXL_E_LIMIT ? "this rank has reached its limit of regions"
                                               : nixl_strerror(status));
    }
    return status;
}

/* Kinds that NIXL_MEM_AUTO tries, the best first; the last one always exists. */
static const enum nixl_mem_kind automatic[] = {NIXL_MEM_CUDA, NIXL_MEM_VULKAN, NIXL_MEM_HOST};
#define N_AUTOMATIC (sizeof(automatic) / sizeof(automatic[0]))

static int alloc_kind(enum nixl_mem_kind wanted, size_t nbytes,
                      const struct nixl_mem_params *params, struct nxr_memory *memory_p,
                      struct why *why)
{
    const struct nxr_memory_kind *kind = nxr_memory_kind(wanted);
    int status;

    if (kind == NULL) {
        snprintf(why->text, sizeof(why->text), "this build has no memory of kind %d", (int)wanted);
        return NIXL_E_NO_DEVICE;
    }
    status = kind->start(why->text, sizeof(why->text));
    return status == NIXL_OK ? kind->alloc(nbytes, params, memory_p, why->text, sizeof(why->text))
                             : status;
}

/* GPU memory if there is a GPU, otherwise host memory and the reason in the region's note. */
static int alloc_auto(size_t nbytes, const struct nixl_mem_params *params,
                      struct nxr_memory *memory_p, struct why *why)
{
    struct why first = {""};
    int status = NIXL_E_NO_DEVICE;

    for (size_t i = 0; i < N_AUTOMATIC && status != NIXL_OK; i++) {
        status = alloc_kind(automatic[i], nbytes, params, memory_p, why);
        if (status != NIXL_OK && i == 0) {
            first = *why;
        }
    }
    if (status == NIXL_OK && memory_p->kind == &nxr_memory_host && memory_p->note[0] == '\0') {
        snprintf(memory_p->note, sizeof(memory_p->note), "no GPU memory: %.130s", first.text);
    }
    return status;
}

static int alloc_region(const struct nxr_scoped_name *scoped, size_t nbytes,
                        const struct nixl_mem_params *params, struct nixl_region **region_p)
{
    struct nxr_memory memory;
    struct why why = {""};
    int status;

    status = params->kind == NIXL_MEM_AUTO
                 ? alloc_auto(nbytes, params, &memory, &why)
                 : alloc_kind((enum nixl_mem_kind)params->kind, nbytes, params, &memory, &why);
    if (status != NIXL_OK) {
        return nxr_fail(status, "nixl_region_alloc", -1, "", 0, "%s", why.text);
    }
    if (memory.note[0] != '\0') {
        nxr_info(MEMORY, "region '%s': %s", nxr_region_label(scoped->name), memory.note);
    }
    return region_publish("nixl_region_alloc", scoped, params->access, &memory, region_p);
}

int nixl_region_alloc(const char *name, size_t nbytes, const struct nixl_mem_params *params,
                      struct nixl_region **region_p)
{
    struct nixl_mem_params ours;
    struct nxr_scoped_name scoped = {.context = NULL};
    int status =
        region_read_args("nixl_region_alloc", name, nbytes, params, region_p, &ours, &scoped);

    return status == NIXL_OK ? alloc_region(&scoped, nbytes, &ours, region_p) : status;
}

int nxr_region_alloc_internal(const char *name, size_t nbytes, struct nixl_region **region_p)
{
    struct nxr_scoped_name scoped = {.context = &nxr_context_default};

    snprintf(scoped.name, sizeof(scoped.name), "%s", name);
    return alloc_region(&scoped, nbytes, &default_params, region_p);
}

/*
 * The kind with which to register user memory. For NIXL_MEM_HOST the caller is believed, unless a
 * driver of another kind that is already active in this process knows the address.
 */
static const struct nxr_memory_kind *
kind_to_register(void *addr, const struct nixl_mem_params *params, struct why *why)
{
    const struct nxr_memory_kind *owner;

    if (params->kind != NIXL_MEM_HOST && params->kind != NIXL_MEM_AUTO) {
        const struct nxr_memory_kind *kind = nxr_memory_kind((enum nixl_mem_kind)params->kind);

        if (kind == NULL) {
            snprintf(why->text, sizeof(why->text), "this build has no memory of kind %d",
                     params->kind);
            return NULL;
        }
        return kind->start(why->text, sizeof(why->text)) == NIXL_OK ? kind : NULL;
    }
    owner = nxr_memory_owner(addr);
    if (params->kind == NIXL_MEM_HOST && owner != &nxr_memory_host) {
        snprintf(why->text, sizeof(why->text),
                 "%p is %s memory; allowed: kind NIXL_MEM_AUTO or that kind", addr, owner->name);
        return NULL;
    }
    return owner->start(why->text, sizeof(why->text)) == NIXL_OK ? owner : NULL;
}

int nixl_region_register(const char *name, void *addr, size_t nbytes,
                         const struct nixl_mem_params *params, struct nixl_region **region_p)
{
    const struct nxr_memory_kind *kind;
    struct nixl_mem_params ours;
    struct nxr_memory memory;
    struct why why = {""};
    struct nxr_scoped_name scoped = {.context = NULL};
    int status =
        region_read_args("nixl_region_register", name, nbytes, params, region_p, &ours, &scoped);

    if (status != NIXL_OK) {
        return status;
    }
    kind = kind_to_register(addr, &ours, &why);
    if (kind == NULL) {
        return nxr_fail(ours.kind == NIXL_MEM_HOST ? NIXL_E_INVALID_ARG : NIXL_E_NO_DEVICE,
                        "nixl_region_register", -1, "", 0, "%s", why.text);
    }
    status = kind->adopt(addr, nbytes, &ours, &memory, why.text, sizeof(why.text));
    if (status != NIXL_OK) {
        return nxr_fail(status, "nixl_region_register", -1, "", 0, "%s", why.text);
    }
    return region_publish("nixl_region_register", &scoped, ours.access, &memory, region_p);
}

struct nixl_region *nxr_region_open(const char *name)
{
    struct nixl_region *region = region_new(name);

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

int nixl_region_open(const char *name, struct nixl_region **region_p)
{
    int status = nxr_check_ready("nixl_region_open");

    return status == NIXL_OK ? region_open("nixl_region_open", &nxr_context_default, name, region_p)
                             : status;
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

int nixl_region_close(struct nixl_region *region, int64_t timeout_ns)
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
        status = nxr_inflight_quiesce_own(region->published->key.id, timeout_ns);
        if (status == NIXL_OK) {
            status = nxr_carrier_far()->quiesce(region->published, nxr_left(timeout_ns, deadline));
        }
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
        nxr_region_free_memory(&region->memory);
        region->memory = (struct nxr_memory){.fd = -1};
    }
    region_retire(region);
    pthread_mutex_unlock(&nxr_job.lock);
    return NIXL_OK;
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
            region_retire(region);
            pthread_mutex_unlock(&nxr_job.lock);
        }
    }
    /* The next init may reuse these handles, with tables of another size. */
    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &region_handles.retired) {
        struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);

        for (int i = 0; region->chunks != NULL && i * NXR_SEGMENTS_PER_CHUNK < nxr_job.size; i++) {
            free(atomic_load(&region->chunks[i]));
        }
        free(region->chunks);
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
    return memory->kind == &nxr_memory_host ? !memory->is_registered
                                            : memory->export.type != NXR_EXPORT_NONE;
}

bool nxr_region_find_own(const void *addr, size_t nbytes, struct nxr_region_location *place_p)
{
    struct nxr_list *link, *after;
    bool is_found = false;

    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &open_regions) {
        const struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);
        size_t offset = (uintptr_t)addr - (uintptr_t)region->memory.addr;

        if (region->published == NULL || !is_shared(&region->memory) || region->is_revoked ||
            offset > region->memory.nbytes || nbytes > region->memory.nbytes - offset) {
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

bool nxr_region_own_memory(const void *addr, struct nxr_memory *memory_p)
{
    struct nxr_list *link, *after;
    bool is_found = false;

    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &open_regions) {
        const struct nxr_memory *memory = &nxr_list_entry(link, struct nixl_region, link)->memory;

        if (memory->addr != NULL && (uintptr_t)addr - (uintptr_t)memory->addr < memory->nbytes) {
            *memory_p = *memory;
            is_found = true;
            break;
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return is_found;
}

/* Is it a region of the user's whose local memory contains the address? */
static bool is_users_at(const struct nixl_region *region, const void *addr)
{
    return region->published != NULL && !region->is_revoked &&
           region->name[0] != NXR_REGION_INTERNAL && region->name[0] != NXR_WINDOW_NAME &&
           (uintptr_t)addr - (uintptr_t)region->memory.addr < region->memory.nbytes;
}

int nixl_region_of(const void *addr, struct nixl_region **region_p, uint64_t *offset_p)
{
    struct nixl_region *found = NULL;
    struct nxr_list *link, *after;
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

        if (is_users_at(region, addr) &&
            (found == NULL || region->memory.nbytes < found->memory.nbytes)) {
            found = region;
        }
    }
    if (found != NULL) {
        *region_p = found;
        *offset_p = (uintptr_t)addr - (uintptr_t)found->memory.addr;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return found != NULL ? NIXL_OK
                         : nxr_fail(NIXL_E_NOT_FOUND, "nixl_region_of", -1, "", 0,
                                    "%p lies in no open region of this rank", addr);
}
