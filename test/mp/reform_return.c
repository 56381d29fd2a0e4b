/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are killed and come back, and a team that is re-formed after each: reform_return
 * KILLS. Rank 0 stays and kills the others, in the midst of collectives and of the call that
 * re-forms the team. All verify every byte of collectives on each team. At the end the process has
 * about as many descriptors and as much memory as after the first tenth.
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_RANKS      16
#define MOST_GROWTH_KIB 8192

/* What rank 0 says at the beginning of each team's life. */
struct plan {
    uint64_t seed;
    int32_t is_end;
};

static int ranks[MOST_RANKS], size, rank;
static pid_t pids[MOST_RANKS];
static long n_reforms, n_failures;

/* Readmit whoever has come back. */
static void take_event(const struct nixl_event *event)
{
    if (event->type == NIXL_EVENT_PEER_JOINED) {
        int status = nixl_peer_readmit(event->rank, event->incarnation);

        MPT_TRUE(status == NIXL_OK || status == NIXL_E_PEER_LOST); /* it has died again */
    }
}

static void take_events(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    while (nixl_event_recv(0, &event) == NIXL_OK) {
        take_event(&event);
    }
}

/* Until all ranks are alive for this one. */
static void await_all(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    take_events();
    for (int other = 0; other < size; other++) {
        while (nixl_peer_state(other) != NIXL_PEER_ALIVE) {
            MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
            take_event(&event);
        }
    }
}

/* Without end: a team of all. */
static struct nixl_team *recover(void)
{
    struct nixl_team *team = NULL;
    int status;

    for (;;) {
        await_all();
        status = nixl_team_reform(ranks, (size_t)size, MPT_PATIENCE, &team);
        if (status == NIXL_OK) {
            n_reforms++;
            return team;
        }
        n_failures++;
        MPT_STATUS(status, NIXL_E_PEER_LOST);
    }
}

/* A status that the death of a rank explains. */
static bool is_cut(int status)
{
    MPT_TRUE(status == NIXL_OK || status == NIXL_E_PEER_LOST || status == NIXL_E_CANCELED);
    return status != NIXL_OK;
}

/* One round of collectives; true: a rank has died. */
static bool is_round_cut(struct nixl_team *team, uint64_t seed, size_t count)
{
    static uint64_t src[1 << 16], dst[1 << 16];
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    uint64_t factor = (uint64_t)size * (uint64_t)(size + 1) / 2;

    for (size_t i = 0; i < count; i++) {
        src[i] = (uint64_t)(rank + 1) * (seed + i);
    }
    args.src = src;
    args.dst = dst;
    args.count = count;
    args.type = NIXL_TYPE_UINT64;
    if (is_cut(nixl_allreduce(team, &args, MPT_PATIENCE))) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        MPT_TRUE(dst[i] == factor * (seed + i));
    }
    return is_cut(nixl_barrier(team, MPT_PATIENCE));
}

/* By a process of its own, after a while. */
static void kill_later(pid_t pid, useconds_t delay)
{
    if (fork() == 0) {
        usleep(delay);
        kill(pid, SIGKILL);
        _exit(0);
    }
}

/*
 * Rank 0 kills one, perhaps in the midst of the collectives that follow; and perhaps another one
 * later, when the others wait for the first one to come back or re-form the team with it.
 */
static void kill_one(uint64_t *random)
{
    int victim = 1 + (int)(mpt_random(random) % (uint64_t)(size - 1));
    int other = 1 + (int)(mpt_random(random) % (uint64_t)(size - 1));

    kill_later(pids[victim], (useconds_t)(mpt_random(random) % 1500));
    if (other != victim && mpt_random(random) % 2 == 0) {
        kill_later(pids[other], (useconds_t)(mpt_random(random) % 60000));
    }
}

/* The life of a team. True: the end of the test. */
static bool live(struct nixl_team *team, struct plan plan, uint64_t *random)
{
    pid_t pid = getpid();
    int n = (int)(mpt_random(random) % 6);

    if (is_cut(nixl_broadcast(team, 0, &plan, sizeof(plan), MPT_PATIENCE)) ||
        is_cut(nixl_allgather(team, &pid, pids, sizeof(pid), MPT_PATIENCE))) {
        return false;
    }
    if (plan.is_end) {
        mpt_check_team(team, plan.seed, 1000);
        return true;
    }
    for (int i = 0; !is_round_cut(team, plan.seed + (uint64_t)i, i % 2 == 0 ? 5 : 20000); i++) {
        if (rank == 0 && i == n) {
            kill_one(random);
        }
    }
    return false;
}

/* nixlrun must not start a rank again that has found a fault. */
static void end_job(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    nixl_abort(1, "a check has failed");
}

int main(int argc, char **argv)
{
    int n_kills = argc > 1 ? atoi(argv[1]) : 3, n_fds = 0;
    uint64_t random = 5;
    bool is_end = false;
    long kib = 0;

    mpt_start();
    mpt_on_fail = end_job;
    signal(SIGCHLD, SIG_IGN);
    MPT_OK(nixl_init(NULL));
    size = nixl_size();
    rank = nixl_rank();
    MPT_TRUE(size <= MOST_RANKS);
    for (int i = 0; i < size; i++) {
        ranks[i] = i;
    }
    for (int i = 0; !is_end; i++) {
        const struct plan plan = {.seed = (uint64_t)i * 1000, .is_end = i >= n_kills};
        struct nixl_team *team;

        while (plan.is_end && wait(NULL) > 0) { /* nobody is killed any more */
        }
        team = recover();
        is_end = live(team, plan, &random);
        MPT_OK(nixl_team_free(team));
        if (i == n_kills / 10) {
            n_fds = mpt_n_descriptors();
            kib = mpt_resident_kib();
        }
    }
    if (rank == 0) {
        printf("%ld teams, %ld attempts that a death has cut; descriptors %d, then %d; memory %ld "
               "KiB, then %ld\n",
               n_reforms, n_failures, n_fds, mpt_n_descriptors(), kib, mpt_resident_kib());
        MPT_LT(mpt_resident_kib(), kib + MOST_GROWTH_KIB);
    }
    mpt_finalize();
    return mpt_passed();
}
