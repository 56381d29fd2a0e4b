/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of extents: pieces of memory, one after the other under one name and one range of
 * offsets. Each extent is published and opened like a region without a name, with a number, a
 * generation, a method and a device of its own; a segment of the region itself ("the whole") only
 * says how many there are, and its generation stays 0, so that the fast paths of ordinary segments
 * do not take it.
 *
 * A whole is READY once all its extents are. They are made stale together: the owner's close of the
 * whole, which clears its generation first, ends them all. Lock: job.lock, except for what says
 * otherwise.
 */
#ifndef NXR_REGION_EXTENTS_H
#define NXR_REGION_EXTENTS_H

#include "region/region.h"

/* One memory that bytes to move lie in: of this rank, or open to it. */
struct nxr_place {
    char *base;                    /* own: what offsets count from; a rank's: NULL */
    struct nxr_segment *segment;   /* a rank's; own: NULL */
    const struct nxr_range *range; /* own, if it is device memory; else NULL */
    uint64_t limit;                /* bytes from the base, or size of the segment */
};

/* One piece: this rank's own memory, or an open segment of a rank. */
struct nxr_extent {
    uint64_t start; /* its offset in the region */
    struct nxr_place place;
    struct nxr_region_segment *segment; /* NULL: own memory */
    struct nxr_memory memory;           /* own */
    struct nxr_published *published;    /* own */
};

struct nxr_extents {
    uint32_t n;
    uint32_t n_asking; /* their owner has been asked; 0: all are known */
    uint64_t nbytes;   /* in all */
    struct nxr_extent list[];
};

/* NULL: no memory. */
struct nxr_extents *nxr_extents_new(uint32_t n);

/*
 * All sizes are known: set the offsets. False: they exceed any memory. No lock.
 */
bool nxr_extents_layout(struct nxr_extents *extents);

/* The extent that holds those bytes; NULL: they lie outside, or in more than one. No lock. */
const struct nxr_extent *nxr_extents_find(const struct nxr_extents *extents, uint64_t offset,
                                          uint64_t nbytes);

/* Has this rank's own memory of the region those bytes, in one piece? No lock. */
bool nxr_region_own_has_range(const struct nixl_region *region, uint64_t offset, uint64_t nbytes);

/*
 * The extents of the region at that rank, if it has some and they can be used at once; else NULL.
 * The table stays readable until long after the whole is stale. Any thread.
 */
const struct nxr_extents *nxr_region_extents(const struct nixl_region *region, int rank);

/* The same of a whole, as nxr_region_resolve() returned it; NULL: it is an ordinary segment. */
const struct nxr_extents *nxr_segment_extents(const struct nxr_segment *segment);

/*
 * The usable segment of the extent that holds those bytes, and *offset_p in it; NULL, for whatever
 * reason. Any thread.
 */
struct nxr_segment *nxr_extents_segment(const struct nixl_region *region, int rank,
                                        uint64_t *offset_p, size_t nbytes);

/*
 * The segment that holds those bytes: of an extent, if the region has them, and *offset_p is then
 * the offset in it. NULL: it cannot be used at once, for whatever reason. Any thread.
 */
static inline struct nxr_segment *nxr_region_segment_at(struct nixl_region *region, int rank,
                                                        uint64_t *offset_p, size_t nbytes)
{
    struct nxr_segment *segment = nxr_region_segment(region, rank);

    return __builtin_expect(segment != NULL, 1)
               ? segment
               : nxr_extents_segment(region, rank, offset_p, nbytes);
}

/*
 * Replace a whole by the segment of the extent that holds those bytes, and *offset_p by the offset
 * in it; an ordinary segment stays. NIXL_OK; NIXL_E_RANGE, recorded for `operation`. Any thread.
 */
int nxr_extents_place(const char *operation, const struct nixl_region *region,
                      struct nxr_segment **segment_p, uint64_t *offset_p, size_t nbytes);

/* ---- called by segment.c and segment_ask.c --------------------------------------------------- */

/* The key of a whole has arrived; `is_remote`: from another host. Ask for the extents. */
void nxr_extents_came(struct nxr_region_segment *whole, const struct nxr_key *key, bool is_remote);

/* An extent's segment is ready, or cannot be. */
void nxr_extents_part_ready(struct nxr_region_segment *whole);
void nxr_extents_part_failed(struct nxr_region_segment *whole, int status);

/* The owner has closed a whole whose extents were still being asked for: ask anew. */
void nxr_extents_ask_again(struct nxr_region_segment *whole);

/* The whole cannot be used any more: retire its extents. The table stays. */
void nxr_extents_drop(struct nxr_region_segment *whole);

#endif
