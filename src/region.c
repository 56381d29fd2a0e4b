/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Region handles and the public calls on them. Lock: job.lock guards the lists; a handle's own part
 * is constant while it is open.
 */
#include "config.h"

#include "region.h"
#include "memory/memory.h"
#include "progress.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUARANTINE 64 /* closed handles that are not used again yet */

static struct nxr_list open_regions = {&open_regions, &open_regions};
static struct nxr_list retired = {&retired, &retired}; /* oldest first */
static unsigned n_retired;

/* ---- handles --------------------------------------------------------------------------------- */

static size_t chunks_nbytes(void)
{
    return ((size_t)nxr_job.size + NXR_PARTS_PER_CHUNK - 1) / NXR_PARTS_PER_CHUNK *
           sizeof(struct nxr_part_chunk *);
}

/* Caller holds job.lock. */
static struct nixl_region *region_new(const char *name)
{
    struct nixl_region *region;
    void *chunks = calloc(1, chunks_nbytes());

    if (n_retired > QUARANTINE) {
        region = nxr_list_entry(nxr_list_pop(&retired), struct nixl_region, link);
        n_retired--;
    } else {
        region = calloc(1, sizeof(*region));
    }
    if (region == NULL || chunks == NULL) {
        free(chunks);
        free(region);
        return NULL;
    }
    for (int i = 0; region->chunks != NULL && i * NXR_PARTS_PER_CHUNK < nxr_job.size; i++) {
        free(atomic_load(&region->chunks[i]));
    }
    free(region->chunks);
    memset(region, 0, sizeof(*region));
    region->chunks = chunks;
    memcpy(region->name, name, strlen(name) + 1);
    nxr_list_append(&open_regions, &region->link);
    return region;
}

/* Caller holds job.lock. */
static void region_retire(struct nixl_region *region)
{
    atomic_store_explicit(&region->magic, 0, memory_order_release);
    nxr_region_drop_parts(region);
    nxr_list_remove(&region->link);
    nxr_list_append(&retired, &region->link);
    n_retired++;
}

static int check_name(const char *operation, const char *name, struct nixl_region **region_p)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (region_p == NULL) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "region_p is NULL");
    }
    if (name == NULL || name[0] == '\0' || strnlen(name, NIXL_NAME_MAX + 1) > NIXL_NAME_MAX) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "%s; allowed are 1 to %d bytes",
                        name == NULL      ? "the name is NULL"
                        : name[0] == '\0' ? "the name is empty"
                                          : "the name is too long",
                        NIXL_NAME_MAX);
    }
    return NIXL_OK;
}

static int check_params(const char *operation, size_t nbytes, const struct nixl_mem_params *params)
{
    if (nbytes == 0) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "nbytes is 0");
    }
    if (params->struct_nbytes != sizeof(*params)) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0,
                        "params were not made with NIXL_MEM_PARAMS_INIT");
    }
    if (params->kind != NIXL_MEM_HOST) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0,
                        "memory kind %d; allowed is NIXL_MEM_HOST", (int)params->kind);
    }
    if ((int)params->strategy < 0 || params->strategy > NIXL_MEM_PINNED) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0,
                        "memory strategy %d; allowed is 0 to %d", (int)params->strategy,
                        NIXL_MEM_PINNED);
    }
    if ((params->flags & ~(unsigned)NIXL_MEM_POPULATE) != 0) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0,
                        "memory flags %#x; allowed is NIXL_MEM_POPULATE", params->flags);
    }
    return NIXL_OK;
}

/* A handle with an own part; `memory` is given away on success only. */
static int publish(const char *operation, const char *name, const struct nxr_memory *memory,
                   bool is_registered, struct nixl_region **region_p)
{
    struct nxr_key key = {
        .nbytes = memory->nbytes,
        .addr = (uintptr_t)memory->addr,
        .kind = NIXL_MEM_HOST,
        .strategy = (uint8_t)memory->strategy,
        .is_registered = is_registered,
    };
    struct nixl_region *region;
    int status = NIXL_ERR_NO_MEMORY;

    pthread_mutex_lock(&nxr_job.lock);
    region = region_new(name);
    if (region != NULL) {
        region->addr = memory->addr;
        region->nbytes = memory->nbytes;
        region->mapped_nbytes = memory->mapped_nbytes;
        region->is_registered = is_registered;
        region->strategy = memory->strategy;
        memcpy(region->note, memory->note, sizeof(region->note));
        status = nxr_publish(name, &key, memory->fd, &region->published);
        if (status == NIXL_OK) {
            atomic_store_explicit(&region->magic, NXR_REGION_OPEN, memory_order_release);
            *region_p = region;
        } else {
            region_retire(region);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_service_kick();
    if (status != NIXL_OK) {
        return nxr_fail(status, operation, -1, "", 0, "cannot publish region '%s': %s", name,
                        status == NIXL_ERR_LIMIT ? "this rank has as many regions as it may have"
                                                 : nixl_strerror(status));
    }
    return status;
}

int nixl_region_alloc(const char *name, size_t nbytes, const struct nixl_mem_params *params,
                      struct nixl_region **region_p)
{
    static const struct nixl_mem_params defaults = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[160];
    int status = check_name("nixl_region_alloc", name, region_p);

    params = params != NULL ? params : &defaults;
    if (status == NIXL_OK) {
        status = check_params("nixl_region_alloc", nbytes, params);
    }
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_memory_host_alloc(nbytes, params, &memory, why, sizeof(why));
    if (status != NIXL_OK) {
        return nxr_fail(status, "nixl_region_alloc", -1, "", 0, "%s", why);
    }
    if (memory.note[0] != '\0') {
        nxr_info(MEMORY, "region '%s': %s", name, memory.note);
    }
    status = publish("nixl_region_alloc", name, &memory, false, region_p);
    if (status != NIXL_OK) {
        nxr_memory_host_discard(&memory);
    }
    return status;
}

int nixl_region_register(const char *name, void *addr, size_t nbytes,
                         const struct nixl_mem_params *params, struct nixl_region **region_p)
{
    static const struct nixl_mem_params defaults = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory = {.addr = addr, .nbytes = nbytes, .fd = -1};
    int status = check_name("nixl_region_register", name, region_p);

    if (status == NIXL_OK) {
        status = check_params("nixl_region_register", nbytes, params != NULL ? params : &defaults);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (addr == NULL || nbytes > UINTPTR_MAX - (uintptr_t)addr) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, "nixl_region_register", -1, "", 0,
                        "%p with %zu bytes is no memory", addr, nbytes);
    }
    return publish("nixl_region_register", name, &memory, true, region_p);
}

int nixl_region_open(const char *name, struct nixl_region **region_p)
{
    int status = check_name("nixl_region_open", name, region_p);
    struct nixl_region *region;

    if (status != NIXL_OK) {
        return status;
    }
    pthread_mutex_lock(&nxr_job.lock);
    region = region_new(name);
    if (region != NULL) {
        atomic_store_explicit(&region->magic, NXR_REGION_OPEN, memory_order_release);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (region == NULL) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, "nixl_region_open", -1, "", 0,
                        "no memory for a handle");
    }
    *region_p = region;
    return NIXL_OK;
}

/* ---- closing --------------------------------------------------------------------------------- */

static int check_region(const char *operation, const struct nixl_region *region, int64_t timeout_ns)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_region_is_open(region)) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "%s",
                        region == NULL ? "the region is NULL" : "the region is closed");
    }
    if (timeout_ns < 0) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "the timeout is negative");
    }
    return NIXL_OK;
}

int nixl_region_close(struct nixl_region *region, int64_t timeout_ns)
{
    int status = check_region("nixl_region_close", region, timeout_ns);

    if (status != NIXL_OK) {
        return status;
    }
    if (region->published != NULL) {
        pthread_mutex_lock(&nxr_job.lock);
        if (!region->is_revoked) {
            region->is_revoked = true;
            nxr_publish_revoke(region->published);
            nxr_service_kick();
        }
        pthread_mutex_unlock(&nxr_job.lock);
        status = nxr_guard_quiesce_own(region->published->key.id, timeout_ns);
        if (status == NIXL_ERR_TIMEOUT) {
            return nxr_fail(status, "nixl_region_close", -1, "", 0,
                            "region '%s' is revoked, but a copy is still in flight; close it again "
                            "before its memory is freed",
                            region->name);
        }
        if (status != NIXL_OK) {
            return status;
        }
    }
    pthread_mutex_lock(&nxr_job.lock);
    if (region->published != NULL) {
        nxr_publish_free(region->published);
        region->published = NULL;
        if (!region->is_registered) {
            nxr_region_free_memory(region->addr, region->mapped_nbytes);
        }
        region->addr = NULL;
        region->nbytes = 0;
    }
    region_retire(region);
    pthread_mutex_unlock(&nxr_job.lock);
    return NIXL_OK;
}

void nxr_regions_close_all(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &open_regions) {
        struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);

        if (nixl_region_close(region, nxr_env.finalize_timeout) != NIXL_OK) {
            nxr_warn(CORE, "region '%s' is left to the end of the process: %s", region->name,
                     nixl_last_error()->text);
            pthread_mutex_lock(&nxr_job.lock);
            region_retire(region);
            pthread_mutex_unlock(&nxr_job.lock);
        }
    }
    /* Handles of the next init may come from here, with tables of another size. */
    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_for_each (link, after, &retired) {
        struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);

        for (int i = 0; region->chunks != NULL && i * NXR_PARTS_PER_CHUNK < nxr_job.size; i++) {
            free(atomic_load(&region->chunks[i]));
        }
        free(region->chunks);
        region->chunks = NULL;
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* ---- asking about regions -------------------------------------------------------------------- */

void *nixl_region_addr(const struct nixl_region *region)
{
    return nxr_region_is_open(region) ? region->addr : NULL;
}

uint64_t nixl_region_nbytes(const struct nixl_region *region)
{
    return nxr_region_is_open(region) ? region->nbytes : 0;
}

static void fill_info(const struct nixl_region *region, int rank, const struct nxr_part *part,
                      struct nixl_region_info *info)
{
    static const char *const methods[] = {"", "memcpy", "process_vm", "bounce"};
    bool is_own = rank == nxr_job.rank && region->published != NULL;

    info->nbytes = part->nbytes;
    info->kind = (enum nixl_mem_kind)part->key.kind;
    info->strategy = (enum nixl_mem_strategy)part->key.strategy;
    info->is_registered = part->key.is_registered;
    snprintf(info->transport, sizeof(info->transport), "%s", part->transport->name);
    snprintf(info->method, sizeof(info->method), "%s", methods[part->method]);
    snprintf(info->note, sizeof(info->note), "%s", is_own ? region->note : part->note);
}

int nixl_region_query(struct nixl_region *region, int rank, int64_t timeout_ns,
                      struct nixl_region_info *info_p)
{
    int status = check_region("nixl_region_query", region, timeout_ns);
    struct nxr_part *part;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_region_query", rank);
    }
    if (info_p == NULL || info_p->struct_nbytes != sizeof(*info_p)) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, "nixl_region_query", rank, "", 0, "%s",
                        info_p == NULL ? "info_p is NULL"
                                       : "info_p was not made with NIXL_REGION_INFO_INIT");
    }
    status = nxr_region_resolve("nixl_region_query", region, rank, true, timeout_ns, &part);
    if (status == NIXL_OK) {
        fill_info(region, rank, part, info_p);
    }
    return status;
}

int nixl_region_map(struct nixl_region *region, int rank, void **addr_p)
{
    int status = check_region("nixl_region_map", region, 0);
    struct nxr_part *part;
    struct nxr_region_part *owner;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_region_map", rank);
    }
    if (addr_p == NULL) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, "nixl_region_map", rank, "", 0, "addr_p is NULL");
    }
    status =
        nxr_region_resolve("nixl_region_map", region, rank, false, nxr_env.resolve_timeout, &part);
    if (status == NIXL_ERR_TIMEOUT) {
        return nxr_fail(NIXL_ERR_NOT_FOUND, "nixl_region_map", rank, "", 0,
                        "rank %d has not published region '%s'", rank, region->name);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (part->method != NXR_METHOD_MEMCPY || (part->key.is_registered && rank != nxr_job.rank)) {
        return nxr_fail(NIXL_ERR_UNSUPPORTED, "nixl_region_map", rank, part->transport->name, 0,
                        "region '%s' of rank %d is registered memory: it cannot be mapped",
                        region->name, rank);
    }
    owner = nxr_list_entry(part, struct nxr_region_part, part);
    pthread_mutex_lock(&nxr_job.lock);
    if (atomic_load(&owner->state) == NXR_PART_READY) {
        nxr_region_take_map(owner);
        *addr_p = part->addr;
    } else {
        status = nxr_region_fail_part("nixl_region_map", owner);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return status;
}

int nixl_region_unmap(struct nixl_region *region, int rank, void *addr)
{
    int status = check_region("nixl_region_unmap", region, 0);

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_region_unmap", rank);
    }
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_region_release_map(rank, addr);
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_service_kick();
    return status == NIXL_OK ? status
                             : nxr_fail(status, "nixl_region_unmap", rank, "", 0,
                                        "%p is no mapped part of rank %d", addr, rank);
}

/* ---- the parts of all regions ---------------------------------------------------------------- */

struct nxr_region_part *nxr_region_find_part(int rank, uint32_t id, uint64_t generation)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &open_regions) {
        struct nixl_region *region = nxr_list_entry(link, struct nixl_region, link);
        struct nxr_part_chunk *chunk = atomic_load(&region->chunks[rank / NXR_PARTS_PER_CHUNK]);
        struct nxr_region_part *part =
            chunk != NULL ? atomic_load(&chunk->parts[rank % NXR_PARTS_PER_CHUNK]) : NULL;

        if (part != NULL && atomic_load(&part->state) == NXR_PART_READY &&
            (id == UINT32_MAX ||
             (part->part.id == id && part->part.key.generation == generation))) {
            return part;
        }
    }
    return NULL;
}
