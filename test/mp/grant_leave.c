/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process leaves while its operations are still to enter a grant, whose owner is stopped: it is
 * not held up, and when the owner goes on, the blocks are its own again.
 *
 *     grant_leave
 *
 * Rank 1 lends, rank 0 leaves. Between hosts the operations wait for the owner; on one host they
 * have ended before.
 */
#include "mptest.h"
#include "core/progress.h"
#include "test/op_form.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define TAG_TOKEN 0xfe01
#define TAG_PID   0xfe02
#define NBYTES    ((size_t)4096)
#define BLOCK     ((size_t)64)
#define LEAVE     (200 * MPT_MS)

static struct nixl_region *region;
static unsigned char bytes[BLOCK], back[BLOCK];

static void lend(void)
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    char token[NIXL_TOKEN_MAX + 1];
    const pid_t pid = getpid();
    struct nixl_req *req = NULL;

    params.rights = NIXL_GRANT_READ | NIXL_GRANT_WRITE;
    blocks.region = region;
    blocks.block_nbytes = NBYTES;
    MPT_STATUS(nixl_grant_create(&blocks, &params, token, sizeof(token), &req), NIXL_INPROGRESS);
    MPT_OK(nixl_notify(0, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    while (nixl_peer_state(0) == NIXL_PEER_ALIVE) {
        struct nixl_event event = NIXL_EVENT_INIT;

        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    }
    MPT_OK(nixl_grant_revoke(token, MPT_PATIENCE));
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    mpt_finalize();
}

static struct nixl_xfer *prepare(void)
{
    struct nixl_blocks remote = NIXL_BLOCKS_INIT, local = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer = NULL;

    remote.region = region;
    remote.block_nbytes = local.block_nbytes = BLOCK;
    local.addr = bytes;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 1, &local, 1, &remote, 1, &xfer));
    return xfer;
}

static void leave(void)
{
    const struct nixl_note *note = mpt_hear(1, TAG_TOKEN);
    struct nixl_op op, end = NIXL_OP_INIT;
    struct nixl_xfer *xfer = prepare();
    struct nixl_req *reqs[4] = {NULL};
    char token[NIXL_TOKEN_MAX + 1];
    int64_t began;
    pid_t pid;

    memcpy(token, note->payload, note->nbytes);
    op = op_grant(token);
    note = mpt_hear(1, TAG_PID);
    memcpy(&pid, note->payload, sizeof(pid));
    MPT_OK(nixl_get_x(1, region, 0, back, BLOCK, &op, NULL));
    mpt_bring(pid, SIGSTOP, "T");
    MPT_TRUE(nixl_xfer_start_x(xfer, &op, &reqs[0]) >= 0);
    MPT_TRUE(nixl_put_x(1, region, 0, bytes, BLOCK, &op, &reqs[1]) >= 0);
    MPT_TRUE(nixl_get_x(1, region, 0, back, BLOCK, &op, &reqs[2]) >= 0);
    MPT_TRUE(nixl_get_x(1, region, 0, back, BLOCK, &op, &reqs[3]) >= 0);
    MPT_OK(nixl_req_detach(&reqs[3]));
    end.timeout_ns = LEAVE;
    began = mpt_now_ns();
    MPT_STATUS(nixl_finalize_x(&end), NIXL_E_TIMEOUT);
    MPT_LT(mpt_now_ns() - began, MPT_PATIENCE / 4);
    MPT_EQ(atomic_load(&nxr_n_started), 0); /* a later nixl_init() has nothing left to drive */
    MPT_EQ(kill(pid, SIGCONT), 0);
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("grant.leave", NBYTES, NULL, &region));
    if (nixl_rank() == 0) {
        leave();
    } else {
        lend();
    }
    return mpt_passed();
}
