/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host disappears without a word: no reset, no end of a connection.
 *
 *     cut_off BOUND_S cut|stall
 *
 * cut    the link of the last host is taken out
 * stall  the relay in that link lets nothing pass (the line of the .mp file has put it there)
 *
 * On both sides every call that waits for a rank of the other side must end with NIXL_E_PEER_LOST
 * within the bound, and every rank must get one report of each rank of the other side, also those
 * that never talked to it. Each side goes on by itself. When the link is back the lost stay lost.
 */
#include "test/net/bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_LIFE 0x9c01

static int rank, size, cut_host, n_far;
static struct nixl_region *region;

static bool is_far(int other)
{
    return (mpt_host_of(other) == cut_host) != (mpt_host_of(rank) == cut_host);
}

/* The first rank of the other side, if this one is the first of its own: these two talk. */
static int find_partner(void)
{
    int first_cut = size - 1;

    while (mpt_host_of(first_cut - 1) == cut_host) {
        first_cut--;
    }
    return rank == 0 ? first_cut : rank == first_cut ? 0 : -1;
}

static void expect_losses(int64_t began_ns, int64_t bound_ns)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    bool *is_told = calloc((size_t)size, sizeof(*is_told));

    for (int n_left = n_far; n_left > 0; n_left--) {
        int64_t left_ns = began_ns + bound_ns - mpt_now_ns();

        MPT_OK(nixl_event_recv(left_ns > 0 ? left_ns : 0, &event));
        MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
        MPT_TRUE(is_far(event.rank) && !is_told[event.rank]);
        is_told[event.rank] = true;
        MPT_EQ(nixl_peer_state(event.rank), NIXL_PEER_LOST);
        printf("rank %d is lost after %.2f s\n", event.rank,
               (double)(mpt_now_ns() - began_ns) / MPT_S);
    }
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    free(is_told);
}

/* Every call on the lost ends without a wait. */
static void call_the_lost(void)
{
    uint64_t value = 7;

    for (int other = 0; other < size; other++) {
        if (!is_far(other)) {
            MPT_EQ(nixl_peer_state(other), NIXL_PEER_ALIVE);
            continue;
        }
        MPT_STATUS(nixl_put(other, region, 0, &value, 8), NIXL_E_PEER_LOST);
        MPT_STATUS(nixl_get(other, region, 0, &value, 8), NIXL_E_PEER_LOST);
        MPT_STATUS(nixl_notify(other, TAG_LIFE, NULL, 0, 0), NIXL_E_PEER_LOST);
        MPT_STATUS(nixl_flush(other, 0), NIXL_E_PEER_LOST);
    }
}

/* All pairs of this side use everything. */
static void go_on(uint64_t round)
{
    static struct nixl_note note;
    uint64_t value = round * 1000 + (uint64_t)rank;
    const uint64_t *own = nixl_region_addr(region);

    for (int other = 0; other < size; other++) {
        if (!is_far(other)) {
            MPT_OK(nixl_put_notify(other, region, (uint64_t)rank * 8, &value, 8, TAG_LIFE + round,
                                   NULL, 0, MPT_PATIENCE));
        }
    }
    for (int other = 0; other < size; other++) {
        if (!is_far(other)) {
            nixl_note_init(&note);
            MPT_OK(nixl_notify_recv(other, TAG_LIFE + round, UINT64_MAX, MPT_PATIENCE, &note));
            MPT_EQ(own[other], round * 1000 + (uint64_t)other);
        }
    }
}

int main(int argc, char **argv)
{
    int64_t began_ns, bound_ns;
    bool is_cut;
    int partner;

    mpt_start();
    MPT_EQ(argc, 3);
    bound_ns = atoi(argv[1]) * MPT_S;
    is_cut = strcmp(argv[2], "cut") == 0;
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    cut_host = mpt_host_of(size - 1);
    for (int other = 0; other < size; other++) {
        n_far += is_far(other);
    }
    MPT_GE(n_far, 1);
    MPT_OK(nixl_region_alloc("life", (size_t)size * 8, NULL, &region));
    mpt_waits_prepare();
    mpt_barrier();
    partner = find_partner();
    if (partner >= 0) {
        mpt_waits_start(partner);
    }
    bed_meet("ready");
    began_ns = mpt_now_ns();
    if (rank == 0) {
        bed_link(is_cut ? "cut h%d" : "tell h%d stall", cut_host);
    }
    bed_meet("cut");
    if (partner >= 0) {
        mpt_waits_join(began_ns + bound_ns);
    }
    expect_losses(began_ns, bound_ns);
    call_the_lost();
    go_on(1);
    bed_meet("told");
    if (rank == 0) {
        bed_link(is_cut ? "join h%d" : "tell h%d resume", cut_host);
    }
    bed_meet("joined");
    go_on(2);
    call_the_lost();
    bed_meet("called"); /* a rank that has left is no longer alive */
    mpt_waits_close();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
