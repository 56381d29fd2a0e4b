/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on notifications: exactly once, in order, from the rank that the library names;
 * filters; full queues that push back and never lose or deadlock.
 */
#include "conformance.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_STREAM 0x0e01
#define TAG_FULL   0x0e02
#define TAG_FAIR   0x0e03
#define TAG_READY  0x0e04

static _Thread_local struct nixl_note note;

static int receive(int rank, uint64_t tag, uint64_t mask, int64_t timeout_ns)
{
    nixl_note_init(&note);
    return nixl_notify_recv(rank, tag, mask, timeout_ns, &note);
}

/* ---- delivery -------------------------------------------------------------------------------- */

struct message {
    int sender;
    unsigned number;
    unsigned char bytes[NIXL_NOTE_MAX - 8];
};

static size_t message_nbytes(unsigned number)
{
    static const size_t sizes[] = {8,  9,  16, 24, 31, 32, 33,  39,   40,   41,
                                   47, 48, 49, 56, 64, 65, 100, 1000, 4095, 4096};

    return sizes[number % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void send_message(int rank, unsigned number)
{
    static _Thread_local struct message message;
    size_t nbytes = message_nbytes(number);

    message.sender = conf.rank;
    message.number = number;
    mpt_fill(message.bytes, nbytes - 8, number + (uint64_t)conf.rank);
    MPT_OK(
        nixl_notify(rank, TAG_STREAM + ((uint64_t)number << 32), &message, nbytes, MPT_PATIENCE));
}

/* The received note must be the `number`th message of the rank that the library names. */
static void check_message(unsigned number)
{
    struct message message;

    memcpy(&message, note.payload, note.nbytes);
    MPT_EQ(message.number, number);
    MPT_EQ(message.sender, note.rank);
    MPT_EQ(note.nbytes, message_nbytes(number));
    MPT_EQ(note.tag, TAG_STREAM + ((uint64_t)number << 32));
    MPT_CHECK(message.bytes, note.nbytes - 8, number + (uint64_t)note.rank);
}

/* Everybody, also each to itself, sends all before it receives anything. */
static void notifications_arrive_once_and_in_order(void)
{
    unsigned n = conf_rounds(500), *next = calloc((size_t)conf.size, sizeof(*next));

    mpt_barrier();
    for (unsigned i = 0; i < n; i++) {
        for (int rank = 0; rank < conf.size; rank++) {
            send_message(rank, i);
        }
    }
    for (unsigned i = 0; i < n * (unsigned)conf.size; i++) {
        MPT_OK(receive(NIXL_ANY_RANK, TAG_STREAM, UINT32_MAX, MPT_PATIENCE));
        check_message(next[note.rank]++);
    }
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_EQ(next[rank], n);
    }
    mpt_barrier();
    MPT_STATUS(receive(NIXL_ANY_RANK, TAG_STREAM, UINT32_MAX, 0), NIXL_INPROGRESS);
    mpt_barrier();
    free(next);
}

static void payloads_have_limits(void)
{
    static unsigned char big[NIXL_NOTE_MAX + 1];

    mpt_fill(big, sizeof(big), 9);
    MPT_STATUS(nixl_notify(conf.next, 1, big, sizeof(big), MPT_S), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_notify(conf.next, 1, big, SIZE_MAX, MPT_S), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_notify(conf.next, 1, NULL, 1, MPT_S), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_notify(conf.next, 1, big, NIXL_NOTE_MAX, MPT_PATIENCE));
    MPT_OK(nixl_notify(conf.next, 2, NULL, 0, MPT_PATIENCE));
    MPT_OK(nixl_notify(conf.next, 3, big, 5, MPT_PATIENCE));
    MPT_OK(receive(conf.prev, 1, UINT64_MAX, MPT_PATIENCE));
    MPT_EQ(note.nbytes, NIXL_NOTE_MAX);
    MPT_CHECK(note.payload, NIXL_NOTE_MAX, 9);
    memset(&note, 0x33, sizeof(note));
    MPT_OK(receive(conf.prev, 2, UINT64_MAX, MPT_PATIENCE));
    MPT_EQ(note.nbytes, 0);
    MPT_CHECK_BYTES(note.payload, NIXL_NOTE_MAX, 0x33);
    MPT_OK(receive(conf.prev, 3, UINT64_MAX, MPT_PATIENCE));
    MPT_EQ(note.nbytes, 5);
    MPT_CHECK(note.payload, 5, 9);
    MPT_CHECK_BYTES(note.payload + 5, NIXL_NOTE_MAX - 5, 0x33);
}

static void a_note_that_is_too_small_leaves_the_notification(void)
{
    static unsigned char big[64];

    mpt_fill(big, sizeof(big), 4);
    MPT_OK(nixl_notify(conf.next, 1, big, 64, MPT_PATIENCE));
    MPT_OK(nixl_notify(conf.next, 2, big, 8, MPT_PATIENCE));
    note.struct_nbytes = offsetof(struct nixl_note, payload) + 63;
    memset(note.payload, 0x33, sizeof(note.payload));
    MPT_STATUS(nixl_notify_recv(conf.prev, 1, UINT64_MAX, MPT_PATIENCE, &note), NIXL_E_TRUNCATED);
    MPT_CHECK_BYTES(note.payload, sizeof(note.payload), 0x33);
    note.struct_nbytes = offsetof(struct nixl_note, payload) + 64;
    MPT_OK(nixl_notify_recv(conf.prev, 1, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_CHECK(note.payload, 64, 4);
    MPT_OK(receive(conf.prev, 2, UINT64_MAX, MPT_PATIENCE));
}

/* ---- filters --------------------------------------------------------------------------------- */

static void filters_take_the_oldest_that_fits(void)
{
    for (uint64_t tag = 1; tag <= 16; tag++) {
        MPT_OK(nixl_notify(conf.next, tag, &tag, 8, MPT_PATIENCE));
    }
    MPT_OK(receive(conf.prev, 7, UINT64_MAX, MPT_PATIENCE));
    MPT_EQ(note.tag, 7);
    MPT_OK(receive(NIXL_ANY_RANK, 0x8, ~0x13ull, MPT_PATIENCE));
    MPT_EQ(note.tag, 8);
    MPT_OK(receive(conf.prev, 0xf2, 0x3, MPT_PATIENCE));
    MPT_EQ(note.tag, 2);
    MPT_OK(receive(conf.prev, UINT64_MAX, 0, MPT_PATIENCE));
    MPT_EQ(note.tag, 1);
    MPT_STATUS(receive(conf.prev, 7, UINT64_MAX, 0), NIXL_INPROGRESS);
    if (conf.size > 2) {
        MPT_STATUS(receive(conf.next, 3, UINT64_MAX, 0), NIXL_INPROGRESS);
    }
    for (uint64_t tag = 3; tag <= 16; tag++) {
        if (tag != 7 && tag != 8) {
            MPT_OK(receive(NIXL_ANY_RANK, 0, ~0x1full, MPT_PATIENCE));
            MPT_EQ(note.tag, tag);
            MPT_EQ(memcmp(note.payload, &tag, 8), 0);
        }
    }
}

/* Every rank but 0 fills its queue to rank 0; then none may wait for another's queue to be empty.
 */
static void no_sender_starves_behind_others(void)
{
    struct segment segment = conf_segment("fair", 8 * (size_t)conf.size);
    unsigned *n_got = calloc((size_t)conf.size, sizeof(*n_got));
    uint64_t n_sent = 0;

    mpt_barrier();
    if (conf.rank != 0) {
        MPT_OK(nixl_notify(0, TAG_FAIR, NULL, 0, MPT_PATIENCE));
        for (n_sent = 1; nixl_notify(0, TAG_FAIR, &n_sent, 8, 0) == NIXL_OK;) {
            n_sent++;
        }
        MPT_OK(nixl_put(0, segment.region, 8 * (uint64_t)conf.rank, &n_sent, 8));
    } else {
        const uint64_t *counts = (const uint64_t *)(void *)segment.bytes;
        uint64_t n_left = 0;

        for (int rank = 1; rank < conf.size; rank++) {
            int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

            while (__atomic_load_n(&counts[rank], __ATOMIC_ACQUIRE) == 0) {
                MPT_LT(mpt_now_ns(), end_ns);
            }
            n_left += counts[rank];
        }
        for (int i = 0; i < 64 * (conf.size - 1); i++, n_left--) {
            MPT_OK(receive(NIXL_ANY_RANK, TAG_FAIR, UINT64_MAX, MPT_PATIENCE));
            n_got[note.rank]++;
        }
        for (int rank = 1; rank < conf.size; rank++) {
            MPT_GE(n_got[rank], 1);
        }
        for (; n_left > 0; n_left--) {
            MPT_OK(receive(NIXL_ANY_RANK, TAG_FAIR, UINT64_MAX, MPT_PATIENCE));
        }
    }
    conf_end(&segment);
    free(n_got);
}

/* ---- full queues ----------------------------------------------------------------------------- */

static void fill_queue(struct segment *segment)
{
    uint64_t n_sent = 0;
    int64_t start_ns;
    int status;

    conf_hear(conf.partner, TAG_READY);
    do {
        status = nixl_notify(conf.partner, TAG_FULL, &n_sent, 8, n_sent == 0 ? MPT_PATIENCE : 0);
        n_sent += status == NIXL_OK;
    } while (status == NIXL_OK);
    MPT_STATUS(status, NIXL_E_AGAIN);
    MPT_EQ(nixl_last_error()->rank, conf.partner);
    start_ns = mpt_now_ns();
    MPT_STATUS(nixl_notify(conf.partner, TAG_FULL, &n_sent, 8, 3 * MPT_MS), NIXL_E_TIMEOUT);
    MPT_GE(mpt_now_ns() - start_ns, 3 * MPT_MS);
    MPT_OK(nixl_put(conf.partner, segment->region, 0, &n_sent, 8));
    for (unsigned i = 0; i < 5000; i++, n_sent++) {
        MPT_OK(nixl_notify(conf.partner, TAG_FULL, &n_sent, 8, NIXL_FOREVER));
    }
}

/*
 * Says that it has taken all that came before, so that no more room comes of that. Then it calls
 * nothing until the partner has filled its queue; and exactly what was sent must come.
 */
static void empty_queue(struct segment *segment)
{
    volatile uint64_t *word = (uint64_t *)(void *)segment->bytes;
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    uint64_t n;

    conf_tell(conf.partner, TAG_READY);
    while ((n = __atomic_load_n(word, __ATOMIC_ACQUIRE)) == 0) {
        MPT_LT(mpt_now_ns(), end_ns);
    }
    for (uint64_t i = 0; i < n + 5000; i++) {
        MPT_OK(receive(conf.partner, TAG_FULL, UINT64_MAX, MPT_PATIENCE));
        MPT_EQ(memcmp(note.payload, &i, 8), 0);
    }
    MPT_STATUS(receive(conf.partner, TAG_FULL, UINT64_MAX, 0), NIXL_INPROGRESS);
}

static void a_full_queue_pushes_back_and_loses_nothing(void)
{
    struct segment segment = conf_segment("full", 64);

    mpt_barrier();
    for (int turn = 0; turn < 2 && conf.partner >= 0; turn++) {
        if (conf.rank % 2 == turn) {
            fill_queue(&segment);
        } else {
            empty_queue(&segment);
        }
    }
    conf_end(&segment);
}

/* Far more than the queues hold, in all directions, before anybody receives. */
static void full_queues_both_ways_do_not_deadlock(void)
{
    unsigned n = conf_rounds(600);
    static unsigned char bytes[NIXL_NOTE_MAX];

    mpt_fill(bytes, sizeof(bytes), (uint64_t)conf.rank);
    mpt_barrier();
    for (unsigned i = 0; i < n; i++) {
        for (int rank = 0; rank < conf.size; rank++) {
            MPT_OK(nixl_notify(rank, TAG_FULL, bytes, sizeof(bytes), MPT_PATIENCE));
        }
    }
    for (unsigned i = 0; i < n * (unsigned)conf.size; i++) {
        MPT_OK(receive(NIXL_ANY_RANK, TAG_FULL, UINT64_MAX, MPT_PATIENCE));
        MPT_EQ(note.nbytes, sizeof(bytes));
        MPT_CHECK(note.payload, sizeof(bytes), (uint64_t)note.rank);
    }
    mpt_barrier();
}

/* ---- time ------------------------------------------------------------------------------------ */

static void timeouts_of_receiving_hold(void)
{
    int64_t start_ns;

    mpt_barrier();
    MPT_STATUS(receive(NIXL_ANY_RANK, 99, UINT64_MAX, 0), NIXL_INPROGRESS);
    start_ns = mpt_now_ns();
    MPT_STATUS(receive(NIXL_ANY_RANK, 99, UINT64_MAX, 5 * MPT_MS), NIXL_E_TIMEOUT);
    MPT_GE(mpt_now_ns() - start_ns, 5 * MPT_MS);
    MPT_STATUS(receive(conf.next, 99, UINT64_MAX, 1), NIXL_E_TIMEOUT);
    MPT_STATUS(receive(conf.next, 99, UINT64_MAX, -1), NIXL_E_INVALID_ARG);
    MPT_STATUS(receive(conf.next, 99, UINT64_MAX, INT64_MIN), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_notify(conf.next, 99, NULL, 0, -1), NIXL_E_INVALID_ARG);
    mpt_barrier();
    if (conf.rank == 0) {
        for (int rank = 1; rank < conf.size; rank++) {
            MPT_OK(nixl_notify(rank, 99, NULL, 0, NIXL_FOREVER));
        }
    } else {
        MPT_OK(receive(0, 99, UINT64_MAX, NIXL_FOREVER));
    }
    mpt_barrier();
    MPT_STATUS(receive(NIXL_ANY_RANK, 99, UINT64_MAX, 0), NIXL_INPROGRESS);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define N_THREADS 4

struct stream {
    pthread_t thread;
    unsigned index, n;
};

static void *send_stream(void *arg)
{
    const struct stream *stream = arg;

    for (uint64_t i = 0; i < stream->n; i++) {
        MPT_OK(nixl_notify(conf.next, 0x500 + stream->index, &i, 8, MPT_PATIENCE));
    }
    return NULL;
}

/* Receives one tag only: every thread has its own filter on the same queue. */
static void *receive_stream(void *arg)
{
    const struct stream *stream = arg;

    for (uint64_t i = 0; i < stream->n; i++) {
        MPT_OK(receive(NIXL_ANY_RANK, 0x500 + stream->index, UINT64_MAX, MPT_PATIENCE));
        MPT_EQ(note.rank, conf.prev);
        MPT_EQ(memcmp(note.payload, &i, 8), 0);
    }
    return NULL;
}

static void many_threads_send_and_receive(void)
{
    struct stream senders[N_THREADS], receivers[N_THREADS];

    mpt_barrier();
    for (unsigned i = 0; i < N_THREADS; i++) {
        senders[i] = receivers[i] = (struct stream){.index = i, .n = conf_rounds(3000)};
        MPT_EQ(pthread_create(&receivers[i].thread, NULL, receive_stream, &receivers[i]), 0);
        MPT_EQ(pthread_create(&senders[i].thread, NULL, send_stream, &senders[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        MPT_EQ(pthread_join(senders[i].thread, NULL), 0);
        MPT_EQ(pthread_join(receivers[i].thread, NULL), 0);
    }
    mpt_barrier();
    MPT_STATUS(receive(NIXL_ANY_RANK, 0x500, ~0xffull, 0), NIXL_INPROGRESS);
    mpt_barrier();
}

/* What was waited for, and what came instead. */
static void a_timeout_tells_what_lies_there(void)
{
    char expected[200];

    MPT_STATUS(receive(conf.prev, TAG_READY, UINT64_MAX, MPT_MS), NIXL_E_TIMEOUT);
    snprintf(expected, sizeof(expected), "no notification from rank %d with tag %d within 1 ms",
             conf.prev, TAG_READY);
    /* Here and below the neighbour may have sent more already. */
    MPT_TRUE(strncmp(nixl_last_error()->text, expected, strlen(expected)) == 0);
    MPT_OK(nixl_notify(conf.next, TAG_STREAM, "12345", 5, MPT_PATIENCE));
    MPT_OK(nixl_notify(conf.next, TAG_FULL, NULL, 0, MPT_PATIENCE));
    MPT_OK(receive(conf.prev, TAG_FULL, UINT64_MAX, MPT_PATIENCE));
    MPT_STATUS(receive(conf.prev, 0x4e00, 0xff00, MPT_MS), NIXL_E_TIMEOUT);
    snprintf(expected, sizeof(expected),
             "no notification from rank %d with tag 0x4e00 (mask 0xff00) within 1 ms; ", conf.prev);
    MPT_TRUE(strncmp(nixl_last_error()->text, expected, strlen(expected)) == 0);
    snprintf(expected, sizeof(expected), "rank %d, tag %d, 5 bytes, for ", conf.prev, TAG_STREAM);
    MPT_TRUE(strstr(nixl_last_error()->text, " unmatched ") != NULL);
    MPT_TRUE(strstr(nixl_last_error()->text, expected) != NULL);
    MPT_OK(receive(conf.prev, TAG_STREAM, UINT64_MAX, MPT_PATIENCE));
    mpt_barrier();
}

const struct guarantee conf_notify[] = {
    {"notify", NULL, 0},
    {"notifications_arrive_once_and_in_order", notifications_arrive_once_and_in_order, 0},
    {"payloads_have_limits", payloads_have_limits, 0},
    {"a_note_that_is_too_small_leaves_the_notification",
     a_note_that_is_too_small_leaves_the_notification, 0},
    {"a_timeout_tells_what_lies_there", a_timeout_tells_what_lies_there, 0},
    {"filters_take_the_oldest_that_fits", filters_take_the_oldest_that_fits, 0},
    {"no_sender_starves_behind_others", no_sender_starves_behind_others, CONF_PEERS},
    {"a_full_queue_pushes_back_and_loses_nothing", a_full_queue_pushes_back_and_loses_nothing,
     CONF_PEERS},
    {"full_queues_both_ways_do_not_deadlock", full_queues_both_ways_do_not_deadlock, 0},
    {"timeouts_of_receiving_hold", timeouts_of_receiving_hold, CONF_PEERS},
    {"many_threads_send_and_receive", many_threads_send_and_receive, CONF_THREADS},
    {0},
};
