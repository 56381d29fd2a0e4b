/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long it takes to make a team, by each call, and to free it: on rank 0, where all
 * ranks begin together. What a team is for is measured in bench_collective.c. No locks.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdio.h>
#include <string.h>

#define MAX_SAMPLES 400
#define MIN_SAMPLES 9

static struct nixl_team *world;
static int backwards[BENCH_MAX_RANKS]; /* all ranks, the last first */

/* ---- the calls ---- */

static int make_world(struct nixl_team **team_p)
{
    return nixl_team_world(BENCH_TIMEOUT_NS, team_p);
}

static int make_node(struct nixl_team **team_p)
{
    return nixl_team_node(BENCH_TIMEOUT_NS, team_p);
}

static int make_listed(struct nixl_team **team_p)
{
    return nixl_team_create(backwards, (size_t)nixl_size(), BENCH_TIMEOUT_NS, team_p);
}

static int make_strided(struct nixl_team **team_p)
{
    return nixl_team_strided(0, 1, (size_t)nixl_size(), BENCH_TIMEOUT_NS, team_p);
}

static int make_split(struct nixl_team **team_p)
{
    return nixl_team_split(world, nixl_rank() % 2, 0, BENCH_TIMEOUT_NS, team_p);
}

static int make_shrunk(struct nixl_team **team_p)
{
    return nixl_team_shrink(world, BENCH_TIMEOUT_NS, team_p);
}

static const struct way {
    const char *name;
    int (*make)(struct nixl_team **team_p);
} ways[] = {
    {"team_world", make_world},
    {"team_node", make_node},
    {"team_create of all ranks", make_listed},
    {"team_strided of all ranks", make_strided},
    {"team_split into two", make_split},
    {"team_shrink without a loss", make_shrunk},
};
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

/* ---- measuring ---- */

static double once(struct bench *bench, const struct way *way, double *free_ns_p)
{
    struct nixl_team *team;
    double make_ns;
    int64_t start;

    stage_barrier(bench);
    start = nxr_now_ns();
    bench_check(way->make(&team), way->name);
    make_ns = (double)(nxr_now_ns() - start);
    stage_barrier(bench);
    start = nxr_now_ns();
    bench_check(nixl_team_free(team), "nixl_team_free");
    *free_ns_p = (double)(nxr_now_ns() - start);
    return make_ns;
}

static void report(struct bench *bench, const char *what, double *samples, long n_samples)
{
    struct bench_stats stats;

    sample_stats(samples, n_samples, &stats);
    report_row(bench, &(struct bench_row){
                          .test = "team",
                          .what = what,
                          .unit = "ns",
                          .value = stats.median_ns,
                          .p99 = stats.p99_ns,
                          .min = stats.min_ns,
                          .is_rate_shown = true,
                      });
}

/* As many turns as the budget allows, the same on all ranks. */
static void measure(struct bench *bench, const struct way *way)
{
    static double make_ns[MAX_SAMPLES], free_ns[MAX_SAMPLES];
    long n_turns = bench->options.n_samples;
    char what[64];

    make_ns[0] = once(bench, way, &free_ns[0]);
    if (n_turns == 0) {
        n_turns = (long)((double)bench->options.budget_ns / (make_ns[0] + free_ns[0]));
        n_turns = n_turns < MIN_SAMPLES ? MIN_SAMPLES : n_turns;
    }
    n_turns = stage_decide(bench, n_turns < MAX_SAMPLES ? n_turns : MAX_SAMPLES);
    for (long i = 0; i < n_turns; i++) {
        make_ns[i] = once(bench, way, &free_ns[i]);
    }
    report(bench, way->name, make_ns, n_turns);
    snprintf(what, sizeof(what), "team_free after %.*s", (int)strcspn(way->name, " "), way->name);
    report(bench, what, free_ns, n_turns);
}

void test_team(struct bench *bench)
{
    for (int i = 0; i < bench->size; i++) {
        backwards[i] = bench->size - 1 - i;
    }
    bench_check(nixl_team_world(BENCH_TIMEOUT_NS, &world), "nixl_team_world");
    for (size_t i = 0; i < N_WAYS; i++) {
        measure(bench, &ways[i]);
    }
    bench_check(nixl_team_free(world), "nixl_team_free");
}
