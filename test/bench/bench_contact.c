/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First contact: every rank notifies every other for the first time, which connects each pair. The
 * ranks begin together and have a team, so that nothing else is new.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <sys/resource.h>

/* Of all threads of this process. */
static double cpu_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

static void report_contact(struct bench *bench, double team_ns, double elapsed_ns, double all_cpu)
{
    double n_pairs = bench->size > 1 ? (double)bench->size * (bench->size - 1) / 2 : 1;
    const struct bench_row rows[] = {
        {.test = "contact", .what = "world team", .unit = "ns", .value = team_ns},
        {.test = "contact", .what = "all notify all", .unit = "ns", .value = elapsed_ns},
        {.test = "contact", .what = "... each pair", .unit = "ns", .value = elapsed_ns / n_pairs},
        {.test = "contact",
         .what = "CPU time of each pair",
         .unit = "ns",
         .value = all_cpu / n_pairs}};

    report_begin(bench);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        report_row(bench, &rows[i]);
    }
    report_end(bench);
}

void test_contact(struct bench *bench)
{
    struct nixl_reduce_args sum = NIXL_REDUCE_ARGS_INIT;
    struct nixl_team *team;
    int64_t start, begun, end;
    double cpu, all_cpu = 0;

    bench_check(nixl_init(NULL), "nixl_init");
    bench->rank = nixl_rank();
    bench->size = nixl_size();
    start = nxr_now_ns();
    bench_check(nixl_team_world(BENCH_TIMEOUT_NS, &team), "nixl_team_world");
    bench_check(nixl_barrier(team, BENCH_TIMEOUT_NS), "nixl_barrier");
    begun = nxr_now_ns();
    cpu = cpu_ns();
    bench_notify_all(bench);
    bench_check(nixl_barrier(team, BENCH_TIMEOUT_NS), "nixl_barrier");
    cpu = cpu_ns() - cpu;
    sum.src = &cpu;
    sum.dst = &all_cpu;
    sum.count = 1;
    sum.type = NIXL_TYPE_DOUBLE;
    sum.op = NIXL_REDUCE_SUM;
    end = nxr_now_ns();
    bench_check(nixl_allreduce(team, &sum, BENCH_TIMEOUT_NS), "nixl_allreduce");
    report_contact(bench, (double)(begun - start), (double)(end - begun), all_cpu);
    bench_check(nixl_team_free(team), "nixl_team_free");
    bench_check(nixl_finalize(), "nixl_finalize");
}
