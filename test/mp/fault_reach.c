/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three ranks. A collective looks up the regions that its buffers lie in, of which the others have
 * not heard before, and the owner of one does not answer: rank 0 stops itself once it has offered
 * its buffer. When the time of rank 1 is over, the call of rank 2 ends, too, although rank 0 is
 * still stopped. Rank 1 then closes its region. Rank 0 goes on and looks for that: its call ends.
 * The program is linked with the library's own functions; one of them is wrapped here.
 */
#include "mptest.h"

#include "collective/node.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG_PID   0xfa31
#define TAG_READY 0xfa32
#define TAG_ENDED 0xfa33

#define NBYTES (1u << 20) /* of each: large enough that buffers are offered */

static bool stops;

int __real_nxr_node_wait_slow(struct nixl_team *team, const struct nxr_node_awaited *awaited);
int __wrap_nxr_node_wait_slow(struct nixl_team *team, const struct nxr_node_awaited *awaited);

/* What rank 0 offers is published before it waits for the others. */
int __wrap_nxr_node_wait_slow(struct nixl_team *team, const struct nxr_node_awaited *awaited)
{
    if (stops) {
        stops = false;
        kill(getpid(), SIGSTOP);
    }
    return __real_nxr_node_wait_slow(team, awaited);
}

static void run_stopped(struct nixl_team *team, const char *src, char *dst)
{
    pid_t pid = getpid();

    MPT_OK(nixl_notify(1, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    stops = true;
    MPT_STATUS(nixl_allgather(team, src, dst, NBYTES, MPT_PATIENCE), NIXL_E_CANCELED);
}

static void run_late(struct nixl_team *team, const char *src, char *dst, struct nixl_region *region)
{
    pid_t pid;

    memcpy(&pid, mpt_hear(0, TAG_PID)->payload, sizeof(pid));
    mpt_bring(pid, 0, "T");
    MPT_OK(nixl_notify(2, TAG_READY, NULL, 0, MPT_PATIENCE));
    MPT_STATUS(nixl_allgather(team, src, dst, NBYTES, MPT_S), NIXL_E_TIMEOUT);
    (void)mpt_hear(2, TAG_ENDED);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_EQ(kill(pid, SIGCONT), 0);
}

static void run_waiting(struct nixl_team *team, const char *src, char *dst)
{
    struct nixl_req *req = NULL;

    (void)mpt_hear(1, TAG_READY);
    MPT_STATUS(nixl_allgather_x(team, src, dst, NBYTES, NULL, &req), NIXL_INPROGRESS);
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    MPT_OK(nixl_notify(1, TAG_ENDED, NULL, 0, MPT_PATIENCE));
}

int main(void)
{
    struct nixl_region *region;
    struct nixl_team *team;
    char name[8] = "fresh0", *dst;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 3);
    name[5] += (char)nixl_rank();
    MPT_OK(nixl_region_alloc(name, NBYTES, NULL, &region));
    dst = malloc((size_t)3 * NBYTES);
    MPT_TRUE(dst != NULL);
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    if (nixl_rank() == 0) {
        run_stopped(team, nixl_region_addr(region), dst);
    } else if (nixl_rank() == 1) {
        run_late(team, nixl_region_addr(region), dst, region);
    } else {
        run_waiting(team, nixl_region_addr(region), dst);
    }
    MPT_OK(nixl_team_free(team));
    free(dst);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
