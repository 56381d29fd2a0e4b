/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can do, without nixlrun: the limits that the other tests are held against. */
#include "config.h"

#include "bench.h"

#include <stdio.h>

/* A row for each lane by itself. */
static void limit_rows(struct bench *bench, const char *what, const struct bench_lane *lanes,
                       int n_lanes)
{
    struct bench_stats stats[BENCH_MAX_LANES];
    char text[64];

    sample_lanes(bench, lanes, n_lanes, stats);
    for (int lane = 0; lane < n_lanes; lane++) {
        snprintf(text, sizeof(text), "%s%s", what, lanes[lane].name);
        report_lanes(bench, "limits", text, &lanes[lane], 1, &stats[lane], 0);
    }
}

static void flag_limits(struct bench *bench)
{
    static const uint64_t sizes[] = {8, 64, 512, 4096, 65536, 1 << 20};
    static const struct bench_alignment aligned = {0, 0};
    static const struct bench_lane flag = {"flag", bare_flag, 0, ACTOR_PAIR, 2};
    static const struct bench_lane copy_flag = {"memcpy and flag", bare_copy_flag, 0, ACTOR_PAIR,
                                                2};

    stage_case(bench, 0, &aligned);
    limit_rows(bench, "one way: ", &flag, 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        stage_case(bench, sizes[i], &aligned);
        limit_rows(bench, "one way: ", &copy_flag, 1);
    }
}

static void copy_limits(struct bench *bench, const uint64_t *sizes, int n_sizes)
{
    struct bench_lane lanes[BENCH_MAX_LANES];
    int n_lanes = bare_copy_lanes(lanes, false);

    for (int i = 0; i < n_sizes; i++) {
        for (int j = 0; j < bench->options.n_alignments; j++) {
            stage_case(bench, sizes[i], &bench->options.alignments[j]);
            limit_rows(bench, "copy to shared memory: ", lanes, n_lanes);
        }
    }
}

static void process_vm_limits(struct bench *bench, const uint64_t *sizes, int n_sizes)
{
    static const struct bench_lane lanes[] = {
        {"process_vm_writev", bare_process_vm, 0, ACTOR_FIRST, 1},
        {"process_vm_readv", bare_process_vm, 1, ACTOR_FIRST, 1}};
    static const struct bench_alignment aligned = {0, 0};

    for (int i = 0; i < n_sizes; i++) {
        stage_case(bench, sizes[i], &aligned);
        if (!stage_decide(bench, bench->rank != 0 || bare_process_vm_works(bench))) {
            return; /* the kernel forbids it here */
        }
        limit_rows(bench, "", lanes, 2);
    }
}

/* Between hosts: what a TCP connection can do. */
static void tcp_limits(struct bench *bench, const uint64_t *sizes, int n_sizes)
{
    static const struct bench_alignment aligned = {0, 0};
    const struct {
        const char *what;
        enum tcp_work work;
    } rows[] = {{"one way: ", TCP_ONE_WAY},
                {"data and an answer: ", TCP_PUT},
                {"question and data: ", TCP_GET},
                {"a window of data: ", TCP_PUT_WINDOW}};
    struct bench_lane lane;

    for (int i = 0; i < n_sizes; i++) {
        stage_case(bench, sizes[i], &aligned);
        for (size_t j = 0; sizes[i] > 0 && j < sizeof(rows) / sizeof(rows[0]); j++) {
            lane = bare_tcp_lane(bench, rows[j].work);
            limit_rows(bench, rows[j].what, &lane, 1);
        }
    }
    report_row(bench, &(struct bench_row){.test = "limits",
                                          .what = "waking the other end: raw TCP",
                                          .unit = "ns",
                                          .value = bare_tcp_wake_ns(bench)});
}

void test_limits(struct bench *bench)
{
    static const uint64_t defaults[] = {8,       512,      4096,     65536,
                                        1 << 20, 16 << 20, 64 << 20, 256 << 20};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 8, &sizes);
    uint64_t largest = bench_largest(sizes, n_sizes);

    if (bench->wire != NULL) {
        stage_data_open(bench, false, largest);
        tcp_limits(bench, sizes, n_sizes);
        stage_data_close(bench);
        return;
    }
    stage_data_open(bench, false, largest > 1 << 20 ? largest : 1 << 20);
    flag_limits(bench);
    copy_limits(bench, sizes, n_sizes);
    stage_data_close(bench);
    stage_data_open(bench, true, largest);
    process_vm_limits(bench, sizes, n_sizes);
    stage_data_close(bench);
    bare_wake_rows(bench);
}
