/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many small blocks of a prepared transfer, taken from both sides at once. What it takes is what
 * the walks of xfer_blocks.c would have found one by one; what merges, reaches into the next entry,
 * or is out of range it leaves to them. No state, no lock.
 */
#include "config.h"

#include "transfer/xfer.h"

/* What one side has next: blocks of an entry, or the bytes of a run. */
struct batch_side {
    const uint64_t *index; /* NULL: the blocks have the numbers from `first` on */
    uint64_t first;
    uint64_t stride, offset;
    uint64_t limit;        /* a block begins here at the latest */
    uint64_t n;            /* blocks */
    uint64_t block_nbytes; /* 0: a run, which has blocks of any size */
};

/* The blocks that no run has yet, of the last run's entry. False: they are not taken here. */
static bool has_blocks(const struct nxr_walk *walk, struct batch_side *side_p)
{
    const struct nxr_blocks *blocks;

    if (walk->entry == walk->side->n_entries) {
        return false;
    }
    blocks = &walk->side->blocks[walk->entry];
    if (blocks->extents != NULL || walk->place != &blocks->place ||
        walk->block >= blocks->nblocks || blocks->place.limit < blocks->block_nbytes) {
        return false;
    }
    *side_p =
        (struct batch_side){.index = blocks->index != NULL ? blocks->index + walk->block : NULL,
                            .first = walk->block,
                            .stride = blocks->stride,
                            .offset = blocks->offset,
                            .limit = blocks->place.limit - blocks->block_nbytes,
                            .n = blocks->nblocks - walk->block,
                            .block_nbytes = blocks->block_nbytes};
    return true;
}

static bool has_side(const struct nxr_walk *walk, struct batch_side *side_p)
{
    if (walk->nbytes == 0) {
        return has_blocks(walk, side_p);
    }
    *side_p = (struct batch_side){.offset = walk->start, .limit = UINT64_MAX};
    return true;
}

/* Let the bytes of a run be blocks as the other side has them. */
static void divide_run(struct batch_side *side, uint64_t run_nbytes, uint64_t block_nbytes)
{
    if (side->block_nbytes == 0) {
        side->block_nbytes = side->stride = block_nbytes;
        side->n = run_nbytes / block_nbytes;
    }
}

/* Where does block i begin? False: nowhere, since the index was changed after the check. */
static inline bool batch_find_start(const struct batch_side *side, uint64_t i, uint64_t *start_p)
{
    uint64_t number =
        side->index != NULL ? __atomic_load_n(&side->index[i], __ATOMIC_RELAXED) : side->first + i;

    return !__builtin_mul_overflow(number, side->stride, start_p) &&
           !__builtin_add_overflow(*start_p, side->offset, start_p) && *start_p <= side->limit;
}

/*
 * Fill up to n pieces with as many blocks. Stops before two blocks that adjoin on both sides, and
 * so looks at one block more than it takes. Returns how many.
 */
static size_t fill(const struct batch_side *local, const struct batch_side *remote, char *base,
                   struct nxr_piece *pieces, size_t n)
{
    const uint64_t nbytes = local->block_nbytes;
    uint64_t local_end = UINT64_MAX, remote_end = UINT64_MAX, from, to;

    size_t i;

    for (i = 0; batch_find_start(local, i, &from) && batch_find_start(remote, i, &to); i++) {
        if (from == local_end && to == remote_end) {
            return i - 1;
        }
        if (i == n) {
            return n;
        }
        local_end = from + nbytes;
        remote_end = to + nbytes;
        pieces[i] = (struct nxr_piece){.offset = to, .local = base + from, .nbytes = nbytes};
    }
    return i; /* out of range: the walk will find it, and say so */
}

static void advance(struct nxr_walk *walk, size_t n_blocks, uint64_t block_nbytes)
{
    if (walk->nbytes > 0) {
        walk->start += n_blocks * block_nbytes;
        walk->nbytes -= n_blocks * block_nbytes;
    } else {
        walk->block += n_blocks;
        walk->next = NULL;
    }
}

static uint64_t fewer(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

size_t nxr_walks_take(struct nxr_walk *local, struct nxr_walk *remote, struct nxr_piece *pieces,
                      size_t max_n, uint64_t *left_p)
{
    struct batch_side from, to;
    uint64_t block_nbytes, n;
    size_t n_taken;

    if (!has_side(local, &from) || !has_side(remote, &to)) {
        return 0;
    }
    block_nbytes = from.block_nbytes != 0 ? from.block_nbytes : to.block_nbytes;
    if (block_nbytes == 0) {
        return 0; /* two runs */
    }
    divide_run(&from, local->nbytes, block_nbytes);
    divide_run(&to, remote->nbytes, block_nbytes);
    n = fewer(fewer(from.n, to.n), fewer(max_n, *left_p / block_nbytes) + 1);
    if (from.block_nbytes != to.block_nbytes || n < 2) {
        return 0;
    }
    n_taken = fill(&from, &to, local->place->base, pieces, n - 1);
    advance(local, n_taken, block_nbytes);
    advance(remote, n_taken, block_nbytes);
    *left_p -= n_taken * block_nbytes;
    return n_taken;
}
