/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flush of all ranks after one of them has died: it reports the death each time, and before that
 * what else has failed, which it reports once.
 *
 *     fault_flush
 *     fault_flush deadline   one deadline holds for all ranks: 8 times 500 ms would be 4 s
 *
 * Rank 1 dies. Rank 2 lives, and never makes the region that rank 0 puts into.
 */
#include "mptest.h"

#include <signal.h>

#define TAG_DIE 0xfe01

static void wait_for_death(int rank)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    while (nixl_peer_state(rank) != NIXL_PEER_LOST) {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    }
}

static void flush_all(struct nixl_region *region)
{
    struct nixl_region *nowhere;
    struct nixl_req *req = NULL;
    char byte = 0;

    for (int rank = 1; rank < 3; rank++) {
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;

        MPT_OK(nixl_region_query(rank, region, MPT_PATIENCE, &info));
        MPT_OK(nixl_put(rank, region, 0, &byte, 1));
    }
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
    MPT_OK(nixl_notify(1, TAG_DIE, NULL, 0, MPT_PATIENCE));
    wait_for_death(1);
    MPT_STATUS(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, 1);
    MPT_OK(nixl_region_open("nowhere", &nowhere));
    MPT_STATUS(nixl_put_x(2, nowhere, 0, &byte, 1, NULL, &req), NIXL_INPROGRESS);
    MPT_OK(nixl_req_detach(&req));
    MPT_STATUS(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE), NIXL_E_NOT_FOUND);
    MPT_EQ(nixl_last_error()->rank, 2);
    MPT_STATUS(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, 1);
    MPT_OK(nixl_region_close(nowhere, MPT_PATIENCE));
}

/* Puts that do not end to each of the others, since none of them makes the region. */
static void flush_within_one_deadline(void)
{
    const int64_t timeout_ns = 500 * MPT_MS;
    struct nixl_region *nowhere;
    int64_t took_ns;
    char byte = 0;

    MPT_OK(nixl_region_open("nowhere", &nowhere));
    for (int rank = 1; rank < nixl_size(); rank++) {
        struct nixl_req *req = NULL;

        MPT_STATUS(nixl_put_x(rank, nowhere, 0, &byte, 1, NULL, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_detach(&req));
    }
    took_ns = mpt_now_ns();
    MPT_STATUS(nixl_flush(NIXL_ALL_RANKS, timeout_ns), NIXL_E_TIMEOUT);
    took_ns = mpt_now_ns() - took_ns;
    MPT_GE(took_ns, timeout_ns);
    MPT_LT(took_ns, 4 * timeout_ns);
    MPT_OK(nixl_region_close(nowhere, MPT_PATIENCE));          /* ends the puts */
    MPT_LT(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE), NIXL_OK); /* ... which it reports once */
}

static int test_deadline(void)
{
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    if (nixl_rank() == 0) {
        flush_within_one_deadline();
    }
    mpt_barrier();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}

int main(int argc, char **argv)
{
    static struct nixl_note note;
    struct nixl_region *region;

    (void)argv;
    mpt_start();
    if (argc > 1) {
        return test_deadline();
    }
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 3);
    MPT_OK(nixl_region_alloc("flush", 64, NULL, &region));
    mpt_barrier();
    nixl_note_init(&note);
    if (nixl_rank() == 0) {
        flush_all(region);
        MPT_OK(nixl_notify(2, TAG_DIE, NULL, 0, MPT_PATIENCE));
    } else {
        MPT_OK(nixl_notify_recv(0, TAG_DIE, UINT64_MAX, MPT_PATIENCE, &note));
        if (nixl_rank() == 1) {
            raise(SIGKILL);
        }
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    mpt_finalize();
    return mpt_passed();
}
