/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces that blocks make: sorted, merged, and searched. No state, no lock. */
#include "config.h"

#include "grant/grant.h"

#include <stdlib.h>

static int compare_pieces(const void *a, const void *b)
{
    const struct nxr_grant_piece *first = a, *second = b;

    return (first->start > second->start) - (first->start < second->start);
}

/* Merge what touches, in a sorted list; returns how many are left. */
static size_t merge_pieces(struct nxr_grant_piece *list, size_t n)
{
    size_t n_left = 0;

    for (size_t i = 0; i < n; i++) {
        if (n_left > 0 && list[i].start <= list[n_left - 1].end) {
            if (list[i].end > list[n_left - 1].end) {
                list[n_left - 1].end = list[i].end;
            }
        } else {
            list[n_left++] = list[i];
        }
    }
    return n_left;
}

/* Do the blocks of an entry without an index adjoin, each with the next? */
static bool blocks_adjoin(const struct nxr_blocks *blocks)
{
    return blocks->index == NULL &&
           (blocks->nblocks == 1 || blocks->stride <= blocks->block_nbytes);
}

/* Where block i begins; its offset was checked. */
static uint64_t block_start(const struct nxr_blocks *blocks, uint64_t i)
{
    uint64_t number =
        blocks->index != NULL ? __atomic_load_n(&blocks->index[i], __ATOMIC_RELAXED) : i;

    return blocks->offset + number * blocks->stride;
}

/* All blocks as pieces, in any order. */
static void list_blocks(const struct nxr_blocks *blocks, struct nxr_grant_piece *list)
{
    for (uint64_t i = 0; i < blocks->nblocks; i++) {
        uint64_t start = block_start(blocks, i);

        list[i] = (struct nxr_grant_piece){start, start + blocks->block_nbytes};
    }
}

int nxr_grant_pieces_make(const struct nxr_blocks *blocks, struct nxr_grant_pieces *pieces)
{
    const bool is_one = blocks_adjoin(blocks);
    const uint64_t n = is_one ? 1 : blocks->nblocks;
    size_t n_merged;

    if (blocks->index == NULL && n > NIXL_GRANT_PIECES_MAX) {
        return NIXL_E_LIMIT;
    }
    *pieces = (struct nxr_grant_pieces){
        .first_extent = blocks->n_extents != 0 ? blocks->first_extent : 0,
        .n_extents = blocks->n_extents != 0 ? blocks->n_rounds : 0,
        .list = n <= SIZE_MAX / sizeof(*pieces->list) ? malloc(n * sizeof(*pieces->list)) : NULL,
    };
    if (pieces->list == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    if (is_one) {
        pieces->list[0] = (struct nxr_grant_piece){
            blocks->offset, block_start(blocks, blocks->nblocks - 1) + blocks->block_nbytes};
    } else {
        list_blocks(blocks, pieces->list);
        qsort(pieces->list, n, sizeof(*pieces->list), compare_pieces);
    }
    n_merged = merge_pieces(pieces->list, n);
    if (n_merged > NIXL_GRANT_PIECES_MAX) {
        free(pieces->list);
        pieces->list = NULL;
        return NIXL_E_LIMIT;
    }
    pieces->n = (uint32_t)n_merged;
    return NIXL_OK;
}

/* ---- searching ------------------------------------------------------------------------------- */

static bool list_has(const struct nxr_grant_pieces *pieces, uint64_t start, uint64_t nbytes)
{
    uint32_t low = 0, high = pieces->n; /* the piece that begins last at or before start */

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (pieces->list[middle].start <= start) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low < pieces->n && pieces->list[low].start <= start && start <= pieces->list[low].end &&
           nbytes <= pieces->list[low].end - start;
}

static bool has_extents(const struct nxr_grant_pieces *pieces, uint64_t first, uint64_t n)
{
    return first >= pieces->first_extent &&
           first + n <= (uint64_t)pieces->first_extent + pieces->n_extents;
}

/* A region that is one memory has one extent, which is all of it. */
bool nxr_grant_pieces_have(const struct nxr_grant_pieces *pieces, const struct nxr_extents *extents,
                           uint64_t offset, uint64_t nbytes)
{
    const struct nxr_extent *extent;

    if (nbytes == 0) {
        return true;
    }
    if (pieces->n_extents == 0 || extents == NULL) {
        return list_has(pieces, offset, nbytes);
    }
    extent = nxr_extents_find(extents, offset, nbytes);
    return extent != NULL && has_extents(pieces, (uint64_t)(extent - extents->list), 1) &&
           list_has(pieces, offset - extent->start, nbytes);
}

/* The blocks of one round: those of an extent, whose place is known, or all. */
static bool has_round(const struct nxr_grant_pieces *pieces, const struct nxr_blocks *blocks,
                      uint64_t base, uint64_t *at_p)
{
    const bool is_inside = blocks->n_extents != 0 && pieces->n_extents != 0;

    for (uint64_t i = 0; i < blocks->nblocks; i++) {
        *at_p = block_start(blocks, i) + (is_inside ? 0 : base);
        if (is_inside
                ? !list_has(pieces, *at_p, blocks->block_nbytes)
                : !nxr_grant_pieces_have(pieces, blocks->extents, *at_p, blocks->block_nbytes)) {
            return false;
        }
    }
    return true;
}

bool nxr_grant_pieces_have_blocks(const struct nxr_grant_pieces *pieces,
                                  const struct nxr_blocks *blocks, uint64_t *at_p)
{
    const struct nxr_extents *extents = blocks->n_extents != 0 ? blocks->extents : NULL;

    *at_p = blocks->offset;
    if (blocks->nblocks == 0) {
        return true;
    }
    if (extents == NULL) {
        return has_round(pieces, blocks, 0, at_p);
    }
    if (pieces->n_extents != 0) { /* the same blocks of each */
        return has_extents(pieces, blocks->first_extent, blocks->n_rounds) &&
               has_round(pieces, blocks, 0, at_p);
    }
    for (uint32_t i = 0; i < blocks->n_rounds; i++) {
        if (!has_round(pieces, blocks, extents->list[blocks->first_extent + i].start, at_p)) {
            return false;
        }
    }
    return true;
}
