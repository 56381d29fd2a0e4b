/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that no call may accept: each is refused by name, outputs stay as they were. */
#include "mptest.h"
#include "test/op_form.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANARY ((void *)&canary)
static char canary;

static struct nixl_region *region;
static unsigned char memory[64];

static void bad_ranks(void)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
    struct nixl_stats stats = NIXL_STATS_INIT;
    struct nixl_peer_info peer = NIXL_PEER_INFO_INIT;
    const int ranks[] = {-1, -2, -3, nixl_size(), nixl_size() + 1, INT_MAX, INT_MIN};
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_req *req = CANARY;
    static struct nixl_note note;
    void *addr = CANARY;
    int number;

    nixl_note_init(&note);
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        int bad = ranks[i];

        MPT_STATUS(nixl_put(bad, region, 0, memory, 8), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_get(bad, region, 0, memory, 8), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_put_x(bad, region, 0, memory, 8, NULL, &req), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_get_x(bad, region, 0, memory, 8, NULL, &req), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_put_notify(bad, region, 0, memory, 8, 1, NULL, 0, 0), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_get_notify(bad, region, 0, memory, 8, 1, NULL, 0, 0), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_notify(bad, 1, NULL, 0, 0), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_fence(bad), bad == NIXL_ALL_RANKS ? NIXL_OK : NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_signal_set(bad, region, 0, 1), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_signal_add(bad, region, 0, 1), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_put_signal(bad, region, 0, memory, 8, region, 8, NIXL_SIGNAL_ADD, 1),
                   NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_atomic(bad, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, NULL),
                   NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_atomic_post(bad, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, memory),
                   NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_region_query(bad, region, 0, &info), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_region_map(bad, region, &addr), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_region_unmap(bad, region, memory), NIXL_E_INVALID_ARG);
        MPT_EQ(nixl_scope(bad), NIXL_E_INVALID_ARG);
        MPT_EQ(nixl_peer_state(bad), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_peer_query(bad, &peer), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_attach_rank(bad, 1, 0, 0, &number), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_peer_readmit(bad, 1), NIXL_E_INVALID_ARG);
        MPT_TRUE(nixl_host(bad) == NULL);
        MPT_STATUS(nixl_route_query(bad, 0, &route), NIXL_E_INVALID_ARG);
        if (bad != NIXL_ANY_RANK) {
            MPT_STATUS(nixl_stats_sum(bad, NIXL_STATS_PUT, NULL, &stats), NIXL_E_INVALID_ARG);
        }
        MPT_STATUS(nixl_route_query_segment(bad, region, NULL, 0, &route), NIXL_E_INVALID_ARG);
        if (bad != NIXL_ANY_RANK) {
            MPT_STATUS(nixl_notify_recv(bad, 0, 0, 0, &note), NIXL_E_INVALID_ARG);
        }
        if (bad != NIXL_ALL_RANKS) {
            MPT_STATUS(nixl_flush(bad, 0), NIXL_E_INVALID_ARG);
        }
    }
    MPT_TRUE(req == CANARY && addr == CANARY);
}

static void null_arguments(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *other = CANARY;
    struct nixl_req *req = CANARY;
    void *addr = CANARY;

    MPT_STATUS(nixl_region_alloc("null", 64, NULL, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_alloc("\1", 64, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "begins with byte 1") != NULL);
    MPT_STATUS(nixl_region_register("\1team", memory, 64, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open("\1pair", &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_alloc("\2", 64, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register("\2own", memory, 64, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open("\2window.0", &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register("null", memory, 64, NULL, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register("null", NULL, 64, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register("", memory, 64, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "allowed: NULL, or 1 to 255 bytes") != NULL);
    MPT_STATUS(nixl_region_register(NULL, NULL, 64, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_alloc(NULL, 64, NULL, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open("null", NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open(NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_close(NULL, 0), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_query(0, NULL, 0, &info), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_query(0, region, 0, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_map(0, NULL, &addr), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_map(0, region, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_unmap(0, NULL, memory), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_unmap(0, region, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put(0, NULL, 0, memory, 8), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put(0, region, 0, NULL, 8), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get(0, NULL, 0, memory, 8), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get(0, region, 0, NULL, 8), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_notify(0, region, 0, memory, 8, 1, NULL, 4, 0), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get_notify(0, region, 0, NULL, 8, 1, NULL, 0, 0), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_notify(0, 1, NULL, 4, 0), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_notify_recv(0, 0, 0, 0, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_event_recv(0, NULL), NIXL_E_INVALID_ARG);
    MPT_TRUE(nixl_region_addr(NULL) == NULL);
    MPT_EQ(nixl_region_nbytes(NULL), 0);
    MPT_TRUE(other == CANARY && req == CANARY && addr == CANARY);
}

/* Words: what does not exist, NULL, and words that are not aligned. */
static void bad_word_waits(void)
{
    static unsigned char bytes[16] __attribute__((aligned(8)));
    const uint64_t *odd = (const void *)(bytes + 4);
    uint64_t word = 1, fetched = 42;

    MPT_STATUS(nixl_word_wait(NULL, NIXL_TYPE_UINT64, NIXL_COMPARE_EQ, &word, 0, &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_word_wait(odd, NIXL_TYPE_UINT64, NIXL_COMPARE_EQ, &word, 0, &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_word_wait(&word, NIXL_TYPE_FLOAT, NIXL_COMPARE_EQ, &word, 0, &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_word_wait(&word, NIXL_TYPE_UINT64, NIXL_COMPARE_EQ, NULL, 0, &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_word_wait_any(&word, 8, 0, NIXL_TYPE_UINT64, NIXL_COMPARE_EQ, &word, 0, NULL,
                                  &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_word_wait_any(&word, 4, 2, NIXL_TYPE_UINT64, NIXL_COMPARE_EQ, &word, 0, NULL,
                                  &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_word_wait_any(&word, 2, 2, NIXL_TYPE_INT32, NIXL_COMPARE_EQ, &word, 0, NULL, &fetched),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_word_wait_any(&word, 8, 1, NIXL_TYPE_UINT64, NIXL_COMPARE_EQ, &word, -1, NULL,
                                  &fetched),
               NIXL_E_INVALID_ARG);
    MPT_EQ(fetched, 42);
}

static void bad_words_nb(void)
{
    static unsigned char bytes[16] __attribute__((aligned(8)));
    uint64_t *odd = (void *)(bytes + 4);
    uint64_t word = 1, fetched = 42;
    struct nixl_req *req = NULL;

    MPT_STATUS(
        nixl_atomic_x(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, NULL, NULL, NULL, &req),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_atomic_x(0, region, 4, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word, NULL, NULL, &req),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_atomic_compare_swap_x(0, region, 0, NIXL_TYPE_INT8, &word, &word, NULL, NULL, &req),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_x(0, region, 0, (enum nixl_signal_op)2, 1, NULL, &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_x(0, region, 64, NIXL_SIGNAL_ADD, 1, NULL, &req), NIXL_E_RANGE);
    MPT_STATUS(nixl_put_x(0, region, 0, NULL, 8,
                          (struct nixl_op[]){op_signal(region, 8, NIXL_SIGNAL_ADD, 1)}, &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_x(0, region, 60, memory, 8,
                          (struct nixl_op[]){op_signal(region, 8, NIXL_SIGNAL_ADD, 1)}, &req),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8,
                          (struct nixl_op[]){op_signal(region, 9, NIXL_SIGNAL_ADD, 1)}, &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get_x(0, region, 0, &word, 8,
                          (struct nixl_op[]){op_own_signal(NULL, NIXL_SIGNAL_ADD, 1)}, &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get_x(0, region, 0, &word, 8,
                          (struct nixl_op[]){op_own_signal(odd, NIXL_SIGNAL_ADD, 1)}, &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get_x(0, region, 0, &word, 8,
                          (struct nixl_op[]){op_own_signal(&fetched, (enum nixl_signal_op)2, 1)},
                          &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get_x(0, region, 60, &word, 8,
                          (struct nixl_op[]){op_own_signal(&fetched, NIXL_SIGNAL_ADD, 1)}, &req),
               NIXL_E_RANGE);
    MPT_TRUE(req == NULL);
    MPT_EQ(fetched, 42);
}

static void bad_words(void)
{
    static const struct {
        unsigned type, op;
    } none[] = {{6, 0},
                {256, 0},
                {UINT_MAX, 0},
                {3, 7},
                {3, 8},
                {3, 256},
                {3, UINT_MAX},
                {NIXL_TYPE_FLOAT, NIXL_ATOMIC_AND},
                {NIXL_TYPE_FLOAT, NIXL_ATOMIC_OR},
                {NIXL_TYPE_DOUBLE, NIXL_ATOMIC_XOR}};
    uint64_t word = 1, fetched = 42, *odd = (uint64_t *)(void *)(memory + 1);
    const uint64_t *words[] = {&word, odd, NULL};

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        MPT_STATUS(nixl_atomic(0, region, 0, (enum nixl_type)none[i].type,
                               (enum nixl_atomic_op)none[i].op, &word, &fetched),
                   NIXL_E_INVALID_ARG);
    }
    for (int op = NIXL_ATOMIC_ADD; op < NIXL_ATOMIC_FETCH; op++) {
        MPT_STATUS(
            nixl_atomic(0, region, 0, NIXL_TYPE_UINT64, (enum nixl_atomic_op)op, NULL, &fetched),
            NIXL_E_INVALID_ARG);
    }
    MPT_STATUS(nixl_atomic_post(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, &word),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_atomic_post(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, NULL),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_atomic_post(0, region, 0, NIXL_TYPE_FLOAT, NIXL_ATOMIC_XOR, &word),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_atomic_post(0, region, 4, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_atomic(0, NULL, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word, &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_atomic_compare_swap(0, region, 0, (enum nixl_type)6, &word, &word, &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_atomic_compare_swap(0, region, 0, NIXL_TYPE_UINT64, NULL, &word, &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_atomic_compare_swap(0, region, 0, NIXL_TYPE_UINT64, &word, NULL, &fetched),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_set(0, NULL, 0, 1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_add(0, region, 4, 1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_signal(0, NULL, 0, memory, 8, region, 0, NIXL_SIGNAL_ADD, 1),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_signal(0, region, 0, memory, 8, region, 0, (enum nixl_signal_op)2, 1),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_wait(NULL, NIXL_COMPARE_EQ, 1, 0, &fetched), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_wait(odd, NIXL_COMPARE_EQ, 1, 0, &fetched), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_wait(&word, (enum nixl_compare)6, 1, 0, &fetched), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_wait_any(NULL, 1, NIXL_COMPARE_EQ, 1, 0, NULL, &fetched),
               NIXL_E_INVALID_ARG);
    for (size_t n = 0; n <= 3; n += n + 2) {
        MPT_STATUS(nixl_signal_wait_any(words, n, NIXL_COMPARE_EQ, 1, 0, NULL, &fetched),
                   NIXL_E_INVALID_ARG);
    }
    MPT_EQ(fetched, 42);
}

/* Fields of the extended form that no call, or not this one, can use. */
static void bad_forms(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = CANARY;
    struct nixl_cq *cq = NULL;
    struct nixl_context *context = NULL;
    struct nixl_cq_params params = NIXL_CQ_PARAMS_INIT;
    struct nixl_cq_entry entry;
    size_t n;

    op.flags = 32;
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_INVALID_ARG);
    op.flags = NIXL_OP_GETS;
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_UNSUPPORTED);
    MPT_EQ(nixl_last_error()->rank, -1); /* whichever rank it is for */
    op.flags = NIXL_OP_RANK;
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_UNSUPPORTED);
    op.rank = -1;
    MPT_STATUS(nixl_signal_wait_x((uint64_t *)memory, NIXL_COMPARE_EQ, 1, &op, NULL),
               NIXL_E_INVALID_ARG);
    op.flags = NIXL_OP_STREAM;
    MPT_STATUS(
        nixl_atomic_x(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, &op, NULL, &req),
        NIXL_E_UNSUPPORTED);
    op = (struct nixl_op)NIXL_OP_INIT;
    op.timeout_ns = -2;
    MPT_STATUS(nixl_flush_x(0, NULL, &op, &req), NIXL_E_INVALID_ARG);
    op = (struct nixl_op)NIXL_OP_INIT;
    op.context = (struct nixl_context *)memory;
    MPT_STATUS(nixl_notify_x(0, 1, NULL, 0, &op, NULL), NIXL_E_INVALID_ARG);
    op = (struct nixl_op)NIXL_OP_INIT;
    op.cq = (struct nixl_cq *)memory;
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, NULL), NIXL_E_INVALID_ARG);
    op = op_note(1, NULL, 4);
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_INVALID_ARG);
    op = op_signal(region, 0, (enum nixl_signal_op)2, 1);
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_INVALID_ARG);
    op.struct_nbytes = 8;
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_flush_x(99, NULL, NULL, &req), NIXL_E_INVALID_ARG);
    op = (struct nixl_op)NIXL_OP_INIT;
    op.flags = NIXL_OP_PREPARE;
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_UNSUPPORTED);
    op.flags = NIXL_OP_KEEP;
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_UNSUPPORTED);
    MPT_HAS("NIXL_OP_KEEP");
    op.flags = 2 * NIXL_OP_KEEP;
    MPT_STATUS(nixl_finalize_x(&op), NIXL_E_INVALID_ARG);
    MPT_TRUE(req == CANARY);
    MPT_STATUS(nixl_context_open("", NULL, &context), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_context_open(NULL, NULL, &context), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_context_open("kv", NULL, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_context_close(NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_cq_open(NULL, NULL), NIXL_E_INVALID_ARG);
    params.flags = 4;
    MPT_STATUS(nixl_cq_open(&params, &cq), NIXL_E_INVALID_ARG);
    params.flags = 0;
    params.entry_nbytes = 12;
    MPT_STATUS(nixl_cq_open(&params, &cq), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_cq_wait(NULL, &entry, 1, 0, &n), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_cq_cancel(NULL, 0), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_cq_fd(NULL), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_cq_open(NULL, &cq));
    MPT_STATUS(nixl_cq_arm(cq), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_cq_wait(cq, &entry, 0, 0, &n), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_cq_wait(cq, &entry, 1, -1, &n), NIXL_E_INVALID_ARG);
    op = (struct nixl_op)NIXL_OP_INIT;
    op.cq = cq;
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, &op, &req), NIXL_E_INVALID_ARG);
    MPT_TRUE(req == CANARY);
    MPT_OK(nixl_cq_close(cq));
}

/* A process, or a peer that sends to ever new names, cannot make contexts without end. */
static void too_many_contexts(void)
{
    struct nixl_context *context;
    int status = NIXL_OK, n = 0;
    char name[32];

    while (status == NIXL_OK && n < 5000) {
        snprintf(name, sizeof(name), "one of many %d", n++);
        status = nixl_context_open(name, NULL, &context);
        if (status == NIXL_OK) {
            MPT_OK(nixl_context_close(context));
        }
    }
    MPT_STATUS(status, NIXL_E_NO_MEMORY);
    MPT_GE(n, 1000);
}

/* Calls on CUDA streams; that they are refused where there is no CUDA, too. */
static void bad_streams(void)
{
    struct nixl_req *req = CANARY;
    uint64_t word = 0;
    int status;

    MPT_STATUS(nixl_put_x(-1, region, 0, memory, 8, (struct nixl_op[]){op_stream(NULL)}, &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_x(0, NULL, 0, memory, 8, (struct nixl_op[]){op_stream(NULL)}, &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get_x(0, region, 0, NULL, 8, (struct nixl_op[]){op_stream(NULL)}, &req),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_x(0, region, 1 << 30, memory, 8, (struct nixl_op[]){op_stream(NULL)}, &req),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8, (struct nixl_op[]){op_stream(NULL)}, &req),
               NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_get_x(0, region, 0, memory, 8, (struct nixl_op[]){op_stream(NULL)}, NULL),
               NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8,
                          (struct nixl_op[]){op_stream_note(NULL, 1, NULL, 1)}, NULL),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_x(0, region, 0, memory, 8,
                          (struct nixl_op[]){op_stream_note(NULL, 1, NULL, 0)}, NULL),
               NIXL_E_UNSUPPORTED);
    MPT_STATUS(
        nixl_signal_x(0, region, 4, NIXL_SIGNAL_SET, 1, (struct nixl_op[]){op_stream(NULL)}, NULL),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_signal_x(0, NULL, 0, NIXL_SIGNAL_SET, 1, (struct nixl_op[]){op_stream(NULL)}, NULL),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_signal_wait_x(NULL, NIXL_COMPARE_EQ, 1, (struct nixl_op[]){op_stream(NULL)}, NULL),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_signal_wait_x(&word, NIXL_COMPARE_LT, 1, (struct nixl_op[]){op_stream(NULL)}, NULL),
        NIXL_E_INVALID_ARG);
    /* Without CUDA nothing can wait; with it, the word is in no region of this rank. */
    status =
        nixl_signal_wait_x(&word, NIXL_COMPARE_EQ, 1, (struct nixl_op[]){op_stream(NULL)}, NULL);
    MPT_TRUE(status == NIXL_E_UNSUPPORTED || status == NIXL_E_INVALID_ARG);
    MPT_TRUE(req == CANARY);
}

static void bad_sizes(void)
{
    struct nixl_region *other = CANARY;

    MPT_STATUS(nixl_region_alloc("sizes", 0, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register("sizes", memory, 0, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_alloc("sizes", SIZE_MAX, NULL, &other), NIXL_E_NO_MEMORY);
    MPT_STATUS(nixl_region_alloc("sizes", (size_t)1 << 62, NULL, &other), NIXL_E_NO_MEMORY);
    MPT_STATUS(nixl_region_register("sizes", memory, SIZE_MAX, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(other == CANARY);
}

/* Structs that were not made ready, or that hold values which do not exist. */
static void bad_structs(void)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
    struct nixl_mem_params good = NIXL_MEM_PARAMS_INIT, params;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_region *other = CANARY;
    static struct nixl_note note;

    params = good;
    params.struct_nbytes = 0;
    MPT_STATUS(nixl_region_alloc("structs", 64, &params, &other), NIXL_E_INVALID_ARG);
    params = good;
    params.kind = 77;
    MPT_STATUS(nixl_region_alloc("structs", 64, &params, &other), NIXL_E_INVALID_ARG);
    params = good;
    params.kind = -1;
    MPT_STATUS(nixl_region_alloc("structs", 64, &params, &other), NIXL_E_INVALID_ARG);
    params = good;
    params.flags = NIXL_MEM_POPULATE << 1;
    MPT_STATUS(nixl_region_alloc("structs", 64, &params, &other), NIXL_E_INVALID_ARG);
    params = good;
    params.access = 4 * NIXL_ACCESS_NO_PUT;
    MPT_STATUS(nixl_region_alloc("structs", 64, &params, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "allowed: 0, NIXL_ACCESS_NO_PUT (0x1), ") != NULL);
    MPT_STATUS(nixl_region_register("structs", memory, 64, &params, &other), NIXL_E_INVALID_ARG);
    info.struct_nbytes = 0;
    MPT_STATUS(nixl_region_query(nixl_rank(), region, 0, &info), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_route_query(0, 1000, &route), NIXL_E_NOT_FOUND);
    MPT_STATUS(nixl_route_query(0, 0, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_route_query_segment(0, region, NULL, 1000, &route), NIXL_E_NOT_FOUND);
    MPT_STATUS(nixl_route_query_segment(0, region, NULL, 0, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_route_query_segment(0, NULL, NULL, 0, &route), NIXL_E_INVALID_ARG);
    route.struct_nbytes--;
    MPT_STATUS(nixl_route_query(0, 0, &route), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_route_query_segment(0, region, NULL, 0, &route), NIXL_E_INVALID_ARG);
    MPT_EQ(route.transport[0], 0);
    note.struct_nbytes = 0;
    MPT_STATUS(nixl_notify_recv(0, 0, 0, 0, &note), NIXL_E_INVALID_ARG);
    event.struct_nbytes = 0;
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_E_INVALID_ARG);
    MPT_TRUE(other == CANARY);
}

static void bad_descriptors(void)
{
    int full = open("/dev/full", O_WRONLY), reading = open("/dev/null", O_RDONLY);

    MPT_STATUS(nixl_debug_dump(-1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_debug_dump(reading), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_debug_dump(full), NIXL_E_TRANSPORT);
    close(full);
    close(reading);
}

static void bad_timeouts(void)
{
    static const int64_t timeouts[] = {-1, -1000, INT64_MIN};
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_event event = NIXL_EVENT_INIT;
    static struct nixl_note note;
    const uint64_t word = 0;

    nixl_note_init(&note);
    for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
        int64_t bad = timeouts[i];

        MPT_STATUS(nixl_question_cancel(bad), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_notify(0, 1, NULL, 0, bad), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_notify_recv(0, 0, 0, bad, &note), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_put_notify(0, region, 0, memory, 8, 1, NULL, 0, bad), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_get_notify(0, region, 0, memory, 8, 1, NULL, 0, bad), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_flush(0, bad), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_region_query(0, region, bad, &info), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_region_close(region, bad), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_event_recv(bad, &event), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_signal_wait(&word, NIXL_COMPARE_EQ, 0, bad, NULL), NIXL_E_INVALID_ARG);
    }
}

/* A handle that was closed is no open region, until its memory is a new one's. */
static void closed_handles(void)
{
    struct nixl_region *closed = NULL;

    MPT_OK(nixl_region_alloc("closed", 64, NULL, &closed));
    MPT_OK(nixl_region_close(closed, MPT_PATIENCE));
    MPT_STATUS(nixl_region_close(closed, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put(0, closed, 0, memory, 8), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get(0, closed, 0, memory, 8), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_set(0, closed, 0, 1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_signal(0, region, 0, memory, 8, closed, 0, NIXL_SIGNAL_ADD, 1),
               NIXL_E_INVALID_ARG);
    MPT_TRUE(nixl_region_addr(closed) == NULL);
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("args", 64, NULL, &region));
    mpt_barrier();
    bad_ranks();
    null_arguments();
    bad_words();
    bad_word_waits();
    bad_words_nb();
    bad_forms();
    too_many_contexts();
    bad_streams();
    bad_sizes();
    bad_structs();
    bad_timeouts();
    bad_descriptors();
    closed_handles();
    mpt_barrier();
    MPT_CHECK_BYTES(nixl_region_addr(region), 64, 0);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
