/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank is killed while the launcher is stopped: only the ranks report the death.
 *
 *     quiet_death BOUND_S
 *
 * The last rank is the victim. Rank 0 waits for it by every call; the others never talked to it.
 * All must learn of the death within the bound, once, also when the launcher runs again and reports
 * it.
 */
#include "test/net/bed.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG_PID  0xa001
#define TAG_LIFE 0xa002

static struct nixl_region *region;

static pid_t launcher;

/* The launcher has this rank started by its guardian. */
static void find_launcher(void)
{
    char name[32];

    mpt_look_at(getppid(), NULL, &launcher);
    mpt_look_at(launcher, name, NULL);
    MPT_TEXT(name, "nixlrun");
}

/* A check that fails, in whichever rank, leaves nothing stopped. */
static void let_it_go_on(const char *file, int line, const char *text)
{
    (void)file, (void)line, (void)text;
    kill(launcher, SIGCONT);
}

/* Between the first rank and the victim only. */
static pid_t exchange_pid(int victim)
{
    static struct nixl_note note;
    pid_t pid = getpid();

    if (nixl_rank() == victim) {
        MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    } else if (nixl_rank() == 0) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(victim, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(&pid, note.payload, sizeof(pid));
        MPT_TRUE(pid > 1 && pid != getpid());
    }
    return pid;
}

/* No event for so long: one that comes is named. */
static void hear_nothing(int64_t timeout_ns, int expected)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int status = nixl_event_recv(timeout_ns, &event);

    if (status == NIXL_OK) {
        mpt_fail(__FILE__, __LINE__, "event %d of rank %d, where none should come", event.type,
                 event.rank);
    }
    MPT_STATUS(status, expected);
}

static void hear_of_the_death(int victim, int64_t began_ns, int64_t bound_ns)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int64_t left_ns = began_ns + bound_ns - mpt_now_ns();

    MPT_OK(nixl_event_recv(left_ns > 0 ? left_ns : 0, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, victim);
    MPT_EQ(nixl_peer_state(victim), NIXL_PEER_LOST);
    MPT_STATUS(nixl_notify(victim, TAG_LIFE, NULL, 0, MPT_PATIENCE), NIXL_E_PEER_LOST);
    printf("heard after %.3f s\n", (double)(mpt_now_ns() - began_ns) / MPT_S);
}

int main(int argc, char **argv)
{
    int64_t began_ns, bound_ns;
    pid_t pid;
    int victim;

    mpt_start();
    MPT_EQ(argc, 2);
    bound_ns = atoi(argv[1]) * MPT_S;
    MPT_OK(nixl_init(NULL));
    victim = nixl_size() - 1;
    MPT_OK(nixl_region_alloc("quiet", 64, NULL, &region));
    mpt_waits_prepare();
    pid = exchange_pid(victim);
    find_launcher();
    mpt_on_fail = let_it_go_on;
    bed_meet("ready");
    if (nixl_rank() == 0) {
        mpt_waits_start(victim);
        mpt_bring(launcher, SIGSTOP, "T");
    }
    bed_meet("quiet");
    began_ns = mpt_now_ns();
    if (nixl_rank() == victim) {
        for (;;) {
            pause();
        }
    }
    if (nixl_rank() == 0) {
        MPT_EQ(kill(pid, SIGKILL), 0);
        mpt_waits_join(began_ns + bound_ns);
    }
    hear_of_the_death(victim, began_ns, bound_ns);
    hear_nothing(0, NIXL_INPROGRESS);
    if (nixl_rank() == 0) {
        MPT_EQ(kill(launcher, SIGCONT), 0);
    }
    hear_nothing(300 * MPT_MS, NIXL_E_TIMEOUT);
    bed_meet_without("heard", victim); /* a rank that leaves alone looks dead to a new connection */
    mpt_waits_close();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    mpt_finalize();
    return mpt_passed();
}
