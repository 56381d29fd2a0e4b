/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank waits, without a limit of time, for what any other could do; all others are in their
 * last nixl_finalize(), which waits for this one.
 *
 *     late_any WAITER leave|kill|self
 *
 * leave: each kind of wait ends with a failure that says so, within a few seconds, and what the
 * others had done before is seen first. kill: one of them is killed; that is heard of, too. self:
 * the waiter is woken by a thread of its own, which has done that before, and waits on.
 */
#include "mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SENT  100
#define SOON_NS (10 * MPT_S) /* on a loaded machine; 1 to 3 s are usual */

static struct nixl_region *region;
static struct nixl_note note;
static struct nixl_channel *channel;
static int waiter;

static void check_never(int status, int64_t began)
{
    MPT_STATUS(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, -1);
    MPT_HAS("all other ranks that live have called nixl_finalize()");
    MPT_TRUE(mpt_now_ns() - began < SOON_NS);
}

static int receive_any(uint64_t tag)
{
    nixl_note_init(&note);
    return nixl_notify_recv(NIXL_ANY_RANK, tag, UINT64_MAX, NIXL_FOREVER, &note);
}

/* A tag that never comes takes the others out of the way. */
static void receive_in_vain(void)
{
    int64_t began = mpt_now_ns();
    int status = receive_any(9), n_lost = 0;

    for (; status == NIXL_E_PEER_LOST && nixl_last_error()->rank >= 0; n_lost++) {
        MPT_TRUE(n_lost == 0); /* the rank that was killed, once */
        status = receive_any(9);
    }
    check_never(status, began);
    for (int i = 0; i < N_SENT * (nixl_size() - 1 - n_lost); i++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, 1, UINT64_MAX, 0, &note));
    }
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, 0, 0, 0, &note), NIXL_INPROGRESS);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, 0, 0, 10 * MPT_MS, &note), NIXL_E_TIMEOUT);
}

/* An item of each producer, and no more; their ends stay open. */
static void channel_in_vain(void)
{
    int64_t began;
    void *slot;

    for (int i = 0; i < nixl_size() - 1; i++) {
        MPT_OK(nixl_channel_recv(channel, MPT_PATIENCE, &slot, NULL, NULL));
        MPT_OK(nixl_channel_release(channel, slot));
    }
    began = mpt_now_ns();
    check_never(nixl_channel_recv(channel, NIXL_FOREVER, &slot, NULL, NULL), began);
    MPT_STATUS(nixl_channel_recv(channel, 0, &slot, NULL, NULL), NIXL_INPROGRESS);
}

/* Buffers that the next rank alone may use. */
static void expose_in_vain(void)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req;
    int partner = (waiter + 1) % nixl_size();

    MPT_STATUS(nixl_pair_expose(partner, region, 0, 8, NIXL_PAIR_READ, NIXL_FOREVER, token,
                                sizeof(token), &req),
               NIXL_INPROGRESS);
    MPT_STATUS(nixl_req_wait(&req, NIXL_FOREVER), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, partner);
    MPT_HAS("has called nixl_finalize()");
}

static int wait_signal(const uint64_t *word, uint64_t value)
{
    int status = nixl_signal_wait(word, NIXL_COMPARE_GE, value, NIXL_FOREVER, NULL);

    if (status == NIXL_E_PEER_LOST && nixl_last_error()->rank >= 0) {
        status = nixl_signal_wait(word, NIXL_COMPARE_GE, value, NIXL_FOREVER, NULL);
    }
    return status;
}

static void signals_in_vain(int n_killed)
{
    uint64_t *words = nixl_region_addr(region), n_raised = (uint64_t)(nixl_size() - 1 - n_killed);
    const uint64_t *both[2] = {words + 1, words + 2};
    struct nixl_op op = NIXL_OP_INIT;
    int64_t began = mpt_now_ns();

    check_never(wait_signal(words, 1000), began);
    MPT_EQ(words[0], n_raised);
    began = mpt_now_ns();
    check_never(nixl_signal_wait_any(both, 2, NIXL_COMPARE_NE, 0, NIXL_FOREVER, NULL, NULL), began);
    began = mpt_now_ns();
    check_never(nixl_signal_wait(words + 1, NIXL_COMPARE_NE, 0, MPT_PATIENCE, NULL), began);
    op.flags = NIXL_OP_RANK;
    op.rank = (waiter + 1) % nixl_size();
    op.timeout_ns = NIXL_FOREVER;
    MPT_STATUS(nixl_signal_wait_x(words + 1, NIXL_COMPARE_NE, 0, &op, NULL), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, op.rank);
    MPT_HAS("has called nixl_finalize()");
    MPT_STATUS(nixl_signal_wait(words + 1, NIXL_COMPARE_NE, 0, 0, NULL), NIXL_INPROGRESS);
    MPT_STATUS(nixl_signal_wait(words + 1, NIXL_COMPARE_NE, 0, 10 * MPT_MS, NULL), NIXL_E_TIMEOUT);
}

/* A thread of the waiter's own that comes late. */
static void *send_late(void *nothing)
{
    (void)nothing;
    usleep(3500000);
    MPT_OK(nixl_signal_set(nixl_rank(), region, 8, 1));
    usleep(3500000);
    MPT_OK(nixl_notify(nixl_rank(), 9, NULL, 0, MPT_PATIENCE));
    return NULL;
}

static void wait_for_self(void)
{
    const uint64_t *words = nixl_region_addr(region);
    pthread_t thread;

    MPT_OK(nixl_notify(nixl_rank(), 2, NULL, 0, MPT_PATIENCE));
    MPT_OK(receive_any(2));
    MPT_EQ(pthread_create(&thread, NULL, send_late, NULL), 0);
    MPT_OK(nixl_signal_wait(words + 1, NIXL_COMPARE_EQ, 1, NIXL_FOREVER, NULL));
    MPT_OK(receive_any(9));
    MPT_EQ(note.rank, nixl_rank());
    MPT_EQ(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv)
{
    bool is_kill, is_self;
    void *slot;

    mpt_start();
    MPT_TRUE(argc == 3);
    waiter = atoi(argv[1]);
    is_kill = strcmp(argv[2], "kill") == 0;
    is_self = strcmp(argv[2], "self") == 0;
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("words", 64, NULL, &region));
    MPT_OK(nixl_channel_open("items", nixl_rank() == waiter ? NIXL_ANY_RANK : waiter,
                             nixl_rank() == waiter ? NIXL_CHANNEL_CONSUMER : NIXL_CHANNEL_PRODUCER,
                             64, 4, NULL, &channel));
    mpt_barrier();
    if (nixl_rank() != waiter && is_kill && nixl_rank() == (waiter + 2) % nixl_size()) {
        MPT_EQ(raise(SIGKILL), 0);
    } else if (nixl_rank() != waiter) {
        for (int i = 0; i < N_SENT; i++) {
            MPT_OK(nixl_notify(waiter, 1, NULL, 0, MPT_PATIENCE));
        }
        MPT_OK(nixl_signal_add(waiter, region, 0, 1));
        MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
        MPT_OK(nixl_channel_publish(channel, 8));
    } else if (is_self) {
        wait_for_self();
    } else {
        receive_in_vain();
        signals_in_vain(is_kill);
        if (!is_kill) {
            channel_in_vain();
            expose_in_vain();
        }
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
