/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flush of all ranks after one of them has died: it reports the death each time, and before that
 * what else has failed, which it reports once.
 *
 *     fault_flush
 *     fault_flush deadline   one deadline holds for all ranks: 8 times 500 ms would be 4 s
 *     fault_flush each       nobody dies: each failure of a put is reported by one flush, and by no
 *                            flush that ends without it; and what a flush of one rank tells of it
 *
 * Rank 1 dies. Rank 2 lives, and never makes the region that rank 0 puts into.
 */
#include "mptest.h"

#include <signal.h>
#include <string.h>

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
    MPT_OK(nixl_region_close(nowhere, MPT_PATIENCE)); /* ends the puts */
    for (int rank = 1; rank < nixl_size(); rank++) {
        MPT_LT(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE), NIXL_OK); /* ... each is reported once */
    }
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
}

/* A put into the region that nobody makes fails to that rank, and only a flush tells of it. */
static void fail_put(int rank, struct nixl_region *nowhere)
{
    struct nixl_req *detached = NULL, *later = NULL;
    char byte = 0;

    MPT_STATUS(nixl_put_x(rank, nowhere, 0, &byte, 1, NULL, &detached), NIXL_INPROGRESS);
    MPT_OK(nixl_req_detach(&detached));
    MPT_STATUS(nixl_put_x(rank, nowhere, 0, &byte, 1, NULL, &later), NIXL_INPROGRESS);
    MPT_STATUS(nixl_req_wait(&later, MPT_PATIENCE), NIXL_E_NOT_FOUND);
}

static int flush_started(void)
{
    struct nixl_req *req = NULL;
    int status = nixl_flush_x(NIXL_ALL_RANKS, NULL, NULL, &req);

    return status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status;
}

static int flush_waited(void)
{
    return nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE);
}

/* Flushes that end before all ranks are drained take no failure with them. */
static void flush_keeps_failure(int failed, int pending, struct nixl_region *nowhere)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *put = NULL, *flush = NULL;
    char byte = 0;

    fail_put(failed, nowhere);
    MPT_STATUS(nixl_put_x(pending, nowhere, 0, &byte, 1, NULL, &put), NIXL_INPROGRESS);
    op.timeout_ns = NIXL_AT_ONCE;
    MPT_STATUS(nixl_flush(NIXL_ALL_RANKS, 0), NIXL_INPROGRESS);
    MPT_STATUS(nixl_flush_x(NIXL_ALL_RANKS, NULL, &op, NULL), NIXL_E_TIMEOUT);
    MPT_EQ(nixl_last_error()->rank, -1);
    MPT_STATUS(nixl_flush_x(pending, NULL, &op, NULL), NIXL_E_TIMEOUT);
    MPT_STATUS(nixl_flush_x(NIXL_ALL_RANKS, NULL, NULL, &flush), NIXL_INPROGRESS);
    MPT_STATUS(nixl_req_wait(&flush, MPT_MS), NIXL_E_TIMEOUT);
    MPT_EQ(nixl_last_error()->rank, -1);
    MPT_OK(nixl_req_cancel(&flush, MPT_PATIENCE, NULL));
    MPT_EQ(nixl_last_error()->status, NIXL_E_TIMEOUT); /* a cancel that succeeds is no failure */
    MPT_OK(nixl_req_cancel(&put, MPT_PATIENCE, NULL));
    MPT_STATUS(nixl_flush(failed, MPT_PATIENCE), NIXL_E_NOT_FOUND);
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
}

/* A flush of one rank is about that one, in its error and in the queue. */
static void flush_names_its_rank(int rank, struct nixl_region *nowhere)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *put = NULL, *flush = NULL;
    struct nixl_cq_entry entry;
    size_t n = 0;
    char byte = 0;

    MPT_OK(nixl_cq_open(NULL, &op.cq));
    MPT_STATUS(nixl_put_x(rank, nowhere, 0, &byte, 1, NULL, &put), NIXL_INPROGRESS);
    MPT_STATUS(nixl_flush_x(rank, NULL, NULL, &flush), NIXL_INPROGRESS);
    MPT_STATUS(nixl_req_wait(&flush, MPT_MS), NIXL_E_TIMEOUT);
    MPT_EQ(nixl_last_error()->rank, rank);
    MPT_STATUS(nixl_flush_x(rank, NULL, &op, NULL), NIXL_INPROGRESS);
    MPT_OK(nixl_req_cancel(&put, MPT_PATIENCE, NULL));
    MPT_OK(nixl_req_wait(&flush, MPT_PATIENCE));
    MPT_OK(nixl_cq_wait(op.cq, &entry, 1, MPT_PATIENCE, &n));
    MPT_EQ(entry.status, NIXL_OK);
    MPT_EQ(entry.rank, rank);
    MPT_OK(nixl_cq_close(op.cq));
}

static void flush_reports_each(struct nixl_region *nowhere, int (*flush)(void))
{
    fail_put(1, nowhere);
    fail_put(2, nowhere);
    for (int rank = 1; rank < 3; rank++) {
        MPT_STATUS(flush(), NIXL_E_NOT_FOUND);
        MPT_EQ(nixl_last_error()->rank, rank);
    }
    MPT_OK(flush());
}

static int test_each(void)
{
    struct nixl_region *nowhere;

    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 3);
    mpt_barrier();
    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_open("nowhere", &nowhere));
        flush_keeps_failure(1, 2, nowhere);
        flush_keeps_failure(2, 1, nowhere);
        flush_names_its_rank(2, nowhere);
        flush_reports_each(nowhere, flush_waited);
        flush_reports_each(nowhere, flush_started);
        MPT_OK(nixl_region_close(nowhere, MPT_PATIENCE));
    }
    mpt_barrier();
    MPT_OK(nixl_finalize());
    return mpt_passed();
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

    mpt_start();
    if (argc > 1) {
        return strcmp(argv[1], "each") == 0 ? test_each() : test_deadline();
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
