/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling. Lanes run in turn (A B C A B C): a batch of lane A, a batch of lane B, and so on, until
 * the row's budget is used. All ranks of the job go through the same batches; rank 0 holds the
 * clock and decides how long a batch is. After a change of lane a short unmeasured batch comes
 * first, so that no lane inherits the caches that another left.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <math.h>
#include <stdlib.h>

#define BATCH_NS      20000  /* long enough for the clock, short enough to see outliers */
#define LONG_BATCH_NS 500000 /* between hosts: and for what changes hands at a change of lanes */
#define MAX_BATCH     100000
#define MIN_SAMPLES   9
#define PLACE_SAMPLES 9
#define PLACE_BATCH   1000

/* A flag's time one way, which shows how the two cores are placed (measured; see nixl_bench(1)).
 */
#define SAME_CORE_NS 45
#define NEAR_NS      180

static bool acts(const struct bench *bench, enum bench_actors actors)
{
    return bench->rank == 0 || actors == ACTOR_ALL || (actors == ACTOR_PAIR && bench->rank == 1);
}

/* Nanoseconds of a batch, on rank 0; where all act, until all are done. *own_p: of this rank. */
static double time_batch(struct bench *bench, const struct bench_lane *lane, long n, double *own_p)
{
    int64_t start;
    double elapsed;

    stage_barrier(bench);
    start = nxr_now_ns();
    if (acts(bench, lane->actors)) {
        lane->fn(bench, n, lane->arg);
    }
    elapsed = (double)(nxr_now_ns() - start);
    *own_p = elapsed;
    stage_barrier(bench);
    return lane->actors == ACTOR_ALL ? (double)(nxr_now_ns() - start) : elapsed;
}

static double run_batch(struct bench *bench, const struct bench_lane *lane, long n)
{
    double own;

    return time_batch(bench, lane, n, &own);
}

/* Find the length of a lane's batches: doubled until one is long enough. Collective. */
static long find_batch(struct bench *bench, const struct bench_lane *lane)
{
    double enough = bench->wire != NULL || bench->is_oversubscribed ? LONG_BATCH_NS : BATCH_NS;
    long n = 1;

    run_batch(bench, lane, 1);
    while (n < MAX_BATCH && !bench->options.is_single) {
        double elapsed = run_batch(bench, lane, n);

        if (stage_decide(bench, elapsed >= enough)) {
            break;
        }
        n *= 2;
    }
    return n;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value that such a share of the samples does not exceed. */
static double quantile(const double *sorted_ns, long n_samples, double share)
{
    return sorted_ns[(long)ceil((double)n_samples * share) - 1];
}

int sample_turns(const struct bench *bench, int own)
{
    long asked = bench->options.n_samples;

    return asked > 0 && asked < own ? (int)asked : own;
}

void sample_stats(double *samples_ns, long n_samples, struct bench_stats *stats_p)
{
    /* The ranks of an interval for the median, by the normal approximation of the binomial. */
    double half = (double)n_samples / 2, reach = 0.98 * sqrt((double)n_samples);
    long low = (long)floor(half - reach), high = (long)ceil(half + reach);

    qsort(samples_ns, (size_t)n_samples, sizeof(*samples_ns), compare);
    stats_p->median_ns = samples_ns[n_samples / 2];
    stats_p->min_ns = samples_ns[0];
    stats_p->max_ns = samples_ns[n_samples - 1];
    stats_p->p90_ns = quantile(samples_ns, n_samples, 0.9);
    stats_p->p99_ns = quantile(samples_ns, n_samples, 0.99);
    stats_p->p999_ns = quantile(samples_ns, n_samples, 0.999);
    stats_p->p9999_ns = quantile(samples_ns, n_samples, 0.9999);
    stats_p->median_low_ns = samples_ns[low < 0 ? 0 : low];
    stats_p->median_high_ns = samples_ns[high >= n_samples ? n_samples - 1 : high];
    stats_p->fastest_ns = stats_p->slowest_ns = 0;
    stats_p->n_samples = n_samples;
}

static long max_samples(const struct bench *bench)
{
    return bench->options.is_single ? BENCH_MAX_SINGLES : BENCH_MAX_SAMPLES;
}

/* How many turns fit into the budget, from the time of one turn. */
static long find_turns(const struct bench *bench, double turn_ns)
{
    double turns = (double)bench->options.budget_ns / turn_ns;

    if (bench->options.n_samples > 0) {
        return bench->options.n_samples;
    }
    return turns < MIN_SAMPLES                  ? MIN_SAMPLES
           : turns > (double)max_samples(bench) ? max_samples(bench)
                                                : (long)turns;
}

/* Another order of the lanes, the same on all ranks. */
static void shuffle(int *order, int n_lanes, uint32_t *seed)
{
    for (int i = n_lanes - 1; i > 0; i--) {
        int j, kept = order[i];

        *seed = *seed * 1664525u + 1013904223u;
        j = (int)((*seed >> 16) % (uint32_t)(i + 1));
        order[i] = order[j];
        order[j] = kept;
    }
}

void sample_lanes(struct bench *bench, const struct bench_lane *lanes, int n_lanes,
                  struct bench_stats *stats)
{
    double *samples[BENCH_MAX_LANES], own_ns[BENCH_MAX_LANES] = {0};
    long batch[BENCH_MAX_LANES], n_turns;
    int order[BENCH_MAX_LANES];
    uint32_t seed = 1;
    double turn_ns = 0;

    for (int lane = 0; lane < n_lanes; lane++) {
        samples[lane] = malloc((size_t)max_samples(bench) * sizeof(*samples[lane]));
        if (samples[lane] == NULL) {
            bench_die("no memory for samples");
        }
        order[lane] = lane;
        batch[lane] = find_batch(bench, &lanes[lane]);
        turn_ns += 1.3 * run_batch(bench, &lanes[lane], batch[lane]);
    }
    n_turns = stage_decide(bench, find_turns(bench, turn_ns));
    for (long turn = 0; turn < n_turns; turn++) {
        shuffle(order, n_lanes, &seed);
        for (int i = 0; i < n_lanes; i++) {
            int lane = order[i];
            double n_steps = (double)batch[lane] * lanes[lane].n_steps, own;

            run_batch(bench, &lanes[lane], batch[lane] / 4 + 1);
            samples[lane][turn] = time_batch(bench, &lanes[lane], batch[lane], &own) / n_steps;
            own_ns[lane] += own / (n_steps * (double)n_turns);
        }
    }
    for (int lane = 0; lane < n_lanes; lane++) {
        sample_stats(samples[lane], n_turns, &stats[lane]);
        if (lanes[lane].actors == ACTOR_ALL && bench->size > 1) {
            stage_spread(bench, own_ns[lane], &stats[lane].fastest_ns, &stats[lane].slowest_ns);
        }
        free(samples[lane]);
    }
}

double sample_flag_ns(struct bench *bench)
{
    static const struct bench_lane lane = {"flag", bare_flag, 0, ACTOR_PAIR, 2};
    struct bench_stats stats;
    double samples[PLACE_SAMPLES];

    if (bench->size < 2 || bench->page == NULL || bench->is_oversubscribed) {
        return 0; /* nobody to pass it to, or one that is not running */
    }
    for (int i = 0; i < PLACE_SAMPLES; i++) {
        samples[i] = run_batch(bench, &lane, PLACE_BATCH) / (2.0 * PLACE_BATCH);
    }
    sample_stats(samples, PLACE_SAMPLES, &stats);
    return stats.median_ns;
}

const char *sample_placement(double flag_ns)
{
    if (flag_ns <= 0) {
        return "one rank";
    }
    return flag_ns < SAME_CORE_NS ? "same core" : flag_ns < NEAR_NS ? "near" : "far";
}
