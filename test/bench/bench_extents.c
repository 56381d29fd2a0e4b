/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of extents, as a KV cache of many tensors has them: some blocks of each extent by one
 * entry of a prepared transfer, beside an entry for each tensor in a region of one piece; and what
 * it takes to prepare such a transfer of millions of blocks. Rank 0 puts, rank 1 has the memory.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_EXTENTS 160 /* K and V of 80 layers */
#define N_BLOCKS  64  /* of each */
#define N_MOVED   16  /* of these */

/* 160 times as many are 6.5 million. */
#define N_PREPARED          40625
#define PREPARE_GOAL_NS     1e5
#define PREPARE_GOAL_NBYTES 65536

static struct bench_cache {
    unsigned char *memory;
    uint64_t extent_nbytes;
    int n_extents;                       /* fewer of large blocks */
    struct nixl_region *extents, *plain; /* the same memory in both */
    uint64_t here[N_MOVED], there[N_MOVED];
    struct nixl_xfer *by_extents, *by_entries;
} cache;

/* Both ranks have the same memory; rank 0 reads its own. */
static void cache_open(uint64_t block_nbytes)
{
    struct nixl_extent pieces[N_EXTENTS];
    uint64_t nbytes;

    cache.extent_nbytes = N_BLOCKS * block_nbytes;
    cache.n_extents = (int)bench_fitting(N_EXTENTS, cache.extent_nbytes);
    nbytes = (uint64_t)cache.n_extents * cache.extent_nbytes;
    cache.memory = malloc(nbytes);
    if (cache.memory == NULL) {
        bench_die("nixl_bench: no memory for %d extents", cache.n_extents);
    }
    memset(cache.memory, 1, nbytes);
    for (int i = 0; i < cache.n_extents; i++) {
        pieces[i] = (struct nixl_extent){cache.memory + (uint64_t)i * cache.extent_nbytes,
                                         cache.extent_nbytes};
    }
    bench_check(nixl_region_register_extents("bench.extents", pieces, cache.n_extents, NULL,
                                             &cache.extents),
                "nixl_region_register_extents");
    bench_check(nixl_region_register("bench.plain", cache.memory, nbytes, NULL, &cache.plain),
                "nixl_region_register");
    for (uint64_t i = 0; i < N_MOVED; i++) {
        cache.here[i] = i * 29 % N_BLOCKS;
        cache.there[i] = i * 43 % N_BLOCKS;
    }
}

static void cache_close(void)
{
    bench_check(nixl_region_close(cache.extents, BENCH_TIMEOUT_NS), "nixl_region_close");
    bench_check(nixl_region_close(cache.plain, BENCH_TIMEOUT_NS), "nixl_region_close");
    free(cache.memory);
}

static struct nixl_blocks entry_of(struct nixl_region *region, uint64_t block_nbytes,
                                   const uint64_t *index)
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;

    blocks.region = region;
    blocks.block_nbytes = blocks.stride = block_nbytes;
    blocks.nblocks = N_MOVED;
    blocks.index = index;
    return blocks;
}

static struct nixl_xfer *create(const struct bench *bench, const struct nixl_blocks *local,
                                const struct nixl_blocks *remote, size_t n)
{
    struct nixl_xfer *xfer;

    bench_check(nixl_xfer_create(NIXL_XFER_PUT, bench->peer, local, n, remote, n, &xfer),
                "nixl_xfer_create");
    return xfer;
}

static void xfers_make(const struct bench *bench)
{
    struct nixl_blocks local[N_EXTENTS], remote[N_EXTENTS];
    struct nixl_blocks here = entry_of(cache.extents, bench->nbytes, cache.here);
    struct nixl_blocks there = entry_of(cache.extents, bench->nbytes, cache.there);

    here.nextents = there.nextents = NIXL_ALL_EXTENTS;
    cache.by_extents = create(bench, &here, &there, 1);
    for (int i = 0; i < cache.n_extents; i++) {
        local[i] = entry_of(cache.plain, bench->nbytes, cache.here);
        remote[i] = entry_of(cache.plain, bench->nbytes, cache.there);
        local[i].offset = remote[i].offset = (uint64_t)i * cache.extent_nbytes;
    }
    cache.by_entries = create(bench, local, remote, cache.n_extents);
}

static void xfers_free(void)
{
    bench_check(nixl_xfer_free(cache.by_extents), "nixl_xfer_free");
    bench_check(nixl_xfer_free(cache.by_entries), "nixl_xfer_free");
}

static void xfers_start(struct bench *bench, long n, int by_entries)
{
    (void)bench;
    for (long i = 0; i < n; i++) {
        struct nixl_xfer *xfer = by_entries ? cache.by_entries : cache.by_extents;
        int status = nixl_xfer_start(xfer, NULL);

        bench_check(status == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, BENCH_TIMEOUT_NS) : status,
                    "nixl_xfer_start");
    }
}

static void xfer_row(struct bench *bench)
{
    int n_moved = cache.n_extents * N_MOVED;
    const struct bench_lane lanes[] = {
        {"nixlrun", xfers_start, 0, ACTOR_FIRST, n_moved},
        {"an entry for each, of one piece", xfers_start, 1, ACTOR_FIRST, n_moved}};
    struct bench_stats stats[2];
    char what[64];

    if (bench->rank == 0) {
        xfers_make(bench);
    }
    snprintf(what, sizeof(what), "put of a block, %d of each of %d extents", N_MOVED,
             cache.n_extents);
    sample_lanes(bench, lanes, 2, stats);
    report_lanes(bench, "extents", what, lanes, 2, stats, 0);
    if (bench->rank == 0) {
        xfers_free();
    }
}

/* One transfer of millions of blocks: made, asked, given back. */
static void prepare(struct bench *bench, struct bench_row *time, struct bench_row *memory)
{
    static uint64_t index[N_PREPARED];
    struct nixl_blocks blocks = entry_of(cache.extents, bench->nbytes, index);
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    struct nixl_xfer *xfer;
    int64_t start_ns;

    for (uint64_t i = 0; i < N_PREPARED; i++) {
        index[i] = i * 7919 % N_BLOCKS;
    }
    blocks.nblocks = N_PREPARED;
    blocks.nextents = NIXL_ALL_EXTENTS;
    start_ns = nxr_now_ns();
    xfer = create(bench, &blocks, &blocks, 1);
    time->value = (double)(nxr_now_ns() - start_ns);
    bench_check(nixl_xfer_query(xfer, &info), "nixl_xfer_query");
    memory->value = (double)info.memory_nbytes;
    bench_check(nixl_xfer_free(xfer), "nixl_xfer_free");
}

static void cache_stage(struct bench *bench, uint64_t block_nbytes)
{
    static const struct bench_alignment aligned = {0, 0};

    stage_data_open(bench, true, block_nbytes);
    stage_case(bench, block_nbytes, &aligned);
    cache_open(block_nbytes);
    stage_barrier(bench);
}

static void cache_unstage(struct bench *bench)
{
    stage_barrier(bench);
    cache_close();
    stage_data_close(bench);
}

void test_extents(struct bench *bench)
{
    static const uint64_t defaults[] = {4096, 16384};
    struct bench_row time = {.test = "extents",
                             .what = "prepare 6.5 million blocks of 160 extents",
                             .unit = "ns",
                             .goal = PREPARE_GOAL_NS};
    struct bench_row memory = {.test = "extents",
                               .what = "memory for all of these",
                               .unit = "B",
                               .goal = PREPARE_GOAL_NBYTES,
                               .note = "beside the caller's indices"};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 2, &sizes);

    for (int i = 0; i < n_sizes; i++) {
        cache_stage(bench, sizes[i]);
        xfer_row(bench);
        cache_unstage(bench);
    }
    cache_stage(bench, defaults[0]);
    if (bench->rank == 0) { /* the first transfer asks the peer for its extents */
        xfers_make(bench);
        xfers_free();
        prepare(bench, &time, &memory);
    }
    cache_unstage(bench);
    report_row(bench, &time);
    report_row(bench, &memory);
}
