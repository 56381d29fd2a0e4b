/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long it takes to have a region and to give it back, of every kind of memory. The first of a
 * kind starts its driver and has a row of its own. Pages are not touched: callers that want them
 * there early asks for NIXL_MEM_POPULATE, and pays for them by the page.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_SAMPLES 200

struct way {
    const char *name;
    enum nixl_mem_kind kind;
    uint32_t flags;
    double goal_ns;
};

static const struct way ways[] = {
    {"host", NIXL_MEM_HOST, 0, 1e3},
    {"huge pages", NIXL_MEM_HOST, NIXL_MEM_HUGE, 10e3},
    {"pinned", NIXL_MEM_HOST, NIXL_MEM_PINNED, 10e3},
    {"CUDA", NIXL_MEM_CUDA, 0, 100e3},
    {"Vulkan", NIXL_MEM_VULKAN, 0, 100e3},
};

/* What a way was tried with. */
struct trial {
    const struct way *way;
    uint64_t nbytes;
    char note[200]; /* what was done instead; or why it cannot be had at all */
};

/* One region. Returns false where there is none of the kind here. */
static bool once(struct trial *trial, double *alloc_ns, double *close_ns)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region;
    int64_t start = nxr_now_ns();
    int status;

    params.kind = trial->way->kind;
    params.flags = trial->way->flags;
    status = nixl_region_alloc("bench.alloc", trial->nbytes, &params, &region);
    *alloc_ns = (double)(nxr_now_ns() - start);
    if (status == NIXL_E_NO_DEVICE) {
        snprintf(trial->note, sizeof(trial->note), "%s", nixl_last_error()->text);
        return false;
    }
    bench_check(status, "nixl_region_alloc");
    bench_check(nixl_region_query(nixl_rank(), region, BENCH_TIMEOUT_NS, &info),
                "nixl_region_query");
    snprintf(trial->note, sizeof(trial->note), "%s", info.note);
    start = nxr_now_ns();
    bench_check(nixl_region_close(region, BENCH_TIMEOUT_NS), "nixl_region_close");
    *close_ns = (double)(nxr_now_ns() - start);
    return true;
}

static void report(struct bench *bench, const struct trial *trial, const char *what, double goal_ns,
                   double *samples, long n_samples)
{
    struct bench_stats stats;
    char text[64];

    sample_stats(samples, n_samples, &stats);
    snprintf(text, sizeof(text), "%s: %s", trial->way->name, what);
    report_row(bench, &(struct bench_row){
                          .test = "alloc",
                          .what = text,
                          .nbytes = trial->nbytes,
                          .has_nbytes = true,
                          .unit = "ns",
                          .value = stats.median_ns,
                          .p99 = stats.p99_ns,
                          .min = stats.min_ns,
                          .goal = goal_ns,
                          .note = trial->note[0] != '\0' ? trial->note : NULL,
                      });
}

/* All samples of a way and size, as far as the budget goes. */
static bool measure(struct bench *bench, struct trial *trial, bool is_first)
{
    static double alloc_ns[MAX_SAMPLES], close_ns[MAX_SAMPLES];
    long n = 0, n_wanted = bench->options.n_samples;
    int64_t end;

    if (!once(trial, alloc_ns, close_ns)) {
        fprintf(stderr, "nixl_bench: alloc: no %s memory: %s\n", trial->way->name, trial->note);
        return false;
    }
    if (is_first) {
        report(bench, trial, "the first", 0, alloc_ns, 1);
    }
    end = nxr_deadline(bench->options.budget_ns);
    while (n < MAX_SAMPLES && (n_wanted > 0 ? n < n_wanted : n == 0 || nxr_now_ns() < end)) {
        once(trial, &alloc_ns[n], &close_ns[n]);
        n++;
    }
    /* What was done instead of what was wanted is held against no goal. */
    report(bench, trial, "allocate", trial->note[0] == '\0' ? trial->way->goal_ns : 0, alloc_ns, n);
    report(bench, trial, "close", 0, close_ns, n);
    return true;
}

void test_alloc(struct bench *bench)
{
    static const uint64_t defaults[] = {65536, 2 << 20, 64 << 20};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 3, &sizes);

    for (size_t i = 0; bench->rank == 0 && i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct trial trial = {.way = &ways[i]};

        for (int j = 0; j < n_sizes; j++) {
            trial.nbytes = sizes[j] > 0 ? sizes[j] : 1;
            if (!measure(bench, &trial, j == 0)) {
                break;
            }
        }
    }
    stage_barrier(bench);
}
