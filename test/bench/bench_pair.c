/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paired operations: rank 0 exposes a buffer and sends its token by a notification, rank 1 reads
 * it, rank 0 hears that it is done; a turn is all of it. Beside it the same turn for ranks that
 * know each other's regions and are allowed everything: notify, get_notify, receive.
 */
#include "config.h"

#include "bench.h"

#include <stdio.h>
#include <string.h>

#define TAG_TOKEN 0xbe01
#define TAG_DONE  0xbe02

static struct nixl_region *exposed;
static struct nixl_note note;

static void receive(const struct bench *bench, uint64_t tag)
{
    nixl_note_init(&note);
    bench_check(nixl_notify_recv(bench->peer, tag, UINT64_MAX, BENCH_TIMEOUT_NS, &note),
                "nixl_notify_recv");
}

static void finish(int status, struct nixl_req **req, const char *call)
{
    bench_check(status == NIXL_INPROGRESS ? nixl_req_wait(req, BENCH_TIMEOUT_NS) : status, call);
}

static void use_tokens(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        char token[NIXL_TOKEN_MAX + 1];
        struct nixl_req *req = NULL;

        if (bench->rank == 0) {
            int status = nixl_pair_expose(bench->peer, exposed, 0, bench->nbytes, NIXL_PAIR_READ,
                                          BENCH_TIMEOUT_NS, token, sizeof(token), &req);

            bench_check(status == NIXL_INPROGRESS ? NIXL_OK : status, "nixl_pair_expose");
            bench_check(
                nixl_notify(bench->peer, TAG_TOKEN, token, strlen(token) + 1, BENCH_TIMEOUT_NS),
                "nixl_notify");
            finish(NIXL_INPROGRESS, &req, "nixl_req_wait");
        } else {
            receive(bench, TAG_TOKEN);
            finish(nixl_pair_read((const char *)note.payload, bench->local, bench->nbytes, &req),
                   &req, "nixl_pair_read");
        }
    }
}

static void without_tokens(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        char token[81] = ""; /* what a token takes */

        if (bench->rank == 0) {
            bench_check(nixl_notify(bench->peer, TAG_TOKEN, token, sizeof(token), BENCH_TIMEOUT_NS),
                        "nixl_notify");
            receive(bench, TAG_DONE);
        } else {
            receive(bench, TAG_TOKEN);
            bench_check(nixl_get_notify(bench->peer, exposed, 0, bench->local, bench->nbytes,
                                        TAG_DONE, NULL, 0, BENCH_TIMEOUT_NS),
                        "nixl_get_notify");
        }
    }
}

void test_pair(struct bench *bench)
{
    static const uint64_t defaults[] = {8, 65536, 1 << 20};
    static const struct bench_alignment aligned = {0, 0};
    static const struct bench_lane lanes[] = {
        {"nixlrun", use_tokens, 0, ACTOR_PAIR, 1},
        {"get_notify", without_tokens, 0, ACTOR_PAIR, 1},
    };
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 3, &sizes);

    stage_data_open(bench, false, bench_largest(sizes, n_sizes));
    bench_check(nixl_region_alloc("bench.pair", bench_largest(sizes, n_sizes), NULL, &exposed),
                "nixl_region_alloc");
    stage_barrier(bench);
    for (int i = 0; i < n_sizes; i++) {
        struct bench_stats stats[2];

        stage_case(bench, sizes[i], &aligned);
        sample_lanes(bench, lanes, 2, stats);
        report_lanes(bench, "pair", "expose + send token + read + hear", lanes, 2, stats, 0);
    }
    stage_barrier(bench);
    bench_check(nixl_region_close(exposed, BENCH_TIMEOUT_NS), "nixl_region_close");
    stage_data_close(bench);
}
