/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attachment ends while operations are still to enter a grant of the other process, which is
 * stopped. Usage:
 *     attach_enter lend WHERE NAME      publishes, and lends its memory
 *     attach_enter enter WHERE NAME     attaches, and detaches with operations under way
 * They end, and when the owner goes on, nobody uses its memory any more.
 */
#include "test/mp/mptest.h"
#include "test/op_form.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TAG_TOKEN 1
#define TAG_PID   2
#define NBYTES    ((size_t)4096)
#define BLOCK     ((size_t)64)

static struct nixl_region *region;
static unsigned char bytes[BLOCK], back[BLOCK];

static void lend(const char *where, const char *name)
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = NULL;
    pid_t pid = getpid();
    int rank;

    MPT_OK(nixl_publish(where, name, NULL));
    puts("published");
    fflush(stdout);
    rank = mpt_hear(NIXL_ANY_RANK, TAG_PID)->rank;
    params.rights = NIXL_GRANT_READ | NIXL_GRANT_WRITE;
    blocks.region = region;
    blocks.block_nbytes = NBYTES;
    MPT_STATUS(nixl_grant_create(&blocks, &params, token, sizeof(token), &req), NIXL_INPROGRESS);
    MPT_OK(nixl_notify(rank, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    MPT_OK(nixl_notify(rank, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    while (nixl_peer_state(rank) == NIXL_PEER_ALIVE) {
        struct nixl_event event = NIXL_EVENT_INIT;

        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    }
    MPT_OK(nixl_grant_revoke(token, MPT_PATIENCE));
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
}

static struct nixl_xfer *prepare(int rank)
{
    struct nixl_blocks remote = NIXL_BLOCKS_INIT, local = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer = NULL;

    remote.region = region;
    remote.block_nbytes = local.block_nbytes = BLOCK;
    local.addr = bytes;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, rank, &local, 1, &remote, 1, &xfer));
    return xfer;
}

static void enter(const char *where, const char *name)
{
    struct nixl_req *reqs[3] = {NULL};
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_xfer *xfer;
    const struct nixl_note *note;
    struct nixl_op op;
    int rank, status;
    pid_t pid;

    MPT_OK(nixl_attach(where, name, NULL, MPT_PATIENCE, &rank));
    MPT_OK(nixl_notify(rank, TAG_PID, NULL, 0, MPT_PATIENCE));
    note = mpt_hear(rank, TAG_TOKEN);
    memcpy(token, note->payload, note->nbytes);
    op = op_grant(token);
    note = mpt_hear(rank, TAG_PID);
    memcpy(&pid, note->payload, sizeof(pid));
    xfer = prepare(rank);
    MPT_OK(nixl_get_x(rank, region, 0, back, BLOCK, &op, NULL));
    mpt_bring(pid, SIGSTOP, "T");
    MPT_STATUS(nixl_xfer_start_x(xfer, &op, &reqs[0]), NIXL_INPROGRESS);
    MPT_STATUS(nixl_put_x(rank, region, 0, bytes, BLOCK, &op, &reqs[1]), NIXL_INPROGRESS);
    MPT_STATUS(nixl_get_x(rank, region, 0, back, BLOCK, &op, &reqs[2]), NIXL_INPROGRESS);
    status = nixl_detach(rank, 0);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    for (int i = 0; i < 3; i++) {
        MPT_STATUS(nixl_req_wait(&reqs[i], MPT_PATIENCE), NIXL_E_PEER_LOST);
    }
    MPT_STATUS(nixl_xfer_start_x(xfer, &op, &reqs[0]), NIXL_E_PEER_LOST);
    MPT_OK(nixl_xfer_free(xfer));
    MPT_EQ(kill(pid, SIGCONT), 0);
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_EQ(argc, 4);
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("attach.enter", NBYTES, NULL, &region));
    if (strcmp(argv[1], "lend") == 0) {
        lend(argv[2], argv[3]);
    } else {
        enter(argv[2], argv[3]);
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
