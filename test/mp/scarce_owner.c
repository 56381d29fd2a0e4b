/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of regions, rank 1, has no memory while rank 0 asks for one: `scarce_owner`. The first,
 * the second, the third ... request of its library for memory fails. Rank 0 gets the region, or is
 * told at once that rank 1 is short of memory, and gets the region when it asks again; and it hears
 * that the region was closed. So it goes if rank 0 is short itself.
 */
#include "lack.h"
#include "mptest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_REQUESTS 100
#define NBYTES        4096

/* In rank 1's memory, which rank 0 has mapped: how far they are, by the number of the turn. */
static struct turns {
    _Atomic int wanted, ready, asked, closed;
    _Atomic bool was_lacking; /* of the last turn */
} * turns;

static void await(const _Atomic int *word, int turn)
{
    const struct timespec pause = {.tv_nsec = 100000};
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;

    while (atomic_load(word) < turn) {
        MPT_LT(mpt_now_ns(), until_ns);
        nanosleep(&pause, NULL);
    }
}

static void name_turn(char name[NIXL_NAME_MAX + 1], int turn)
{
    snprintf(name, NIXL_NAME_MAX + 1, "turn %d", turn);
}

/* ---- the owner ------------------------------------------------------------------------------- */

/* The k-th request fails while rank 0 asks for the region, which is there, or is made later. */
static void own(int turn, int k, bool is_late)
{
    struct nixl_region *region = NULL;
    char name[NIXL_NAME_MAX + 1];

    name_turn(name, turn);
    await(&turns->wanted, turn);
    if (!is_late) {
        MPT_OK(nixl_region_alloc(name, NBYTES, NULL, &region));
    }
    lack_begin_all(k);
    atomic_store(&turns->ready, turn);
    await(&turns->asked, turn); /* the service thread answers */
    if (k > 0) {
        atomic_store(&turns->was_lacking, lack_end_all());
    }
    if (is_late) {
        MPT_OK(nixl_region_alloc(name, NBYTES, NULL, &region));
    }
    atomic_store(&turns->ready, turn + 1);
    await(&turns->closed, turn);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- who asks -------------------------------------------------------------------------------- */

static void put_again(struct nixl_region *region, const char *text)
{
    uint64_t word = 1;

    MPT_HAS(text);
    MPT_OK(nixl_put(1, region, 0, &word, sizeof(word)));
}

/* It is there. `is_short`: this rank may have no memory itself. */
static void ask_early(struct nixl_region *region, int turn, bool is_short)
{
    uint64_t word = 1;
    int status = nixl_put(1, region, 0, &word, sizeof(word));

    if (is_short) {
        atomic_store(&turns->was_lacking, lack_end_all());
    }
    atomic_store(&turns->asked, turn);
    await(&turns->ready, turn + 1);
    if (status != NIXL_OK) {
        MPT_STATUS(status, NIXL_E_NO_MEMORY);
        put_again(region, is_short ? "memory" : "rank 1 on ");
    }
}

static void ask_late(struct nixl_region *region, int turn)
{
    struct nixl_req *req = NULL;
    uint64_t word = 1;
    int status;

    MPT_STATUS(nixl_put_x(1, region, 0, &word, sizeof(word), NULL, &req), NIXL_INPROGRESS);
    MPT_STATUS(nixl_region_is_published(1, region, MPT_PATIENCE), NIXL_E_NOT_FOUND);
    atomic_store(&turns->asked, turn); /* what comes behind the question was answered */
    status = nixl_req_wait(&req, MPT_PATIENCE);
    await(&turns->ready, turn + 1);
    if (status != NIXL_OK) {
        MPT_STATUS(status, NIXL_E_NO_MEMORY);
        put_again(region, "memory");
    }
}

static void hear_close(const char *name)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (event.type != NIXL_EVENT_REGION_CLOSED || strcmp(event.name, name) != 0);
}

static void ask(int turn, int k, bool is_late, bool is_short)
{
    struct nixl_region *region = NULL;
    char name[NIXL_NAME_MAX + 1];

    name_turn(name, turn);
    MPT_OK(nixl_region_open(name, &region));
    atomic_store(&turns->wanted, turn);
    await(&turns->ready, turn);
    if (is_short) {
        lack_begin_all(k);
    }
    if (is_late) {
        ask_late(region, turn);
    } else {
        ask_early(region, turn, is_short);
    }
    atomic_store(&turns->closed, turn);
    hear_close(name);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- both ------------------------------------------------------------------------------------ */

static void run_turns(int *turn_p, bool is_late, bool is_short)
{
    bool was_lacking = true;

    for (int k = 0; k == 0 || was_lacking; k++, *turn_p += 2) {
        MPT_LT(k, MOST_REQUESTS);
        if (nixl_rank() == 0) {
            ask(*turn_p, k, is_late, is_short);
        } else {
            own(*turn_p, is_short ? 0 : k, is_late);
        }
        mpt_barrier();
        was_lacking = k == 0 || atomic_load(&turns->was_lacking);
        printf("turn %d, %s%s: request %d of %s\n", *turn_p, is_late ? "late" : "early",
               was_lacking ? "" : ", the last", k, is_short ? "the one that asks" : "the owner");
        mpt_barrier();
    }
}

int main(void)
{
    struct nixl_region *region = NULL;
    void *addr = NULL;
    int turn = 1;

    mpt_start();
    lack_find_library();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    if (nixl_rank() == 1) {
        MPT_OK(nixl_region_alloc("turns", sizeof(*turns), NULL, &region));
    } else {
        MPT_OK(nixl_region_open("turns", &region));
    }
    mpt_barrier();
    MPT_OK(nixl_region_map(1, region, &addr));
    turns = addr;
    mpt_barrier();
    run_turns(&turn, false, false);
    run_turns(&turn, true, false);
    run_turns(&turn, false, true);
    MPT_OK(nixl_region_unmap(1, region, addr));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
