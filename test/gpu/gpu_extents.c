/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of extents in memories of every kind: a KV cache of which each tensor was allocated in
 * its own way, some of them in host memory. Puts, gets and requests reach each extent, and one
 * entry of a prepared transfer moves the same blocks of all of them, from extents of other kinds.
 */
#include "test/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

#define NBYTES   ((size_t)2 << 20)
#define BLOCK    8192
#define N_BLOCKS (NBYTES / BLOCK)

static const enum gpu_way ways[] = {GPU_MALLOC, GPU_VMM,    GPU_POOL,
                                    GPU_ASYNC,  GPU_MALLOC, GPU_MANAGED};
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

struct cache {
    struct gpu_region memory[N_WAYS];
    struct nixl_extent extents[2 * N_WAYS]; /* beside each, one of host memory */
    size_t n;
    struct nixl_region *region;
};

static int other;

/* ---- caches ---------------------------------------------------------------------------------- */

/* In which memory the extent lies. */
static struct gpu_region memory_of(const struct cache *cache, size_t i)
{
    return (struct gpu_region){.way = i % 2 == 0 ? cache->memory[i / 2].way : GPU_HOST,
                               .addr = (uintptr_t)cache->extents[i].addr,
                               .nbytes = NBYTES};
}

/* `shift`: with which way the list begins, so that the two sides of a transfer differ. */
static void cache_open(struct cache *cache, const char *name, size_t shift)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    size_t n = 0;

    for (size_t i = 0; i < N_WAYS; i++) {
        enum gpu_way way = ways[(i + shift) % N_WAYS];

        if (!gpu_memory_make(way, NBYTES, &cache->memory[n])) {
            MPT_TRUE(gpu_memory_make(GPU_MALLOC, NBYTES, &cache->memory[n]));
        }
        cache->extents[2 * n] = (struct nixl_extent){(void *)cache->memory[n].addr, NBYTES};
        cache->extents[2 * n + 1] = (struct nixl_extent){malloc(NBYTES), NBYTES};
        MPT_TRUE(cache->extents[2 * n + 1].addr != NULL);
        n++;
    }
    cache->n = 2 * n;
    for (size_t i = 0; i < cache->n; i++) {
        struct gpu_region memory = memory_of(cache, i);

        gpu_fill(&memory, 0, NBYTES, 0);
    }
    params.kind = NIXL_MEM_AUTO;
    MPT_OK(nixl_region_register_extents(name, cache->extents, cache->n, &params, &cache->region));
}

static void cache_close(struct cache *cache)
{
    MPT_OK(nixl_region_close(cache->region, MPT_PATIENCE));
    for (size_t i = 0; i < cache->n / 2; i++) {
        gpu_memory_end(&cache->memory[i]);
        free(cache->extents[2 * i + 1].addr);
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void extents_are_told(struct cache *cache)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    for (size_t i = 0; i < cache->n; i++) {
        MPT_OK(nixl_region_query_extent(other, cache->region, i, MPT_PATIENCE, &info));
        MPT_EQ(info.kind, i % 2 == 0 ? NIXL_MEM_CUDA : NIXL_MEM_HOST);
        MPT_EQ(info.nbytes, NBYTES);
        MPT_EQ(info.offset, i * NBYTES);
        MPT_EQ(info.nextents, cache->n);
        if (i % 2 == 1) {
            MPT_TEXT(info.device, "");
        }
    }
}

/* From host memory, and from GPU memory that is in no region. */
static void single_operations(struct cache *cache, const struct gpu_region *loose)
{
    static char bytes[BLOCK];
    struct nixl_req *req = NULL;
    int status;

    for (size_t i = 0; i < cache->n; i++) {
        uint64_t at = i * NBYTES + NBYTES - BLOCK, seed = 100 * i + 10 * (uint64_t)nixl_rank();

        mpt_fill(bytes, BLOCK, seed);
        MPT_OK(nixl_put(other, cache->region, at, bytes, BLOCK));
        MPT_OK(nixl_flush(other, MPT_PATIENCE));
        gpu_fill(loose, 0, BLOCK, 1);
        MPT_OK(nixl_get(other, cache->region, at, (void *)loose->addr, BLOCK));
        GPU_CHECK(loose, 0, BLOCK, seed);
        gpu_fill(loose, 0, BLOCK, seed + 1);
        status = nixl_put_x(other, cache->region, at, (void *)loose->addr, BLOCK, NULL, &req);
        MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
        MPT_OK(nixl_flush(other, MPT_PATIENCE));
        memset(bytes, 0, BLOCK);
        MPT_OK(nixl_get(other, cache->region, at, bytes, BLOCK));
        MPT_CHECK(bytes, BLOCK, seed + 1);
        MPT_STATUS(nixl_put(other, cache->region, at + 1, bytes, BLOCK), NIXL_E_RANGE);
    }
}

static uint64_t seed_of(int rank, size_t extent, uint64_t block)
{
    return 100000 * (uint64_t)rank + 1000 * extent + block;
}

/* One index for all extents of both sides. */
static void the_same_blocks_of_all(struct nixl_team *team, struct cache *cache, struct cache *mine)
{
    static uint64_t from[N_BLOCKS / 2], into[N_BLOCKS / 2];
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;
    int status;

    for (uint64_t b = 0; b < N_BLOCKS / 2; b++) {
        from[b] = 2 * b + 1;
        into[b] = N_BLOCKS / 2 - 1 - b; /* the last block of an extent holds other bytes */
    }
    for (size_t i = 0; i < mine->n; i++) {
        struct gpu_region memory = memory_of(mine, i);

        for (uint64_t b = 0; b < N_BLOCKS / 2; b++) {
            gpu_fill(&memory, from[b] * BLOCK, BLOCK, seed_of(nixl_rank(), i, b));
        }
    }
    local.region = mine->region;
    remote.region = cache->region;
    local.block_nbytes = remote.block_nbytes = local.stride = remote.stride = BLOCK;
    local.nblocks = remote.nblocks = N_BLOCKS / 2;
    local.index = from;
    remote.index = into;
    local.nextents = remote.nextents = NIXL_ALL_EXTENTS;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, other, &local, 1, &remote, 1, &xfer));
    for (int start = 0; start < 2; start++) {
        status = nixl_xfer_start(xfer, NULL);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    }
    MPT_OK(nixl_flush(other, MPT_PATIENCE));
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    for (size_t i = 0; i < cache->n; i++) {
        struct gpu_region memory = memory_of(cache, i);

        for (uint64_t b = 0; b < N_BLOCKS / 2; b++) {
            GPU_CHECK(&memory, into[b] * BLOCK, BLOCK, seed_of(other, i, b));
        }
    }
}

int main(void)
{
    static struct cache cache, mine;
    struct gpu_region loose;
    struct nixl_team *team;

    mpt_start();
    if (cuda_load("libcuda.so.1") != NULL) {
        mpt_skip("%s", cuda_load("libcuda.so.1"));
    }
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    other = 1 - nixl_rank();
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    gpu_start();
    MPT_TRUE(gpu_memory_make(GPU_MALLOC, NBYTES, &loose));
    cache_open(&cache, "cache", 0);
    cache_open(&mine, NULL, 2);
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    extents_are_told(&cache);
    single_operations(&cache, &loose);
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    the_same_blocks_of_all(team, &cache, &mine);
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    cache_close(&cache);
    cache_close(&mine);
    gpu_memory_end(&loose);
    MPT_OK(nixl_finalize());
    gpu_stop();
    return mpt_passed();
}
