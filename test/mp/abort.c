/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that end the job, or a rank, by force: `abort CODE` is nixl_abort(), and with a second word
 *
 *   alone  the same without nixl_init()
 *   end    nixl_job_end(), while the others wait in a call
 *   late   nixl_job_end(), when rank 0 has died
 *   kill   nixl_rank_kill() of the last rank, then of the own one
 *   react  nixl_abort(), by every rank that has learned of the death of the last one
 *   owes   none: the last rank exits with 0 but owes nixl_finalize()
 */
#include "mptest.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READY_TAG 1

/* The deaths of `n` ranks from `first` on are reported within a test's patience, in any order. */
static void await_deaths(int first, int n)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    for (int seen = 0; n > 0; n--) {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
        MPT_GE(event.rank, first);
        MPT_EQ(seen & 1 << (event.rank - first), 0);
        seen |= 1 << (event.rank - first);
    }
}

static void end_job(int code, bool is_late)
{
    if (is_late && nixl_rank() == 0) {
        _exit(9);
    }
    if (is_late) {
        await_deaths(0, 1);
    }
    if (nixl_rank() == nixl_size() - 1) {
        nixl_job_end(code, is_late ? "a rank has died" : NULL);
    }
}

static void owe_finalize(void)
{
    int last = nixl_size() - 1;

    if (nixl_rank() == last) {
        exit(0);
    }
    await_deaths(last, 1);
    MPT_OK(nixl_finalize());
    mpt_passed();
}

/* Each other rank tells `killer` that it has left the barrier: nothing of that is under way. */
static void tell_killer(int killer)
{
    if (nixl_rank() != killer) {
        MPT_OK(nixl_notify(killer, READY_TAG, NULL, 0, MPT_PATIENCE));
        return;
    }
    for (int rank = 0; rank < nixl_size(); rank++) {
        if (rank != killer) {
            mpt_hear(rank, READY_TAG);
        }
    }
}

static void kill_ranks(void)
{
    int last = nixl_size() - 1;

    MPT_STATUS(nixl_rank_kill(-1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_rank_kill(nixl_size()), NIXL_E_INVALID_ARG);
    if (getenv("NIXLRUN_RANK_SOCKET") != NULL && nixl_scope(last) == NIXL_SCOPE_REMOTE) {
        MPT_STATUS(nixl_rank_kill(last), NIXL_E_UNSUPPORTED);
    }
    mpt_barrier();
    tell_killer(last - 1);
    if (nixl_rank() == last) {
        for (;;) {
            pause();
        }
    }
    if (nixl_rank() == last - 1) { /* of the same host everywhere */
        MPT_OK(nixl_rank_kill(last));
        await_deaths(last, 1);
        MPT_OK(nixl_rank_kill(last));
        MPT_OK(nixl_rank_kill(nixl_rank()));
    }
    await_deaths(last - 1, 2);
    MPT_OK(nixl_finalize());
    mpt_passed();
}

/* So much memory takes the kernel milliseconds to take back: the others abort before it is done. */
#define DYING_NBYTES ((size_t)256 << 20)

static void react(int code)
{
    int last = nixl_size() - 1;
    struct nixl_note note;
    char *memory;

    if (nixl_rank() == last) {
        memory = malloc(DYING_NBYTES);
        MPT_TRUE(memory != NULL);
        memset(memory, 1, DYING_NBYTES);
        (void)raise(SIGKILL);
    }
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(last, 0, 0, MPT_PATIENCE, &note), NIXL_E_PEER_LOST);
    nixl_abort(code, "it has died");
}

int main(int argc, char **argv)
{
    int code = argc > 1 ? atoi(argv[1]) : 0;
    const char *how = argc > 2 ? argv[2] : "";

    mpt_start();
    if (strcmp(how, "alone") == 0) {
        nixl_abort(code, "not a member of any job");
    }
    if (strcmp(how, "end alone") == 0) {
        nixl_job_end(code, NULL);
    }
    MPT_STATUS(nixl_rank_kill(0), NIXL_E_NOT_INIT);
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    if (strcmp(how, "kill") == 0) {
        kill_ranks();
        return 0;
    }
    if (strcmp(how, "owes") == 0) {
        owe_finalize();
        return 0;
    }
    if (strcmp(how, "react") == 0) {
        react(code);
    }
    if (how[0] != '\0') {
        end_job(code, strcmp(how, "late") == 0);
    } else if (nixl_rank() == nixl_size() - 1) {
        nixl_abort(code, "enough is enough");
    }
    for (;;) {
        pause();
    }
}
