/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large non-blocking copies between ranks of one host go on beside the caller.
 *
 *     aside allocated|registered [single]  calls return at once; what follows a put arrives behind
 *                                          it; cancel, close, fork and finalize in mid-copy
 *     aside kill                           the target dies in mid-copy
 *
 * Rank 0 puts, rank 1 owns the memory.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include "mptest.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NBYTES         (32ul << 20)
#define ROUNDS         10
#define STALE_AFTER_NS (2 * MPT_MS)

#define TAG_DATA  0xa501
#define TAG_BEGIN 0xa502

static const char *kind;
static unsigned char *local, *remote;
static struct nixl_region *part, *words;
static _Atomic uint64_t *word; /* rank 1: the first of its words */

static struct nixl_region *open_part(const char *name)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region;

    if (nixl_rank() == 1 && strcmp(kind, "registered") == 0) {
        memset(remote, 0, NBYTES);
        MPT_OK(nixl_region_register(name, remote, NBYTES, NULL, &region));
    } else if (nixl_rank() == 1) {
        MPT_OK(nixl_region_alloc(name, NBYTES, NULL, &region));
        remote = nixl_region_addr(region);
        memset(remote, 0, NBYTES);
    } else {
        MPT_OK(nixl_region_open(name, &region));
    }
    MPT_OK(nixl_region_query(1, region, MPT_PATIENCE, &info));
    mpt_barrier();
    return region;
}

static void hear(uint64_t tag)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1 - nixl_rank(), tag, UINT64_MAX, MPT_PATIENCE, &note));
}

/* A put that is under way; NULL where the library was faster. */
static struct nixl_req *begin_put(uint64_t seed)
{
    struct nixl_req *req = NULL;
    int status;

    mpt_fill(local, NBYTES, seed);
    status = nixl_put_x(1, part, 0, local, NBYTES, NULL, &req);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    return req;
}

/* Owner: wait until the first bytes of a put have come; all was 0. */
static void await_first_bytes(void)
{
    const volatile uint64_t *first = (const volatile uint64_t *)remote;
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    while (*first == 0) {
        MPT_LT(mpt_now_ns(), end_ns);
        sched_yield();
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void start_get(struct nixl_req **req_p)
{
    int status = nixl_get_x(1, part, 0, local, NBYTES, NULL, req_p);

    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
}

static void start_put(struct nixl_req **req_p)
{
    int status = nixl_put_x(1, part, 0, local, NBYTES, NULL, req_p);

    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
}

static void start_xfer(struct nixl_req **req_p)
{
    struct nixl_blocks here = NIXL_BLOCKS_INIT, there = NIXL_BLOCKS_INIT;
    static struct nixl_xfer *xfer;
    int status;

    if (xfer == NULL) {
        here.addr = local;
        there.region = part;
        here.block_nbytes = there.block_nbytes = NBYTES;
        MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 1, &here, 1, &there, 1, &xfer));
    }
    status = nixl_xfer_start(xfer, req_p);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
}

/* The fastest of some calls takes a small fraction of what the fastest copy takes. */
static void a_call_returns_at_once(void (*start)(struct nixl_req **))
{
    int64_t call_ns = INT64_MAX, copy_ns = INT64_MAX;

    for (int i = 0; i < ROUNDS; i++) {
        struct nixl_req *req = NULL;
        int64_t now = mpt_now_ns(), took_ns;

        start(&req);
        took_ns = mpt_now_ns() - now;
        call_ns = took_ns < call_ns ? took_ns : call_ns;
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        now = mpt_now_ns();
        MPT_OK(nixl_put(1, part, 0, local, NBYTES));
        took_ns = mpt_now_ns() - now;
        copy_ns = took_ns < copy_ns ? took_ns : copy_ns;
    }
    MPT_LT(8 * call_ns, copy_ns);
}

/* 256 KiB of mapped memory, whatever state the machine is in: no clock decides. */
static void small_copies_end_within_the_call(void)
{
    struct nixl_req *req = NULL;

    for (int i = 0; i < ROUNDS; i++) {
        MPT_OK(nixl_put_x(1, part, 0, local, 256ul << 10, NULL, &req));
        MPT_OK(nixl_get_x(1, part, 0, local, 256ul << 10, NULL, &req));
    }
}

/* ---- order ----------------------------------------------------------------------------------- */

enum follower { NOTIFY, PUT_NOTIFY, SIGNAL, ATOMIC, FENCE, FLUSH, N_FOLLOWERS };

static void follow(enum follower follower)
{
    const uint64_t one = 1;

    switch (follower) {
    case NOTIFY:
        MPT_OK(nixl_notify(1, TAG_DATA, NULL, 0, MPT_PATIENCE));
        break;
    case PUT_NOTIFY:
        MPT_OK(nixl_put_notify(1, words, 8, &one, sizeof(one), TAG_DATA, NULL, 0, MPT_PATIENCE));
        break;
    case SIGNAL:
        MPT_OK(nixl_signal_add(1, words, 0, 1));
        break;
    case ATOMIC:
        MPT_OK(nixl_atomic(1, words, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL));
        break;
    case FENCE:
        MPT_OK(nixl_fence(1));
        MPT_OK(nixl_put(1, words, 0, &one, sizeof(one)));
        break;
    default:
        MPT_OK(nixl_flush(1, MPT_PATIENCE));
        memset(local, 0x99, NBYTES); /* it is the caller's again */
        MPT_OK(nixl_put(1, words, 0, &one, sizeof(one)));
    }
}

static void await(enum follower follower)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    if (follower == NOTIFY || follower == PUT_NOTIFY) {
        hear(TAG_DATA);
        return;
    }
    while (atomic_load(word) == 0) {
        MPT_LT(mpt_now_ns(), end_ns);
        sched_yield();
    }
    atomic_store(word, 0);
}

static void what_follows_arrives_behind(void)
{
    for (unsigned round = 0; round < 2 * N_FOLLOWERS; round++) {
        enum follower follower = round % N_FOLLOWERS;

        mpt_barrier();
        if (nixl_rank() == 0) {
            struct nixl_req *req = begin_put(round);

            MPT_OK(nixl_req_detach(&req));
            follow(follower);
        } else {
            await(follower);
            MPT_CHECK(remote, NBYTES, round);
        }
    }
    mpt_barrier();
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
}

/* ---- ends in mid-copy ------------------------------------------------------------------------ */

static void a_cancel_stops_it(void)
{
    int n_stopped = 0;

    for (int round = 0; round < ROUNDS && nixl_rank() == 0; round++) {
        struct nixl_req *req = begin_put((uint64_t)round);
        int32_t outcome;

        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        n_stopped += outcome != NIXL_OUTCOME_DONE;
    }
    if (nixl_rank() == 0) {
        MPT_NE(n_stopped, 0);
    }
    mpt_barrier();
}

/* A start has copied some of it when the call returns. */
static void a_cancel_tells_what_a_transfer_has_moved(void)
{
    int n_partial = 0;

    for (int round = 0; round < ROUNDS && nixl_rank() == 0; round++) {
        struct nixl_req *req = NULL;
        int32_t outcome;

        start_xfer(&req);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        MPT_NE(outcome, NIXL_OUTCOME_UNTOUCHED);
        n_partial += outcome == NIXL_OUTCOME_PARTIAL;
    }
    if (nixl_rank() == 0) {
        MPT_NE(n_partial, 0);
    }
    mpt_barrier();
}

/* The owner closes; then no byte comes any more. */
static void a_close_stops_it(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct nixl_region *kept = part;
        unsigned char *kept_remote = remote;

        part = open_part("aside.closed");
        if (nixl_rank() == 0) {
            struct nixl_req *req = begin_put(round + 1);
            int status = nixl_req_wait(&req, MPT_PATIENCE);

            MPT_TRUE(status == NIXL_OK || status == NIXL_E_STALE);
            mpt_barrier();
            MPT_OK(nixl_region_close(part, MPT_PATIENCE));
        } else {
            unsigned char *seen = malloc(NBYTES);

            await_first_bytes();
            MPT_OK(nixl_region_close(part, MPT_PATIENCE));
            if (strcmp(kind, "registered") == 0) {
                memcpy(seen, remote, NBYTES);
                for (int64_t end = mpt_now_ns() + STALE_AFTER_NS; mpt_now_ns() < end;) {
                    MPT_EQ(memcmp(seen, remote, NBYTES), 0);
                }
            }
            free(seen);
            mpt_barrier();
        }
        part = kept;
        remote = kept_remote;
        mpt_barrier();
    }
}

/* Of the handle that it goes through. */
static void a_close_here_ends_it(void)
{
    for (unsigned round = 0; round < ROUNDS && nixl_rank() == 0; round++) {
        struct nixl_region *kept = part;
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;
        struct nixl_req *req;
        int status;

        MPT_OK(nixl_region_open("aside", &part));
        MPT_OK(nixl_region_query(1, part, MPT_PATIENCE, &info));
        req = begin_put(round);
        MPT_OK(nixl_region_close(part, MPT_PATIENCE));
        status = nixl_req_wait(&req, MPT_PATIENCE);
        MPT_TRUE(status == NIXL_OK || status == NIXL_E_STALE);
        part = kept;
    }
    mpt_barrier();
}

static void a_fork_does_not_disturb_it(void)
{
    if (nixl_rank() == 0) {
        struct nixl_req *req = begin_put(77);
        pid_t child = fork();
        int ended;

        if (child == 0) {
            _exit(nixl_notify(1, TAG_DATA, NULL, 0, 0) == NIXL_E_FORKED ? 0 : 1);
        }
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        MPT_EQ(waitpid(child, &ended, 0), child);
        MPT_EQ(ended, 0);
        MPT_OK(nixl_notify(1, TAG_DATA, NULL, 0, MPT_PATIENCE));
    } else {
        hear(TAG_DATA);
        MPT_CHECK(remote, NBYTES, 77);
    }
    mpt_barrier();
}

/* The caller is bound to one core, after it joined. */
static void a_bound_caller_is_as_good(void)
{
    cpu_set_t all, one;
    int cpu = 0;

    if (nixl_rank() != 0) {
        return;
    }
    MPT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    MPT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct nixl_req *req = begin_put(round);

        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    }
    MPT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* Rank 0 leaves at once. Nothing waits for its get, its put must arrive. */
static void leave_in_mid_copy(void)
{
    static unsigned char *dst;
    struct nixl_req *req = NULL;

    mpt_barrier();
    if (nixl_rank() == 0) {
        dst = malloc(NBYTES);
        MPT_TRUE(nixl_get_x(1, part, 0, dst, NBYTES, NULL, &req) >= NIXL_OK);
        MPT_OK(nixl_req_detach(&req));
        req = begin_put(99);
        MPT_OK(nixl_req_detach(&req));
        MPT_OK(nixl_notify(1, TAG_DATA, NULL, 0, MPT_PATIENCE));
    } else {
        hear(TAG_DATA);
        MPT_CHECK(remote, NBYTES, 99);
    }
    MPT_OK(nixl_finalize());
    free(dst);
}

/* ---- death ----------------------------------------------------------------------------------- */

static void die_in_mid_copy(void)
{
    struct nixl_req *req = NULL;
    int status;

    if (nixl_rank() == 1) {
        await_first_bytes();
        raise(SIGKILL);
    }
    for (unsigned round = 1;; round++) {
        mpt_fill(local, NBYTES, round);
        status =
            nixl_put_x(1, part, 0, local, NBYTES, NULL, &req); /* it may die in this call, too */
        if (status == NIXL_INPROGRESS) {
            status = nixl_req_wait(&req, MPT_PATIENCE);
        }
        if (status != NIXL_OK) {
            MPT_STATUS(status, NIXL_E_PEER_LOST);
            MPT_OK(nixl_finalize());
            return;
        }
    }
}

int main(int argc, char **argv)
{
    struct nixl_init_params params = NIXL_INIT_PARAMS_INIT;

    mpt_start();
    MPT_TRUE(argc > 1);
    kind = argv[1];
    params.thread_level = argc > 2 ? NIXL_THREAD_SINGLE : NIXL_THREAD_MULTIPLE;
    MPT_OK(nixl_init(&params));
    MPT_EQ(nixl_size(), 2);
    local = malloc(NBYTES);
    remote = malloc(NBYTES);
    MPT_TRUE(local != NULL && remote != NULL);
    memset(local, 1, NBYTES);
    MPT_OK(nixl_region_alloc("aside.words", 8 * sizeof(*word), NULL, &words));
    word = nixl_region_addr(words);
    part = open_part("aside");
    if (strcmp(kind, "kill") == 0) {
        die_in_mid_copy();
        return mpt_passed();
    }
    if (nixl_rank() == 0) {
        a_call_returns_at_once(start_put);
        a_call_returns_at_once(start_get);
        a_call_returns_at_once(start_xfer);
        if (strcmp(kind, "allocated") == 0) {
            small_copies_end_within_the_call();
        }
    }
    what_follows_arrives_behind();
    a_cancel_stops_it();
    a_cancel_tells_what_a_transfer_has_moved();
    a_close_stops_it();
    a_close_here_ends_it();
    a_fork_does_not_disturb_it();
    a_bound_caller_is_as_good();
    leave_in_mid_copy();
    return mpt_passed();
}
