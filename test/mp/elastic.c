/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An elastic job: ranks leave one by one, the highest first, and rank 0 stays. Nobody waits for
 * them, what they had sent arrives, and a wait for any rank ends only when nobody is left. With
 * `collectives` as the argument all leave as soon as they have done their part of the last one.
 */
#include "mptest.h"

#include <string.h>

#define TAG 5

static struct nixl_note note;

static void expect_left(int rank)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_LEFT);
    MPT_EQ(event.rank, rank);
    MPT_EQ(nixl_peer_state(rank), NIXL_PEER_FINISHED);
}

/* Wait until those above have left, then leave, with bytes that are under way. */
static void leave(struct nixl_region *home, int size)
{
    static unsigned char bytes[4096];
    int rank = nixl_rank();

    for (int above = size - 1; above > rank; above--) {
        expect_left(above);
    }
    mpt_fill(bytes, sizeof(bytes), (uint64_t)rank);
    MPT_OK(nixl_put(0, home, (uint64_t)rank * sizeof(bytes), bytes, sizeof(bytes)));
    MPT_OK(nixl_notify(0, TAG, NULL, 0, MPT_PATIENCE));
}

static void stay(struct nixl_region *home, int size)
{
    const unsigned char *bytes = nixl_region_addr(home);

    for (int n = 1; n < size; n++) { /* those who leave meanwhile do not end it */
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG, UINT64_MAX, NIXL_FOREVER, &note));
        MPT_CHECK(bytes + (size_t)note.rank * 4096, 4096, (uint64_t)note.rank);
    }
    for (int rank = size - 1; rank > 0; rank--) {
        expect_left(rank);
        nixl_note_init(&note);
        MPT_EQ(nixl_notify_recv(rank, TAG, UINT64_MAX, NIXL_FOREVER, &note), NIXL_E_PEER_LOST);
        MPT_EQ(nixl_put(rank, home, 0, bytes, 1), NIXL_E_PEER_LOST);
    }
    for (int i = 0; i < 2; i++) { /* as often as it is called */
        nixl_note_init(&note);
        MPT_EQ(nixl_notify_recv(NIXL_ANY_RANK, TAG, UINT64_MAX, NIXL_FOREVER, &note),
               NIXL_E_PEER_LOST);
        MPT_EQ(nixl_last_error()->rank, -1);
        MPT_TRUE(strstr(nixl_last_error()->text, "nobody is left") != NULL);
    }
}

static void leave_behind_collectives(void)
{
    struct nixl_team *world;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    for (size_t nwords = 1; nwords <= 100000; nwords *= 100) {
        mpt_check_team(world, nwords, nwords);
    }
}

int main(int argc, char **argv)
{
    struct nixl_region *home;
    int size;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    if (argc > 1 && strcmp(argv[1], "collectives") == 0) {
        leave_behind_collectives();
        MPT_OK(nixl_finalize());
        return mpt_passed();
    }
    size = nixl_size();
    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_alloc("home", (size_t)size * 4096, NULL, &home));
        stay(home, size);
    } else {
        MPT_OK(nixl_region_open("home", &home));
        leave(home, size);
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
