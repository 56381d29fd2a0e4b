/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher is killed by SIGKILL, or stopped.
 *
 *     fault_launcher nixlrun   its guardian takes all ranks along
 *     fault_launcher guardian  nixlrun takes all ranks along: nothing would guard them
 *     fault_launcher mpirun    a launcher without a guardian: each rank gets the event, may go on,
 *                              and is ended after NIXLRUN_ORPHAN_GRACE
 *     fault_launcher stopped   nixlrun is stopped while all ranks leave, which is no failure of
 *                              theirs
 *     fault_launcher asking    likewise, with requests to nixlrun that are not answered yet
 */
#include "mptest.h"

#include <pmix.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_QUESTIONS 64

/* The rank's parent is the guardian, and its parent is nixlrun; mpirun is the parent itself. */
static pid_t find_victim(const char *what)
{
    char name[32];
    pid_t pid = getppid(), above = 0;

    MPT_TRUE(mpt_look_at(pid, name, &above) != 0);
    if (strcmp(what, "nixlrun") == 0 || strcmp(what, "stopped") == 0) {
        pid = above;
        MPT_TRUE(mpt_look_at(pid, name, NULL) != 0);
        MPT_TEXT(name, "nixlrun");
    }
    MPT_TRUE(pid > 1);
    return pid;
}

/* A process that lets the launcher go on when this rank, and most likely all, have ended. */
static void let_it_go_on_later(pid_t launcher)
{
    const struct timespec pause = {.tv_nsec = 100 * MPT_MS};
    int64_t end_ns = mpt_now_ns() + 3 * MPT_PATIENCE;
    pid_t rank = getpid();

    if (fork() != 0) {
        return;
    }
    while (getppid() == rank && mpt_now_ns() < end_ns) {
        nanosleep(&pause, NULL);
    }
    for (int i = 0; i < 5; i++) {
        nanosleep(&pause, NULL); /* right without it, but would find no fault then */
    }
    _exit(kill(launcher, SIGCONT) != 0);
}

static void forget_answer(pmix_status_t status, pmix_pdata_t data[], size_t n, void *arg)
{
    (void)status;
    (void)data;
    (void)n;
    (void)arg;
}

/* Look up what nobody has published. The launcher's answers come when this rank has left. */
static void ask_without_waiting(void)
{
    static char key[] = "fault_launcher.nothing", *keys[] = {key, NULL};

    for (int i = 0; i < N_QUESTIONS; i++) {
        MPT_EQ(PMIx_Lookup_nb(keys, NULL, 0, forget_answer, NULL), PMIX_SUCCESS);
    }
}

static int leave_a_stopped_launcher(bool is_asking)
{
    if (nixl_rank() == 0) {
        pid_t launcher = find_victim("stopped");

        let_it_go_on_later(launcher);
        mpt_bring(launcher, SIGSTOP, "T");
    }
    mpt_barrier();
    if (is_asking) {
        ask_without_waiting();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct nixl_event event = NIXL_EVENT_INIT;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    if (strcmp(what, "stopped") == 0 || strcmp(what, "asking") == 0) {
        return leave_a_stopped_launcher(strcmp(what, "asking") == 0);
    }
    if (nixl_rank() == 0) {
        MPT_EQ(kill(find_victim(what), SIGKILL), 0);
    }
    if (strcmp(what, "mpirun") == 0) {
        do {
            MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        } while (event.type != NIXL_EVENT_LAUNCHER_LOST);
        MPT_EQ(event.rank, -1);
        mpt_passed();
    }
    for (;;) {
        pause();
    }
}
