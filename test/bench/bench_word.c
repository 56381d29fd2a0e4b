/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words: put_signal as a ping-pong beside a bare flag, and fetch_add on a peer's word beside the
 * processor's own atomic on the same word.
 */
#include "config.h"

#include "bench.h"

#include <string.h>

#define ONE_WAY_GOAL 1.15 /* of the flag ping-pong, 8 bytes */

/* The signal lies behind the data, on lines of its own; a counted word behind that. */
#define SIGNAL_OFFSET(_bench) (((_bench)->nbytes + 4 * BENCH_LINE) / BENCH_LINE * BENCH_LINE)
#define WORD_OFFSET           0

static uint64_t n_signals; /* received so far, of the current case */

static void await_signal(struct bench *bench)
{
    const void *word = bench->mine + SIGNAL_OFFSET(bench);

    n_signals++; /* in a ping-pong it is exactly this one, or a turn was lost */
    bench_check(nixl_signal_wait(word, NIXL_EQ, n_signals, BENCH_TIMEOUT_NS, NULL),
                "nixl_signal_wait");
}

static void put_signal(struct bench *bench, long n, int arg)
{
    uint64_t signal_offset = SIGNAL_OFFSET(bench);

    (void)arg;
    for (long i = 0; i < n; i++) {
        if (bench->rank == 1) {
            await_signal(bench);
        }
        bench_check(nixl_put_signal(bench->peer, bench->region, bench->alignment.dst, bench->src,
                                    bench->nbytes, bench->region, signal_offset, 1),
                    "nixl_put_signal");
        if (bench->rank == 0) {
            await_signal(bench);
        }
    }
}

static void begin_signals(struct bench *bench)
{
    n_signals = 0;
    memset(bench->mine + SIGNAL_OFFSET(bench), 0, sizeof(uint64_t));
    stage_barrier(bench);
}

void test_put_signal(struct bench *bench)
{
    static const uint64_t defaults[] = {8, 64, 512, 4096, 65536, 1 << 20};
    static const struct bench_alignment aligned = {0, 0};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 6, &sizes);

    for (int i = 0; i < n_sizes; i++) {
        struct bench_lane lanes[2] = {{"nixlrun", put_signal, 0, ACTOR_PAIR, 2}};
        struct bench_stats stats[2];

        stage_data_open(bench, bench->options.is_registered, sizes[i]);
        stage_case(bench, sizes[i], &aligned);
        begin_signals(bench);
        lanes[1] = bare_one_way_lane(bench, false);
        sample_lanes(bench, lanes, 2, stats);
        report_lanes(bench, "put_signal", "put_signal one way", lanes, 2, stats,
                     sizes[i] == 8 && bench->theirs != NULL ? ONE_WAY_GOAL : 0);
        stage_data_close(bench);
    }
}

static void fetch_add(struct bench *bench, long n, int arg)
{
    const uint64_t one = 1;
    uint64_t before;

    (void)arg;
    for (long i = 0; i < n; i++) {
        bench_check(nixl_atomic(bench->peer, bench->region, WORD_OFFSET, NIXL_UINT64,
                                NIXL_ATOMIC_ADD, &one, &before),
                    "nixl_atomic");
    }
}

static void bare_fetch_add(struct bench *bench, long n, int arg)
{
    _Atomic uint64_t *word = (void *)bench->raw_dst;
    uint64_t before = 0;

    (void)arg;
    for (long i = 0; i < n; i++) {
        before += atomic_fetch_add(word, 1);
    }
    __asm__ volatile("" : : "r"(before));
}

/* The goal, no slower than raw UCX, is held by `compare', which runs both. */
void test_fetch_add(struct bench *bench)
{
    struct bench_lane lanes[] = {{"nixlrun", fetch_add, 0, ACTOR_FIRST, 1},
                                 {"bare atomic", bare_fetch_add, 0, ACTOR_FIRST, 1}};
    static const struct bench_alignment aligned = {0, 0};
    struct bench_stats stats[2];
    int n_lanes = 2;

    stage_data_open(bench, bench->options.is_registered, 4096);
    stage_case(bench, 8, &aligned);
    if (bench->wire != NULL) {
        lanes[1] = bare_tcp_lane(bench, TCP_ROUND_TRIP);
    } else if (bench->theirs == NULL) {
        n_lanes = 1; /* registered memory is not mapped here */
    }
    sample_lanes(bench, lanes, n_lanes, stats);
    report_lanes(bench, "fetch_add", "fetch_add", lanes, n_lanes, stats, 0);
    stage_data_close(bench);
}
