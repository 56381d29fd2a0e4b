/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producers of one channel die: its consumer is notified of each once, after the last item, and
 * not of one that had closed its end before.
 *
 *     fault_channel
 *
 * Ranks 1 and 2 publish and die by SIGKILL at once, rank 3 closes its end first. Rank 0 consumes.
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

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), N_RANKS);
    if (nixl_rank() != 0) {
        produce_and_die();
    }
    consume();
    mpt_finalize();
    return mpt_passed();
}
