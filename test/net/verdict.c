/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 1 declares a rank of another host lost, as where its connection to it has stalled, while the
 * others still hear that rank.
 *
 *     verdict RANK
 *
 * All others count it as lost, too, and no other rank, and continue without it. The rank itself
 * learns it: for it all others are lost, and its calls say why.
 */
#include "config.h"

#include "control/detector.h"
#include "core/life.h"
#include "util/clock.h"

#include "test/net/bed.h"

#include <stdlib.h>
#include <string.h>

#define TAG_ON    0xd001
#define TAG_READY 0xd002
#define TAG_MEET  0xd003

static int lost;

static void hear_of_deaths(int n)
{
    for (int i = 0; i < n; i++) {
        struct nixl_event event = NIXL_EVENT_INIT;

        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
        MPT_TRUE(nixl_rank() == lost || event.rank == lost);
    }
}

/* Each hears each, but for one rank; -1: none. */
static void meet(uint64_t tag, int absent)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    for (int rank = 0; rank < nixl_size(); rank++) {
        if (rank != absent) {
            MPT_OK(nixl_notify(rank, tag, NULL, 0, MPT_PATIENCE));
        }
    }
    for (int rank = 0; rank < nixl_size(); rank++) {
        if (rank != absent) {
            MPT_OK(nixl_notify_recv(rank, tag, UINT64_MAX, MPT_PATIENCE, &note));
        }
    }
}

static void go_on(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    meet(TAG_ON, lost);
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    MPT_EQ(nixl_peer_state(lost), NIXL_PEER_LOST);
    MPT_STATUS(nixl_notify(lost, TAG_ON, NULL, 0, MPT_PATIENCE), NIXL_E_PEER_LOST);
}

static void is_told(void)
{
    for (int rank = 0; rank < nixl_size(); rank++) {
        if (rank != lost) {
            MPT_EQ(nixl_peer_state(rank), NIXL_PEER_LOST);
            MPT_STATUS(nixl_notify(rank, TAG_ON, NULL, 0, MPT_PATIENCE), NIXL_E_PEER_LOST);
            MPT_TRUE(strstr(nixl_last_error()->text, "rank 1 declared this rank lost"));
        }
    }
}

/* All are connected to all, and rank 1 waits until all others have left the barrier. */
static void get_ready(void)
{
    static struct nixl_note note;

    meet(TAG_MEET, -1);
    mpt_barrier();
    if (nixl_rank() != 1) {
        MPT_OK(nixl_notify(1, TAG_READY, NULL, 0, MPT_PATIENCE));
        return;
    }
    nixl_note_init(&note);
    for (int i = 1; i < nixl_size(); i++) {
        MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_READY, UINT64_MAX, MPT_PATIENCE, &note));
    }
}

/* As the network does when it has heard nothing for so long. */
static void declare_lost(void)
{
    pthread_mutex_lock(&nxr_job.lock);
    nxr_detector_found_silent(nxr_peer_get_locked(lost), 8 * NXR_S);
    nxr_life_lost_locked(lost);
    pthread_mutex_unlock(&nxr_job.lock);
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_TRUE(argc == 2);
    lost = atoi(argv[1]);
    MPT_OK(nixl_init(NULL));
    get_ready();
    if (nixl_rank() == 1) {
        declare_lost();
    }
    if (nixl_rank() == lost) {
        hear_of_deaths(nixl_size() - 1);
        is_told();
    } else {
        hear_of_deaths(1);
        go_on();
    }
    bed_meet("heard"); /* nobody leaves before all have heard: who has left is not lost */
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
