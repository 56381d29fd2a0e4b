/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an event of nixlrun --trace costs: puts into the rank's own segment, each of which is one
 * event, beside the same puts while nothing is recorded, in turns. The library reads what to record
 * when it starts, so each turn starts it anew. An event is the difference of the lower quartiles of
 * the turns: other work makes a turn longer, never shorter, and seldom disturbs three of four.
 *
 * With --fresh each put is of data that was written before it and is read after it, as in a program
 * that has something to send. The share of the event in that is what a trace costs such a program.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdlib.h>

#define N_TURNS       17
#define N_BATCHES     20
#define N_PUTS        1000 /* of a batch; all of a turn fit into a ring */
#define EVENT_NS      20.0 /* the goal ... */
#define EVENT_SEEN_TO 4096 /* ... for puts that do not hide it */
#define SHARE_PERCENT 1.0  /* the goal of its share, with --fresh ... */
#define SHARE_FROM    4096 /* ... in puts of so many bytes and more */

#define EXIT_USAGE 2

struct turns {
    double plain[N_TURNS], traced[N_TURNS]; /* ns of a put: the fastest batch of a turn */
};

static double fastest_put_ns(const struct bench *bench, struct nixl_region *region, void *bytes,
                             uint64_t nbytes)
{
    const unsigned char *target = nixl_region_addr(region);
    double fastest = 1e30;

    for (int i = 0; i < N_BATCHES; i++) {
        int64_t begin = nxr_now_ns();
        double ns;

        for (int k = 0; k < N_PUTS; k++) {
            fresh_write(bench, bytes, nbytes);
            bench_check(nixl_put(0, region, 0, bytes, nbytes), "nixl_put");
            fresh_read(bench, target, nbytes);
        }
        ns = (double)(nxr_now_ns() - begin) / N_PUTS;
        fastest = ns < fastest ? ns : fastest;
    }
    return fastest;
}

/* Ranks would wait for each other in every turn. */
static void check_alone(void)
{
    int rank = nixl_rank(), size = nixl_size();

    if (size == 1) {
        return;
    }
    bench_check(nixl_finalize(), "nixl_finalize");
    if (rank == 0) {
        fprintf(
            stderr,
            "nixl_bench: trace runs with 1 rank, this job has %d; start it without a launcher\n",
            size);
    }
    exit(EXIT_USAGE);
}

static double turn_ns(const struct bench *bench, const char *kinds, uint64_t nbytes)
{
    struct nixl_region *region;
    void *bytes = calloc(1, nbytes);
    double ns;

    if (bytes == NULL || setenv("NIXLRUN_TRACE", kinds, 1) != 0) {
        bench_die("nixl_bench: no memory for %llu bytes", (unsigned long long)nbytes);
    }
    bench_check(nixl_init(NULL), "nixl_init");
    check_alone();
    bench_check(nixl_region_alloc("traced", nbytes, NULL, &region), "nixl_region_alloc");
    ns = fastest_put_ns(bench, region, bytes, nbytes);
    bench_check(nixl_region_close(region, BENCH_TIMEOUT_NS), "nixl_region_close");
    bench_check(nixl_finalize(), "nixl_finalize");
    free(bytes);
    return ns;
}

static void report_size(struct bench *bench, uint64_t nbytes, struct turns *turns)
{
    struct bench_stats plain, traced;
    double event_ns;
    struct bench_row row = {.test = "trace", .unit = "ns", .nbytes = nbytes, .has_nbytes = true};

    sample_stats(turns->plain, N_TURNS, &plain);
    sample_stats(turns->traced, N_TURNS, &traced);
    event_ns = turns->traced[N_TURNS / 4] - turns->plain[N_TURNS / 4]; /* they are in order now */
    row.what = "put untraced";
    row.value = plain.median_ns;
    row.min = plain.min_ns;
    report_row(bench, &row);
    row.what = "put traced";
    row.value = traced.median_ns;
    row.min = traced.min_ns;
    row.limit_name = "untraced";
    row.limit = plain.median_ns;
    report_row(bench, &row);
    row.what = "an event";
    row.value = event_ns > 0 ? event_ns : 0; /* noise */
    row.min = row.limit = 0;
    row.limit_name = NULL;
    row.goal = nbytes <= EVENT_SEEN_TO ? EVENT_NS : 0;
    report_row(bench, &row);
    if (bench->options.is_fresh) {
        row.what = "share of the event in the put";
        row.unit = "%";
        row.value = 100 * row.value / turns->plain[N_TURNS / 4];
        row.goal = nbytes >= SHARE_FROM ? SHARE_PERCENT : 0;
        report_row(bench, &row);
    }
}

void test_trace(struct bench *bench)
{
    static const uint64_t defaults[] = {8, 4096, 65536};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, sizeof(defaults) / sizeof(defaults[0]), &sizes);
    struct turns *all = calloc((size_t)n_sizes, sizeof(*all));

    if (all == NULL) {
        bench_die("nixl_bench: no memory for the samples");
    }
    for (int i = 0; i < n_sizes; i++) {
        for (int turn = 0; turn < N_TURNS; turn++) {
            all[i].plain[turn] = turn_ns(bench, "", sizes[i]);
            all[i].traced[turn] = turn_ns(bench, "put", sizes[i]);
        }
    }
    bench->size = 1;
    report_begin(bench);
    for (int i = 0; i < n_sizes; i++) {
        report_size(bench, sizes[i], &all[i]);
    }
    report_end(bench);
    free(all);
}
