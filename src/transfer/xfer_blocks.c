/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sides of prepared transfers: the caller's entries, checked, and the walk over them. A walk
 * merges adjoining blocks, within an entry and across entries, into runs that move as one piece.
 * The indices are the caller's memory: every number is checked when a start begins, and once more
 * when it is used. No state, no lock.
 */
#include "config.h"

#include "transfer/transfer.h"
#include "util/status.h"
#include "util/struct.h"
#include "transfer/xfer.h"

#include <stdlib.h>

static const char *const side_names[] = {"local", "remote"};
static const struct nxr_struct_type blocks_type =
    NXR_STRUCT_TYPE(nixl_blocks, NIXL_BLOCKS_INIT, nblocks);

/* ---- the caller's entries -------------------------------------------------------------------- */

/* What is wrong with an entry, regardless of its memory; NULL: nothing. */
static const char *find_fault(const struct nixl_blocks *entry, enum nixl_xfer_side which)
{
    if (entry->block_nbytes == 0) {
        return "block_nbytes is 0";
    }
    if (entry->index != NULL && nxr_range_is_device(entry->index)) {
        return "the index is GPU memory; allowed: host memory";
    }
    if (entry->nextents == 0 && entry->first_extent != 0) {
        return "first_extent is set, and nextents is 0";
    }
    if (entry->nextents != 0 && entry->region == NULL) {
        return "nextents is set, and region is NULL";
    }
    if (which == NIXL_XFER_REMOTE) {
        return entry->region == NULL ? "the region is NULL"
               : entry->addr != NULL ? "addr is set: it is for the local side"
                                     : NULL;
    }
    if (entry->region != NULL) {
        return entry->addr != NULL ? "region and addr are both set" : NULL;
    }
    return entry->addr == NULL ? "region and addr are both NULL" : NULL;
}

static int fail_entry(const char *operation, int rank, enum nixl_xfer_side which, size_t number,
                      const char *fault)
{
    return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "%s entry %zu: %s",
                    side_names[which], number, fault);
}

int nxr_side_copy(const char *operation, int rank, enum nixl_xfer_side which,
                  const struct nixl_blocks *entries, size_t n_entries, struct nxr_side *side)
{
    if (entries == NULL || n_entries == 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "there is no %s entry",
                        side_names[which]);
    }
    side->blocks = calloc(n_entries, sizeof(*side->blocks));
    if (side->blocks == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0, "no memory for %zu entries",
                        n_entries);
    }
    side->n_entries = n_entries;
    for (size_t i = 0; i < n_entries; i++) {
        struct nixl_blocks entry;
        int status =
            nxr_struct_read_entry(operation, side_names[which], &blocks_type, entries, i, &entry);
        const char *fault;

        if (status != NIXL_OK) {
            return status;
        }
        fault = find_fault(&entry, which);
        if (fault != NULL) {
            return fail_entry(operation, rank, which, i, fault);
        }
        side->is_open |= entry.nextents == NIXL_ALL_EXTENTS;
        side->blocks[i] = (struct nxr_blocks){
            .region = entry.region,
            .place = {.base = entry.addr},
            .offset = entry.offset,
            .block_nbytes = entry.block_nbytes,
            .stride = entry.stride,
            .nblocks = entry.nblocks,
            .index = entry.index,
            .first_extent = entry.first_extent,
            .n_extents = entry.nextents,
            .n_rounds =
                entry.nextents == 0 || entry.nextents == NIXL_ALL_EXTENTS ? 1 : entry.nextents,
        };
    }
    return NIXL_OK;
}

int nxr_side_count(const char *operation, int rank, struct nxr_side *side)
{
    side->nbytes = 0;
    side->nblocks = 0;
    for (size_t i = 0; i < side->n_entries; i++) {
        const struct nxr_blocks *blocks = &side->blocks[i];
        uint64_t nblocks, nbytes;

        if (__builtin_mul_overflow(blocks->nblocks, (uint64_t)blocks->n_rounds, &nblocks) ||
            __builtin_mul_overflow(blocks->block_nbytes, nblocks, &nbytes) ||
            __builtin_add_overflow(side->nbytes, nbytes, &side->nbytes)) {
            return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                            "%llu blocks of %llu bytes in %u extents exceed any memory",
                            (unsigned long long)blocks->nblocks,
                            (unsigned long long)blocks->block_nbytes, blocks->n_rounds);
        }
        side->nblocks += nblocks;
    }
    return NIXL_OK;
}

/* ---- finding and checking -------------------------------------------------------------------- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/*
 * The highest block number of an entry. Two comparisons at a time: in a single chain each would
 * wait for the one before.
 */
static uint64_t highest(const struct nxr_blocks *blocks)
{
    const uint64_t *index = blocks->index;
    uint64_t even = 0, odd = 0, n = blocks->nblocks, i;

    if (index == NULL) {
        return n - 1;
    }
    for (i = 0; i + 2 <= n; i += 2) {
        even = larger(index[i], even);
        odd = larger(index[i + 1], odd);
    }
    return larger(larger(even, odd), i < n ? index[i] : 0);
}

/* The offset of the farthest block of an entry; UINT64_MAX if it overflows. */
static uint64_t farthest(const struct nxr_blocks *blocks)
{
    uint64_t at;

    if (__builtin_mul_overflow(highest(blocks), blocks->stride, &at) ||
        __builtin_add_overflow(at, blocks->offset, &at)) {
        return UINT64_MAX;
    }
    return at;
}

static bool is_within(uint64_t limit, uint64_t start, uint64_t nbytes)
{
    return start <= limit && nbytes <= limit - start;
}

static int fail_block(const char *operation, int rank, enum nixl_xfer_side which, size_t number,
                      const struct nxr_blocks *blocks, uint64_t at, uint64_t limit)
{
    return nxr_fail(NIXL_E_RANGE, operation, rank, "", 0,
                    "%s entry %zu: a block of %llu bytes at %llu is outside of the %llu bytes "
                    "there",
                    side_names[which], number, (unsigned long long)blocks->block_nbytes,
                    (unsigned long long)at, (unsigned long long)limit);
}

/* ---- entries of regions of extents ----------------------------------------------------------- */

/* The blocks lie in the region as a whole: each of them must be within one extent. */
static int check_whole(const char *operation, int rank, enum nixl_xfer_side which, size_t number,
                       const struct nxr_blocks *blocks)
{
    for (uint64_t i = 0; i < blocks->nblocks; i++) {
        uint64_t n = blocks->index != NULL ? blocks->index[i] : i, at;

        if (__builtin_mul_overflow(n, blocks->stride, &at) ||
            __builtin_add_overflow(at, blocks->offset, &at) ||
            nxr_extents_find(blocks->extents, at, blocks->block_nbytes) == NULL) {
            return nxr_fail(NIXL_E_RANGE, operation, rank, "", 0,
                            "%s entry %zu: block %llu, of %llu bytes at %llu, is not within one of "
                            "the %u extents, which have %llu bytes",
                            side_names[which], number, (unsigned long long)i,
                            (unsigned long long)blocks->block_nbytes, (unsigned long long)at,
                            blocks->extents->n, (unsigned long long)blocks->extents->nbytes);
        }
    }
    return NIXL_OK;
}

/* The same blocks of several extents. */
static int check_rounds(const char *operation, int rank, enum nixl_xfer_side which, size_t number,
                        const struct nxr_blocks *blocks)
{
    uint64_t last = farthest(blocks);

    for (uint32_t i = 0; i < blocks->n_rounds; i++) {
        uint64_t limit = blocks->extents->list[blocks->first_extent + i].place.limit;

        if (!is_within(limit, last, blocks->block_nbytes)) {
            return fail_block(operation, rank, which, number, blocks, last, limit);
        }
    }
    return NIXL_OK;
}

/* How many rounds does the entry take in a segment of n extents, one of which may be all of it? */
static int count_rounds(const char *operation, int rank, enum nixl_xfer_side which, size_t number,
                        struct nxr_blocks *blocks, uint32_t n)
{
    bool is_all = blocks->n_extents == NIXL_ALL_EXTENTS;

    if (blocks->n_extents == 0) {
        return NIXL_OK;
    }
    if (blocks->first_extent >= n || (!is_all && blocks->n_extents > n - blocks->first_extent)) {
        return nxr_fail(NIXL_E_RANGE, operation, rank, "", 0,
                        "%s entry %zu: nextents %u from extent %u; the segment has %u",
                        side_names[which], number, blocks->n_extents, blocks->first_extent, n);
    }
    blocks->n_rounds = is_all ? n - blocks->first_extent : blocks->n_extents;
    return NIXL_OK;
}

/* Find the memory of an entry whose region has these extents. */
static int find_extents(const char *operation, int rank, enum nixl_xfer_side which, size_t number,
                        struct nxr_blocks *blocks, const struct nxr_extents *extents)
{
    int status = count_rounds(operation, rank, which, number, blocks, extents->n);

    if (status != NIXL_OK) {
        return status;
    }
    blocks->extents = extents;
    return blocks->n_extents == 0 ? check_whole(operation, rank, which, number, blocks)
                                  : check_rounds(operation, rank, which, number, blocks);
}

/* ---- entries of other memory ----------------------------------------------------------------- */

/* Where the entry's local memory lies, and whether it is open. */
static int place_local(const char *operation, int rank, struct nxr_blocks *blocks, size_t number)
{
    struct nxr_place *place = &blocks->place;

    if (blocks->region == NULL) {
        place->range = nxr_range_find(place->base);
        place->limit =
            (place->range != NULL ? place->range->addr + place->range->nbytes : UINTPTR_MAX) -
            (uintptr_t)place->base;
        return NIXL_OK;
    }
    if (!nxr_region_is_open(blocks->region) || blocks->region->published == NULL) {
        return fail_entry(operation, rank, NIXL_XFER_LOCAL, number,
                          nxr_region_is_open(blocks->region)
                              ? "this rank has no segment of the region"
                              : "the region is closed");
    }
    *place = (struct nxr_place){.base = blocks->region->memory.addr,
                                .range = blocks->region->memory.range,
                                .limit = blocks->region->memory.nbytes};
    return count_rounds(operation, rank, NIXL_XFER_LOCAL, number, blocks, 1);
}

static int find_local(const char *operation, int rank, struct nxr_blocks *blocks, size_t number)
{
    uint64_t last;
    int status;

    blocks->extents = NULL;
    if (nxr_region_is_open(blocks->region) && blocks->region->extents != NULL) {
        return find_extents(operation, rank, NIXL_XFER_LOCAL, number, blocks,
                            blocks->region->extents);
    }
    status = place_local(operation, rank, blocks, number);
    last = farthest(blocks);
    return status == NIXL_OK && !is_within(blocks->place.limit, last, blocks->block_nbytes)
               ? fail_block(operation, rank, NIXL_XFER_LOCAL, number, blocks, last,
                            blocks->place.limit)
               : status;
}

/* May the blocks of the entry be moved so, as all their extents are made alike? */
static int check_extents_access(const char *operation, enum nxr_op_kind kind,
                                const struct nxr_blocks *blocks)
{
    const struct nxr_segment *segment = blocks->extents->list[0].place.segment;

    return nxr_segment_allows(segment, nxr_op_forbidden_by(kind))
               ? NIXL_OK
               : nxr_region_fail_access(operation, blocks->region, segment,
                                        nxr_op_forbidden_by(kind));
}

static int find_remote_extents(const char *operation, enum nxr_op_kind kind, int rank,
                               struct nxr_blocks *blocks, size_t number,
                               const struct nxr_extents *extents)
{
    int status = find_extents(operation, rank, NIXL_XFER_REMOTE, number, blocks, extents);

    return status == NIXL_OK ? check_extents_access(operation, kind, blocks) : status;
}

/* Ask for the segment if need be. What it is, a segment or extents, is known only then. */
static int find_remote(const char *operation, enum nxr_op_kind kind, int rank, nxr_find_fn *find,
                       struct nxr_blocks *blocks, size_t number)
{
    struct nxr_segment *segment = nxr_region_segment(blocks->region, rank);
    const struct nxr_extents *extents = NULL;
    uint64_t last = farthest(blocks), nothing = 0;
    int status = NIXL_OK;

    blocks->extents = NULL;
    if (segment == NULL) {
        extents = nxr_region_extents(blocks->region, rank);
        if (extents == NULL) {
            status = find(operation, rank, blocks->region, 0, &nothing, 0, &segment);
            extents = nxr_region_extents(blocks->region, rank);
        }
    }
    if (status == NIXL_OK && extents != NULL) {
        return find_remote_extents(operation, kind, rank, blocks, number, extents);
    }
    if (status == NIXL_OK) {
        status = count_rounds(operation, rank, NIXL_XFER_REMOTE, number, blocks, 1);
    }
    if (status == NIXL_OK && (!is_within(segment->nbytes, last, blocks->block_nbytes) ||
                              !nxr_segment_allows(segment, nxr_op_forbidden_by(kind)))) {
        status = find(operation, rank, blocks->region, nxr_op_forbidden_by(kind), &last,
                      blocks->block_nbytes, &segment); /* it says why */
    }
    if (status == NIXL_OK) {
        blocks->place = (struct nxr_place){.segment = segment, .limit = segment->nbytes};
    }
    return status;
}

int nxr_side_find(const char *operation, enum nxr_op_kind kind, int rank, enum nixl_xfer_side which,
                  struct nxr_side *side)
{
    nxr_find_fn *find = side->asks_nobody ? nxr_transfer_find_now : nxr_transfer_find_segment;

    for (size_t i = 0; i < side->n_entries; i++) {
        struct nxr_blocks *blocks = &side->blocks[i];
        int status = NIXL_OK;

        if (blocks->nblocks > 0) {
            status = which == NIXL_XFER_LOCAL ? find_local(operation, rank, blocks, i)
                                              : find_remote(operation, kind, rank, find, blocks, i);
        }
        if (status != NIXL_OK) {
            return status;
        }
    }
    return side->is_open ? nxr_side_count(operation, rank, side) : NIXL_OK;
}

/* ---- walking --------------------------------------------------------------------------------- */

/*
 * Where in its region does block `number` begin? False: nowhere, since the index was changed after
 * the check.
 */
static inline bool find_start(const struct nxr_blocks *blocks, uint64_t number, uint64_t *start_p)
{
    uint64_t n =
        blocks->index != NULL ? __atomic_load_n(&blocks->index[number], __ATOMIC_RELAXED) : number;

    return !__builtin_mul_overflow(n, blocks->stride, start_p) &&
           !__builtin_add_overflow(*start_p, blocks->offset, start_p);
}

/*
 * The memory of block `number` of an entry, in the round that the walk is in, and the block's
 * offset in it. NULL: it is out of range, since the index was changed after the check.
 */
static inline const struct nxr_place *find_block(const struct nxr_walk *walk,
                                                 const struct nxr_blocks *blocks, bool has_extents,
                                                 uint64_t *start_p)
{
    const struct nxr_place *place = &blocks->place;

    if (!find_start(blocks, walk->block, start_p)) {
        return NULL;
    }
    if (has_extents && blocks->n_extents != 0) {
        place = &blocks->extents->list[blocks->first_extent + walk->round].place;
    } else if (has_extents) {
        const struct nxr_extent *extent =
            nxr_extents_find(blocks->extents, *start_p, blocks->block_nbytes);

        if (extent == NULL) {
            return NULL;
        }
        place = &extent->place;
        *start_p -= extent->start;
    }
    return is_within(place->limit, *start_p, blocks->block_nbytes) ? place : NULL;
}

/* Do the bytes at `start` of this entry's memory adjoin the end of the run? */
static inline bool follows(const struct nxr_walk *walk, const struct nxr_blocks *blocks,
                           const struct nxr_place *place, bool has_extents, uint64_t start)
{
    uint64_t end = walk->start + walk->nbytes;

    if (place == walk->place) {
        return start == end;
    }
    return !has_extents && blocks->region == walk->of->region &&
           (uintptr_t)place->base + start == (uintptr_t)walk->place->base + end;
}

/* Do all blocks of the entry adjoin, so that those of a round are one run? */
static inline bool is_dense(const struct nxr_blocks *blocks, bool has_extents)
{
    return blocks->index == NULL && blocks->stride == blocks->block_nbytes &&
           (!has_extents || blocks->n_extents != 0);
}

/* The next block, of this entry, begins a run. */
static inline void begin_run(struct nxr_walk *walk, const struct nxr_blocks *blocks,
                             const struct nxr_place *place, uint64_t start)
{
    walk->of = blocks;
    walk->place = place;
    walk->start = start;
}

/* The next block, or all that are left of a round, are part of the run. */
static inline void add_blocks(struct nxr_walk *walk, const struct nxr_blocks *blocks,
                              bool has_extents)
{
    if (is_dense(blocks, has_extents)) {
        walk->nbytes += (blocks->nblocks - walk->block) * blocks->block_nbytes;
        walk->block = blocks->nblocks;
    } else {
        walk->nbytes += blocks->block_nbytes;
        walk->block++;
    }
}

/*
 * Add the blocks of one round to the run. False: the next block is not part of it; it is kept for
 * the next run. Inlined for each value of `has_extents`: ordinary memory pays nothing for the
 * other.
 */
static inline __attribute__((always_inline)) bool
walk_round(struct nxr_walk *walk, const struct nxr_blocks *blocks, bool has_extents)
{
    while (walk->block < blocks->nblocks) {
        uint64_t start;
        const struct nxr_place *place = find_block(walk, blocks, has_extents, &start);

        if (place == NULL) {
            walk->is_outside = true;
            return false;
        }
        if (walk->nbytes == 0) {
            begin_run(walk, blocks, place, start);
        } else if (!follows(walk, blocks, place, has_extents, start)) {
            walk->next = place;
            walk->next_start = start;
            return false;
        }
        add_blocks(walk, blocks, has_extents);
    }
    return true;
}

/* All rounds of an entry of a region of extents. Inlined, it would slow the walk of the others. */
static __attribute__((noinline)) bool walk_extents(struct nxr_walk *walk,
                                                   const struct nxr_blocks *blocks)
{
    for (; walk->round < blocks->n_rounds; walk->round++, walk->block = 0) {
        if (!walk_round(walk, blocks, true)) {
            return false;
        }
    }
    return true;
}

bool nxr_walk_next(struct nxr_walk *walk)
{
    const struct nxr_side *side = walk->side;

    walk->nbytes = 0;
    for (; walk->entry < side->n_entries; walk->entry++, walk->round = 0, walk->block = 0) {
        const struct nxr_blocks *blocks = &side->blocks[walk->entry];

        if (walk->next != NULL) {
            begin_run(walk, blocks, walk->next, walk->next_start);
            walk->next = NULL;
            add_blocks(walk, blocks, blocks->extents != NULL);
        }
        if (blocks->extents == NULL ? !walk_round(walk, blocks, false)
                                    : !walk_extents(walk, blocks)) {
            return !walk->is_outside;
        }
    }
    return walk->nbytes > 0;
}
