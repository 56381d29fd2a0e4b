/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network that stands still for a while and comes back in time: nothing is lost, no rank is dead.
 *
 *     stall MILLISECONDS
 *
 * The first and the last rank exchange rounds of notifications with data. In the midst of it the
 * relay in the link of the last host lets nothing pass for so long. Other ranks only live through
 * it.
 */
#include "test/net/bed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG_ROUND 0x9d01

enum { N_NOTES = 16, SLOT_NBYTES = 65536, ROUNDS_BEFORE = 20, ROUNDS_AFTER = 50 };

static int other;
static struct nixl_region *region;
static atomic_int n_rounds;
static atomic_bool is_back;

/* What a notification says. */
struct word {
    uint32_t round, index;
    bool is_last;
};

static uint64_t seed_of(int rank, uint32_t round, uint32_t index)
{
    return (uint64_t)rank << 48 | (uint64_t)round << 16 | index;
}

static size_t slot_of(uint32_t round, uint32_t index)
{
    return ((size_t)(round % 2) * N_NOTES + index) * SLOT_NBYTES;
}

/* Sizes of all kinds, so that all paths, of small and of large data, are used. */
static size_t nbytes_of(uint32_t index)
{
    return index % 4 == 0 ? SLOT_NBYTES : 8 + 100 * (size_t)index;
}

static void send_round(uint32_t round, bool is_last)
{
    static unsigned char bytes[SLOT_NBYTES];

    for (uint32_t i = 0; i < N_NOTES; i++) {
        struct word word = {.round = round, .index = i, .is_last = is_last};

        mpt_fill(bytes, nbytes_of(i), seed_of(nixl_rank(), round, i));
        MPT_OK(nixl_put_notify(other, region, slot_of(round, i), bytes, nbytes_of(i), TAG_ROUND,
                               &word, sizeof(word), MPT_PATIENCE));
    }
}

/* Every notification of the round, in order, and its data. True: it was the last round. */
static bool receive_round(uint32_t round)
{
    static struct nixl_note note;
    const unsigned char *own = nixl_region_addr(region);
    struct word word = {0};

    for (uint32_t i = 0; i < N_NOTES; i++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(other, TAG_ROUND, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_EQ(note.nbytes, sizeof(word));
        memcpy(&word, note.payload, sizeof(word));
        MPT_EQ(word.round, round);
        MPT_EQ(word.index, i);
        MPT_CHECK(own + slot_of(round, i), nbytes_of(i), seed_of(other, round, i));
    }
    return word.is_last;
}

/*
 * The network, in a thread of rank 0.
 *
 * When the order to stall has returned, nothing passes any more. What passed before may still be
 * in the socket of a slow rank. Let rank 0 have counted k rounds then, 0 to k - 1. The other rank
 * sends its round k + 2 when it has received round k + 1 of rank 0, which is sent after round k was
 * counted: too late to pass. So rank 0 can receive the other's rounds k and k + 1, if its own round
 * k was in time, and none after them.
 */
static void *stall(void *arg)
{
    static const struct timespec while_waiting = {.tv_nsec = 2 * MPT_MS};
    const int64_t *stall_ns = arg;
    struct timespec time = {.tv_sec = *stall_ns / MPT_S, .tv_nsec = *stall_ns % MPT_S};
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int host = mpt_host_of(nixl_size() - 1), n_before;

    while (n_rounds < ROUNDS_BEFORE) {
        MPT_LT(mpt_now_ns(), end_ns);
        nanosleep(&while_waiting, NULL);
    }
    bed_link("tell h%d stall", host);
    n_before = n_rounds;
    nanosleep(&time, NULL);
    MPT_GE(n_before + 2, n_rounds); /* it did stand still */
    bed_link("tell h%d resume", host);
    is_back = true;
    return NULL;
}

static void exchange(void)
{
    int n_after = 0;

    for (uint32_t round = 0;; round++) {
        bool is_last = nixl_rank() == 0 && n_after == ROUNDS_AFTER;

        send_round(round, is_last);
        if (receive_round(round) || is_last) {
            return;
        }
        n_rounds++;
        n_after += is_back;
    }
}

int main(int argc, char **argv)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int64_t stall_ns, began_ns = mpt_now_ns();
    pthread_t thread;

    mpt_start();
    MPT_EQ(argc, 2);
    stall_ns = atoi(argv[1]) * MPT_MS;
    MPT_OK(nixl_init(NULL));
    other = nixl_rank() == 0 ? nixl_size() - 1 : 0;
    MPT_OK(nixl_region_alloc("stall", 2 * N_NOTES * SLOT_NBYTES, NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        MPT_EQ(pthread_create(&thread, NULL, stall, &stall_ns), 0);
    }
    if (nixl_rank() == 0 || nixl_rank() == nixl_size() - 1) {
        exchange();
        printf("%d rounds in %.1f s\n", (int)n_rounds, (double)(mpt_now_ns() - began_ns) / MPT_S);
    }
    if (nixl_rank() == 0) {
        MPT_EQ(pthread_join(thread, NULL), 0);
    }
    bed_meet("done");
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    for (int rank = 0; rank < nixl_size(); rank++) {
        MPT_EQ(nixl_peer_state(rank), NIXL_PEER_ALIVE);
    }
    bed_meet("looked"); /* closing makes events, too */
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
