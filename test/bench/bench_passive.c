/* SPDX-License-Identifier: Apache-2.0 */
/* A target that computes and calls nothing while its memory is put to and gotten from. */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdio.h>

#define PASSIVE_GOAL 1.05    /* a computing target may cost this much over a polling one */
#define REMOTE_TURNS 16      /* of each kind of target between hosts */
#define REMOTE_OPS   16      /* in a turn; of large ones one */
#define LARGE_NBYTES 4194304 /* from here */
#define SETTLED_NS   5000000 /* so long the target has been at it */
#define TAG_NEVER    1       /* nobody sends it */

/* A bare one computes, too; a thread of it serves a bare connection. */
enum passive_target { TARGET_POLLS, TARGET_COMPUTES, TARGET_BARE, N_TARGETS };

static void poll_library(const struct bench *bench, long n)
{
    struct nixl_note note;

    nixl_note_init(&note);
    for (long i = 0; i < n; i++) {
        if (nixl_notify_recv(bench->peer, TAG_NEVER, UINT64_MAX, 0, &note) != NIXL_INPROGRESS) {
            bench_die("nixl_bench: received a notification that was never sent");
        }
    }
}

static void compute(long n)
{
    uint64_t x = 1;

    for (long i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
    }
    __asm__ volatile("" : : "r"(x)); /* or there would be nothing to compute */
}

/*
 * What rank 1 does until rank 0 is done: calls the library all the time, or never. Between hosts a
 * look whether it is done is a system call, so it comes seldom.
 */
static void be_target(struct bench *bench, uint64_t turn, enum passive_target target)
{
    long patience = bench->wire != NULL ? 64 : 1;

    while (!stage_is_told(bench, turn)) {
        if (target == TARGET_POLLS) {
            poll_library(bench, patience);
        } else {
            compute(1000 * patience);
        }
    }
}

static void be_bare_target(struct bench *bench, long n_ops, bool is_get)
{
    bare_target_start(bench, n_ops, is_get);
    while (!bare_target_has_ended()) {
        compute(1000);
    }
    bare_target_join();
}

static void reach_in(struct bench *bench, bool is_get)
{
    if (is_get) {
        bench_check(nixl_get(bench->peer, bench->region, 0, bench->src, bench->nbytes), "nixl_get");
    } else {
        bench_check(nixl_put(bench->peer, bench->region, 0, bench->src, bench->nbytes), "nixl_put");
        bench_check(nixl_flush(bench->peer, BENCH_TIMEOUT_NS), "nixl_flush");
    }
}

static void passive(struct bench *bench, long n, bool is_get, enum passive_target target)
{
    bench->flag_seq++;
    if (bench->rank == 1) {
        be_target(bench, bench->flag_seq, target);
        return;
    }
    for (long i = 0; i < n; i++) {
        reach_in(bench, is_get);
    }
    stage_tell(bench, 1, bench->flag_seq);
}

static void passive_put(struct bench *bench, long n, int target)
{
    passive(bench, n, false, (enum passive_target)target);
}

static void passive_get(struct bench *bench, long n, int target)
{
    passive(bench, n, true, (enum passive_target)target);
}

/* On one host a computing target costs next to nothing. */
static void passive_row(struct bench *bench, const char *what, bench_fn *fn)
{
    const struct bench_lane lanes[] = {{"target computes", fn, TARGET_COMPUTES, ACTOR_PAIR, 1},
                                       {"target polls", fn, TARGET_POLLS, ACTOR_PAIR, 1}};
    struct bench_stats stats[2];

    sample_lanes(bench, lanes, 2, stats);
    report_lanes(bench, "passive", what, lanes, 2, stats, PASSIVE_GOAL);
}

/* What rank 0 does in a turn, after the target has been at it for a while. */
static void reach_target(struct bench *bench, long n_ops, bool is_get, enum passive_target target,
                         double *samples)
{
    int64_t start;

    for (start = nxr_now_ns(); nxr_now_ns() - start < SETTLED_NS;) {
    }
    for (long op = 0; op < n_ops; op++) {
        start = nxr_now_ns();
        if (target == TARGET_BARE) {
            bare_target_reach(bench, is_get);
        } else {
            reach_in(bench, is_get);
        }
        samples[op] = (double)(nxr_now_ns() - start);
    }
    if (target != TARGET_BARE) {
        stage_tell(bench, 1, bench->flag_seq);
    }
}

/*
 * All kinds of targets in turn. A rank that polled serves itself for a moment longer, so the first
 * operation comes when the target has been at it for a while.
 */
static void run_remote(struct bench *bench, bool is_get, struct bench_stats *stats)
{
    static double samples[N_TARGETS][REMOTE_TURNS * REMOTE_OPS];
    int n_ops = bench->nbytes > LARGE_NBYTES ? 1 : sample_turns(bench, REMOTE_OPS);
    int n_turns = sample_turns(bench, REMOTE_TURNS * n_ops) / n_ops;

    for (int i = 0; i < N_TARGETS * n_turns; i++) {
        enum passive_target target = (enum passive_target)(i % N_TARGETS);

        bench->flag_seq++;
        stage_barrier(bench);
        if (bench->rank == 0) {
            reach_target(bench, n_ops, is_get, target, &samples[target][i / N_TARGETS * n_ops]);
        } else if (target == TARGET_BARE) {
            be_bare_target(bench, n_ops, is_get);
        } else {
            be_target(bench, bench->flag_seq, target);
        }
    }
    stage_barrier(bench);
    for (int i = 0; bench->rank == 0 && i < N_TARGETS; i++) {
        sample_stats(samples[i], n_turns * n_ops, &stats[i]);
    }
}

/*
 * Between hosts the target's service thread must be woken, there and perhaps once more: allowed are
 * two wake-ups over a polling target. A wake-up is what a bare connection loses when its other end
 * sleeps. Told beside it is what a bare connection takes to such a target: its thread, too, shares
 * the cores with two that are busy.
 */
static void passive_remote_row(struct bench *bench, const char *what, bool is_get)
{
    double wake_ns = bare_tcp_wake_ns(bench);
    struct bench_stats stats[N_TARGETS] = {{0}};
    const struct bench_stats *polls = &stats[TARGET_POLLS], *computes = &stats[TARGET_COMPUTES];
    const struct bench_stats *bare = &stats[TARGET_BARE];
    char note[96], bare_what[80];

    run_remote(bench, is_get, stats);
    snprintf(note, sizeof(note), "polling %.1f us, a wake-up %.1f us; %.2f of raw TCP to it",
             polls->median_ns / 1e3, wake_ns / 1e3, computes->median_ns / bare->median_ns);
    report_row(bench, &(struct bench_row){.test = "passive",
                                          .what = what,
                                          .nbytes = bench->nbytes,
                                          .has_nbytes = true,
                                          .unit = "ns",
                                          .value = computes->median_ns,
                                          .p99 = computes->p99_ns,
                                          .min = computes->min_ns,
                                          .bytes_per_op = (double)bench->nbytes,
                                          .limit_name = "polls + 2 wakes",
                                          .limit = polls->median_ns + 2 * wake_ns,
                                          .goal = 1,
                                          .note = note});
    snprintf(bare_what, sizeof(bare_what), "raw TCP: %s", what);
    report_row(bench, &(struct bench_row){.test = "passive",
                                          .what = bare_what,
                                          .nbytes = bench->nbytes,
                                          .has_nbytes = true,
                                          .unit = "ns",
                                          .value = bare->median_ns,
                                          .p99 = bare->p99_ns,
                                          .min = bare->min_ns,
                                          .bytes_per_op = (double)bench->nbytes});
}

void test_passive(struct bench *bench)
{
    static const uint64_t defaults[] = {8, 1 << 20, 4096, 65536, 64 << 20};
    static const struct bench_alignment aligned = {0, 0};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, bench->wire != NULL ? 5 : 2, &sizes);

    for (int is_registered = 0; is_registered < 2; is_registered++) {
        stage_data_open(bench, is_registered, bench_largest(sizes, n_sizes));
        for (int i = 0; i < 2 * n_sizes; i++) {
            bool is_get = i % 2 == 1;
            char what[64];

            snprintf(what, sizeof(what), "%s while target computes%s", is_get ? "get" : "put",
                     is_registered ? " registered" : "");
            stage_case(bench, sizes[i / 2], &aligned);
            if (bench->wire != NULL) {
                passive_remote_row(bench, what, is_get);
            } else {
                passive_row(bench, what, is_get ? passive_get : passive_put);
            }
        }
        stage_data_close(bench);
    }
}
