/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first word to a rank that has just died: no process listens on its socket, and the launcher,
 * which is stopped, has not reported it. The call waits for the news and ends with
 * NIXL_E_PEER_LOST; it does not take the dead one for a rank on another host.
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static pid_t nixlrun;

/* A check that fails leaves nothing stopped. */
static void let_it_go_on(const char *file, int line, const char *text)
{
    (void)file, (void)line, (void)text;
    kill(nixlrun, SIGCONT);
}

/* The other child of the guardian: ranks that have never talked know no more of each other. */
static pid_t find_other(pid_t guardian)
{
    char name[64];
    int pid = 0;
    FILE *file;

    snprintf(name, sizeof(name), "/proc/%d/task/%d/children", (int)guardian, (int)guardian);
    file = fopen(name, "r");
    if (file == NULL) {
        mpt_skip("this kernel does not list the children of a process");
    }
    while (fscanf(file, "%d", &pid) == 1 && pid == getpid()) {
    }
    fclose(file);
    return pid;
}

int main(void)
{
    struct nixl_req *request = NULL;
    struct nixl_region *region;
    pid_t other;
    char byte = 1;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("first", 1, NULL, &region));
    while (nixl_rank() != 0) {
        pause();
    }
    other = find_other(getppid());
    mpt_look_at(getppid(), NULL, &nixlrun);
    MPT_TRUE(nixlrun > 1);
    mpt_on_fail = let_it_go_on;
    mpt_bring(nixlrun, SIGSTOP, "T");
    mpt_bring(other, SIGKILL, "Z-");
    MPT_STATUS(nixl_put_x(1, region, 0, &byte, 1, NULL, &request), NIXL_INPROGRESS);
    MPT_STATUS(nixl_req_wait(&request, 200 * MPT_MS), NIXL_E_TIMEOUT);
    mpt_bring(nixlrun, SIGCONT, "RS");
    MPT_STATUS(nixl_req_wait(&request, MPT_PATIENCE), NIXL_E_PEER_LOST);
    mpt_finalize();
    return mpt_passed();
}
