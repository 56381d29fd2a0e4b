/* SPDX-License-Identifier: Apache-2.0 */
/* nixl_bench: the list of tests, and the run of those that were asked for. */
#include "config.h"

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#define EXIT_MISSED 1
#define EXIT_USAGE  2

const struct bench_test bench_tests[] = {
    {"put", "put, beside the best copy into the same memory", test_put, 2, 2, false},
    {"put_flush", "put and flush, beside the same", test_put_flush, 2, 2, false},
    {"get", "get, beside the best copy", test_get, 2, 2, false},
    {"put_nb", "puts in a window, one flush at its end", test_put_nb, 2, 2, false},
    {"flush", "a flush with nothing to do", test_flush, 2, 2, false},
    {"copy_read", "put, then the target reads all of it", test_copy_read, 2, 2, false},
    {"put_notify", "put and notification, one way", test_put_notify, 2, 2, false},
    {"notify", "notification with its payload, one way", test_notify, 2, 2, false},
    {"put_signal", "put and signal, one way", test_put_signal, 2, 2, false},
    {"fetch_add", "an atomic addition to a peer's word", test_fetch_add, 2, 2, false},
    {"barrier", "a barrier made of notifications", test_barrier, 2, BENCH_MAX_RANKS, false},
    {"rate", "notifications per second, one sender and all", test_rate, 2, BENCH_MAX_RANKS, false},
    {"passive", "put and get while the target computes", test_passive, 2, 2, false},
    {"sleep", "waking a sleeping rank by a notification", test_sleep, 2, 2, false},
    {"idle", "CPU of ranks that wait", test_idle, 2, BENCH_MAX_RANKS, false},
    {"death", "seeing a peer die (with nixlrun --on-failure continue)", test_death, 2,
     BENCH_MAX_RANKS, false},
    {"memory", "memory of an idle rank", test_memory, 1, BENCH_MAX_RANKS, true},
    {"limits", "what the machine can do, without nixlrun", test_limits, 2, 2, false},
};

const int bench_n_tests = sizeof(bench_tests) / sizeof(bench_tests[0]);

int bench_sizes(const struct bench *bench, const uint64_t *defaults, int n_defaults,
                const uint64_t **sizes_p)
{
    if (bench->options.n_sizes > 0) {
        *sizes_p = bench->options.sizes;
        return bench->options.n_sizes;
    }
    *sizes_p = defaults;
    return n_defaults;
}

uint64_t bench_largest(const uint64_t *sizes, int n_sizes)
{
    uint64_t largest = 0;

    for (int i = 0; i < n_sizes; i++) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    return largest;
}

/* The number of ranks that each test wants, or a line and false. */
static bool check_ranks(const struct bench *bench)
{
    for (int i = 0; i < bench->options.n_tests; i++) {
        const struct bench_test *test = bench->options.tests[i];

        if (bench->size >= test->min_ranks && bench->size <= test->max_ranks) {
            continue;
        }
        if (bench->rank == 0) {
            fprintf(stderr,
                    "nixl_bench: %s runs with %d%s ranks, this job has %d; start it as "
                    "nixlrun -np %d nixl_bench %s\n",
                    test->name, test->min_ranks,
                    test->max_ranks > test->min_ranks ? " or more" : "", bench->size,
                    test->min_ranks, test->name);
        }
        return false;
    }
    return true;
}

static void run_tests(struct bench *bench)
{
    stage_open(bench);
    report_begin(bench);
    for (int i = 0; i < bench->options.n_tests; i++) {
        bench->options.tests[i]->run(bench);
    }
    report_end(bench);
    stage_close(bench);
}

int main(int argc, char **argv)
{
    static struct bench bench;

    options_parse(&bench.options, argc, argv);
    if (bench.options.n_tests == 1 && bench.options.tests[0]->is_alone) {
        bench.options.tests[0]->run(&bench);
        return bench.options.is_checked && bench.n_missed > 0 ? EXIT_MISSED : EXIT_SUCCESS;
    }
    bench_check(nixl_init(NULL), "nixl_init");
    bench.rank = nixl_rank();
    bench.size = nixl_size();
    bench.peer = bench.rank == 0 ? 1 : 0;
    if (!check_ranks(&bench)) {
        nixl_finalize();
        return EXIT_USAGE;
    }
    run_tests(&bench);
    bench_check(nixl_finalize(), "nixl_finalize");
    return bench.options.is_checked && bench.n_missed > 0 ? EXIT_MISSED : EXIT_SUCCESS;
}
