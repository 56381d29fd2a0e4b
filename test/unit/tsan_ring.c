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

#define N_MESSAGES 200000u
#define LONGEST_NS 15000000000ll

static struct nxr_ring_slot *slots;
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
        .slots = slots, .n_slots = NXR_RING_SLOTS, .credit = credit, .limit = NXR_RING_SLOTS};
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
    struct nxr_ring_rx rx = {.slots = slots, .n_slots = NXR_RING_SLOTS, .credit = credit};
    static unsigned char payload[NXR_RING_MAX_NBYTES];
    struct nxr_ring_message message;

    for (uint64_t i = 0; await_message(&rx, i); i++) {
        MPT_TRUE(nxr_ring_peek(&rx, &message));
        MPT_EQ(message.tag, ~i);
        MPT_EQ(message.nbytes, message_nbytes(i));
        nxr_ring_pop(&rx, &message, payload);
        MPT_CHECK(payload, message.nbytes, i);
    }
    MPT_TRUE(!nxr_ring_has(&rx));
    return arg;
}

int main(void)
{
    pthread_t sender, receiver;

    slots = calloc(NXR_RING_SLOTS, sizeof(*slots));
    credit = calloc(1, sizeof(*credit));
    printf("1..1\n");
    MPT_EQ(pthread_create(&sender, NULL, send_all, NULL), 0);
    MPT_EQ(pthread_create(&receiver, NULL, receive_all, NULL), 0);
    MPT_EQ(pthread_join(sender, NULL), 0);
    MPT_EQ(pthread_join(receiver, NULL), 0);
    free(slots);
    free(credit);
    printf("ok 1 - %llu messages of all sizes arrive whole and in order\n",
           (unsigned long long)atomic_load(&n_sent));
    return 0;
}
