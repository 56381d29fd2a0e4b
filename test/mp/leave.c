/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving before the others.
 *
 *     leave early|at_once|all RANK [by_call]
 *
 * early: this rank waits in nixl_finalize() for a while, and hears that it leaves alone. at_once:
 * it does not wait. The others hear of it, also those that never talked to it, and what waits for
 * it ends. by_call: the timeout is given by nixl_finalize_x(), not by the variable. all: no rank
 * waits for another, again and again, and the launcher sees no failure. keep: all leave with
 * NIXL_OP_KEEP, while a thread of each uses memory, which stays as it is.
 */
#include "test/net/bed.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define N_ROUNDS 5
#define EARLY_NS (300 * MPT_MS)

static struct nixl_note note;

static void hear_that_it_left(int rank)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_LEFT);
    MPT_EQ(event.rank, rank);
    MPT_EQ(nixl_peer_state(rank), NIXL_PEER_FINISHED);
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
}

/* Each of these waits without end. */
static void wait_for(int rank, struct nixl_team *world)
{
    static uint64_t word;

    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, 1, UINT64_MAX, NIXL_FOREVER, &note),
               NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, rank);
    MPT_TRUE(strstr(nixl_last_error()->text, "has left the job") != NULL);
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(rank, 1, UINT64_MAX, NIXL_FOREVER, &note), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_signal_wait(&word, NIXL_COMPARE_NE, 0, NIXL_FOREVER, NULL), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_notify(rank, 1, NULL, 0, NIXL_FOREVER), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_barrier(world, NIXL_FOREVER), NIXL_E_PEER_LOST);
}

/* By the call itself, or by the variable that main() has set. */
static int leave_now(bool at_once, bool by_call)
{
    struct nixl_op op = NIXL_OP_INIT;

    if (!by_call) {
        return nixl_finalize();
    }
    op.timeout_ns = -7;
    MPT_STATUS(nixl_finalize_x(&op), NIXL_E_INVALID_ARG); /* and the rank has not left */
    op.timeout_ns = at_once ? NIXL_AT_ONCE : EARLY_NS;
    return nixl_finalize_x(&op);
}

static void leave_alone(bool at_once, bool by_call)
{
    int64_t began_ns = mpt_now_ns();

    if (at_once) {
        MPT_OK(leave_now(at_once, by_call));
    } else {
        MPT_STATUS(leave_now(at_once, by_call), NIXL_E_TIMEOUT);
        MPT_TRUE(strstr(nixl_last_error()->text, "ranks ") != NULL);
    }
    MPT_LT(mpt_now_ns() - began_ns, MPT_PATIENCE / 2);
}

static void leave_in_any_order(void)
{
    for (int round = 0; round < N_ROUNDS; round++) {
        MPT_OK(nixl_finalize());
        MPT_OK(nixl_init(NULL));
    }
    MPT_OK(nixl_finalize());
}

/* Memory that the program has pointers to, and a thread that uses it all the time. */
enum { OWN, REGISTERED, MAPPED, HELD, FILLED, N_KEPT };
#define KEPT_NBYTES 65536
static struct {
    volatile unsigned char *memory[N_KEPT];
    atomic_ulong n_rounds;
    atomic_bool must_end;
} kept;

static void *use_kept(void *unused)
{
    (void)unused;
    while (!atomic_load(&kept.must_end)) {
        for (size_t i = 0; i < N_KEPT; i++) {
            for (size_t at = 0; at < KEPT_NBYTES; at += 512) {
                if (i == OWN || i == FILLED) {
                    kept.memory[i][at] = 1;
                } else {
                    (void)kept.memory[i][at];
                }
            }
        }
        atomic_fetch_add(&kept.n_rounds, 1);
    }
    return NULL;
}

/* The thread goes through everything once more. */
static void expect_use(void)
{
    const unsigned long before = atomic_load(&kept.n_rounds);
    const int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    while (atomic_load(&kept.n_rounds) < before + 2) {
        MPT_LT(mpt_now_ns(), end_ns);
        sched_yield();
    }
}

static void take_memory(void)
{
    static unsigned char registered[KEPT_NBYTES];
    const int next = (nixl_rank() + 1) % nixl_size();
    struct nixl_channel *consumer, *producer;
    struct nixl_region *own, *given;
    void *addr, *slot;
    size_t nbytes;
    int from;

    MPT_OK(nixl_region_alloc("own", KEPT_NBYTES, NULL, &own));
    MPT_OK(nixl_region_register("given", registered, sizeof(registered), NULL, &given));
    MPT_OK(nixl_channel_open("items", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, KEPT_NBYTES, 2, NULL,
                             &consumer));
    MPT_OK(
        nixl_channel_open("items", next, NIXL_CHANNEL_PRODUCER, KEPT_NBYTES, 2, NULL, &producer));
    kept.memory[OWN] = kept.memory[MAPPED] = nixl_region_addr(own);
    kept.memory[REGISTERED] = registered;
    if (nixl_scope(next) != NIXL_SCOPE_REMOTE) {
        MPT_OK(nixl_region_map(next, own, &addr));
        kept.memory[MAPPED] = addr;
    }
    MPT_OK(nixl_channel_acquire(producer, MPT_PATIENCE, &slot));
    memset(slot, 7, KEPT_NBYTES);
    MPT_OK(nixl_channel_publish(producer, KEPT_NBYTES));
    MPT_OK(nixl_channel_acquire(producer, MPT_PATIENCE, &slot));
    kept.memory[FILLED] = slot;
    MPT_OK(nixl_channel_recv(consumer, MPT_PATIENCE, &slot, &nbytes, &from));
    kept.memory[HELD] = slot;
}

static void leave_with_memory(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    pthread_t thread;

    take_memory();
    MPT_EQ(pthread_create(&thread, NULL, use_kept, NULL), 0);
    expect_use();
    op.flags = NIXL_OP_GETS;
    MPT_STATUS(nixl_finalize_x(&op), NIXL_E_UNSUPPORTED); /* and the rank has not left */
    op.flags = NIXL_OP_KEEP;
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_finalize_x(&op)); /* it is not the last one */
    mpt_barrier();
    MPT_OK(nixl_finalize_x(&op));
    expect_use();
    MPT_EQ(kept.memory[HELD][KEPT_NBYTES - 1], 7);
    MPT_STATUS(nixl_init(NULL), NIXL_E_UNSUPPORTED);
    MPT_HAS("NIXL_OP_KEEP");
    atomic_store(&kept.must_end, true);
    MPT_EQ(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    struct nixl_team *world, *rest;
    bool at_once, is_all, by_call;
    int first;

    mpt_start();
    MPT_TRUE((argc == 3 || argc == 4) && rank != NULL);
    by_call = argc == 4;
    at_once = strcmp(argv[1], "at_once") == 0;
    is_all = strcmp(argv[1], "all") == 0;
    first = atoi(argv[2]);
    if (is_all || (!by_call && atoi(rank) == first)) {
        setenv("NIXLRUN_FINALIZE_TIMEOUT", at_once || is_all ? "0s" : "300ms", 1);
    }
    MPT_OK(nixl_init(NULL));
    if (is_all) {
        leave_in_any_order();
        return mpt_passed();
    }
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    bed_meet("ready");
    if (strcmp(argv[1], "keep") == 0) {
        leave_with_memory();
        return mpt_passed();
    }
    if (nixl_rank() == first) {
        leave_alone(at_once, by_call);
        return mpt_passed();
    }
    wait_for(first, world);
    hear_that_it_left(first);
    MPT_OK(nixl_team_shrink(world, MPT_PATIENCE, &rest));
    MPT_EQ(nixl_team_size(rest), nixl_size() - 1);
    MPT_OK(nixl_barrier(rest, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
