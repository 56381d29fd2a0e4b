/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving before the others.
 *
 *     leave early|at_once|all RANK [by_call]
 *
 * early: this rank waits in nixl_finalize() for a while, and hears that it leaves alone. at_once:
 * it does not wait. The others hear of it, also those that never talked to it, and what waits for
 * it ends. by_call: the timeout is given by nixl_finalize_x(), not by the variable. all: no rank
 * waits for another, again and again, and the launcher sees no failure.
 */
#include "test/net/bed.h"

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
