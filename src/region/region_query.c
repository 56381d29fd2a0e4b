/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries about a region, here and at its owners, and mapping of segments. Lock: job.lock for
 * maps.
 */
#include "config.h"

#include "core/service.h"
#include "region/extents.h"
#include "region/region.h"
#include "core/route.h"
#include "core/trace.h"
#include "memory/choose.h"
#include "util/env.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdio.h>
#include <string.h>

/* ---- asking about regions -------------------------------------------------------------------- */

void *nixl_region_addr(const struct nixl_region *region)
{
    return nxr_region_is_open(region) && !nxr_memory_is_storage(&region->memory)
               ? region->memory.addr
               : NULL;
}

uint64_t nixl_region_nbytes(const struct nixl_region *region)
{
    return nxr_region_is_open(region) ? region->memory.nbytes : 0;
}

const char *nxr_segment_method(const struct nxr_segment *segment)
{
    return nxr_method_name(segment->method);
}

/*
 * The GPU that holds the memory, or the engine that reads and writes it, as far as its owner has
 * reported it. `own`: this rank's memory.
 */
static void fill_device(const struct nxr_memory *own, const struct nxr_segment *segment,
                        char text[NXR_DEVICE_ID_NBYTES])
{
    if (own != NULL) {
        memcpy(text, own->device, NXR_DEVICE_ID_NBYTES);
    } else if (segment->export.type != NXR_EXPORT_NONE && !nxr_segment_is_storage(segment)) {
        nxr_device_id_text(segment->export.device, text);
    } else {
        snprintf(text, NXR_DEVICE_ID_NBYTES, "%s", nxr_method_name(nxr_key_storage(&segment->key)));
    }
}

static void fill_route(const struct nxr_segment *segment, struct nixl_region_info *info)
{
    bool is_own_storage = segment->method == NXR_METHOD_DEVICE && nxr_segment_is_storage(segment);

    snprintf(info->transport, sizeof(info->transport), "%s",
             is_own_storage ? nxr_storage_route : segment->transport->name);
    snprintf(info->method, sizeof(info->method), "%s",
             is_own_storage ? nxr_method_name(nxr_key_storage(&segment->key))
                            : nxr_segment_method(segment));
}

static void fill_info(const struct nxr_memory *own, const struct nxr_segment *segment,
                      struct nixl_region_info *info)
{
    info->nbytes = segment->nbytes;
    info->kind = segment->key.kind;
    info->flags = segment->key.flags;
    info->is_registered = (segment->key.marks & NXR_KEY_REGISTERED) != 0;
    info->access = segment->key.access;
    info->nextents = 1;
    fill_device(own, segment, info->device);
    fill_route(segment, info);
    if (own != NULL) {
        snprintf(info->note, sizeof(info->note), "%s", own->note);
    } else {
        nxr_segment_copy_note(segment, info->note, sizeof(info->note));
    }
    if (!nxr_segment_is_storage(segment)) { /* of which nothing is known */
        nxr_route_expect(segment, &info->latency_ns, &info->bandwidth_mbps);
    }
}

/* What is asked for: a segment, or one of its extents. */
struct query {
    const char *operation;
    int rank;
    struct nixl_region *region;
    size_t extent;
    bool is_of_extent;
};

/* This rank's memory, if it is asked for, or its extent's; else NULL. */
static const struct nxr_memory *own_memory_of(const struct query *query)
{
    const struct nixl_region *region = query->region;

    if (query->rank != nxr_job.rank || region->published == NULL) {
        return NULL;
    }
    return region->extents != NULL && query->extent < region->extents->n
               ? &region->extents->list[query->extent].memory
               : &region->memory;
}

static int fill_query(const struct query *query, const struct nxr_segment *segment,
                      struct nixl_region_info *info)
{
    const struct nxr_extents *extents = nxr_segment_extents(segment);
    uint32_t n = extents != NULL ? extents->n : 1;

    if (query->extent >= n) {
        return nxr_fail(NIXL_E_RANGE, query->operation, query->rank, "", 0,
                        "extent %zu; region '%s' of %s has %u", query->extent,
                        nxr_region_label(query->region->name), nxr_rank_name(query->rank), n);
    }
    if (extents == NULL) {
        fill_info(own_memory_of(query), segment, info);
        return NIXL_OK;
    }
    fill_info(own_memory_of(query), extents->list[query->extent].place.segment, info);
    info->nextents = n;
    info->offset = extents->list[query->extent].start;
    if (!query->is_of_extent) {
        info->nbytes = extents->nbytes;
    }
    return NIXL_OK;
}

static int query_run(const struct query *query, int64_t timeout_ns, struct nixl_region_info *info_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_region_info, NIXL_REGION_INFO_INIT, kind);
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    int status = nxr_region_check(query->operation, query->region, timeout_ns);
    struct nxr_segment *segment;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(query->rank)) {
        return nxr_fail_rank(query->operation, query->rank);
    }
    status = nxr_struct_check(query->operation, "info_p", &type, info_p);
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_region_resolve(query->operation, query->region, query->rank, true, timeout_ns,
                                &segment);
    if (status == NIXL_OK) {
        status = fill_query(query, segment, &info);
    }
    if (status == NIXL_OK) {
        nxr_struct_write(&type, &info, info_p);
    }
    return status;
}

static int call_region_query(int rank, struct nixl_region *region, int64_t timeout_ns,
                             struct nixl_region_info *info_p)
{
    const struct query query = {.operation = "nixl_region_query", .rank = rank, .region = region};

    return query_run(&query, timeout_ns, info_p);
}

int nixl_region_query(int rank, struct nixl_region *region, int64_t timeout_ns,
                      struct nixl_region_info *info_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_region_query", rank, 0, 0,
                      call_region_query(rank, region, timeout_ns, info_p));
}

int nixl_region_query_extent(int rank, struct nixl_region *region, size_t extent,
                             int64_t timeout_ns, struct nixl_region_info *info_p)
{
    const struct query query = {.operation = "nixl_region_query_extent",
                                .rank = rank,
                                .region = region,
                                .extent = extent,
                                .is_of_extent = true};

    return query_run(&query, timeout_ns, info_p);
}

/* Can it be mapped? Shared host memory can, for loads and stores, and CUDA memory, for kernels. */
static bool is_mappable(const struct nxr_segment *segment, int rank)
{
    if ((segment->key.marks & NXR_KEY_EXTENTS) != 0) {
        return false;
    }
    if (segment->key.kind == NIXL_MEM_HOST) {
        return segment->method == NXR_METHOD_MEMCPY &&
               ((segment->key.marks & NXR_KEY_REGISTERED) == 0 || rank == nxr_job.rank);
    }
    return segment->key.kind == NIXL_MEM_CUDA && segment->method == NXR_METHOD_DEVICE;
}

/* Why it is not mappable: what it is. */
static const char *what_hinders_map(const struct nxr_segment *segment)
{
    if ((segment->key.marks & NXR_KEY_EXTENTS) != 0) {
        return "made of extents";
    }
    if (segment->key.kind == NIXL_MEM_FILE) {
        return "a file";
    }
    if (segment->key.kind == NIXL_MEM_OBJECT) {
        return "made of objects or files";
    }
    if (nxr_peer_is_remote(segment->peer)) {
        return "on another host";
    }
    switch (segment->key.kind) {
    case NIXL_MEM_HOST:
        return "registered memory";
    case NIXL_MEM_CUDA:
        return "CUDA memory that this process cannot open";
    case NIXL_MEM_VULKAN:
        return "Vulkan memory";
    default:
        return "of a kind of memory that this process does not know";
    }
}

/* What forbids to map it. Only host memory is mapped for reading alone. */
static uint32_t map_forbidden_by(const struct nxr_segment *segment)
{
    return segment->key.kind == NIXL_MEM_HOST ? NIXL_ACCESS_NO_GET : NXR_ACCESS_ALL;
}

int nixl_region_map(int rank, struct nixl_region *region, void **addr_p)
{
    int status = nxr_region_check("nixl_region_map", region, 0);
    struct nxr_segment *segment;
    struct nxr_region_segment *owner;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_region_map", rank);
    }
    if (addr_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, "nixl_region_map", rank, "", 0, "addr_p is NULL");
    }
    status = nxr_region_resolve("nixl_region_map", region, rank, false, nxr_env.resolve_timeout,
                                &segment);
    if (status == NIXL_E_TIMEOUT) {
        return nxr_region_fail_unanswered(NIXL_E_NOT_FOUND, "nixl_region_map", region, rank,
                                          "NIXLRUN_RESOLVE_TIMEOUT");
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (!is_mappable(segment, rank)) {
        return nxr_fail(NIXL_E_UNSUPPORTED, "nixl_region_map", rank, segment->transport->name, 0,
                        "region '%s' of %s is %s: it cannot be mapped",
                        nxr_region_label(region->name), nxr_rank_name(rank),
                        what_hinders_map(segment));
    }
    if (!nxr_segment_allows(segment, map_forbidden_by(segment))) {
        return nxr_region_fail_access("nixl_region_map", region, segment,
                                      map_forbidden_by(segment));
    }
    owner = nxr_list_entry(segment, struct nxr_region_segment, segment);
    pthread_mutex_lock(&nxr_job.lock);
    if (atomic_load(&owner->state) == NXR_SEGMENT_READY) {
        nxr_region_take_map(owner);
        *addr_p = segment->addr;
    } else {
        status = nxr_region_fail_segment("nixl_region_map", owner);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return status;
}

int nixl_region_unmap(int rank, const struct nixl_region *region, const void *addr)
{
    int status = nxr_check_ready("nixl_region_unmap");

    if (status != NIXL_OK) {
        return status;
    }
    if (region == NULL) { /* one that was closed is all right: the pages outlive it */
        return nxr_fail(NIXL_E_INVALID_ARG, "nixl_region_unmap", rank, "", 0, "the region is NULL");
    }
    if ((unsigned)rank >= nxr_n_numbers()) {
        return nxr_fail_rank("nixl_region_unmap", rank);
    }
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_region_release_map(rank, addr);
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_service_kick();
    return status == NIXL_OK ? status
                             : nxr_fail(status, "nixl_region_unmap", rank, "", 0,
                                        "%p is no mapped segment of %s", addr, nxr_rank_name(rank));
}
