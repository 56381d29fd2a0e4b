/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of blocks between two devices that do not reach each other: every rank has a segment on the
 * first device and local memory on the second one, and moves scattered blocks to and from the
 * segment of the next rank. Run over the stand-in for NVIDIA's driver, set up without access
 * between its devices.
 */
#include "mptest.h"

#include <string.h>

#define N_BLOCKS     300
#define BLOCK_NBYTES 3000
#define STRIDE       4096
#define LARGE_NBYTES ((size_t)1 << 20)
#define NBYTES       (N_BLOCKS * STRIDE + LARGE_NBYTES)

static unsigned char bytes[NBYTES], seen[NBYTES];
static struct nixl_region *near, *far;
static int rank, next;

static struct nixl_region *alloc(const char *name, const char *device)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region *region = NULL;

    params.kind = NIXL_MEM_CUDA;
    params.device = device;
    MPT_OK(nixl_region_alloc(name, NBYTES, &params, &region));
    return region;
}

/* Blocks with gaps between them, and behind them one that is larger than a piece of staging. */
static void blocks_of(struct nixl_region *region, struct nixl_blocks blocks[2])
{
    blocks[0] = blocks[1] = (struct nixl_blocks)NIXL_BLOCKS_INIT;
    blocks[0].region = blocks[1].region = region;
    blocks[0].block_nbytes = BLOCK_NBYTES;
    blocks[0].stride = STRIDE;
    blocks[0].nblocks = N_BLOCKS;
    blocks[1].offset = N_BLOCKS * STRIDE;
    blocks[1].block_nbytes = blocks[1].stride = LARGE_NBYTES;
    blocks[1].nblocks = 1;
}

static void move(enum nixl_xfer_op op)
{
    struct nixl_blocks local[2], remote[2];
    struct nixl_xfer *xfer = NULL;
    int status;

    blocks_of(near, local);
    blocks_of(far, remote);
    MPT_OK(nixl_xfer_create(op, next, local, 2, remote, 2, &xfer));
    status = nixl_xfer_start(xfer, NULL);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, MPT_PATIENCE) : status);
    MPT_OK(nixl_xfer_free(xfer));
}

static void fill(int at, struct nixl_region *region, uint64_t seed)
{
    mpt_fill(bytes, NBYTES, seed);
    MPT_OK(nixl_put(at, region, 0, bytes, NBYTES));
}

/* The blocks have the bytes of one seed, and those between them have those of another. */
static void expect(int at, struct nixl_region *region, uint64_t moved, uint64_t kept)
{
    MPT_OK(nixl_get(at, region, 0, seen, NBYTES));
    mpt_fill(bytes, NBYTES, moved);
    for (size_t i = 0; i < N_BLOCKS; i++) {
        MPT_TRUE(memcmp(seen + i * STRIDE, bytes + i * STRIDE, BLOCK_NBYTES) == 0);
    }
    mpt_fill(bytes, NBYTES, kept);
    for (size_t i = 0; i < N_BLOCKS; i++) {
        size_t gap = i * STRIDE + BLOCK_NBYTES;

        MPT_TRUE(memcmp(seen + gap, bytes + gap, STRIDE - BLOCK_NBYTES) == 0);
    }
}

static void expect_large(uint64_t moved)
{
    mpt_fill(bytes, NBYTES, moved);
    MPT_TRUE(memcmp(seen + N_BLOCKS * STRIDE, bytes + N_BLOCKS * STRIDE, LARGE_NBYTES) == 0);
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    next = (rank + 1) % nixl_size();
    near = alloc("near", "1");
    far = alloc("far", "0");
    mpt_barrier();
    fill(rank, near, 1);
    fill(next, far, 2);
    move(NIXL_XFER_PUT);
    expect(next, far, 1, 2);
    expect_large(1);
    fill(next, far, 3);
    move(NIXL_XFER_GET);
    expect(rank, near, 3, 1);
    expect_large(3);
    fill(rank, near, 4);
    MPT_OK(nixl_put_strided(next, far, 0, STRIDE, nixl_region_addr(near), STRIDE, BLOCK_NBYTES,
                            N_BLOCKS));
    expect(next, far, 4, 3);
    expect_large(3);
    mpt_barrier();
    MPT_OK(nixl_region_close(near, MPT_PATIENCE));
    MPT_OK(nixl_region_close(far, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
