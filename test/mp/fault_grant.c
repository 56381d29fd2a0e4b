/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user of a grant stops, or dies, while it moves lent blocks: as long as it may go on, the owner
 * does not get them back, and is told whose they are; when it has died, the owner does.
 *
 *     fault_grant
 *
 * Rank 0 lends blocks to rank 1, stops it while it reads them, and kills it. Rank 2 lends, and
 * dies.
 */
#include "mptest.h"
#include "test/op_form.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define TAG_TOKEN 0xfe03
#define TAG_PID   0xfe04
#define NBYTES    ((size_t)64 << 20)

static struct nixl_region *region;

static struct nixl_req *lend(int rank, char token[NIXL_TOKEN_MAX + 1])
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    struct nixl_req *req = NULL;

    blocks.region = region;
    blocks.block_nbytes = NBYTES;
    MPT_STATUS(nixl_grant_create(&blocks, NULL, token, NIXL_TOKEN_MAX + 1, &req), NIXL_INPROGRESS);
    MPT_OK(nixl_notify(rank, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    return req;
}

static struct nixl_note hear(int rank, uint64_t tag)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, tag, UINT64_MAX, MPT_PATIENCE, &note));
    return note;
}

/*
 * Stop the user at a moment when it is inside, which it nearly always is; over a network, what it
 * had sent arrives first.
 */
static void stop_inside(pid_t pid, const char *token, struct nixl_req **req)
{
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    for (;;) {
        mpt_bring(pid, SIGSTOP, "T");
        MPT_STATUS(nixl_req_wait(req, 20 * MPT_MS), NIXL_E_TIMEOUT);
        MPT_OK(nixl_grant_query(token, &info));
        if (info.nusers == 1) {
            return;
        }
        MPT_TRUE(mpt_now_ns() < until);
        MPT_EQ(kill(pid, SIGCONT), 0);
    }
}

static void hold_out(void)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = lend(1, token), *none = NULL;
    struct nixl_note note = hear(1, TAG_PID);
    struct nixl_op op;
    char local[64];
    pid_t pid;

    memcpy(&pid, note.payload, sizeof(pid));
    stop_inside(pid, token, &req);
    MPT_STATUS(nixl_grant_revoke(token, 0), NIXL_INPROGRESS);
    MPT_STATUS(nixl_grant_revoke(token, 50 * MPT_MS), NIXL_E_TIMEOUT);
    MPT_EQ(nixl_last_error()->rank, 1);
    MPT_STATUS(nixl_req_test(&req), NIXL_INPROGRESS);
    MPT_EQ(kill(pid, SIGCONT), 0);
    MPT_OK(nixl_grant_revoke(token, MPT_PATIENCE));
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);

    req = lend(1, token);
    (void)hear(1, TAG_PID);
    stop_inside(pid, token, &req);
    MPT_STATUS(nixl_grant_revoke(token, 0), NIXL_INPROGRESS);
    MPT_EQ(kill(pid, SIGKILL), 0);
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);

    note = hear(2, TAG_TOKEN);
    memcpy(token, note.payload, note.nbytes);
    op = op_grant(token);
    MPT_OK(nixl_get_x(2, region, 0, local, sizeof(local), &op, NULL));
    MPT_OK(nixl_notify(2, TAG_TOKEN, NULL, 0, MPT_PATIENCE));
    while (nixl_peer_state(2) != NIXL_PEER_LOST) {
        struct nixl_event event = NIXL_EVENT_INIT;

        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    }
    MPT_STATUS(nixl_get_x(2, region, 0, local, sizeof(local), &op, &none), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_grant_renew(token, MPT_S), NIXL_E_PEER_LOST);
    MPT_TRUE(none == NULL);
}

/* Read again and again, until the grant is over: no byte differs from what was lent. */
static void read_on(unsigned char *local)
{
    struct nixl_note note = hear(0, TAG_TOKEN);
    const pid_t pid = getpid();
    struct nixl_op op;
    int status;

    op = op_grant((const char *)note.payload);
    MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    do {
        status = nixl_get_x(0, region, 0, local, NBYTES, &op, NULL);
    } while (status == NIXL_OK);
    MPT_EQ(status, NIXL_E_STALE);
}

int main(void)
{
    static unsigned char local[NBYTES];
    char token[NIXL_TOKEN_MAX + 1];

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("fault.grant", NBYTES, NULL, &region));
    if (nixl_rank() == 0) {
        hold_out();
        mpt_finalize();
        return mpt_passed();
    }
    if (nixl_rank() == 1) {
        read_on(local);
        read_on(local); /* and dies */
    }
    (void)lend(0, token);
    (void)hear(0, TAG_TOKEN); /* to die */
    raise(SIGKILL);
    return 1;
}
