/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Survivors of a death come to nixl_finalize() at different times, and none of them looks dead.
 *
 *     farewell [none|alone]
 *
 * The last rank dies, unless `none` is said. Rank 1 leaves first. It must still be there, and
 * answer ranks that have never talked to it, until all the living have come to nixl_finalize().
 * With `alone` it goes when NIXLRUN_FINALIZE_TIMEOUT is over: the others then see that it has left.
 */
#include "test/net/bed.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG_LATE 0xb101

enum { FIRST = 1 };

static bool is_alone;

static void hear_of_the_death(int victim)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, victim);
}

/* Rank 1 leaves, and all who live must have come when it has left. */
static void leave_first(int victim)
{
    int size = nixl_size();

    bed_mark("leaving", FIRST);
    MPT_STATUS(nixl_finalize(), is_alone ? NIXL_E_TIMEOUT : NIXL_OK);
    bed_mark("left", FIRST);
    for (int rank = 0; rank < size && !is_alone; rank++) {
        if (rank != victim && rank != FIRST) {
            MPT_TRUE(bed_has_mark("coming", rank));
        }
    }
}

/* Rank 1 waits in nixl_finalize(), and is reached. */
static void find_it_there(struct nixl_region *region)
{
    const struct timespec while_it_could_go = {.tv_nsec = 300 * MPT_MS};
    uint64_t value = 7;

    bed_await_mark("leaving", FIRST);
    nanosleep(&while_it_could_go, NULL); /* right without it, too, but would then find no fault */
    MPT_EQ(nixl_scope(FIRST), mpt_scope(FIRST));
    MPT_OK(nixl_put_notify(FIRST, region, 8 * (uint64_t)nixl_rank(), &value, 8, TAG_LATE, NULL, 0,
                           MPT_PATIENCE));
    MPT_OK(nixl_flush(FIRST, MPT_PATIENCE));
    MPT_EQ(nixl_peer_state(FIRST), NIXL_PEER_ALIVE);
}

/* It has left, and that is no death. */
static void find_it_gone(void)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int status;

    bed_await_mark("left", FIRST);
    do { /* a network may take some before it finds that its peer is gone */
        MPT_LT(mpt_now_ns(), end_ns);
        status = nixl_notify(FIRST, TAG_LATE, NULL, 0, 100 * MPT_MS);
    } while (status == NIXL_OK || status == NIXL_E_TIMEOUT);
    MPT_EQ(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_peer_state(FIRST), NIXL_PEER_FINISHED);
}

static void leave_later(struct nixl_region *region)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    if (is_alone) {
        find_it_gone();
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        MPT_EQ(event.type, NIXL_EVENT_PEER_LEFT);
        MPT_EQ(event.rank, FIRST);
    } else {
        find_it_there(region);
    }
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    bed_mark("coming", nixl_rank());
    MPT_OK(nixl_finalize());
}

int main(int argc, char **argv)
{
    struct nixl_region *region = NULL;
    int victim;

    mpt_start();
    is_alone = argc > 1 && strcmp(argv[1], "alone") == 0;
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("farewell", 8 * (size_t)nixl_size(), NULL, &region));
    victim = argc > 1 && strcmp(argv[1], "none") == 0 ? -1 : nixl_size() - 1;
    mpt_barrier(); /* rank 0 knows all, so that the death is heard of soon */
    bed_meet("ready");
    if (nixl_rank() == victim) {
        kill(getpid(), SIGKILL);
    } else if (victim >= 0) {
        hear_of_the_death(victim);
    }
    if (nixl_rank() == FIRST) {
        leave_first(victim);
    } else {
        leave_later(region);
    }
    return mpt_passed();
}
