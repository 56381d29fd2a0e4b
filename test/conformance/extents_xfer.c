/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on prepared transfers from and to regions of extents. */
#include "extents.h"

#include <stdlib.h>
#include <string.h>

#define TAG_GONE 0x9001

static char block[EXTENTS_STRIDE];

/* Start and wait. */
static void xfer_run(struct nixl_xfer *xfer)
{
    MPT_TRUE(nixl_xfer_start(xfer, NULL) >= NIXL_OK);
    MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
}

/* What block b of piece i holds, put there by `rank`. */
static uint64_t seed_of(size_t piece, uint64_t number, int rank)
{
    return 1000 * (uint64_t)rank + 100 * piece + number;
}

static void fill_blocks(struct cache *cache, int rank)
{
    for (size_t i = 0; i < cache->n; i++) {
        for (uint64_t b = 0; b < N_BLOCKS; b++) {
            mpt_fill((char *)cache->pieces[i].addr + b * BLOCK, BLOCK, seed_of(i, b, rank));
        }
    }
}

/* Block index[j] of every piece is one entry and one index, on both sides. */
static void one_index_moves_the_same_blocks_of_every_extent(void)
{
    static const uint64_t from[] = {3, 1, 15, 7}, into[] = {0, 2, 1, 14};
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct cache there = extents_open("ext.there", N_PIECES, 0);
    struct cache here = extents_open(NULL, N_PIECES, 0);
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    struct nixl_xfer *xfer;

    local.region = here.region;
    remote.region = there.region;
    local.block_nbytes = remote.block_nbytes = local.stride = remote.stride = BLOCK;
    local.nblocks = remote.nblocks = 4;
    local.index = from;
    remote.index = into;
    local.nextents = remote.nextents = NIXL_ALL_EXTENTS;
    fill_blocks(&here, conf.rank);
    mpt_barrier();
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer));
    xfer_run(xfer);
    MPT_OK(nixl_xfer_query(xfer, &info));
    MPT_EQ(info.nbytes, (uint64_t)N_PIECES * 4 * BLOCK);
    MPT_EQ(info.nblocks, N_PIECES * 4);
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    mpt_barrier();
    for (size_t i = 0; i < N_PIECES; i++) {
        for (int j = 0; j < 4; j++) {
            MPT_CHECK((char *)there.pieces[i].addr + into[j] * BLOCK, BLOCK,
                      seed_of(i, from[j], conf.prev));
        }
        MPT_CHECK_BYTES((char *)there.pieces[i].addr + 3 * BLOCK, BLOCK, 0);
    }
    mpt_barrier();
    extents_close(&there);
    extents_close(&here);
}

/* Some extents of the other side into one piece of memory, by a get, layer by layer. */
static void a_few_extents_are_gathered(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct cache there = extents_open("ext.few", N_PIECES, 0);
    static const uint64_t index[] = {5, 6, 2};
    struct nixl_xfer *xfer;

    fill_blocks(&there, conf.rank);
    local.addr = block;
    local.block_nbytes = (uint64_t)2 * 3 * BLOCK;
    remote.region = there.region;
    remote.block_nbytes = remote.stride = BLOCK;
    remote.nblocks = 3;
    remote.index = index;
    remote.nextents = 2;
    mpt_barrier();
    for (uint32_t first = 0; first + 2 <= N_PIECES; first++) {
        remote.first_extent = first;
        memset(block, 0, sizeof(block));
        MPT_OK(nixl_xfer_create(NIXL_XFER_GET, conf.next, &local, 1, &remote, 1, &xfer));
        for (int start = 0; start < 2; start++) {
            xfer_run(xfer);
        }
        MPT_OK(nixl_xfer_free(xfer));
        for (size_t i = 0; i < 2; i++) {
            for (size_t j = 0; j < 3; j++) {
                MPT_CHECK(block + (i * 3 + j) * BLOCK, BLOCK,
                          seed_of(first + i, index[j], conf.next));
            }
        }
    }
    mpt_barrier();
    extents_close(&there);
}

/* Blocks anywhere in the region: some adjoin across a boundary, and are not one. */
static void blocks_anywhere_in_the_region_are_found(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct cache there = extents_open("ext.any", N_PIECES, 0);
    uint64_t index[2 * N_PIECES];
    struct nixl_xfer *xfer;

    for (size_t i = 0; i < N_PIECES; i++) { /* the last of each piece, the first of the next */
        index[2 * i] = there.starts[i];
        index[2 * i + 1] = there.starts[i + 1] - 8;
    }
    mpt_fill(block, sizeof(index), (uint64_t)conf.rank);
    local.addr = block;
    local.block_nbytes = (uint64_t)8 * 2 * N_PIECES;
    remote.region = there.region;
    remote.block_nbytes = 8;
    remote.stride = 1;
    remote.nblocks = (uint64_t)2 * N_PIECES;
    remote.index = index;
    mpt_barrier();
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer));
    xfer_run(xfer);
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    mpt_barrier();
    for (size_t i = 0; i < N_PIECES; i++) {
        memcpy(block + 16 * i, there.pieces[i].addr, 8);
        memcpy(block + 16 * i + 8, (char *)there.pieces[i].addr + extents_sizes[i] - 8, 8);
    }
    MPT_CHECK(block, sizeof(index), (uint64_t)conf.prev);
    index[3] += 4;
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer),
               NIXL_E_RANGE);
    MPT_TRUE(strstr(nixl_last_error()->text, "remote entry 0: block 3,") != NULL);
    mpt_barrier();
    extents_close(&there);
}

static void bad_entries_of_extents_are_refused(void)
{
    struct cache there = extents_open("ext.bad", N_PIECES, 0);
    struct segment plain = conf_segment("ext.plain", BLOCK);
    const struct {
        struct nixl_region *region;
        uint64_t nblocks;
        uint32_t first, n;
        int status;
    } cases[] = {
        {there.region, N_BLOCKS, 0, NIXL_ALL_EXTENTS, NIXL_OK},
        {there.region, N_BLOCKS + 1, 0, NIXL_ALL_EXTENTS, NIXL_E_RANGE}, /* extent 0 ends */
        {there.region, N_BLOCKS, 0, N_PIECES, NIXL_OK},
        {there.region, 1, 0, N_PIECES + 1, NIXL_E_RANGE},
        {there.region, 1, N_PIECES, NIXL_ALL_EXTENTS, NIXL_E_RANGE},
        {there.region, 1, N_PIECES - 1, 2, NIXL_E_RANGE},
        {there.region, 1, 1, 0, NIXL_E_INVALID_ARG}, /* first without a number */
        {plain.region, 1, 0, NIXL_ALL_EXTENTS, NIXL_OK},
        {plain.region, 1, 0, 1, NIXL_OK},
        {plain.region, 1, 0, 2, NIXL_E_RANGE},
        {plain.region, 1, 1, 1, NIXL_E_RANGE},
    };

    mpt_barrier();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
        uint64_t n_rounds = cases[i].n == NIXL_ALL_EXTENTS
                                ? (cases[i].region == plain.region ? 1 : N_PIECES)
                                : (cases[i].n == 0 ? 1 : cases[i].n);
        struct nixl_xfer *xfer = NULL;

        local.addr = block;
        local.block_nbytes = cases[i].nblocks * BLOCK * n_rounds;
        remote.region = cases[i].region;
        remote.block_nbytes = remote.stride = BLOCK;
        remote.nblocks = cases[i].nblocks;
        remote.first_extent = cases[i].first;
        remote.nextents = cases[i].n;
        MPT_STATUS(nixl_xfer_create(NIXL_XFER_GET, conf.next, &local, 1, &remote, 1, &xfer),
                   cases[i].status);
        if (cases[i].status == NIXL_OK) {
            xfer_run(xfer);
            MPT_OK(nixl_xfer_free(xfer));
        }
    }
    mpt_barrier();
    extents_close(&there);
    conf_end(&plain);
}

/* The region of the same name comes back with other pieces: nothing of the former table is used. */
static void a_region_comes_back_with_other_extents(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *view;
    struct nixl_xfer *xfer;

    MPT_OK(nixl_region_open("ext.back", &view));
    for (size_t n = 1; n <= N_PIECES; n++) {
        struct cache cache = extents_open("ext.back", n, 0);
        uint64_t seed = 10 * n + (uint64_t)conf.rank;
        int status;

        mpt_barrier();
        MPT_OK(nixl_region_query(conf.next, view, MPT_PATIENCE, &info));
        MPT_EQ(info.nextents, n);
        mpt_fill(block, n * BLOCK, seed);
        local = remote = (struct nixl_blocks)NIXL_BLOCKS_INIT;
        local.addr = block;
        local.block_nbytes = n * BLOCK;
        remote.region = view;
        remote.block_nbytes = BLOCK;
        remote.offset = (N_BLOCKS - 1) * BLOCK;
        remote.nextents = NIXL_ALL_EXTENTS;
        MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer));
        xfer_run(xfer);
        MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
        mpt_barrier();
        for (size_t i = 0; i < n; i++) {
            memcpy(block + i * BLOCK, (char *)cache.pieces[i].addr + (N_BLOCKS - 1) * BLOCK, BLOCK);
        }
        MPT_CHECK(block, n * BLOCK, 10 * n + (uint64_t)conf.prev);
        mpt_barrier();
        extents_close(&cache);
        conf_tell(conf.prev, TAG_GONE); /* comes behind the close; a barrier may not */
        conf_hear(conf.next, TAG_GONE);
        if (conf.next != conf.rank) {
            status = nixl_xfer_start(xfer, NULL); /* or it is found out on the way */
            MPT_STATUS(status == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, MPT_PATIENCE) : status,
                       NIXL_E_STALE);
            MPT_STATUS(nixl_put(conf.next, view, 0, block, 8), NIXL_E_STALE);
        }
        MPT_OK(nixl_xfer_free(xfer));
        mpt_barrier();
    }
    MPT_OK(nixl_region_close(view, MPT_PATIENCE));
    conf_forget_late_puts(conf.next);
    mpt_barrier();
}

/* So many extents that their table is pages of its own: what reads it later faults. */
static void extents_that_were_closed_are_not_looked_at(void)
{
    enum { MANY = 4000, NBYTES = 64 };
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_extent *pieces = calloc(MANY, sizeof(*pieces));
    char *memory = calloc(MANY, NBYTES);
    struct cache there = extents_open("ext.open", N_PIECES, 0);
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    struct nixl_region *many;
    struct nixl_xfer *xfer;

    MPT_TRUE(pieces != NULL && memory != NULL);
    for (size_t i = 0; i < MANY; i++) {
        pieces[i] = (struct nixl_extent){.addr = memory + i * NBYTES, .nbytes = NBYTES};
    }
    MPT_OK(nixl_region_register_extents(NULL, pieces, MANY, NULL, &many));
    local.region = many;
    remote.region = there.region;
    local.block_nbytes = remote.block_nbytes = NBYTES;
    mpt_barrier();
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer));
    xfer_run(xfer);
    MPT_OK(nixl_region_close(many, MPT_PATIENCE));
    MPT_OK(nixl_xfer_query(xfer, &info));
    MPT_EQ(info.nbytes, NBYTES);
    MPT_STATUS(nixl_xfer_start(xfer, NULL), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "the region is closed") != NULL);
    MPT_OK(nixl_xfer_free(xfer));
    mpt_barrier();
    extents_close(&there);
    free(memory);
    free(pieces);
}

const struct guarantee conf_extents_xfer[] = {
    {"extents", NULL, 0},
    {"one_index_moves_the_same_blocks_of_every_extent",
     one_index_moves_the_same_blocks_of_every_extent, 0},
    {"a_few_extents_are_gathered", a_few_extents_are_gathered, 0},
    {"blocks_anywhere_in_the_region_are_found", blocks_anywhere_in_the_region_are_found, 0},
    {"bad_entries_of_extents_are_refused", bad_entries_of_extents_are_refused, 0},
    {"a_region_comes_back_with_other_extents", a_region_comes_back_with_other_extents, 0},
    {"extents_that_were_closed_are_not_looked_at", extents_that_were_closed_are_not_looked_at, 0},
    {NULL, NULL, 0},
};
