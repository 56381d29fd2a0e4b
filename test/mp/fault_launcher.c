/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher is killed by SIGKILL.
 *
 *     fault_launcher nixlrun   its guardian takes all ranks along
 *     fault_launcher guardian  nixlrun takes all ranks along: nobody would guard them
 *     fault_launcher mpirun    a launcher without a guardian: each rank gets the event, may go on,
 *                              and is ended after NIXLRUN_ORPHAN_GRACE
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The parent of a process, and its name. */
static pid_t parent_of(pid_t pid, char name[32])
{
    char path[64];
    int parent = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    MPT_TRUE(file != NULL);
    MPT_EQ(fscanf(file, "%*d (%15[^)]) %*c %d", name, &parent), 2);
    fclose(file);
    return parent;
}

/* The rank's parent is the guardian, and its parent is nixlrun; mpirun is the parent itself. */
static pid_t find_victim(const char *what)
{
    char name[32];
    pid_t pid = getppid();
    pid_t above = parent_of(pid, name);

    if (strcmp(what, "nixlrun") == 0) {
        pid = above;
        parent_of(pid, name);
        MPT_TEXT(name, "nixlrun");
    }
    MPT_TRUE(pid > 1);
    return pid;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct nixl_event event = NIXL_EVENT_INIT;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
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
