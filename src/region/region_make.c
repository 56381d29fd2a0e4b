/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions with memory of this rank: allocated, or the caller's, in one piece or in extents. Reads
 * the arguments, has a memory kind make the memory, and publishes it under the region's name. No
 * lock of its own.
 */
#include "config.h"

#include "core/service.h"
#include "core/trace.h"
#include "region/extents.h"
#include "region/region.h"
#include "region/region_handle.h"
#include "region/region_name.h"
#include "memory/choose.h"
#include "memory/memory.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct nixl_mem_params default_params = NIXL_MEM_PARAMS_INIT;

/* Room for the reason of a failure. */
struct why {
    char text[200];
};

int nxr_region_fail_bad_access(const char *operation, uint32_t access)
{
    return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                    "access %#x; allowed: 0, NIXL_ACCESS_NO_PUT (%#x), NIXL_ACCESS_NO_GET (%#x), "
                    "or both",
                    access, NIXL_ACCESS_NO_PUT, NIXL_ACCESS_NO_GET);
}

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
    if (params->kind != NIXL_MEM_AUTO &&
        nxr_memory_kind((enum nixl_mem_kind)params->kind) == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "memory kind %d; allowed: 0 (NIXL_MEM_HOST) or a value of enum "
                        "nixl_mem_kind, such as NIXL_MEM_AUTO (%d)",
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
        return nxr_region_fail_bad_access(operation, params->access);
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

/* Memory that was not published after all. */
static void release_memory(struct nxr_memory *memory)
{
    if (memory->kind->discard != NULL) {
        memory->kind->discard(memory);
    } else {
        memory->kind->release(memory);
    }
    if (memory->fd >= 0) {
        close(memory->fd);
    }
}

static void release_extents(struct nxr_extents *extents, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        release_memory(&extents->list[i].memory);
    }
    free(extents);
}

static int fail_publish(const char *operation, const struct nxr_scoped_name *scoped, int status)
{
    return nxr_fail(status, operation, -1, "", 0, "cannot publish region '%s': %s",
                    nxr_region_label(scoped->name),
                    status == NIXL_E_LIMIT ? "this rank has reached its limit of regions"
                                           : nixl_strerror(status));
}

/* Publish the one or the other for a new handle. NIXL_OK, or the failure. */
static int handle_publish(const struct nxr_scoped_name *scoped, uint32_t access,
                          struct nxr_memory *memory, struct nxr_extents *extents,
                          struct nixl_region **region_p)
{
    struct nixl_region *region;
    int status = NIXL_E_NO_MEMORY;
    bool is_awaited;

    pthread_mutex_lock(&nxr_job.lock);
    is_awaited = nxr_publish_is_awaited();
    region = nxr_region_new(scoped->name);
    if (region != NULL) {
        region->context = scoped->context;
        status = extents == NULL
                     ? nxr_publish(scoped->name, memory, &region->published)
                     : nxr_publish_extents(scoped->name, extents, access, &region->published);
        if (status == NIXL_OK) {
            region->memory = extents == NULL ? *memory
                                             : (struct nxr_memory){.nbytes = extents->nbytes,
                                                                   .access = access,
                                                                   .is_registered = true,
                                                                   .fd = -1};
            region->extents = extents;
            atomic_store_explicit(&region->magic, NXR_REGION_OPEN, memory_order_release);
            *region_p = region;
        } else {
            nxr_region_retire(region);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (is_awaited) {
        nxr_service_kick(); /* answers go out, and requests that waited for the name */
    }
    return status;
}

/* Peers cannot find a region without a name, and must not reach it by a number either. */
static uint32_t access_of(const struct nxr_scoped_name *scoped, uint32_t access)
{
    return scoped->name[0] != '\0' ? access : (uint32_t)NXR_ACCESS_ALL;
}

int nxr_region_publish(const char *operation, const struct nxr_scoped_name *scoped, uint32_t access,
                       struct nxr_memory *memory, struct nixl_region **region_p)
{
    int status;

    memory->access = access_of(scoped, access);
    status = handle_publish(scoped, memory->access, memory, NULL, region_p);
    if (status != NIXL_OK) {
        release_memory(memory);
        return fail_publish(operation, scoped, status);
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
    return nxr_region_publish("nixl_region_alloc", scoped, params->access, &memory, region_p);
}

static int call_region_alloc(const char *name, size_t nbytes, const struct nixl_mem_params *params,
                             struct nixl_region **region_p)
{
    struct nixl_mem_params ours;
    struct nxr_scoped_name scoped = {.context = NULL};
    int status =
        region_read_args("nixl_region_alloc", name, nbytes, params, region_p, &ours, &scoped);

    return status == NIXL_OK ? alloc_region(&scoped, nbytes, &ours, region_p) : status;
}

int nixl_region_alloc(const char *name, size_t nbytes, const struct nixl_mem_params *params,
                      struct nixl_region **region_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_region_alloc", -1, nbytes, 0,
                      call_region_alloc(name, nbytes, params, region_p));
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

static int call_region_register(const char *name, void *addr, size_t nbytes,
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
    return nxr_region_publish("nixl_region_register", &scoped, ours.access, &memory, region_p);
}

int nixl_region_register(const char *name, void *addr, size_t nbytes,
                         const struct nixl_mem_params *params, struct nixl_region **region_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_region_register", -1, nbytes, 0,
                      call_region_register(name, addr, nbytes, params, region_p));
}

/* ---- extents --------------------------------------------------------------------------------- */

/* Have a memory kind take the piece. NIXL_OK, or the failure, recorded. */
static int adopt_extent(const char *operation, const struct nixl_extent *piece, size_t number,
                        const struct nixl_mem_params *params, struct nxr_extent *extent)
{
    struct why why = {""};
    const struct nxr_memory_kind *kind = kind_to_register(piece->addr, params, &why);
    int status = NIXL_E_INVALID_ARG;

    if (kind != NULL) {
        status = kind->adopt(piece->addr, piece->nbytes, params, &extent->memory, why.text,
                             sizeof(why.text));
    } else if (params->kind != NIXL_MEM_HOST) {
        status = NIXL_E_NO_DEVICE;
    }
    return status == NIXL_OK
               ? status
               : nxr_fail(status, operation, -1, "", 0, "extent %zu: %s", number, why.text);
}

static int extents_read_args(const char *operation, const struct nixl_extent *pieces, size_t n)
{
    if (pieces == NULL || n == 0 || n > NIXL_EXTENTS_MAX) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "%zu extents at %p; allowed: an array of 1 to NIXL_EXTENTS_MAX (%d)", n,
                        (const void *)pieces, NIXL_EXTENTS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].addr == NULL || pieces[i].nbytes == 0) {
            return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "extent %zu: %s", i,
                            pieces[i].addr == NULL ? "addr is NULL" : "nbytes is 0");
        }
    }
    return NIXL_OK;
}

/* The caller's pieces as own memory. NULL: *status_p is the failure, recorded. */
static struct nxr_extents *extents_adopt(const char *operation, const struct nixl_extent *pieces,
                                         size_t n, const struct nixl_mem_params *params,
                                         uint32_t access, int *status_p)
{
    struct nxr_extents *extents = nxr_extents_new((uint32_t)n);
    int status = NIXL_OK;
    uint32_t i;

    if (extents == NULL) {
        *status_p =
            nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory for %zu extents", n);
        return NULL;
    }
    for (i = 0; i < n && status == NIXL_OK; i++) {
        status = adopt_extent(operation, &pieces[i], i, params, &extents->list[i]);
        if (status != NIXL_OK) {
            break;
        }
        extents->list[i].memory.access = access;
        extents->list[i].place = (struct nxr_place){.base = pieces[i].addr,
                                                    .range = extents->list[i].memory.range,
                                                    .limit = pieces[i].nbytes};
    }
    if (status == NIXL_OK && !nxr_extents_layout(extents)) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                          "the %zu extents together exceed any memory", n);
    }
    if (status != NIXL_OK) {
        release_extents(extents, i);
        *status_p = status;
        return NULL;
    }
    return extents;
}

int nixl_region_register_extents(const char *name, const struct nixl_extent *extents,
                                 size_t nextents, const struct nixl_mem_params *params,
                                 struct nixl_region **region_p)
{
    static const char operation[] = "nixl_region_register_extents";
    struct nxr_scoped_name scoped = {.context = NULL};
    struct nixl_mem_params ours;
    struct nxr_extents *own;
    uint32_t access;
    int status = region_read_args(operation, name, 1, params, region_p, &ours, &scoped);

    if (status == NIXL_OK) {
        status = extents_read_args(operation, extents, nextents);
    }
    if (status == NIXL_OK && ours.kind == NIXL_MEM_VULKAN) {
        status = nxr_fail(NIXL_E_UNSUPPORTED, operation, -1, "", 0,
                          "params->vulkan describes one memory; allowed: the kinds NIXL_MEM_HOST, "
                          "_CUDA and _AUTO");
    }
    if (status != NIXL_OK) {
        return status;
    }
    access = access_of(&scoped, ours.access);
    own = extents_adopt(operation, extents, nextents, &ours, access, &status);
    if (own == NULL) {
        return status;
    }
    status = handle_publish(&scoped, access, NULL, own, region_p);
    if (status != NIXL_OK) {
        release_extents(own, own->n);
        return fail_publish(operation, &scoped, status);
    }
    return status;
}
