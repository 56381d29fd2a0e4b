/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared transfers: blocks at scattered offsets beside a loop over the same blocks, by memcpy
 * where the peer's segment is mapped, else by a put or get each; and what it takes to prepare one
 * of millions of blocks. Rank 0 acts.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_BLOCKS    10000
#define N_PREPARED  8000000
#define GOAL_NBYTES 4096
#define MEMCPY_GOAL 1.1
/* For all of N_PREPARED, and for each of them, the caller's two indices left out. */
#define PREPARE_GOAL_NS       1e9
#define PREPARE_GOAL_NBYTES   16
#define PREPARE_BLOCK_NBYTES  4096
#define PREPARE_REGION_BLOCKS 1024

static struct scatter {
    uint64_t here[N_BLOCKS], there[N_BLOCKS]; /* which block goes where */
    int n_blocks;                             /* fewer of large ones */
    struct nixl_xfer *put, *get;
} scatter;

/* Every number once, in an order that no prefetcher sees through. */
static void shuffle(uint64_t *index, uint64_t n, uint64_t seed)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t j;

        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        j = (seed >> 33) % (i + 1);
        index[i] = index[j];
        index[j] = i;
    }
}

static struct nixl_blocks blocks_of(uint64_t block_nbytes, uint64_t nblocks, const uint64_t *index)
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;

    blocks.block_nbytes = blocks.stride = block_nbytes;
    blocks.nblocks = nblocks;
    blocks.index = index;
    return blocks;
}

static struct nixl_xfer *create(const struct bench *bench, enum nixl_xfer_op op,
                                struct nixl_blocks local, struct nixl_blocks remote)
{
    struct nixl_xfer *xfer;

    local.addr = bench->local;
    remote.region = bench->region;
    bench_check(nixl_xfer_create(op, bench->peer, &local, 1, &remote, 1, &xfer),
                "nixl_xfer_create");
    return xfer;
}

static void start(struct bench *bench, long n, int is_get)
{
    (void)bench;
    for (long i = 0; i < n; i++) {
        struct nixl_xfer *xfer = is_get ? scatter.get : scatter.put;
        int status = nixl_xfer_start(xfer, NULL);

        bench_check(status == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, BENCH_TIMEOUT_NS) : status,
                    "nixl_xfer_start");
    }
}

static void loop_of_memcpy(struct bench *bench, long n, int is_get)
{
    uint64_t nbytes = bench->nbytes;

    for (long i = 0; i < n; i++) {
        for (int block = 0; block < scatter.n_blocks; block++) {
            unsigned char *here = bench->local + scatter.here[block] * nbytes;
            unsigned char *there = bench->theirs + scatter.there[block] * nbytes;

            memcpy(is_get ? here : there, is_get ? there : here, nbytes);
        }
    }
}

static void loop_of_calls(struct bench *bench, long n, int is_get)
{
    uint64_t nbytes = bench->nbytes;

    for (long i = 0; i < n; i++) {
        for (int block = 0; block < scatter.n_blocks; block++) {
            unsigned char *here = bench->local + scatter.here[block] * nbytes;
            uint64_t there = scatter.there[block] * nbytes;

            bench_check(is_get ? nixl_get(bench->peer, bench->region, there, here, nbytes)
                               : nixl_put(bench->peer, bench->region, there, here, nbytes),
                        "a loop of calls");
        }
    }
}

static void scatter_row(struct bench *bench, bool is_get)
{
    bool is_mapped = bench->theirs != NULL;
    int n_blocks = scatter.n_blocks;
    const struct bench_lane lanes[] = {{"nixlrun", start, is_get, ACTOR_FIRST, n_blocks},
                                       {is_mapped ? "a loop of memcpy"
                                        : is_get  ? "a loop of get"
                                                  : "a loop of put",
                                        is_mapped ? loop_of_memcpy : loop_of_calls, is_get,
                                        ACTOR_FIRST, n_blocks}};
    struct bench_stats stats[2];
    char what[96];

    snprintf(what, sizeof(what), "%s of a block of %d%s%s", is_get ? "get" : "put", n_blocks,
             is_mapped ? "" : " by ", is_mapped ? "" : bench->method);
    sample_lanes(bench, lanes, 2, stats);
    report_lanes(bench, "xfer", what, lanes, 2, stats,
                 is_mapped && bench->nbytes == GOAL_NBYTES ? MEMCPY_GOAL : 0);
}

static void scatter_rows(struct bench *bench)
{
    static const uint64_t defaults[] = {512, 4096, 16384};
    static const struct bench_alignment aligned = {0, 0};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 3, &sizes);

    for (int i = 0; i < n_sizes; i++) {
        uint64_t n_blocks = bench_fitting(N_BLOCKS, sizes[i]);
        struct nixl_blocks local = blocks_of(sizes[i], n_blocks, scatter.here);
        struct nixl_blocks remote = blocks_of(sizes[i], n_blocks, scatter.there);

        scatter.n_blocks = (int)n_blocks;
        shuffle(scatter.here, n_blocks, 1);
        shuffle(scatter.there, n_blocks, 2);
        stage_data_open(bench, bench->options.is_registered, sizes[i] * n_blocks);
        stage_case(bench, sizes[i], &aligned);
        if (bench->rank == 0) {
            scatter.put = create(bench, NIXL_XFER_PUT, local, remote);
            scatter.get = create(bench, NIXL_XFER_GET, local, remote);
        }
        scatter_row(bench, false);
        scatter_row(bench, true);
        if (bench->rank == 0) {
            bench_check(nixl_xfer_free(scatter.put), "nixl_xfer_free");
            bench_check(nixl_xfer_free(scatter.get), "nixl_xfer_free");
        }
        stage_data_close(bench);
    }
}

/* One transfer of millions of blocks, all inside of a small region: made, asked, given back. */
static void prepare(struct bench *bench, struct bench_row *time, struct bench_row *memory)
{
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    uint64_t *index = malloc(N_PREPARED * sizeof(*index));
    struct nixl_blocks blocks = blocks_of(PREPARE_BLOCK_NBYTES, N_PREPARED, index);
    struct nixl_xfer *xfer;
    int64_t start_ns;

    if (index == NULL) {
        bench_die("nixl_bench: no memory for an index of %d blocks", N_PREPARED);
    }
    for (uint64_t i = 0; i < N_PREPARED; i++) {
        index[i] = i * 7919 % PREPARE_REGION_BLOCKS;
    }
    start_ns = nxr_now_ns();
    xfer = create(bench, NIXL_XFER_PUT, blocks, blocks);
    time->value = (double)(nxr_now_ns() - start_ns);
    bench_check(nixl_xfer_query(xfer, &info), "nixl_xfer_query");
    memory->value = (double)info.memory_nbytes / N_PREPARED;
    bench_check(nixl_xfer_free(xfer), "nixl_xfer_free");
    free(index);
}

void test_xfer(struct bench *bench)
{
    struct bench_row time = {
        .test = "xfer", .what = "prepare 8 million blocks", .unit = "ns", .goal = PREPARE_GOAL_NS};
    struct bench_row memory = {.test = "xfer",
                               .what = "memory for each of these",
                               .unit = "B",
                               .goal = PREPARE_GOAL_NBYTES,
                               .note = "beside the caller's indices, 8 B on each side"};

    scatter_rows(bench);
    stage_data_open(bench, bench->options.is_registered,
                    (uint64_t)PREPARE_REGION_BLOCKS * PREPARE_BLOCK_NBYTES);
    if (bench->rank == 0) {
        prepare(bench, &time, &memory);
    }
    stage_data_close(bench);
    report_row(bench, &time);
    report_row(bench, &memory);
}
