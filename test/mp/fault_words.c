/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that wait behind a put to a rank which is killed meanwhile end as the put does: the rank is
 * lost, not its region replaced.
 */
#include "mptest.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_PID = 0xfa7e };
#define NBYTES ((size_t)256 << 20)

static void expect_lost(struct nixl_req *req, int status)
{
    status = status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status;
    if (status != NIXL_OK) { /* it was done before the kill */
        MPT_STATUS(status, NIXL_E_PEER_LOST);
    }
}

static void survive(struct nixl_region *region)
{
    static struct nixl_note note;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_req *reqs[3] = {NULL, NULL, NULL};
    char *src = malloc(NBYTES);
    uint64_t one = 1, old = 0;
    int status[3];
    pid_t pid;

    MPT_TRUE(src != NULL);
    memset(src, 1, NBYTES);
    nixl_note_init(&note);
    MPT_OK(nixl_region_query(1, region, MPT_PATIENCE, &info));
    MPT_OK(nixl_notify_recv(1, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&pid, note.payload, sizeof(pid));
    MPT_TRUE(pid > 0);
    status[0] = nixl_put_x(1, region, 0, src, NBYTES, NULL, &reqs[0]);
    status[1] = nixl_signal_x(1, region, NBYTES, NIXL_SIGNAL_SET, 1, NULL, &reqs[1]);
    status[2] = nixl_atomic_x(1, region, NBYTES + 8, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL,
                              &old, &reqs[2]);
    MPT_EQ(kill(pid, SIGKILL), 0);
    for (int i = 0; i < 3; i++) {
        expect_lost(reqs[i], status[i]);
    }
    free(src);
}

int main(void)
{
    struct nixl_region *region = NULL;
    pid_t pid = getpid();

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("words", NBYTES + 64, NULL, &region));
    if (nixl_rank() == 0) {
        survive(region);
    } else {
        MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
        pause();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
