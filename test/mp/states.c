/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that leaves in order is FINISHED, not LOST: the event says so, and what it had sent is
 * still there. Rank 1 leaves early and hears that it does; the others work on and leave later.
 */
#include "mptest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_LAST  0x57a1
#define TAG_NEVER 0x57a2

static struct nixl_note note;

/* What this rank knows of a rank, and that it is the same as what the simple calls return. */
static void query(int rank, int state, uint64_t job)
{
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;

    MPT_OK(nixl_peer_query(rank, &info));
    MPT_EQ(info.rank, rank);
    MPT_EQ(info.incarnation, 0);
    MPT_EQ(info.state, state);
    MPT_EQ(info.why[0], 0);
    MPT_TRUE(info.job == job && job != 0);
    MPT_EQ(info.scope == NIXL_SCOPE_SELF, rank == nixl_rank());
    if (state == NIXL_PEER_ALIVE) {
        MPT_EQ(info.scope, nixl_scope(rank));
        MPT_TEXT(info.host, nixl_host(rank));
    }
}

static uint64_t query_all(void)
{
    struct nixl_peer_info own = NIXL_PEER_INFO_INIT;

    MPT_OK(nixl_peer_query(nixl_rank(), &own));
    for (int rank = 0; rank < nixl_size(); rank++) {
        query(rank, NIXL_PEER_ALIVE, own.job);
    }
    return own.job;
}

static void after_it_left(struct nixl_region *region, uint64_t job)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    char byte = 0;
    int status;

    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(1, TAG_NEVER, UINT64_MAX, MPT_PATIENCE, &note), NIXL_E_PEER_LOST);
    MPT_TEXT(nixl_last_error()->text, "rank 1 has left the job");
    MPT_EQ(nixl_peer_state(1), NIXL_PEER_FINISHED);
    query(1, NIXL_PEER_FINISHED, job);
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_LAST, UINT64_MAX, MPT_PATIENCE, &note));
    for (int n_left = 0; n_left == 0;) {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        n_left += event.type == NIXL_EVENT_PEER_LEFT;
        MPT_TRUE(event.type == NIXL_EVENT_REGION_CLOSED || event.type == NIXL_EVENT_PEER_LEFT);
        MPT_EQ(event.rank, 1);
    }
    /* The event is the last step of its end: since then no segment of it can be used. */
    status = nixl_put(1, region, 0, &byte, 1);
    MPT_TRUE(status == NIXL_E_STALE || status == NIXL_E_PEER_LOST);
}

int main(void)
{
    struct nixl_region *region = NULL;
    uint64_t job;
    bool is_early;
    char byte = 0;

    mpt_start();
    is_early = atoi(getenv("PMIX_RANK")) == 1;
    if (is_early) {
        setenv("NIXLRUN_FINALIZE_TIMEOUT", "1s", 1);
    }
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("states", 64, NULL, &region));
    job = query_all();
    mpt_barrier();
    if (nixl_rank() != 1) {
        MPT_OK(nixl_put(1, region, 0, &byte, 1));
    }
    mpt_barrier(); /* rank 1 is there until all have put */
    if (nixl_rank() == 1) {
        for (int rank = 0; rank < nixl_size(); rank++) {
            if (rank != 1) {
                MPT_OK(nixl_notify(rank, TAG_LAST, NULL, 0, MPT_PATIENCE));
            }
        }
    } else {
        after_it_left(region, job);
    }
    MPT_STATUS(nixl_finalize(), is_early ? NIXL_E_TIMEOUT : NIXL_OK);
    return mpt_passed();
}
