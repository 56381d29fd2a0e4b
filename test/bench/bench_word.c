/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations on a peer's word, beside the processor's own on the same word, or between hosts
 * beside a question and an answer. No locks.
 */
#include "config.h"

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_OFFSET 0

static void fetch_add(struct bench *bench, long n, int arg)
{
    const uint64_t one = 1;
    uint64_t before;

    (void)arg;
    for (long i = 0; i < n; i++) {
        bench_check(nixl_atomic(bench->peer, bench->region, WORD_OFFSET, NIXL_TYPE_UINT64,
                                NIXL_ATOMIC_ADD, &one, &before),
                    "nixl_atomic");
    }
}

static void bare_fetch_add(struct bench *bench, long n, int arg)
{
    _Atomic uint64_t *word = (void *)bench->raw_dst;
    uint64_t before = 0;

    (void)arg;
    for (long i = 0; i < n; i++) {
        before += atomic_fetch_add(word, 1);
    }
    __asm__ volatile("" : : "r"(before));
}

/* Of the word's own lanes, those that can be here. */
static void measure(struct bench *bench, const char *test, const char *what, bench_fn *own,
                    bench_fn *bare, int arg)
{
    struct bench_lane lanes[] = {{"nixlrun", own, arg, ACTOR_FIRST, 1},
                                 {"bare atomic", bare, arg, ACTOR_FIRST, 1}};
    struct bench_stats stats[2];
    int n_lanes = 2;

    if (bench->wire != NULL) {
        lanes[1] = bare_tcp_lane(bench, TCP_ROUND_TRIP);
    } else if (bench->theirs == NULL) {
        n_lanes = 1; /* registered memory is not mapped here */
    }
    sample_lanes(bench, lanes, n_lanes, stats);
    report_lanes(bench, test, what, lanes, n_lanes, stats, 0);
}

static void open_word(struct bench *bench)
{
    static const struct bench_alignment aligned = {0, 0};

    stage_data_open(bench, bench->options.is_registered, 4096);
    stage_case(bench, 8, &aligned);
}

/* Without an answer; the flush at the end is part of it. */
static void post_add(struct bench *bench, long n, int arg)
{
    const uint64_t one = 1;

    (void)arg;
    for (long i = 0; i < n; i++) {
        bench_check(nixl_atomic_post(bench->peer, bench->region, WORD_OFFSET, NIXL_TYPE_UINT64,
                                     NIXL_ATOMIC_ADD, &one),
                    "nixl_atomic_post");
    }
    bench_check(nixl_flush(bench->peer, BENCH_TIMEOUT_NS), "nixl_flush");
}

/* As many as a window has under way, then a wait for all. */
static void fetch_add_window(struct bench *bench, long n, int arg)
{
    long window = bench->options.window;
    struct nixl_req **reqs = calloc((size_t)window, sizeof(*reqs));
    uint64_t *before = calloc((size_t)window, sizeof(*before));
    const uint64_t one = 1;

    (void)arg;
    for (long i = 0; i < n; i++) {
        for (long k = 0; k < window; k++) {
            int status = nixl_atomic_x(bench->peer, bench->region, WORD_OFFSET, NIXL_TYPE_UINT64,
                                       NIXL_ATOMIC_ADD, &one, NULL, &before[k], &reqs[k]);

            bench_check(status == NIXL_INPROGRESS ? NIXL_OK : status, "nixl_atomic_x");
        }
        for (long k = 0; k < window; k++) {
            bench_check(nixl_req_wait(&reqs[k], BENCH_TIMEOUT_NS), "nixl_req_wait");
        }
    }
    free(reqs);
    free(before);
}

/* The goal, no slower than raw UCX, is held by `compare', which runs both. */
void test_fetch_add(struct bench *bench)
{
    const struct bench_lane window = {"nixlrun", fetch_add_window, 0, ACTOR_FIRST,
                                      (double)bench->options.window};
    const struct bench_lane post = {"nixlrun", post_add, 0, ACTOR_FIRST, 1};
    struct bench_stats stats;

    open_word(bench);
    measure(bench, "fetch_add", "fetch_add", fetch_add, bare_fetch_add, 0);
    sample_lanes(bench, &post, 1, &stats);
    report_lanes(bench, "fetch_add", "add in a row, posted", &post, 1, &stats, 0);
    sample_lanes(bench, &window, 1, &stats);
    report_lanes(bench, "fetch_add", "fetch_add_nb in a window", &window, 1, &stats, 0);
    stage_data_close(bench);
}

/* ---- every operation ---- */

#define COMPARE_SWAP (NIXL_ATOMIC_FETCH + 1)

static const struct {
    const char *what;
    int op;
    enum nixl_type type;
} operations[] = {
    {"add uint64", NIXL_ATOMIC_ADD, NIXL_TYPE_UINT64},
    {"and uint64", NIXL_ATOMIC_AND, NIXL_TYPE_UINT64},
    {"or uint64", NIXL_ATOMIC_OR, NIXL_TYPE_UINT64},
    {"xor uint64", NIXL_ATOMIC_XOR, NIXL_TYPE_UINT64},
    {"swap uint64", NIXL_ATOMIC_SWAP, NIXL_TYPE_UINT64},
    {"set uint64", NIXL_ATOMIC_SET, NIXL_TYPE_UINT64},
    {"fetch uint64", NIXL_ATOMIC_FETCH, NIXL_TYPE_UINT64},
    {"compare_swap uint64", COMPARE_SWAP, NIXL_TYPE_UINT64},
    {"add int32", NIXL_ATOMIC_ADD, NIXL_TYPE_INT32},
    {"compare_swap int32", COMPARE_SWAP, NIXL_TYPE_INT32},
    {"add float", NIXL_ATOMIC_ADD, NIXL_TYPE_FLOAT},
    {"add double", NIXL_ATOMIC_ADD, NIXL_TYPE_DOUBLE},
};
#define N_OPERATIONS (int)(sizeof(operations) / sizeof(operations[0]))

/* The operand is 0 of every type, and what is compared is there: the word never becomes a NaN. */
static void run_operation(struct bench *bench, long n, int i)
{
    const uint64_t zero = 0;
    uint64_t before;

    for (long k = 0; k < n; k++) {
        int status = operations[i].op == COMPARE_SWAP
                         ? nixl_atomic_compare_swap(bench->peer, bench->region, WORD_OFFSET,
                                                    operations[i].type, &zero, &zero, &before)
                         : nixl_atomic(bench->peer, bench->region, WORD_OFFSET, operations[i].type,
                                       (enum nixl_atomic_op)operations[i].op, &zero, &before);

        bench_check(status, operations[i].what);
    }
}

static uint64_t bare_once(_Atomic uint64_t *word, int op)
{
    uint64_t zero = 0;

    switch (op) {
    case NIXL_ATOMIC_ADD:
        return atomic_fetch_add(word, zero);
    case NIXL_ATOMIC_AND:
        return atomic_fetch_and(word, zero);
    case NIXL_ATOMIC_OR:
        return atomic_fetch_or(word, zero);
    case NIXL_ATOMIC_XOR:
        return atomic_fetch_xor(word, zero);
    case NIXL_ATOMIC_FETCH:
        return atomic_load(word);
    case COMPARE_SWAP:
        return atomic_compare_exchange_strong(word, &zero, zero);
    default:
        return atomic_exchange(word, zero);
    }
}

/* Whatever the type is: by the same operation on the eight bytes. */
static void bare_operation(struct bench *bench, long n, int i)
{
    uint64_t before = 0;

    for (long k = 0; k < n; k++) {
        before += bare_once((void *)bench->raw_dst, operations[i].op);
        __asm__ volatile("" : "+r"(before));
    }
}

void test_atomic(struct bench *bench)
{
    for (int i = 0; i < N_OPERATIONS; i++) {
        char what[48];

        open_word(bench);
        stage_case(
            bench,
            operations[i].type == NIXL_TYPE_INT32 || operations[i].type == NIXL_TYPE_FLOAT ? 4 : 8,
            &bench->alignment);
        memset(bench->mine, 0, 8);
        stage_barrier(bench);
        snprintf(what, sizeof(what), "atomic %s", operations[i].what);
        measure(bench, "atomic", what, run_operation, bare_operation, i);
        stage_data_close(bench);
    }
}
