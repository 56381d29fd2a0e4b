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

/* The sum, or the largest, of one number from each rank. */
static double combine(struct nixl_team *team, double value, enum nixl_reduce_op op)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    double result = 0;

    args.src = &value;
    args.dst = &result;
    args.count = 1;
    args.type = NIXL_TYPE_DOUBLE;
    args.op = op;
    bench_check(nixl_allreduce(team, &args, BENCH_TIMEOUT_NS), "nixl_allreduce");
    return result;
}

/*
 * From the earliest `start` of all ranks to the latest `end`. Hosts have clocks of their own: with
 * several, only this rank's times count.
 */
static double span_ns(struct nixl_team *team, int64_t start, int64_t end)
{
    if (nixl_local_size() != nixl_size()) {
        return (double)(end - start);
    }
    return combine(team, (double)end, NIXL_REDUCE_MAX) +
           combine(team, -(double)start, NIXL_REDUCE_MAX);
}

void test_contact(struct bench *bench)
{
    struct nixl_team *team;
    int64_t start, made, begun, end;
    double cpu, team_ns, elapsed_ns;

    bench_check(nixl_init(NULL), "nixl_init");
    bench->rank = nixl_rank();
    bench->size = nixl_size();
    start = nxr_now_ns();
    bench_check(nixl_team_world(BENCH_TIMEOUT_NS, &team), "nixl_team_world");
    made = nxr_now_ns();
    bench_check(nixl_barrier(team, BENCH_TIMEOUT_NS), "nixl_barrier");
    begun = nxr_now_ns();
    cpu = cpu_ns();
    bench_notify_all(bench);
    end = nxr_now_ns();
    bench_check(nixl_barrier(team, BENCH_TIMEOUT_NS), "nixl_barrier");
    cpu = cpu_ns() - cpu;
    team_ns = span_ns(team, start, made);
    elapsed_ns = span_ns(team, begun, end);
    report_contact(bench, team_ns, elapsed_ns, combine(team, cpu, NIXL_REDUCE_SUM));
    bench_check(nixl_team_free(team), "nixl_team_free");
    bench_check(nixl_finalize(), "nixl_finalize");
}
