/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notification ring with both ends as threads of one process, so that ThreadSanitizer sees
 * them: the same functions and memory orders as between processes. Useful without the sanitizer
 * too. On a busy machine it ends before its last message.
 */
#include "config.h"

#include "util/ring.h"

#include "test/mp/mptest.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MESSAGES 150000u
#define LONGEST_NS 8000000000ll

static struct nxr_ring_slot *slots; /* what the sender writes into */
static size_t n_slots;
static struct nxr_ring_rx receiving;
static struct nxr_ring_credit *credit;
static _Atomic uint64_t n_sent = UINT64_MAX; /* known when all are */

/* Most messages are short; some take many slots, up to the largest, to pass the ring's end
 * anywhere. */
static size_t message_nbytes(uint64_t number)
{
    uint64_t state = number;
    uint64_t random = mpt_random(&state);

    return random % 16 == 0 ? random / 16 % (NXR_RING_MAX_NBYTES + 1) : random / 16 % 130;
}

static void *send_all(void *arg)
{
    struct nxr_ring_tx tx = {
        .slots = slots, .n_slots = n_slots, .credit = credit, .limit = n_slots};
    static unsigned char message[NXR_RING_MAX_NBYTES];
    int64_t until_ns = mpt_now_ns() + LONGEST_NS;
    uint64_t i;

    for (i = 0; i < N_MESSAGES && mpt_now_ns() < until_ns; i++) {
        size_t nbytes = message_nbytes(i);

        mpt_fill(message, nbytes, i);
        while (!nxr_ring_push(&tx, &(struct nxr_message){0, ~i, message, nbytes, false})) {
            sched_yield();
        }
    }
    atomic_store(&n_sent, i);
    return arg;
}

/* Wait for that message. False: there is none, and no further one. */
static bool await_message(const struct nxr_ring_rx *rx, uint64_t number)
{
    while (!nxr_ring_has(rx)) {
        if (atomic_load(&n_sent) == number) {
            return false;
        }
        sched_yield();
    }
    return true;
}

static void *receive_all(void *arg)
{
    static unsigned char payload[NXR_RING_MAX_NBYTES];
    struct nxr_ring_message message;

    for (uint64_t i = 0; await_message(&receiving, i); i++) {
        MPT_TRUE(nxr_ring_peek(&receiving, &message));
        MPT_EQ(message.tag, ~i);
        MPT_EQ(message.nbytes, message_nbytes(i));
        nxr_ring_pop(&receiving, &message, payload);
        MPT_CHECK(payload, message.nbytes, i);
    }
    MPT_TRUE(!nxr_ring_has(&receiving));
    return arg;
}

/* The ring of a peer that turns out to be on another host is widened while a thread looks. */
static void run(int number, bool is_widened)
{
    struct nxr_ring_slot *wide = calloc(NXR_RING_WIDE_SLOTS, sizeof(*wide));
    struct nxr_ring_slot *narrow = calloc(NXR_RING_SLOTS, sizeof(*narrow));
    pthread_t sender, receiver;

    credit = calloc(1, sizeof(*credit));
    receiving = (struct nxr_ring_rx){.slots = narrow, .n_slots = NXR_RING_SLOTS, .credit = credit};
    slots = is_widened ? wide : narrow;
    n_slots = is_widened ? NXR_RING_WIDE_SLOTS : NXR_RING_SLOTS;
    atomic_store(&n_sent, UINT64_MAX);
    MPT_EQ(pthread_create(&receiver, NULL, receive_all, NULL), 0);
    if (is_widened) {
        nxr_ring_widen(&receiving, wide);
    }
    MPT_EQ(pthread_create(&sender, NULL, send_all, NULL), 0);
    MPT_EQ(pthread_join(sender, NULL), 0);
    MPT_EQ(pthread_join(receiver, NULL), 0);
    free(narrow);
    free(wide);
    free(credit);
    printf("ok %d - %llu messages of all sizes arrive whole and in order%s\n", number,
           (unsigned long long)atomic_load(&n_sent), is_widened ? " in a wide ring" : "");
}

int main(void)
{
    printf("1..2\n");
    run(1, false);
    run(2, true);
    return 0;
}
