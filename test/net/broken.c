/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection between two ranks is reset while both live, as a firewall or an administrator does
 * it, or stands still.
 *
 *     broken kept|lost
 *     broken frozen
 *
 * kept: the network connects again, and nothing is lost, doubled or out of order. lost: both ranks
 * learn it at their next call, and over tcp which connection it was; the job ends in order.
 *
 * frozen: it is not reset; nothing passes on it for longer than NIXLRUN_PEER_TIMEOUT may be waited
 * for an answer, as where packets are lost and the kernel sends them again later and later. New
 * connections pass, which show that the ranks live; and no rank is lost.
 */
#include "test/net/bed.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

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

/*
 * The kernel's pauses double. So one of its tries to send again comes before twice this time and a
 * bit, when patience with a process that runs is over, too.
 */
static void freeze(void)
{
    static const struct timespec time = {.tv_sec = 9, .tv_nsec = 500 * MPT_MS};

    bed_link("freeze h%d 1", mpt_host_of(1));
    nanosleep(&time, NULL);
    bed_link("thaw h%d 1", mpt_host_of(1));
}

static void is_told(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    MPT_EQ(nixl_last_error()->rank, other);
    MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, other);
    MPT_EQ(nixl_peer_state(other), NIXL_PEER_LOST);
    MPT_STATUS(nixl_put(other, region, 0, "x", 1), NIXL_E_PEER_LOST);
    printf("%s\n", nixl_last_error()->text);
    if (strcmp(mpt_network(), "tcp") == 0) {
        MPT_TRUE(strstr(nixl_last_error()->text, "is lost: the connection from 10.77.") != NULL);
    }
}

int main(int argc, char **argv)
{
    bool is_frozen = argc == 2 && strcmp(argv[1], "frozen") == 0;
    bool is_kept = is_frozen || (argc == 2 && strcmp(argv[1], "kept") == 0);
    struct nixl_event event = NIXL_EVENT_INIT;
    int status = NIXL_OK;

    mpt_start();
    MPT_TRUE(argc == 2);
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    other = 1 - nixl_rank();
    MPT_OK(nixl_region_alloc("broken", 16, NULL, &region));
    for (uint64_t round = 1; round <= N_ROUNDS && status == NIXL_OK; round++) {
        if (round == ROUND_OF_BREAK && nixl_rank() == 0) {
            if (is_frozen) {
                freeze();
            } else {
                bed_link("break h%d 1", mpt_host_of(1));
            }
        }
        status = talk(round);
    }
    if (is_kept) {
        MPT_OK(status);
        MPT_EQ(nixl_peer_state(other), NIXL_PEER_ALIVE);
        MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    } else {
        MPT_EQ(status, NIXL_E_PEER_LOST);
        is_told();
    }
    bed_meet("the end");
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
