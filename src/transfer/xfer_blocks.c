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
        side->blocks[i] = (struct nxr_blocks){.region = entry.region,
                                              .base = entry.addr,
                                              .offset = entry.offset,
                                              .block_nbytes = entry.block_nbytes,
                                              .stride = entry.stride,
                                              .nblocks = entry.nblocks,
                                              .index = entry.index};
    }
    return NIXL_OK;
}

int nxr_side_count(const char *operation, int rank, struct nxr_side *side)
{
    side->nbytes = 0;
    side->nblocks = 0;
    for (size_t i = 0; i < side->n_entries; i++) {
        const struct nxr_blocks *blocks = &side->blocks[i];
        uint64_t nbytes;

        if (__builtin_mul_overflow(blocks->block_nbytes, blocks->nblocks, &nbytes) ||
            __builtin_add_overflow(side->nbytes, nbytes, &side->nbytes)) {
            return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                            "%llu blocks of %llu bytes exceed any memory",
                            (unsigned long long)blocks->nblocks,
                            (unsigned long long)blocks->block_nbytes);
        }
        side->nblocks += blocks->nblocks;
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

static int find_local(const char *operation, int rank, struct nxr_blocks *blocks, size_t number)
{
    uint64_t last = farthest(blocks);

    if (blocks->region == NULL) {
        blocks->range = nxr_range_find(blocks->base);
        blocks->limit =
            (blocks->range != NULL ? blocks->range->addr + blocks->range->nbytes : UINTPTR_MAX) -
            (uintptr_t)blocks->base;
    } else {
        if (!nxr_region_is_open(blocks->region) || blocks->region->memory.addr == NULL) {
            return fail_entry(operation, rank, NIXL_XFER_LOCAL, number,
                              nxr_region_is_open(blocks->region)
                                  ? "this rank has no segment of the region"
                                  : "the region is closed");
        }
        blocks->base = blocks->region->memory.addr;
        blocks->range = blocks->region->memory.range;
        blocks->limit = blocks->region->memory.nbytes;
    }
    if (!is_within(blocks->limit, last, blocks->block_nbytes)) {
        return nxr_fail(NIXL_E_RANGE, operation, rank, "", 0,
                        "local entry %zu: a block of %llu bytes at %llu is outside of the %llu "
                        "bytes there",
                        number, (unsigned long long)blocks->block_nbytes, (unsigned long long)last,
                        (unsigned long long)blocks->limit);
    }
    return NIXL_OK;
}

static int find_remote(const char *operation, enum nxr_op_kind kind, int rank,
                       struct nxr_blocks *blocks)
{
    uint64_t last = farthest(blocks);
    struct nxr_segment *segment = nxr_region_segment(blocks->region, rank);
    int status = NIXL_OK;

    if (segment == NULL || !is_within(segment->nbytes, last, blocks->block_nbytes) ||
        !nxr_segment_allows(segment, nxr_op_forbidden_by(kind))) {
        status =
            nxr_transfer_find_segment(operation, rank, blocks->region, nxr_op_forbidden_by(kind),
                                      last, blocks->block_nbytes, &segment);
    }
    if (status == NIXL_OK) {
        blocks->segment = segment;
        blocks->limit = segment->nbytes;
    }
    return status;
}

int nxr_side_find(const char *operation, enum nxr_op_kind kind, int rank, enum nixl_xfer_side which,
                  struct nxr_side *side)
{
    for (size_t i = 0; i < side->n_entries; i++) {
        struct nxr_blocks *blocks = &side->blocks[i];
        int status = NIXL_OK;

        if (blocks->nblocks > 0) {
            status = which == NIXL_XFER_LOCAL ? find_local(operation, rank, blocks, i)
                                              : find_remote(operation, kind, rank, blocks);
        }
        if (status != NIXL_OK) {
            return status;
        }
    }
    return NIXL_OK;
}

/* ---- walking --------------------------------------------------------------------------------- */

/* Find block `number`. False: it is out of range, since the index was changed after the check. */
static bool find_block(const struct nxr_blocks *blocks, uint64_t number, uint64_t *start_p)
{
    uint64_t n =
        blocks->index != NULL ? __atomic_load_n(&blocks->index[number], __ATOMIC_RELAXED) : number;

    return !__builtin_mul_overflow(n, blocks->stride, start_p) &&
           !__builtin_add_overflow(*start_p, blocks->offset, start_p) &&
           is_within(blocks->limit, *start_p, blocks->block_nbytes);
}

/* Do the bytes at `start` of this entry adjoin the end of the run? */
static bool follows(const struct nxr_walk *walk, const struct nxr_blocks *blocks, uint64_t start)
{
    const struct nxr_blocks *of = walk->of;

    return blocks->region == of->region &&
           (uintptr_t)blocks->base + start == (uintptr_t)of->base + walk->start + walk->nbytes;
}

/* Do all blocks of the entry adjoin, so that they are one run? */
static bool is_dense(const struct nxr_blocks *blocks)
{
    return blocks->index == NULL && blocks->stride == blocks->block_nbytes;
}

bool nxr_walk_next(struct nxr_walk *walk)
{
    const struct nxr_side *side = walk->side;

    walk->nbytes = 0;
    for (; walk->entry < side->n_entries; walk->entry++, walk->block = 0) {
        const struct nxr_blocks *blocks = &side->blocks[walk->entry];

        for (; walk->block < blocks->nblocks; walk->block++) {
            uint64_t start;

            if (!find_block(blocks, walk->block, &start)) {
                walk->is_outside = true;
                return false;
            }
            if (walk->nbytes == 0) {
                walk->of = blocks;
                walk->start = start;
            } else if (!follows(walk, blocks, start)) {
                return true;
            }
            if (is_dense(blocks)) {
                walk->nbytes += (blocks->nblocks - walk->block) * blocks->block_nbytes;
                walk->block = blocks->nblocks;
                break;
            }
            walk->nbytes += blocks->block_nbytes;
        }
    }
    return walk->nbytes > 0;
}
