/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on channels: items come once, in order and whole; a full queue waits and loses
 * nothing; both ends hear of a close. Every rank produces for the next one and consumes from the
 * one before.
 */
#include "conformance.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define TAG_TURN 0xc401

#define SLOT   1000
#define NSLOTS 8

struct ends {
    struct nixl_channel *in, *out;
};

static struct ends open_ends(const char *name, size_t slot_nbytes, size_t nslots)
{
    struct ends ends = {NULL, NULL};

    MPT_OK(nixl_channel_open(name, conf.prev, NIXL_CHANNEL_CONSUMER, slot_nbytes, nslots, NULL,
                             &ends.in));
    MPT_OK(nixl_channel_open(name, conf.next, NIXL_CHANNEL_PRODUCER, slot_nbytes, nslots, NULL,
                             &ends.out));
    return ends;
}

static void close_ends(struct ends *ends)
{
    mpt_barrier();
    MPT_OK(nixl_channel_close(ends->out, MPT_PATIENCE));
    MPT_OK(nixl_channel_close(ends->in, MPT_PATIENCE));
    mpt_barrier(); /* before the name is used again */
}

static size_t size_of(uint64_t item, size_t max_nbytes)
{
    return (size_t)(item * 7919 % (max_nbytes + 1));
}

/* Publish an item, unless all slots are full. */
static bool try_publish(struct nixl_channel *channel, uint64_t item, size_t max_nbytes)
{
    void *slot = NULL;
    int status = nixl_channel_acquire(channel, 0, &slot);

    if (status == NIXL_INPROGRESS) {
        MPT_TRUE(slot == NULL);
        return false;
    }
    MPT_OK(status);
    mpt_fill(slot, size_of(item, max_nbytes), item + (uint64_t)conf.rank);
    MPT_OK(nixl_channel_publish(channel, size_of(item, max_nbytes)));
    return true;
}

/* Take the item that is due, unless there is none, and give its slot back. */
static bool try_receive(struct nixl_channel *channel, uint64_t item, size_t max_nbytes)
{
    size_t nbytes = SIZE_MAX;
    void *slot = NULL;
    int rank = -1, status = nixl_channel_recv(channel, 0, &slot, &nbytes, &rank);

    if (status == NIXL_INPROGRESS) {
        MPT_TRUE(slot == NULL && nbytes == SIZE_MAX && rank == -1);
        return false;
    }
    MPT_OK(status);
    MPT_EQ(rank, conf.prev);
    MPT_EQ(nbytes, size_of(item, max_nbytes));
    MPT_CHECK(slot, nbytes, item + (uint64_t)conf.prev);
    MPT_OK(nixl_channel_release(channel, slot));
    return true;
}

static void pass_items(const char *name, size_t slot_nbytes, size_t nslots, uint64_t n_items)
{
    struct ends ends = open_ends(name, slot_nbytes, nslots);
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    uint64_t n_out = 0, n_in = 0;

    while (n_out < n_items || n_in < n_items) {
        bool has_moved = n_out < n_items && try_publish(ends.out, n_out, slot_nbytes);

        n_out += has_moved;
        if (n_in < n_items && try_receive(ends.in, n_in, slot_nbytes)) {
            n_in++;
            has_moved = true;
        }
        if (has_moved) {
            end_ns = mpt_now_ns() + MPT_PATIENCE;
        }
        MPT_LT(mpt_now_ns(), end_ns);
    }
    close_ends(&ends);
}

static void items_come_once_in_order_and_whole(void)
{
    pass_items("chan.order", SLOT, NSLOTS, conf_rounds(3000));
    pass_items("chan.single", 64, 1, conf_rounds(300));
    pass_items("chan.many", 24, 1000, conf_rounds(3000));
    pass_items("chan.large", (1u << 20) + 5, 3, conf_rounds(20));
}

/* Sizes, numbers and turns at random, of which both ends know the seed. */
static void channels_of_any_shape_pass_items(void)
{
    uint64_t state = 4711;

    for (unsigned round = 0; round < conf_rounds(10); round++) {
        size_t slot_nbytes = 1 + mpt_random(&state) % 9000;

        pass_items("chan.shape", slot_nbytes, 1 + mpt_random(&state) % 20, 100);
    }
}

static void a_full_channel_waits_and_loses_nothing(void)
{
    struct ends ends = open_ends("chan.full", SLOT, NSLOTS);
    void *slot = NULL, *held[NSLOTS];
    uint64_t n = 0;

    while (try_publish(ends.out, n, SLOT)) {
        n++;
    }
    MPT_EQ(n, NSLOTS);
    MPT_STATUS(nixl_channel_acquire(ends.out, MPT_MS, &slot), NIXL_E_TIMEOUT);
    MPT_TRUE(slot == NULL);
    mpt_barrier();                     /* no rank has received yet */
    for (int i = 0; i < NSLOTS; i++) { /* all of them before the first is given back */
        size_t nbytes = 0;

        MPT_OK(nixl_channel_recv(ends.in, MPT_PATIENCE, &held[i], &nbytes, NULL));
        MPT_EQ(nbytes, size_of((uint64_t)i, SLOT));
        MPT_CHECK(held[i], nbytes, (uint64_t)i + (uint64_t)conf.prev);
    }
    MPT_STATUS(nixl_channel_recv(ends.in, MPT_MS, &slot, NULL, NULL), NIXL_E_TIMEOUT);
    MPT_STATUS(nixl_channel_acquire(ends.out, 0, &slot), NIXL_INPROGRESS);
    mpt_barrier(); /* no rank has released yet */
    MPT_STATUS(nixl_channel_release(ends.in, held[1]), NIXL_E_INVALID_ARG);
    for (int i = 0; i < NSLOTS; i++) {
        MPT_OK(nixl_channel_release(ends.in, held[i]));
    }
    MPT_STATUS(nixl_channel_release(ends.in, held[0]), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_channel_acquire(ends.out, MPT_PATIENCE, &slot));
    MPT_OK(nixl_channel_publish(ends.out, 3));
    MPT_OK(nixl_channel_recv(ends.in, MPT_PATIENCE, &slot, NULL, NULL));
    MPT_OK(nixl_channel_release(ends.in, slot));
    close_ends(&ends);
}

/* The producer gets it, whether it was released before or after the last item was received. */
static void a_released_slot_is_free_while_the_others_are_held(void)
{
    struct ends ends = open_ends("chan.held", SLOT, NSLOTS);
    void *slot = NULL, *held[2 * NSLOTS];
    uint64_t n_out = 0, n_in = 0, n_released = 0;

    for (int turn = 0; turn < NSLOTS; turn++) {
        while (n_out < n_released + NSLOTS) {
            MPT_OK(nixl_channel_acquire(ends.out, MPT_PATIENCE, &slot));
            MPT_OK(nixl_channel_publish(ends.out, 1));
            n_out++;
        }
        while (n_in < n_out) {
            if (turn % 2 == 1 && n_in + 1 == n_out) {
                MPT_OK(nixl_channel_release(ends.in, held[n_released++]));
            }
            MPT_OK(nixl_channel_recv(ends.in, MPT_PATIENCE, &held[n_in++], NULL, NULL));
        }
        if (turn % 2 == 0) {
            MPT_OK(nixl_channel_release(ends.in, held[n_released++]));
        }
    }
    for (; n_released < n_in; n_released++) {
        MPT_OK(nixl_channel_release(ends.in, held[n_released]));
    }
    close_ends(&ends);
}

/* Rank 0 alone receives; all others, and rank 0 itself, publish. */
static void many_producers_reach_one_consumer(void)
{
    const uint64_t n_items = conf_rounds(500);
    struct nixl_channel *in = NULL, *out = NULL;
    uint64_t *n_from = calloc((size_t)conf.size, sizeof(*n_from)), n_in = 0, n_out = 0;
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    if (conf.rank == 0) {
        MPT_OK(nixl_channel_open("chan.many.to.one", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT, 4,
                                 NULL, &in));
    }
    MPT_OK(nixl_channel_open("chan.many.to.one", 0, NIXL_CHANNEL_PRODUCER, SLOT, 4, NULL, &out));
    while (n_out < n_items || (in != NULL && n_in < n_items * (uint64_t)conf.size)) {
        void *slot;
        size_t nbytes;
        int rank;

        n_out += n_out < n_items && try_publish(out, n_out, SLOT);
        if (in != NULL && nixl_channel_recv(in, 0, &slot, &nbytes, &rank) == NIXL_OK) {
            MPT_EQ(nbytes, size_of(n_from[rank], SLOT));
            MPT_CHECK(slot, nbytes, n_from[rank] + (uint64_t)rank);
            MPT_OK(nixl_channel_release(in, slot));
            n_from[rank]++;
            n_in++;
            end_ns = mpt_now_ns() + MPT_PATIENCE;
        }
        MPT_TRUE(in == NULL || mpt_now_ns() < end_ns);
    }
    for (int rank = 0; in != NULL && rank < conf.size; rank++) {
        MPT_EQ(n_from[rank], n_items);
    }
    mpt_barrier();
    MPT_OK(nixl_channel_close(out, MPT_PATIENCE));
    if (in != NULL) {
        MPT_OK(nixl_channel_close(in, MPT_PATIENCE));
    }
    free(n_from);
}

/* What was published before the close is received; then the consumer knows that no more comes. */
static void a_producer_closes_behind_its_items(void)
{
    struct ends ends = open_ends("chan.producer", SLOT, NSLOTS);
    void *slot = NULL;

    for (uint64_t i = 0; i < 3; i++) {
        MPT_TRUE(try_publish(ends.out, i, SLOT));
    }
    MPT_OK(nixl_channel_close(ends.out, MPT_PATIENCE));
    for (uint64_t i = 0; i < 3; i++) {
        size_t nbytes = 0;

        MPT_OK(nixl_channel_recv(ends.in, MPT_PATIENCE, &slot, &nbytes, NULL));
        MPT_CHECK(slot, nbytes, i + (uint64_t)conf.prev);
        MPT_OK(nixl_channel_release(ends.in, slot));
    }
    MPT_STATUS(nixl_channel_recv(ends.in, MPT_PATIENCE, &slot, NULL, NULL), NIXL_E_STALE);
    MPT_OK(nixl_channel_close(ends.in, MPT_PATIENCE));
    mpt_barrier();
}

static void a_producer_hears_that_its_consumer_closed(void)
{
    struct ends ends = open_ends("chan.consumer", SLOT, NSLOTS);
    void *slot = NULL;
    uint64_t n = 0;

    while (try_publish(ends.out, n, SLOT)) {
        n++;
    }
    mpt_barrier();
    if (conf.rank % 2 == 0 || conf.size % 2 != 0) {
        MPT_OK(nixl_channel_close(ends.in, MPT_PATIENCE));
    }
    if (conf.next % 2 == 0 || conf.size % 2 != 0) {
        MPT_STATUS(nixl_channel_acquire(ends.out, MPT_PATIENCE, &slot), NIXL_E_STALE);
    }
    mpt_barrier();
    if (conf.rank % 2 != 0 && conf.size % 2 == 0) {
        MPT_OK(nixl_channel_close(ends.in, MPT_PATIENCE));
    }
    MPT_OK(nixl_channel_close(ends.out, MPT_PATIENCE));
    mpt_barrier();
}

/* One rank after the other sleeps on its event fd until an item comes. */
static void an_item_wakes_the_event_fd(void)
{
    struct ends ends = open_ends("chan.event", SLOT, NSLOTS);
    struct pollfd fd = {.fd = nixl_event_fd(), .events = POLLIN};
    struct nixl_event event = NIXL_EVENT_INIT;

    for (int rank = 0; rank < conf.size; rank++) {
        if (conf.rank == rank && conf.size > 1) {
            int status;
            void *slot;

            conf_tell(conf.prev, TAG_TURN);
            do {
                while (nixl_event_recv(0, &event) == NIXL_OK) {
                }
                status = nixl_event_arm();
                if (nixl_channel_recv(ends.in, 0, &slot, NULL, NULL) == NIXL_OK) {
                    break;
                }
                if (status == NIXL_OK) {
                    MPT_EQ(poll(&fd, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
                }
            } while (true);
            MPT_OK(nixl_channel_release(ends.in, slot));
        } else if (conf.next == rank && conf.size > 1) {
            conf_hear(rank, TAG_TURN);
            MPT_TRUE(try_publish(ends.out, 0, SLOT));
        }
        mpt_barrier();
    }
    close_ends(&ends);
}

static void ends_must_agree(void)
{
    struct ends ends = open_ends("chan.agree", SLOT, NSLOTS);
    struct nixl_channel *none = NULL;

    MPT_STATUS(nixl_channel_open("chan.agree", conf.next, NIXL_CHANNEL_PRODUCER, SLOT, NSLOTS, NULL,
                                 &none),
               NIXL_E_NAME_IN_USE);
    MPT_STATUS(nixl_channel_open("chan.agree", conf.prev, NIXL_CHANNEL_CONSUMER, SLOT, NSLOTS, NULL,
                                 &none),
               NIXL_E_NAME_IN_USE);
    mpt_barrier();
    MPT_OK(nixl_channel_close(ends.out, MPT_PATIENCE));
    MPT_STATUS(nixl_channel_open("chan.agree", conf.next, NIXL_CHANNEL_PRODUCER, SLOT + 1, NSLOTS,
                                 NULL, &none),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_open("chan.agree", conf.next, NIXL_CHANNEL_PRODUCER, SLOT, NSLOTS - 1,
                                 NULL, &none),
               NIXL_E_INVALID_ARG);
    if (conf.size > 2) { /* the next one's end is for this rank, the one before's is not */
        MPT_STATUS(nixl_channel_open("chan.agree", conf.prev, NIXL_CHANNEL_PRODUCER, SLOT, NSLOTS,
                                     NULL, &none),
                   NIXL_E_INVALID_ARG);
    }
    MPT_TRUE(none == NULL);
    mpt_barrier();
    MPT_OK(nixl_channel_close(ends.in, MPT_PATIENCE));
    mpt_barrier();
}

/* All have filled their slots before the first item is taken: each gets its turn. */
static void producers_are_served_in_turn(void)
{
    struct nixl_channel *in = NULL, *out = NULL;
    int n_producers = conf.size - 1;

    if (conf.rank == 0) {
        MPT_OK(nixl_channel_open("chan.turns", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT, NSLOTS,
                                 NULL, &in));
    } else {
        MPT_OK(nixl_channel_open("chan.turns", 0, NIXL_CHANNEL_PRODUCER, SLOT, NSLOTS, NULL, &out));
        for (uint64_t item = 0; item < NSLOTS; item++) {
            MPT_TRUE(try_publish(out, item, SLOT));
        }
        MPT_OK(nixl_flush(0, MPT_PATIENCE));
    }
    mpt_barrier();
    for (int turn = 0; conf.rank == 0 && turn < NSLOTS; turn++) {
        for (int i = 0; i < n_producers; i++) {
            int rank = -1;
            void *slot;

            MPT_OK(nixl_channel_recv(in, MPT_PATIENCE, &slot, NULL, &rank));
            if (rank != 1 + i) {
                mpt_fail(__FILE__, __LINE__, "item %d of turn %d is of rank %d, expected %d", i,
                         turn, rank, 1 + i);
            }
            MPT_OK(nixl_channel_release(in, slot));
        }
    }
    mpt_barrier();
    MPT_OK(nixl_channel_close(conf.rank == 0 ? in : out, MPT_PATIENCE));
    mpt_barrier();
}

/* A name is one of the consumer's: a rank may produce for several under it. */
static void one_producer_serves_many_consumers(void)
{
    struct nixl_channel *in = NULL,
                        **out = calloc((size_t)conf.size, sizeof(struct nixl_channel *));

    MPT_TRUE(out != NULL);
    MPT_OK(nixl_channel_open("chan.fan", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT, NSLOTS, NULL,
                             &in));
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_OK(nixl_channel_open("chan.fan", rank, NIXL_CHANNEL_PRODUCER, SLOT, NSLOTS, NULL,
                                 &out[rank]));
    }
    for (uint64_t item = 0; item < 2 * NSLOTS; item++) {
        for (int rank = 0; rank < conf.size; rank++) {
            void *slot;

            MPT_OK(nixl_channel_acquire(out[rank], MPT_PATIENCE, &slot));
            mpt_fill(slot, SLOT, item + (uint64_t)(conf.rank * conf.size + rank));
            MPT_OK(nixl_channel_publish(out[rank], SLOT));
        }
        for (int i = 0; i < conf.size; i++) {
            int from = -1;
            size_t nbytes;
            void *slot;

            MPT_OK(nixl_channel_recv(in, MPT_PATIENCE, &slot, &nbytes, &from));
            MPT_EQ(nbytes, SLOT);
            MPT_CHECK(slot, SLOT, item + (uint64_t)(from * conf.size + conf.rank));
            MPT_OK(nixl_channel_release(in, slot));
        }
        mpt_barrier(); /* no producer is an item ahead */
    }
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_OK(nixl_channel_close(out[rank], MPT_PATIENCE));
    }
    mpt_barrier();
    MPT_OK(nixl_channel_close(in, MPT_PATIENCE));
    free(out);
    mpt_barrier();
}

const struct guarantee conf_channel[] = {
    {"channel", NULL, 0},
    {"items_come_once_in_order_and_whole", items_come_once_in_order_and_whole, 0},
    {"channels_of_any_shape_pass_items", channels_of_any_shape_pass_items, 0},
    {"a_full_channel_waits_and_loses_nothing", a_full_channel_waits_and_loses_nothing, 0},
    {"a_released_slot_is_free_while_the_others_are_held",
     a_released_slot_is_free_while_the_others_are_held, 0},
    {"many_producers_reach_one_consumer", many_producers_reach_one_consumer, 0},
    {"one_producer_serves_many_consumers", one_producer_serves_many_consumers, 0},
    {"producers_are_served_in_turn", producers_are_served_in_turn, CONF_PEERS},
    {"a_producer_closes_behind_its_items", a_producer_closes_behind_its_items, 0},
    {"a_producer_hears_that_its_consumer_closed", a_producer_hears_that_its_consumer_closed, 0},
    {"an_item_wakes_the_event_fd", an_item_wakes_the_event_fd, 0},
    {"ends_must_agree", ends_must_agree, 0},
    {0},
};
