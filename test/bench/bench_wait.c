/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait asleep: one that a notification wakes, and the CPU time of those that idle. */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAKE_GOAL  1.2
#define IDLE_GOAL  1.0     /* percent of a core */
#define SLEEPY_NS  1500000 /* time to fall asleep: the library spins for up to 400 us */
#define WAKE_TURNS 400
#define WAKE_TRIES 20 /* as many turns at most for each that counts */
#define TAG_WAKE   1

static void pass_time(int64_t ns)
{
    struct timespec left = nxr_timespec(ns);

    while (nanosleep(&left, &left) != 0) {
    }
}

/* ---- sleep ---- */

/* Wait on a word in the shared page, as bare as the kernel offers. */
static void futex_wait(_Atomic uint32_t *word, uint32_t old)
{
    while (atomic_load_explicit(word, memory_order_acquire) == old) {
        syscall(SYS_futex, word, FUTEX_WAIT, old, NULL, NULL, 0);
    }
}

/* How often this thread has gone to sleep. */
static long n_sleeps(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* Sleep once and say when it was woken, and whether it slept at all. */
static void sleep_once(struct bench *bench, bool is_bare, uint64_t turn, struct nixl_note *note)
{
    struct bench_page *page = bench->page;
    uint32_t old = atomic_load_explicit(&page->futex, memory_order_relaxed);
    long n_before = n_sleeps();

    atomic_store_explicit(&page->ready, turn, memory_order_release);
    if (is_bare) {
        futex_wait(&page->futex, old);
    } else {
        bench_check(nixl_notify_recv(bench->peer, TAG_WAKE, UINT64_MAX, BENCH_TIMEOUT_NS, note),
                    "nixl_notify_recv");
    }
    atomic_store_explicit(&page->stamp_ns, nxr_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&page->has_slept, n_sleeps() != n_before, memory_order_relaxed);
    atomic_store_explicit(&page->done, turn, memory_order_release);
}

/* Wake the sleeper once; from just before the call until it runs. */
static double wake_once(struct bench *bench, bool is_bare, uint64_t turn)
{
    struct bench_page *page = bench->page;
    uint64_t payload = turn;
    int64_t start;

    while (atomic_load_explicit(&page->ready, memory_order_acquire) != turn) {
    }
    for (start = nxr_now_ns(); nxr_now_ns() - start < SLEEPY_NS;) {
    }
    start = nxr_now_ns();
    if (is_bare) {
        atomic_fetch_add_explicit(&page->futex, 1, memory_order_release);
        syscall(SYS_futex, &page->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
    } else {
        bench_check(nixl_notify(bench->peer, TAG_WAKE, &payload, sizeof(payload), BENCH_TIMEOUT_NS),
                    "nixl_notify");
    }
    while (atomic_load_explicit(&page->done, memory_order_acquire) != turn) {
    }
    return (double)(atomic_load_explicit(&page->stamp_ns, memory_order_relaxed) - start);
}

enum wake { WAKE_NOTIFY, WAKE_BARE, N_WAKES };

/*
 * Wake-ups of the given kinds in turn; the samples are rank 0's. Collective over two ranks. Where
 * others took the core from the sleeper before it slept, the turn does not count.
 */
static void run_wakes(struct bench *bench, const enum wake *kinds, int n_kinds,
                      struct bench_stats *stats)
{
    static double samples[N_WAKES][WAKE_TURNS];
    const int n_turns = sample_turns(bench, WAKE_TURNS), n_samples = n_kinds * n_turns;
    struct nixl_note note;
    uint64_t turn = 0;

    nixl_note_init(&note);
    atomic_store(&bench->page->ready, 0);
    atomic_store(&bench->page->done, 0);
    stage_barrier(bench);
    for (int i = 0; i < n_samples; i += atomic_load(&bench->page->has_slept)) {
        bool is_bare = kinds[i % n_kinds] == WAKE_BARE;

        if (++turn > (uint64_t)n_samples * WAKE_TRIES) {
            bench_die("nixl_bench: the sleeper slept only %d times of %d", i, n_samples);
        }
        if (bench->rank == 0) {
            samples[i % n_kinds][i / n_kinds] = wake_once(bench, is_bare, turn);
        } else {
            sleep_once(bench, is_bare, turn, &note);
        }
    }
    stage_barrier(bench);
    for (int i = 0; i < n_kinds; i++) {
        sample_stats(samples[i], n_turns, &stats[i]);
    }
}

/*
 * Between hosts no clock is shared: from the call until rank 1, which sleeps, has answered. Rank 0
 * spins for the answer.
 */
static void wake_and_hear(struct bench *bench)
{
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    if (bench->rank == 0) {
        bench_check(nixl_notify(bench->peer, TAG_WAKE, NULL, 0, BENCH_TIMEOUT_NS), "nixl_notify");
    }
    do {
        status = nixl_notify_recv(bench->peer, TAG_WAKE, UINT64_MAX,
                                  bench->rank == 0 ? 0 : BENCH_TIMEOUT_NS, &note);
    } while (status == NIXL_INPROGRESS);
    bench_check(status, "nixl_notify_recv");
    if (bench->rank == 1) {
        bench_check(nixl_notify(bench->peer, TAG_WAKE, NULL, 0, BENCH_TIMEOUT_NS), "nixl_notify");
    }
}

/* Wake-ups of both kinds in turn, each after rank 1 had time to fall asleep. */
static void run_remote_wakes(struct bench *bench, struct bench_stats *stats)
{
    static double samples[N_WAKES][WAKE_TURNS];
    const int n_turns = sample_turns(bench, WAKE_TURNS);

    stage_barrier(bench);
    for (int i = 0; i < N_WAKES * n_turns; i++) {
        int64_t start = nxr_now_ns();

        while (bench->rank == 0 && nxr_now_ns() - start < SLEEPY_NS) {
        }
        start = nxr_now_ns();
        if (i % N_WAKES == WAKE_BARE) {
            bare_tcp_round_trip(bench, 1, true);
        } else {
            wake_and_hear(bench);
        }
        samples[i % N_WAKES][i / N_WAKES] = (double)(nxr_now_ns() - start);
    }
    stage_barrier(bench);
    for (int i = 0; i < N_WAKES; i++) {
        sample_stats(samples[i], n_turns, &stats[i]);
    }
}

void test_sleep(struct bench *bench)
{
    static const struct bench_lane lanes[] = {{"nixlrun", NULL, 0, ACTOR_PAIR, 1},
                                              {"futex wake", NULL, 0, ACTOR_PAIR, 1}};
    static const struct bench_lane remote_lanes[] = {{"nixlrun", NULL, 0, ACTOR_PAIR, 1},
                                                     {"raw TCP asleep", NULL, 0, ACTOR_PAIR, 1}};
    static const struct bench_alignment aligned = {0, 0};
    static const enum wake kinds[] = {WAKE_NOTIFY, WAKE_BARE};
    struct bench_stats stats[2];

    stage_case(bench, 8, &aligned);
    if (bench->wire != NULL) {
        run_remote_wakes(bench, stats);
        report_lanes(bench, "sleep", "notify a sleeper and its answer", remote_lanes, 2, stats, 0);
    } else {
        run_wakes(bench, kinds, 2, stats);
        report_lanes(bench, "sleep", "notify a sleeping rank", lanes, 2, stats, WAKE_GOAL);
    }
}

void bare_wake_rows(struct bench *bench)
{
    static const struct bench_lane lane = {"futex wake", NULL, 0, ACTOR_PAIR, 1};
    static const enum wake kind = WAKE_BARE;
    static const struct bench_alignment aligned = {0, 0};
    struct bench_stats stats;

    stage_case(bench, 8, &aligned);
    run_wakes(bench, &kind, 1, &stats);
    report_lanes(bench, "limits", "one way: futex wake", &lane, 1, &stats, 0);
}

/* ---- idle ---- */

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/*
 * All ranks but 0 wait for a notification that comes after --seconds. The share includes the spin
 * at the start and every thread of the process.
 */
void test_idle(struct bench *bench)
{
    double share = 0, worst = 0, sum = 0, cpu;
    struct nixl_note note;
    int64_t start;
    char remark[64];

    nixl_note_init(&note);
    stage_barrier(bench);
    cpu = cpu_seconds();
    start = nxr_now_ns();
    if (bench->rank == 0) {
        pass_time((int64_t)(bench->options.seconds * 1e9));
        for (int rank = 1; rank < bench->size; rank++) {
            bench_check(nixl_notify(rank, TAG_WAKE, NULL, 0, BENCH_TIMEOUT_NS), "nixl_notify");
        }
        for (int rank = 1; rank < bench->size; rank++) {
            bench_check(nixl_notify_recv(rank, TAG_WAKE, UINT64_MAX, BENCH_TIMEOUT_NS, &note),
                        "nixl_notify_recv");
            share = *(const double *)(const void *)note.payload;
            worst = share > worst ? share : worst;
            sum += share;
        }
        snprintf(remark, sizeof(remark), "mean %.3f %%", sum / (bench->size - 1));
        report_row(bench, &(struct bench_row){.test = "idle",
                                              .what = "CPU of the busiest waiting rank",
                                              .unit = "%",
                                              .value = worst,
                                              .goal = IDLE_GOAL,
                                              .note = remark});
    } else {
        bench_check(nixl_notify_recv(0, TAG_WAKE, UINT64_MAX,
                                     (int64_t)(bench->options.seconds * 1e9) + BENCH_TIMEOUT_NS,
                                     &note),
                    "nixl_notify_recv");
        share = 100e9 * (cpu_seconds() - cpu) / (double)(nxr_now_ns() - start);
        bench_check(nixl_notify(0, TAG_WAKE, &share, sizeof(share), BENCH_TIMEOUT_NS),
                    "nixl_notify");
    }
    stage_barrier(bench);
}
