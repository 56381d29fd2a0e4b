/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants: rank 0 puts blocks that rank 1 has lent, and gets them, each time by one use, beside the
 * same calls without a grant. Data is written by the sender before each put.
 */
#include "config.h"

#include "bench.h"

#include <string.h>

#define TAG_TOKEN 0xbe03

static struct nixl_region *lent;
static char token[NIXL_TOKEN_MAX + 1];

static void put_blocks(struct bench *bench, long n, int with_grant)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = with_grant ? NIXL_OP_GRANT : 0;
    op.grant = with_grant ? token : NULL;
    for (long i = 0; i < n; i++) {
        bench->local[0] = (unsigned char)i;
        bench_check(nixl_put_x(bench->peer, lent, 0, bench->local, bench->nbytes, &op, NULL),
                    "nixl_put_x");
    }
}

static void get_blocks(struct bench *bench, long n, int with_grant)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = with_grant ? NIXL_OP_GRANT : 0;
    op.grant = with_grant ? token : NULL;
    for (long i = 0; i < n; i++) {
        bench_check(nixl_get_x(bench->peer, lent, 0, bench->local, bench->nbytes, &op, NULL),
                    "nixl_get_x");
    }
}

/* Rank 1 lends all of its segment, to be read and written any number of times. */
static struct nixl_req *lend(const struct bench *bench, uint64_t nbytes)
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    struct nixl_req *req = NULL;
    int status;

    blocks.region = lent;
    blocks.block_nbytes = nbytes;
    params.rights = NIXL_GRANT_READ | NIXL_GRANT_WRITE;
    status = nixl_grant_create(&blocks, &params, token, sizeof(token), &req);
    bench_check(status == NIXL_INPROGRESS ? NIXL_OK : status, "nixl_grant_create");
    bench_check(nixl_notify(bench->peer, TAG_TOKEN, token, sizeof(token), BENCH_TIMEOUT_NS),
                "nixl_notify");
    return req;
}

static void receive_token(const struct bench *bench)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    bench_check(nixl_notify_recv(bench->peer, TAG_TOKEN, UINT64_MAX, BENCH_TIMEOUT_NS, &note),
                "nixl_notify_recv");
    memcpy(token, note.payload, sizeof(token));
}

void test_grant(struct bench *bench)
{
    static const uint64_t defaults[] = {8, 4096, 65536, 1 << 20};
    static const struct bench_alignment aligned = {0, 0};
    static const struct bench_lane puts[] = {{"nixlrun", put_blocks, 1, ACTOR_FIRST, 1},
                                             {"put_x", put_blocks, 0, ACTOR_FIRST, 1}};
    static const struct bench_lane gets[] = {{"nixlrun", get_blocks, 1, ACTOR_FIRST, 1},
                                             {"get_x", get_blocks, 0, ACTOR_FIRST, 1}};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 4, &sizes);
    uint64_t largest = bench_largest(sizes, n_sizes);
    struct nixl_req *req = NULL;

    stage_data_open(bench, false, largest);
    bench_check(nixl_region_alloc("bench.grant", largest, NULL, &lent), "nixl_region_alloc");
    if (bench->rank == 1) {
        req = lend(bench, largest);
    } else if (bench->rank == 0) {
        receive_token(bench);
    }
    for (int i = 0; i < n_sizes; i++) {
        struct bench_stats stats[2];

        stage_case(bench, sizes[i], &aligned);
        sample_lanes(bench, puts, 2, stats);
        report_lanes(bench, "grant", "put of lent bytes", puts, 2, stats, 0);
        sample_lanes(bench, gets, 2, stats);
        report_lanes(bench, "grant", "get of lent bytes", gets, 2, stats, 0);
    }
    stage_barrier(bench);
    bench_check(nixl_req_cancel(&req, BENCH_TIMEOUT_NS, NULL), "nixl_req_cancel");
    bench_check(nixl_region_close(lent, BENCH_TIMEOUT_NS), "nixl_region_close");
    stage_data_close(bench);
}
