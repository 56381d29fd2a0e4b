/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that leaves in order is FINISHED, not LOST: no event, and what it had sent is still there.
 * Rank 1 leaves early; with --on-failure continue the others work on and leave later.
 */
#include "mptest.h"

#include <stdio.h>
#include <string.h>

#define TAG_LAST 0x57a1

static struct nixl_note note;

static void after_it_left(struct nixl_region *region)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    char byte = 0;
    int status;

    while (nixl_peer_state(1) == NIXL_PEER_ALIVE) {
        MPT_LT(mpt_now_ns(), end_ns);
    }
    MPT_EQ(nixl_peer_state(1), NIXL_PEER_FINISHED);
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_LAST, UINT64_MAX, MPT_PATIENCE, &note));
    status = nixl_put(1, region, 0, &byte, 1);
    MPT_TRUE(status == NIXL_ERR_STALE || status == NIXL_ERR_PEER_LOST);
    while (nixl_event_recv(0, &event) == NIXL_OK) {
        MPT_EQ(event.type, NIXL_EVENT_REGION_CLOSED);
    }
}

int main(void)
{
    struct nixl_region *region = NULL;
    char byte = 0;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("states", 64, NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 1) {
        for (int rank = 0; rank < nixl_size(); rank++) {
            if (rank != 1) {
                MPT_OK(nixl_notify(rank, TAG_LAST, NULL, 0, MPT_PATIENCE));
            }
        }
    } else {
        MPT_OK(nixl_put(1, region, 0, &byte, 1));
        after_it_left(region);
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
