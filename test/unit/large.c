/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes beyond 4 GiB, where numbers of 32 bits would wrap: the runs of prepared transfers. No byte
 * of them is touched; test/mp/large.mp moves such sizes.
 */
#include "transfer/xfer.h"

#include "test/unit/unit.h"

#define GIB (1ull << 30)

static const uint64_t sizes[] = {4 * GIB - 1, 4 * GIB,     4 * GIB + 1,      4 * GIB + 4096,
                                 5 * GIB,     8 * GIB + 7, 33 * GIB + 12345, 1ull << 46};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct nxr_blocks blocks_of(uint64_t offset, uint64_t block_nbytes, uint64_t stride,
                                   uint64_t nblocks, const uint64_t *index)
{
    return (struct nxr_blocks){.offset = offset,
                               .place = {.limit = UINT64_MAX},
                               .n_rounds = 1,
                               .block_nbytes = block_nbytes,
                               .stride = stride,
                               .nblocks = nblocks,
                               .index = index};
}

/* Adjacent blocks are one run, however long. */
Test(large, neighbours_are_one_run)
{
    for (size_t i = 0; i < N_SIZES; i++) {
        uint64_t nblocks = sizes[i] / 4096;
        struct nxr_blocks blocks = blocks_of(3 * GIB, 4096, 4096, nblocks, NULL);
        struct nxr_side side = {.blocks = &blocks, .n_entries = 1};
        struct nxr_walk walk = {.side = &side};

        cr_assert(nxr_side_count("test", 0, &side) == NIXL_OK);
        cr_assert(side.nbytes == nblocks * 4096 && side.nblocks == nblocks);
        cr_assert(nxr_walk_next(&walk));
        cr_assert(walk.start == 3 * GIB && walk.nbytes == nblocks * 4096);
        walk.nbytes = 0;
        cr_assert(not(nxr_walk_next(&walk)));
        cr_assert(not(walk.is_outside));
    }
}

/* Blocks of more than 4 GiB, far from each other, by a stride and by an index. */
Test(large, far_blocks_are_found)
{
    static const uint64_t index[] = {2, 0, 1};

    for (size_t i = 0; i < N_SIZES; i++) {
        uint64_t stride = 3 * sizes[i];
        struct nxr_blocks blocks[] = {blocks_of(7, sizes[i], stride, 3, NULL),
                                      blocks_of(5, sizes[i], stride, 3, index)};
        struct nxr_side side = {.blocks = blocks, .n_entries = 2};
        struct nxr_walk walk = {.side = &side};

        for (uint64_t n = 0; n < 6; n++) {
            uint64_t start = n < 3 ? 7 + n * stride : 5 + index[n - 3] * stride;

            cr_assert(nxr_walk_next(&walk));
            cr_assert(walk.start == start && walk.nbytes == sizes[i], "block %d of %llu bytes",
                      (int)n, (unsigned long long)sizes[i]);
            walk.nbytes = 0;
        }
        cr_assert(not(nxr_walk_next(&walk)));
    }
}

Test(large, more_than_any_memory_is_refused)
{
    struct nxr_blocks blocks[] = {blocks_of(0, 1ull << 33, 0, 1ull << 31, NULL),
                                  blocks_of(0, 1ull << 63, 0, 1, NULL)};
    struct nxr_side side = {.blocks = blocks, .n_entries = 1};

    cr_assert(nxr_side_count("test", 0, &side) == NIXL_E_INVALID_ARG); /* 2^64 */
    blocks[0].nblocks = 1ull << 30;
    cr_assert(nxr_side_count("test", 0, &side) == NIXL_OK && side.nbytes == 1ull << 63);
    side.n_entries = 2;
    cr_assert(nxr_side_count("test", 0, &side) == NIXL_E_INVALID_ARG); /* together 2^64 */
}
