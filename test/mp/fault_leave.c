/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All ranks die at once, while all but the last wait in nixl_finalize(): the launcher must end.
 * Usage: fault_leave [by_fence]: the ranks wait in PMIx's fence instead. The last rank kills.
 */
#include "mptest.h"

#include <pmix.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TAG_PID 0x1eaf

static void wait_in_fence(void)
{
    pmix_proc_t self, everybody;
    bool yes = true;
    pmix_info_t collect;

    MPT_EQ(PMIx_Init(&self, NULL, 0), PMIX_SUCCESS);
    PMIX_LOAD_PROCID(&everybody, self.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    (void)PMIx_Fence(&everybody, 1, &collect, 1);
}

static bool is_asleep(pid_t pid)
{
    char path[64], line[256] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    MPT_TRUE(file != NULL);
    MPT_TRUE(fgets(line, sizeof(line), file) != NULL);
    fclose(file);
    return strstr(line, ") S ") != NULL;
}

static void hear_pids(pid_t *pids, int n)
{
    for (int i = 0; i < n; i++) {
        struct nixl_note note;

        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(i, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(&pids[i], note.payload, sizeof(pids[i]));
        MPT_LT(0, pids[i]);
    }
}

int main(int argc, char **argv)
{
    pid_t pid = getpid(), pids[64];
    int64_t end_ns;
    int last;

    (void)argv;
    mpt_start();
    MPT_OK(nixl_init(NULL));
    last = nixl_size() - 1;
    MPT_LT(last, 64);
    if (nixl_rank() < last) {
        MPT_OK(nixl_notify(last, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
        if (argc > 1) {
            wait_in_fence();
        }
        (void)nixl_finalize();
        return 1;
    }
    hear_pids(pids, last);
    end_ns = mpt_now_ns() + MPT_PATIENCE;
    for (int i = 0; i < last; i++) {
        while (!is_asleep(pids[i])) {
            MPT_LT(mpt_now_ns(), end_ns);
            sched_yield();
        }
    }
    for (int i = 0; i < last; i++) {
        kill(pids[i], SIGKILL);
    }
    kill(pid, SIGKILL);
    return 1;
}
