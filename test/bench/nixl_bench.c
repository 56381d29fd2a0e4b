/* SPDX-License-Identifier: Apache-2.0 */
/* nixl_bench: the list of tests, and the run of those that were asked for. */
#include "config.h"

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_MISSED 1
#define EXIT_USAGE  2

const struct bench_test bench_tests[] = {
    {"put", "put, beside the best copy into the same memory", test_put, 2, 2, 0},
    {"put_flush", "put and flush, beside the same", test_put_flush, 2, 2, 0},
    {"get", "get, beside the best copy", test_get, 2, 2, 0},
    {"put_nb", "puts in a window, one flush at its end", test_put_nb, 2, 2, 0},
    {"get_nb", "gets in a window, and one wait", test_get_nb, 2, 2, 0},
    {"put_strided", "blocks with strides in one put, beside single puts", test_put_strided, 2, 2,
     0},
    {"flush", "a flush with nothing to do", test_flush, 2, 2, 0},
    {"copy_read", "put, then the target reads all of it", test_copy_read, 2, 2, BENCH_ON_HOST},
    {"nb_read", "put_nb, wait, then the target reads all of it", test_nb_read, 2, 2, BENCH_ON_HOST},
    {"get_read", "get, then the caller reads all of it", test_get_read, 2, 2, BENCH_ON_HOST},
    {"put_notify", "put and notification, one way", test_put_notify, 2, 2, 0},
    {"notify", "notification with its payload, one way", test_notify, 2, 2, 0},
    {"put_signal", "put and signal, one way", test_put_signal, 2, 2, 0},
    {"signal", "signals without data, one way, and a wait for one already set", test_signal, 2, 2,
     0},
    {"fetch_add", "an atomic addition to a peer's word", test_fetch_add, 2, 2, 0},
    {"atomic", "every atomic operation on a peer's word", test_atomic, 2, 2, 0},
    {"xfer", "prepared transfers of scattered blocks, and preparing them", test_xfer, 2, 2, 0},
    {"extents", "blocks of every extent by one entry, and preparing that", test_extents, 2, 2, 0},
    {"channel", "items through a channel, one way", test_channel, 2, 2, 0},
    {"pair", "a buffer exposed, read by its token, and reported", test_pair, 2, 2, 0},
    {"grant", "puts and gets of blocks that are lent", test_grant, 2, 2, 0},
    {"notify_barrier", "a barrier made of notifications", test_notify_barrier, 2, BENCH_MAX_RANKS,
     0},
    {"team", "creating a team with each call, and freeing it", test_team, 2, BENCH_MAX_RANKS, 0},
    {"barrier", "a barrier of a team of all ranks", test_barrier, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"broadcast", "the bytes of a root to all, any buffers and in regions", test_broadcast, 2,
     BENCH_MAX_RANKS, BENCH_COLLECTIVE},
    {"reduce", "the sum of floats of all ranks at a root", test_reduce, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"allreduce", "the sum of floats of all ranks at each", test_allreduce, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"reduce_scatter", "a part of the sum at each rank", test_reduce_scatter, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"scan", "sums of floats up to each rank", test_scan, 2, BENCH_MAX_RANKS, BENCH_COLLECTIVE},
    {"gather", "the bytes of each rank to a root", test_gather, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"scatter", "bytes of a root for each rank", test_scatter, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"allgather", "the bytes of each rank to all", test_allgather, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"alltoall", "bytes of each rank for each", test_alltoall, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"alltoall_strided", "every other word of the same", test_alltoall_strided, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"gatherv", "gather, by lists of sizes and offsets", test_gatherv, 2, BENCH_MAX_RANKS,
     BENCH_COLLECTIVE},
    {"scatterv", "scatter, by lists", test_scatterv, 2, BENCH_MAX_RANKS, BENCH_COLLECTIVE},
    {"allgatherv", "allgather, by lists", test_allgatherv, 2, BENCH_MAX_RANKS, BENCH_COLLECTIVE},
    {"alltoallv", "alltoall, by lists", test_alltoallv, 2, BENCH_MAX_RANKS, BENCH_COLLECTIVE},
    {"pattern", "all ranks send at once: --pattern says who to whom", test_pattern, 2,
     BENCH_MAX_RANKS, 0},
    {"rate", "notifications per second, one sender and all", test_rate, 2, BENCH_MAX_RANKS, 0},
    {"passive", "put and get while the target computes", test_passive, 2, 2, 0},
    {"sleep", "waking a sleeping rank by a notification", test_sleep, 2, 2, 0},
    {"idle", "CPU of ranks that wait", test_idle, 2, BENCH_MAX_RANKS, 0},
    {"death", "seeing a peer die (with nixlrun --on-failure continue)", test_death, 2,
     BENCH_MAX_RANKS, BENCH_ON_HOST},
    {"memory", "memory of an idle rank", test_memory, 1, BENCH_MAX_RANKS, BENCH_ALONE},
    {"alloc", "allocating and closing regions of every kind of memory", test_alloc, 1,
     BENCH_MAX_RANKS, 0},
    {"storage", "a file past the page cache, beside fio; of two ranks, that of the peer",
     test_storage, 1, 2, 0},
    {"objects", "putting and getting objects of an S3 store, beside curl", test_objects, 1, 1, 0},
    {"contact", "the first notification of all ranks to all", test_contact, 1, BENCH_MAX_RANKS,
     BENCH_ALONE},
    {"attach", "attaching to a process that was started separately", test_attach, 1, 1,
     BENCH_ALONE},
    {"trace", "an event of nixlrun --trace, beside the same puts untraced", test_trace, 1, 1,
     BENCH_ALONE},
    {"limits", "what the machine can do, without nixlrun", test_limits, 2, 2, 0},
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

uint64_t bench_fitting(uint64_t most, uint64_t nbytes)
{
    uint64_t fitting = nbytes == 0 ? most : BENCH_BLOCKS_NBYTES / nbytes;

    return fitting < 1 ? 1 : fitting < most ? fitting : most;
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

/* Those that work with shared memory run on one host. */
static bool check_hosts(const struct bench *bench)
{
    for (int i = 0; bench->wire != NULL && i < bench->options.n_tests; i++) {
        if ((bench->options.tests[i]->flags & BENCH_ON_HOST) != 0) {
            if (bench->rank == 0) {
                fprintf(stderr,
                        "nixl_bench: %s runs with all ranks on one host, this job has several\n",
                        bench->options.tests[i]->name);
            }
            return false;
        }
    }
    return true;
}

/* Returns false if a test cannot run here. */
static bool run_tests(struct bench *bench)
{
    bool can_run;

    stage_open(bench);
    can_run = check_hosts(bench);
    if (can_run) {
        report_begin(bench);
        for (int i = 0; i < bench->options.n_tests; i++) {
            bench->options.tests[i]->run(bench);
        }
        report_end(bench);
    }
    stage_close(bench);
    return can_run;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    bool can_run;

    if (argc > 1 && strcmp(argv[1], "tune") == 0) {
        return tune_main(argc - 1, argv + 1);
    }
    if (argc > 1 && (strcmp(argv[1], "compare") == 0 || strcmp(argv[1], "plot") == 0)) {
        figures_main(argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "peers") == 0) {
        peers_main(argv + 2);
    }
    options_parse(&bench.options, argc, argv);
    if (bench.options.n_tests == 1 && (bench.options.tests[0]->flags & BENCH_ALONE) != 0) {
        bench.options.tests[0]->run(&bench);
        return bench.options.is_checked && bench.n_missed > 0 ? EXIT_MISSED : EXIT_SUCCESS;
    }
    bench_check(nixl_init(NULL), "nixl_init");
    bench.rank = nixl_rank();
    bench.size = nixl_size();
    bench.peer = bench.rank == 0 ? 1 : 0;
    if (apart_is_asked(&bench.options)) {
        apart_open(&bench);
    }
    can_run = check_ranks(&bench) && run_tests(&bench);
    if (apart_is_asked(&bench.options)) {
        apart_close(&bench);
    }
    bench_check(nixl_finalize(), "nixl_finalize");
    if (!can_run) {
        return EXIT_USAGE;
    }
    return bench.options.is_checked && bench.n_missed > 0 ? EXIT_MISSED : EXIT_SUCCESS;
}
