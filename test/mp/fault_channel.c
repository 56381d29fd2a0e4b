/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of a channel dies. Its consumer is notified of each producer once, after the last
 * item, and not of one that had closed its end before. A producer learns that its consumer is dead:
 * when it asks for a slot, and, where an item is sent, when it publishes one.
 *
 *     fault_channel            ranks 1 and 2 publish and die by SIGKILL at once, rank 3 closes its
 *                              end first; rank 0 consumes
 *     fault_channel consumer   rank 1 consumes and dies, rank 0 publishes
 */
#include "mptest.h"

#include <signal.h>
#include <string.h>

#define TAG_CLOSED 0xfc01
#define TAG_DIE    0xfc02

#define N_RANKS 4
#define N_ITEMS 3
#define SLOT    64

static _Thread_local struct nixl_note note;

static void hear(int rank, uint64_t tag)
{
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, tag, UINT64_MAX, MPT_PATIENCE, &note));
}

static void produce_and_die(void)
{
    struct nixl_channel *channel;

    MPT_OK(nixl_channel_open("fault", 0, NIXL_CHANNEL_PRODUCER, SLOT, N_ITEMS, NULL, &channel));
    for (int item = 0; item < N_ITEMS; item++) {
        void *slot;

        MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
        memcpy(slot, &item, sizeof(item));
        MPT_OK(nixl_channel_publish(channel, sizeof(item)));
    }
    if (nixl_rank() == 3) {
        MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
        MPT_OK(nixl_notify(0, TAG_CLOSED, NULL, 0, MPT_PATIENCE));
        hear(0, TAG_DIE);
    }
    raise(SIGKILL);
}

/* The next item: the one of its rank that is due. Between hosts the last ones may be lost. */
static void take_item(struct nixl_channel *channel, void *slot, int rank, int n_items[N_RANKS])
{
    int item;

    memcpy(&item, slot, sizeof(item));
    MPT_EQ(item, n_items[rank]);
    n_items[rank]++;
    MPT_OK(nixl_channel_release(channel, slot));
}

static void consume(void)
{
    int n_items[N_RANKS] = {0}, n_told[N_RANKS] = {0}, n_left = 2, rank;
    struct nixl_channel *channel;
    size_t nbytes;
    void *slot;

    MPT_OK(nixl_channel_open("fault", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT, N_ITEMS, NULL,
                             &channel));
    while (n_left > 0 || n_items[3] < N_ITEMS) {
        int status = nixl_channel_recv(channel, MPT_PATIENCE, &slot, &nbytes, &rank);

        if (status == NIXL_OK) {
            MPT_EQ(n_told[rank], 0); /* nothing comes behind the news */
            take_item(channel, slot, rank, n_items);
        } else {
            MPT_STATUS(status, NIXL_E_PEER_LOST);
            n_told[nixl_last_error()->rank]++;
            n_left--;
        }
    }
    MPT_TRUE(n_told[1] == 1 && n_told[2] == 1);
    if (mpt_network() == NULL) {
        MPT_TRUE(n_items[1] == N_ITEMS && n_items[2] == N_ITEMS);
    }
    hear(3, TAG_CLOSED);
    MPT_OK(nixl_notify(3, TAG_DIE, NULL, 0, MPT_PATIENCE));
    while (nixl_peer_state(3) != NIXL_PEER_LOST) {
        struct nixl_event event = NIXL_EVENT_INIT;

        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    }
    MPT_STATUS(nixl_channel_recv(channel, 0, &slot, NULL, NULL), NIXL_INPROGRESS);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
}

static void consume_and_die(void)
{
    struct nixl_channel *channel;
    void *slot;

    MPT_OK(nixl_channel_open("lone", 0, NIXL_CHANNEL_CONSUMER, SLOT, N_ITEMS, NULL, &channel));
    MPT_OK(nixl_channel_recv(channel, MPT_PATIENCE, &slot, NULL, NULL));
    MPT_OK(nixl_channel_release(channel, slot));
    hear(0, TAG_DIE);
    raise(SIGKILL);
}

static void produce_for_the_dead(void)
{
    bool is_sent = mpt_scope(1) == NIXL_SCOPE_REMOTE; /* else it is written where it is read */
    struct nixl_channel *channel;
    void *slot;

    MPT_OK(nixl_channel_open("lone", 1, NIXL_CHANNEL_PRODUCER, SLOT, N_ITEMS, NULL, &channel));
    MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
    MPT_OK(nixl_channel_publish(channel, SLOT));
    MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
    MPT_OK(nixl_notify(1, TAG_DIE, NULL, 0, MPT_PATIENCE));
    while (nixl_peer_state(1) != NIXL_PEER_LOST) {
        struct nixl_event event = NIXL_EVENT_INIT;

        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    }
    MPT_STATUS(nixl_channel_publish(channel, SLOT), is_sent ? NIXL_E_PEER_LOST : NIXL_OK);
    MPT_STATUS(nixl_channel_acquire(channel, MPT_PATIENCE, &slot), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, 1);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
}

static int run_consumer(void)
{
    if (nixl_rank() == 1) {
        consume_and_die();
    }
    produce_for_the_dead();
    mpt_finalize();
    return mpt_passed();
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    if (argc > 1 && strcmp(argv[1], "consumer") == 0) {
        return run_consumer();
    }
    MPT_EQ(nixl_size(), N_RANKS);
    if (nixl_rank() != 0) {
        produce_and_die();
    }
    consume();
    mpt_finalize();
    return mpt_passed();
}
