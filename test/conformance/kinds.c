/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees between any two kinds of memory: segments of the kind that `segment=` names, local
 * memory of the kind that `local=` names. No byte of either is touched by the processor: what
 * they hold is written and read by puts and gets of the rank to itself, from and into host
 * memory.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_DONE 0xc101
#define TAG_NEXT 0xc102

#define SEGMENT_NBYTES ((size_t)3 << 20)
#define GUARD          64
#define BLANK          0x5e
#define N_REQS         24
#define SLICE          ((size_t)100003) /* prime: slices lie anyhow */

static const size_t sizes[] = {1, 8, 63, 4096, 16384, 65537, 524288, 524289, 1600007};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* The same with the own segment. */
static void end(int status, struct nixl_req **req)
{
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(req, MPT_PATIENCE) : status);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void blank(struct segment *segment, unsigned char *host, size_t nbytes)
{
    memset(host, BLANK, nbytes);
    conf_fill_segment(segment, 0, host, nbytes);
}

static void put_and_check(struct segment *segment, struct local *local, size_t place, size_t nbytes)
{
    unsigned char *seen = malloc(nbytes + 2 * GUARD);

    MPT_TRUE(seen != NULL);
    mpt_fill(local->host + place, nbytes, (uint64_t)conf.rank + nbytes);
    conf_push(local, place, nbytes);
    MPT_OK(nixl_put(conf.next, segment->region, place, local->addr + place, nbytes));
    conf_tell(conf.next, TAG_DONE);
    conf_hear(conf.prev, TAG_DONE);
    conf_read_segment(segment, place - GUARD, seen, nbytes + 2 * GUARD);
    MPT_CHECK_BYTES(seen, GUARD, BLANK);
    MPT_CHECK(seen + GUARD, nbytes, (uint64_t)conf.prev + nbytes);
    MPT_CHECK_BYTES(seen + GUARD + nbytes, GUARD, BLANK);
    memset(seen, BLANK, nbytes);
    conf_fill_segment(segment, place, seen, nbytes);
    conf_tell(conf.prev, TAG_NEXT);
    conf_hear(conf.next, TAG_NEXT);
    free(seen);
}

static void every_byte_is_put_between_kinds(void)
{
    struct segment segment = conf_segment("kind.put", SEGMENT_NBYTES);
    struct local local = conf_local("kind.put.local", conf.local_kind, SEGMENT_NBYTES);
    unsigned char *host = malloc(SEGMENT_NBYTES);

    blank(&segment, host, SEGMENT_NBYTES);
    mpt_barrier();
    for (size_t i = 0; i < N_SIZES; i++) {
        put_and_check(&segment, &local, GUARD, sizes[i]);
        put_and_check(&segment, &local, GUARD + 4093, sizes[i]);
    }
    mpt_barrier();
    conf_drop_local(&local);
    conf_drop(&segment);
    free(host);
}

static void every_byte_is_got_between_kinds(void)
{
    struct segment segment = conf_segment("kind.get", SEGMENT_NBYTES);
    struct local local = conf_local("kind.get.local", conf.local_kind, SEGMENT_NBYTES);
    unsigned char *expected = malloc(SEGMENT_NBYTES);

    mpt_fill(expected, SEGMENT_NBYTES, (uint64_t)conf.rank);
    conf_fill_segment(&segment, 0, expected, SEGMENT_NBYTES);
    mpt_fill(expected, SEGMENT_NBYTES, (uint64_t)conf.next);
    mpt_barrier();
    for (size_t i = 0; i < N_SIZES; i++) {
        for (size_t place = GUARD; place < 3 * GUARD; place += GUARD + 3) {
            memset(local.host, BLANK, place + sizes[i] + GUARD);
            conf_push(&local, 0, place + sizes[i] + GUARD);
            MPT_OK(nixl_get(conf.next, segment.region, place, local.addr + place, sizes[i]));
            conf_pull(&local, 0, place + sizes[i] + GUARD);
            MPT_CHECK_BYTES(local.host, place, BLANK);
            MPT_EQ(memcmp(local.host + place, expected + place, sizes[i]), 0);
            MPT_CHECK_BYTES(local.host + place + sizes[i], GUARD, BLANK);
        }
    }
    mpt_barrier();
    conf_drop_local(&local);
    conf_drop(&segment);
    free(expected);
}

/* What a rank exposes, the one before reads or writes. */
static void buffers_are_exposed_between_kinds(void)
{
    static struct nixl_note note;
    struct segment segment = conf_segment("kind.pair", SEGMENT_NBYTES);
    struct local local = conf_local("kind.pair.local", conf.local_kind, SEGMENT_NBYTES);
    unsigned char *seen = malloc(SEGMENT_NBYTES);

    MPT_TRUE(seen != NULL);
    for (size_t i = 0; i < 2 * N_SIZES; i++) {
        enum nixl_pair_use use = i < N_SIZES ? NIXL_PAIR_READ : NIXL_PAIR_WRITE;
        size_t nbytes = sizes[i % N_SIZES];
        struct nixl_req *req = NULL, *move = NULL;
        char token[NIXL_TOKEN_MAX + 1];

        mpt_fill(seen, nbytes, i + (uint64_t)conf.rank);
        conf_fill_segment(&segment, GUARD, seen, nbytes);
        mpt_fill(local.host, nbytes, 100 + i + (uint64_t)conf.rank);
        conf_push(&local, 0, nbytes);
        MPT_STATUS(nixl_pair_expose(conf.prev, segment.region, GUARD, nbytes, use, NIXL_FOREVER,
                                    token, sizeof(token), &req),
                   NIXL_INPROGRESS);
        MPT_OK(nixl_notify(conf.prev, TAG_DONE, token, strlen(token) + 1, MPT_PATIENCE));
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(conf.next, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(token, note.payload, note.nbytes);
        end(use == NIXL_PAIR_READ ? nixl_pair_read(token, local.addr, nbytes, &move)
                                  : nixl_pair_write(token, local.addr, nbytes, &move),
            &move);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        if (use == NIXL_PAIR_READ) {
            conf_pull(&local, 0, nbytes);
            MPT_CHECK(local.host, nbytes, i + (uint64_t)conf.next);
        } else {
            conf_read_segment(&segment, GUARD, seen, nbytes);
            MPT_CHECK(seen, nbytes, 100 + i + (uint64_t)conf.prev);
        }
    }
    mpt_barrier();
    conf_drop_local(&local);
    conf_drop(&segment);
    free(seen);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void a_notification_comes_behind_puts_between_kinds(void)
{
    struct segment segment = conf_segment("kind.order", N_REQS * SLICE);
    struct local local = conf_local("kind.order.local", conf.local_kind, N_REQS * SLICE);
    unsigned char *seen = malloc(N_REQS * SLICE);

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(10); round++) {
        struct nixl_req *reqs[N_REQS] = {NULL};
        int statuses[N_REQS];

        mpt_fill(local.host, local.nbytes, round + 7u * (unsigned)conf.rank);
        conf_push(&local, 0, local.nbytes);
        for (size_t i = 0; i < N_REQS; i++) {
            size_t nbytes = i % 3 == 0 ? 64 : SLICE; /* small ones among large ones */

            statuses[i] = nixl_put_x(conf.next, segment.region, i * SLICE, local.addr + i * SLICE,
                                     nbytes, NULL, &reqs[i]);
        }
        conf_tell(conf.next, TAG_DONE);
        conf_hear(conf.prev, TAG_DONE);
        conf_read_segment(&segment, 0, seen, N_REQS * SLICE);
        mpt_fill(local.host, local.nbytes, round + 7u * (unsigned)conf.prev);
        for (size_t i = 0; i < N_REQS; i++) {
            MPT_EQ(memcmp(seen + i * SLICE, local.host + i * SLICE, i % 3 == 0 ? 64 : SLICE), 0);
            end(statuses[i], &reqs[i]);
        }
        mpt_barrier();
    }
    conf_drop_local(&local);
    conf_drop(&segment);
    free(seen);
}

static void put_notify_and_get_notify_between_kinds(void)
{
    static struct nixl_note note;
    struct segment segment = conf_segment("kind.notify", SEGMENT_NBYTES);
    struct local local = conf_local("kind.notify.local", conf.local_kind, SEGMENT_NBYTES);
    unsigned char *seen = malloc(SEGMENT_NBYTES);

    mpt_barrier();
    for (size_t i = 0; i < N_SIZES; i++) {
        mpt_fill(local.host, sizes[i], i + (uint64_t)conf.rank);
        conf_push(&local, 0, sizes[i]);
        MPT_OK(nixl_put_notify(conf.next, segment.region, 5, local.addr, sizes[i], TAG_DONE, &i,
                               sizeof(i), MPT_PATIENCE));
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(conf.prev, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_EQ(memcmp(note.payload, &i, sizeof(i)), 0);
        conf_read_segment(&segment, 5, seen, sizes[i]);
        MPT_CHECK(seen, sizes[i], i + (uint64_t)conf.prev);
        mpt_barrier();
        MPT_OK(nixl_get_notify(conf.next, segment.region, 5, local.addr, sizes[i], TAG_NEXT, NULL,
                               0, MPT_PATIENCE));
        conf_pull(&local, 0, sizes[i]);
        MPT_CHECK(local.host, sizes[i], i + (uint64_t)conf.rank);
        conf_hear(conf.prev, TAG_NEXT);
    }
    mpt_barrier();
    conf_drop_local(&local);
    conf_drop(&segment);
    free(seen);
}

/* Of two puts to one offset with a fence between them the second one stays, of whatever size. */
static void a_fence_orders_puts_between_kinds(void)
{
    static const size_t pairs[][2] = {{8, 8}, {8, 400000}, {400000, 8}, {400000, 300000}};
    struct segment segment = conf_segment("kind.fence", 400000);
    struct local local = conf_local("kind.fence.local", conf.local_kind, 800000);
    unsigned char *seen = malloc(400000);

    mpt_barrier();
    for (unsigned round = 0; round < 4 * conf_rounds(10); round++) {
        const size_t *nbytes = pairs[round % 4];

        memset(local.host, 1 + (int)(round % 100), 400000);
        memset(local.host + 400000, 101 + (int)(round % 100), 400000);
        conf_push(&local, 0, 800000);
        MPT_OK(nixl_put(conf.next, segment.region, 0, local.addr, nbytes[0]));
        MPT_OK(nixl_fence(conf.next));
        MPT_OK(nixl_put(conf.next, segment.region, 0, local.addr + 400000, nbytes[1]));
        MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
        mpt_barrier();
        conf_read_segment(&segment, 0, seen, nbytes[1]);
        MPT_CHECK_BYTES(seen, nbytes[1], 101 + (int)(round % 100));
        mpt_barrier();
    }
    conf_drop_local(&local);
    conf_drop(&segment);
    free(seen);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void words_of_every_kind_make_one_sum(void)
{
    struct segment segment = conf_segment("kind.words", 256);
    unsigned rounds = conf_rounds(100);
    const uint64_t one = 1;
    const float half = 0.5F;
    float total;
    uint64_t sum;

    mpt_barrier();
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t before = 0;

        MPT_OK(
            nixl_atomic(0, segment.region, 64, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before));
        MPT_LT(before, (uint64_t)rounds * (uint64_t)conf.size);
        MPT_OK(nixl_atomic(0, segment.region, 132, NIXL_TYPE_FLOAT, NIXL_ATOMIC_ADD, &half, NULL));
    }
    mpt_barrier();
    MPT_OK(nixl_atomic(0, segment.region, 64, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, &sum));
    MPT_EQ(sum, (uint64_t)rounds * (uint64_t)conf.size);
    MPT_OK(nixl_get(0, segment.region, 132, &total, sizeof(total)));
    MPT_TRUE(total == (float)rounds * (float)conf.size * half);
    MPT_STATUS(nixl_atomic(0, segment.region, 3, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, &sum),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_atomic(0, segment.region, 256, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, &sum),
               NIXL_E_RANGE);
    conf_end(&segment);
}

/* The signal stands in the segment itself: one that waits for it finds the bytes before it. */
static void a_signal_comes_behind_puts_between_kinds(void)
{
    struct segment segment = conf_segment("kind.signal", 300064);
    struct local local = conf_local("kind.signal.local", conf.local_kind, 300000);
    const uint64_t *word = (const uint64_t *)(void *)(segment.addr + 300032);
    unsigned char *seen = malloc(300000);

    mpt_barrier();
    for (unsigned round = 1; round <= conf_rounds(20); round++) {
        size_t nbytes = round % 2 == 0 ? 300000 : 100;
        uint64_t value = 0;

        mpt_fill(local.host, nbytes, round + 31u * (unsigned)conf.rank);
        conf_push(&local, 0, nbytes);
        MPT_OK(nixl_put_signal(conf.next, segment.region, 0, local.addr, nbytes, segment.region,
                               300032, NIXL_SIGNAL_ADD, 1));
        MPT_OK(nixl_signal_wait(word, NIXL_COMPARE_GE, round, MPT_PATIENCE, &value));
        MPT_EQ(value, round);
        conf_read_segment(&segment, 0, seen, nbytes);
        MPT_CHECK(seen, nbytes, round + 31u * (unsigned)conf.prev);
        mpt_barrier();
    }
    MPT_STATUS(nixl_signal_wait(word, NIXL_COMPARE_EQ, UINT64_MAX, 0, NULL), NIXL_INPROGRESS);
    MPT_STATUS(nixl_signal_wait(word, NIXL_COMPARE_EQ, UINT64_MAX, MPT_MS, NULL), NIXL_E_TIMEOUT);
    conf_drop_local(&local);
    conf_drop(&segment);
    free(seen);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Of a get: until some have come, and it is not over, if that can be seen. */
static int wait_for_first_bytes(struct local *local, struct nixl_req **req_p)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int status;

    do {
        MPT_LT(mpt_now_ns(), end_ns);
        status = nixl_req_test(req_p);
    } while (status == NIXL_INPROGRESS && conf_peek(local) == 0x55);
    return status;
}

static void a_canceled_request_leaves_its_memory_alone(void)
{
    struct segment segment = conf_segment("kind.cancel", SEGMENT_NBYTES);
    struct local local = conf_local("kind.cancel.local", conf.local_kind, SEGMENT_NBYTES);
    unsigned char *seen = malloc(SEGMENT_NBYTES);

    memset(local.host, 0xaa, SEGMENT_NBYTES);
    conf_push(&local, 0, SEGMENT_NBYTES);
    MPT_OK(nixl_put(conf.next, segment.region, 0, local.addr,
                    SEGMENT_NBYTES)); /* what gets would get */
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(20); round++) {
        struct nixl_req *req = NULL;
        int32_t outcome = NIXL_OUTCOME_DONE;
        bool is_put = round % 2 == 0;
        int status;

        memset(local.host, 0x55, SEGMENT_NBYTES);
        conf_push(&local, 0, SEGMENT_NBYTES);
        status =
            is_put
                ? nixl_put_x(conf.next, segment.region, 0, local.addr, SEGMENT_NBYTES, NULL, &req)
                : nixl_get_x(conf.next, segment.region, 0, local.addr, SEGMENT_NBYTES, NULL, &req);

        if (status == NIXL_INPROGRESS && round % 4 == 1) {
            status = wait_for_first_bytes(&local, &req);
        }
        if (status == NIXL_INPROGRESS) {
            MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        } else {
            MPT_OK(status);
        }
        if (!is_put && outcome == NIXL_OUTCOME_UNTOUCHED) {
            conf_pull(&local, 0, SEGMENT_NBYTES);
            MPT_CHECK_BYTES(local.host, SEGMENT_NBYTES, 0x55);
        }
        /* The local memory is free again: what it holds from now on stays. */
        memset(local.host, (int)round, SEGMENT_NBYTES);
        conf_push(&local, 0, SEGMENT_NBYTES);
        conf_pull(&local, 0, SEGMENT_NBYTES);
        MPT_CHECK_BYTES(local.host, SEGMENT_NBYTES, (int)round);
    }
    /* And the way is free again. */
    mpt_fill(local.host, SEGMENT_NBYTES, (uint64_t)conf.rank);
    conf_push(&local, 0, SEGMENT_NBYTES);
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    mpt_barrier();
    MPT_OK(nixl_put(conf.next, segment.region, 0, local.addr, SEGMENT_NBYTES));
    conf_tell(conf.next, TAG_DONE);
    conf_hear(conf.prev, TAG_DONE);
    conf_read_segment(&segment, 0, seen, SEGMENT_NBYTES);
    MPT_CHECK(seen, SEGMENT_NBYTES, (uint64_t)conf.prev);
    mpt_barrier();
    conf_drop_local(&local);
    conf_drop(&segment);
    free(seen);
}

/* The owner closes while others put: they get STALE and nothing else, and memory is not reused. */
static void a_segment_of_any_kind_closes_under_load(void)
{
    struct segment segment = conf_segment("kind.close", SEGMENT_NBYTES);
    struct local local = conf_local("kind.close.local", conf.local_kind, SEGMENT_NBYTES);
    int status = NIXL_OK;
    uint64_t n_rounds = 0;

    memset(local.host, 1, SEGMENT_NBYTES);
    conf_push(&local, 0, SEGMENT_NBYTES);
    MPT_OK(nixl_put(0, segment.region, 0, local.host, 1)); /* everybody has found it */
    mpt_barrier();
    if (conf.rank == 0) {
        conf_hear(1, TAG_DONE); /* they are at it */
    }
    for (; conf.rank != 0 && status != NIXL_E_STALE; n_rounds++) {
        struct nixl_req *req = NULL;

        status = n_rounds % 2 == 0
                     ? nixl_put_x(0, segment.region, 0, local.addr, SEGMENT_NBYTES, NULL, &req)
                     : nixl_get_x(0, segment.region, 0, local.addr, SEGMENT_NBYTES, NULL, &req);
        if (conf.rank == 1 && n_rounds == 2) {
            conf_tell(0, TAG_DONE);
        }
        if (status == NIXL_INPROGRESS) {
            status = nixl_req_wait(&req, MPT_PATIENCE);
        }
        if (status != NIXL_E_STALE) {
            MPT_OK(status);
        }
    }
    conf_forget_late_puts(0);
    if (conf.rank == 0) {
        conf_drop(&segment);
        mpt_barrier();
    } else {
        conf_end(&segment);
    }
    conf_drop_local(&local);
}

const struct guarantee conf_kinds[] = {
    {"put", NULL, 0},
    {"every_byte_is_put_between_kinds", every_byte_is_put_between_kinds, 0},
    {"get", NULL, 0},
    {"every_byte_is_got_between_kinds", every_byte_is_got_between_kinds, 0},
    {"pair", NULL, 0},
    {"buffers_are_exposed_between_kinds", buffers_are_exposed_between_kinds, 0},
    {"notify", NULL, 0},
    {"a_notification_comes_behind_puts_between_kinds",
     a_notification_comes_behind_puts_between_kinds, 0},
    {"put_notify", NULL, 0},
    {"put_notify_and_get_notify_between_kinds", put_notify_and_get_notify_between_kinds, 0},
    {"fence", NULL, 0},
    {"a_fence_orders_puts_between_kinds", a_fence_orders_puts_between_kinds, 0},
    {"atomic", NULL, 0},
    {"words_of_every_kind_make_one_sum", words_of_every_kind_make_one_sum, CONF_WORDS},
    {"signal", NULL, 0},
    {"a_signal_comes_behind_puts_between_kinds", a_signal_comes_behind_puts_between_kinds,
     CONF_WORDS},
    {"request", NULL, 0},
    {"a_canceled_request_leaves_its_memory_alone", a_canceled_request_leaves_its_memory_alone, 0},
    {"close", NULL, 0},
    {"a_segment_of_any_kind_closes_under_load", a_segment_of_any_kind_closes_under_load,
     CONF_PEERS},
    {0},
};
