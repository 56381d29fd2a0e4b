/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of extents: finding the extent of an offset, and opening the extents of a rank. Owns the
 * tables of segments; those of own memory belong to region_make.c. Lock: see extents.h.
 */
#include "config.h"

#include "core/request.h"
#include "core/wait.h"
#include "region/extents.h"
#include "region/segment.h"
#include "util/status.h"

#include <stdlib.h>

/* ---- tables ---------------------------------------------------------------------------------- */

struct nxr_extents *nxr_extents_new(uint32_t n)
{
    struct nxr_extents *extents = calloc(1, sizeof(*extents) + n * sizeof(extents->list[0]));

    if (extents != NULL) {
        extents->n = n;
    }
    return extents;
}

bool nxr_extents_layout(struct nxr_extents *extents)
{
    extents->nbytes = 0;
    for (uint32_t i = 0; i < extents->n; i++) {
        extents->list[i].start = extents->nbytes;
        if (__builtin_add_overflow(extents->nbytes, extents->list[i].place.limit,
                                   &extents->nbytes) ||
            extents->nbytes > INT64_MAX) {
            return false;
        }
    }
    return true;
}

/* The last extent that begins at or before the offset. Extents of one size are found at once. */
static uint32_t index_at(const struct nxr_extents *extents, uint64_t offset)
{
    uint32_t low = 0, high = extents->n; /* the one wanted is in [low, high) */
    uint64_t guess = offset / extents->list[0].place.limit;

    if (guess < extents->n && extents->list[guess].start <= offset &&
        offset - extents->list[guess].start < extents->list[guess].place.limit) {
        return (uint32_t)guess;
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (extents->list[middle].start <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct nxr_extent *nxr_extents_find(const struct nxr_extents *extents, uint64_t offset,
                                          uint64_t nbytes)
{
    const struct nxr_extent *extent = &extents->list[index_at(extents, offset)];
    uint64_t at = offset - extent->start;

    return at <= extent->place.limit && nbytes <= extent->place.limit - at ? extent : NULL;
}

bool nxr_region_own_has_range(const struct nixl_region *region, uint64_t offset, uint64_t nbytes)
{
    return region->extents != NULL
               ? nxr_extents_find(region->extents, offset, nbytes) != NULL
               : offset <= region->memory.nbytes && nbytes <= region->memory.nbytes - offset;
}

/* ---- finding --------------------------------------------------------------------------------- */

static const struct nxr_extents *extents_of(const struct nxr_region_segment *segment)
{
    return segment != NULL &&
                   atomic_load_explicit(&segment->state, memory_order_acquire) == NXR_SEGMENT_READY
               ? atomic_load_explicit(&segment->extents, memory_order_relaxed)
               : NULL;
}

const struct nxr_extents *nxr_region_extents(const struct nixl_region *region, int rank)
{
    const struct nxr_segment_chunk *chunk;

    if (!nxr_region_is_open(region) || (unsigned)rank >= nxr_n_numbers()) {
        return NULL;
    }
    chunk =
        atomic_load_explicit(&region->chunks[rank / NXR_SEGMENTS_PER_CHUNK], memory_order_acquire);
    return chunk != NULL
               ? extents_of(atomic_load_explicit(&chunk->segments[rank % NXR_SEGMENTS_PER_CHUNK],
                                                 memory_order_acquire))
               : NULL;
}

const struct nxr_extents *nxr_segment_extents(const struct nxr_segment *segment)
{
    return (segment->key.marks & NXR_KEY_EXTENTS) != 0
               ? extents_of(nxr_list_entry(segment, struct nxr_region_segment, segment))
               : NULL;
}

struct nxr_segment *nxr_extents_segment(const struct nixl_region *region, int rank,
                                        uint64_t *offset_p, size_t nbytes)
{
    const struct nxr_extents *extents = nxr_region_extents(region, rank);
    const struct nxr_extent *extent =
        extents != NULL ? nxr_extents_find(extents, *offset_p, nbytes) : NULL;

    if (extent == NULL ||
        atomic_load_explicit(&extent->place.segment->generation, memory_order_acquire) == 0) {
        return NULL;
    }
    *offset_p -= extent->start;
    return extent->place.segment;
}

static int fail_place(const char *operation, const struct nixl_region *region,
                      const struct nxr_segment *whole, const struct nxr_extents *extents,
                      uint64_t offset, size_t nbytes)
{
    const struct nxr_extent *extent = &extents->list[index_at(extents, offset)];
    bool crosses = offset <= extents->nbytes && nbytes <= extents->nbytes - offset;

    if (crosses) {
        return nxr_fail(NIXL_E_RANGE, operation, whole->peer->rank, "", 0,
                        "offset %llu with %zu bytes goes beyond extent %u of region '%s' of %s, "
                        "which ends at %llu: a call moves bytes of one extent, a prepared transfer "
                        "those of many",
                        (unsigned long long)offset, nbytes, (unsigned)(extent - extents->list),
                        nxr_region_label(region->name), nxr_peer_name(whole->peer),
                        (unsigned long long)(extent->start + extent->place.limit));
    }
    return nxr_fail(NIXL_E_RANGE, operation, whole->peer->rank, "", 0,
                    "offset %llu with %zu bytes is outside of region '%s' of %s, which has %llu "
                    "in %u extents",
                    (unsigned long long)offset, nbytes, nxr_region_label(region->name),
                    nxr_peer_name(whole->peer), (unsigned long long)extents->nbytes, extents->n);
}

int nxr_extents_place(const char *operation, const struct nixl_region *region,
                      struct nxr_segment **segment_p, uint64_t *offset_p, size_t nbytes)
{
    const struct nxr_segment *whole = *segment_p;
    const struct nxr_extents *extents = nxr_segment_extents(whole);
    const struct nxr_extent *extent;

    if (extents == NULL) {
        return NIXL_OK;
    }
    extent = nxr_extents_find(extents, *offset_p, nbytes);
    if (extent == NULL) {
        return fail_place(operation, region, whole, extents, *offset_p, nbytes);
    }
    *offset_p -= extent->start;
    *segment_p = extent->place.segment;
    return NIXL_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

void nxr_extents_drop(struct nxr_region_segment *whole)
{
    struct nxr_extents *extents = atomic_load(&whole->extents);

    for (uint32_t i = 0; extents != NULL && i < extents->n; i++) {
        struct nxr_region_segment *part = extents->list[i].segment;

        if (part != NULL && part->whole == whole) { /* else it was retired before */
            part->whole = NULL;
            nxr_segment_retire(part);
        }
    }
}

/* Make the segments of the extents. NULL: no memory. */
static struct nxr_extents *parts_new(struct nxr_region_segment *whole, uint32_t n)
{
    struct nxr_extents *extents = nxr_extents_new(n);

    for (uint32_t i = 0; extents != NULL && i < n; i++) {
        struct nxr_region_segment *part = nxr_segment_new(whole);

        if (part == NULL) {
            atomic_store(&whole->extents, extents);
            nxr_extents_drop(whole);
            atomic_store(&whole->extents, NULL);
            free(extents);
            return NULL;
        }
        part->region = whole->region;
        part->rank = whole->rank;
        part->extent = i;
        extents->list[i].segment = part;
    }
    return extents;
}

void nxr_extents_came(struct nxr_region_segment *whole, const struct nxr_key *key, bool is_remote)
{
    struct nxr_peer *peer = nxr_job.peers[whole->rank];
    struct nxr_extents *extents = parts_new(whole, (uint32_t)key->addr);
    struct nxr_segment *segment = &whole->segment;

    if (extents == NULL) {
        nxr_segment_fail(whole, NIXL_E_NO_MEMORY);
        return;
    }
    segment->peer = peer;
    segment->key = *key;
    segment->id = key->id;
    segment->nbytes = 0; /* what is not placed in an extent is out of range */
    segment->transport = peer->transport;
    atomic_store(&segment->generation_there, key->generation);
    segment->generation_now =
        is_remote ? &segment->generation_there : &peer->control->generations[key->id];
    extents->n_asking = extents->n;
    atomic_store(&whole->extents, extents);
    nxr_segment_ready(whole); /* found when its owner closes it */
    for (uint32_t i = 0; i < extents->n && extents->list[i].segment->whole == whole; i++) {
        nxr_segment_ask(extents->list[i].segment, peer);
    }
}

void nxr_extents_part_failed(struct nxr_region_segment *whole, int status)
{
    nxr_extents_drop(whole);
    nxr_list_remove(&whole->link);
    nxr_segment_fail(whole, status);
}

void nxr_extents_ask_again(struct nxr_region_segment *whole)
{
    nxr_extents_drop(whole);
    nxr_list_remove(&whole->link);
    free(atomic_exchange(&whole->extents, NULL)); /* not READY yet: nobody reads it */
    nxr_segment_ask(whole, nxr_job.peers[whole->rank]);
}

/* A request that waited for the whole is for one of its extents, or else it will fail. */
static void aim_at_extent(struct nxr_op *op)
{
    const struct nxr_region_segment *whole =
        nxr_list_entry(op->segment, struct nxr_region_segment, segment);
    const struct nxr_extent *extent =
        nxr_extents_find(atomic_load(&whole->extents), op->offset, op->nbytes);

    if (extent != NULL) {
        op->segment = extent->place.segment;
        op->offset -= extent->start;
    }
}

void nxr_extents_part_ready(struct nxr_region_segment *whole)
{
    struct nxr_extents *extents = atomic_load(&whole->extents);

    if (--extents->n_asking > 0) {
        return;
    }
    for (uint32_t i = 0; i < extents->n; i++) {
        struct nxr_segment *segment = &extents->list[i].segment->segment;

        extents->list[i].place = (struct nxr_place){.segment = segment, .limit = segment->nbytes};
    }
    if (!nxr_extents_layout(extents) || extents->nbytes != whole->segment.key.nbytes) {
        nxr_extents_part_failed(whole, NIXL_E_TRANSPORT);
    } else if (atomic_load(whole->segment.generation_now) != whole->segment.key.generation) {
        nxr_extents_ask_again(whole); /* some may be extents of the next region of that name */
    } else {
        atomic_store_explicit(&whole->state, NXR_SEGMENT_READY, memory_order_release);
        nxr_request_begin_waiting(&whole->waiting, aim_at_extent);
        nxr_wake_self();
    }
}
