/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection between two ranks is reset while both live, as a firewall or an administrator does
 * it.
 *
 *     broken kept|lost
 *
 * kept: the network connects again, and nothing is lost, doubled or out of order. lost: both ranks
 * are told at their next call, and over tcp which connection it was; the job ends in order.
 */
#include "test/net/bed.h"

#include <stdio.h>
#include <string.h>

#define TAG_ROUND 0x9c01

enum { N_ROUNDS = 400, ROUND_OF_BREAK = 100 };

static int other;
static struct nixl_region *region;

/* One round: both put their number and hear the other's. The first status that is not OK. */
static int talk(uint64_t round)
{
    const uint64_t *own = nixl_region_addr(region);
    static struct nixl_note note;
    int status;

    status = nixl_put_notify(other, region, 8 * (round % 2), &round, 8, TAG_ROUND, &round, 8,
                             MPT_PATIENCE);
    status = status == NIXL_OK ? nixl_flush(other, MPT_PATIENCE) : status;
    if (status != NIXL_OK) {
        return status;
    }
    nixl_note_init(&note);
    status = nixl_notify_recv(other, TAG_ROUND, UINT64_MAX, MPT_PATIENCE, &note);
    if (status == NIXL_OK) {
        MPT_EQ(note.nbytes, sizeof(round));
        MPT_EQ(memcmp(note.payload, &round, sizeof(round)), 0);
        MPT_EQ(own[round % 2], round);
    }
    return status;
}

static void is_told(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    MPT_EQ(nixl_last_error()->rank, other);
    MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, other);
    MPT_EQ(nixl_peer_state(other), NIXL_PEER_LOST);
    MPT_STATUS(nixl_put(other, region, 0, "x", 1), NIXL_ERR_PEER_LOST);
    printf("%s\n", nixl_last_error()->text);
    if (strcmp(mpt_network(), "tcp") == 0) {
        MPT_TRUE(strstr(nixl_last_error()->text, "is lost: the connection from 10.77.") != NULL);
    }
}

int main(int argc, char **argv)
{
    bool is_kept = argc == 2 && strcmp(argv[1], "kept") == 0;
    int status = NIXL_OK;

    mpt_start();
    MPT_TRUE(argc == 2);
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    other = 1 - nixl_rank();
    MPT_OK(nixl_region_alloc("broken", 16, NULL, &region));
    for (uint64_t round = 1; round <= N_ROUNDS && status == NIXL_OK; round++) {
        if (round == ROUND_OF_BREAK && nixl_rank() == 0) {
            bed_link("break h%d 1", mpt_host_of(1));
        }
        status = talk(round);
    }
    if (is_kept) {
        MPT_OK(status);
        MPT_EQ(nixl_peer_state(other), NIXL_PEER_ALIVE);
    } else {
        MPT_EQ(status, NIXL_ERR_PEER_LOST);
        is_told();
    }
    bed_meet("the end");
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
