/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A partner dies: a buffer that was exposed for it, used or not, ends on the other side.
 *
 *     fault_pair
 *
 * Rank 0 exposes buffers. Rank 1 uses one of them and dies by SIGKILL before it has looked at the
 * others. Rank 2 exposes buffers too and dies, so that rank 0 holds tokens of a dead one.
 */
#include "mptest.h"

#include <signal.h>
#include <string.h>

#define TAG_TOKEN 0xfd01
#define NBYTES    4096

static struct nixl_region *region;

static struct nixl_req *expose(int rank, enum nixl_pair_use use, char token[NIXL_TOKEN_MAX + 1])
{
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_pair_expose(rank, region, 0, NBYTES, use, NIXL_FOREVER, token,
                                NIXL_TOKEN_MAX + 1, &req),
               NIXL_INPROGRESS);
    return req;
}

static void hear_token(int rank, char token[NIXL_TOKEN_MAX + 1])
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(token, note.payload, note.nbytes);
}

static void hold_out(void)
{
    char used[NIXL_TOKEN_MAX + 1], other[NIXL_TOKEN_MAX + 1], theirs[NIXL_TOKEN_MAX + 1];
    char local[NBYTES];
    struct nixl_req *reqs[3], *move = NULL;
    size_t index;

    hear_token(2, theirs);
    reqs[0] = expose(NIXL_ANY_RANK, NIXL_PAIR_WRITE, used);
    reqs[1] = expose(1, NIXL_PAIR_WRITE, other);
    reqs[2] = expose(1, NIXL_PAIR_READ, other);
    MPT_OK(nixl_notify(1, TAG_TOKEN, used, strlen(used) + 1, MPT_PATIENCE));
    MPT_OK(nixl_req_wait_any(reqs, 3, MPT_PATIENCE, &index));
    MPT_EQ(index, 0);
    MPT_CHECK(nixl_region_addr(region), NBYTES, 77);
    MPT_OK(nixl_notify(1, TAG_TOKEN, NULL, 0, MPT_PATIENCE));
    for (int i = 1; i < 3; i++) {
        MPT_STATUS(nixl_req_wait_any(reqs, 3, MPT_PATIENCE, &index), NIXL_E_PEER_LOST);
        MPT_EQ(nixl_last_error()->rank, 1);
    }
    MPT_OK(nixl_notify(2, TAG_TOKEN, NULL, 0, MPT_PATIENCE));
    while (nixl_peer_state(2) != NIXL_PEER_LOST) {
        struct nixl_event event = NIXL_EVENT_INIT;

        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    }
    MPT_STATUS(nixl_pair_read(theirs, local, NBYTES, &move), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_pair_expose(1, region, 0, NBYTES, NIXL_PAIR_READ, NIXL_FOREVER, used,
                                sizeof(used), &move),
               NIXL_E_PEER_LOST);
    MPT_TRUE(move == NULL);
}

int main(void)
{
    char token[NIXL_TOKEN_MAX + 1], local[NBYTES];
    struct nixl_req *move;
    int status;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("fault.pair", NBYTES, NULL, &region));
    if (nixl_rank() == 0) {
        hold_out();
        mpt_finalize();
        return mpt_passed();
    }
    if (nixl_rank() == 1) {
        hear_token(0, token);
        mpt_fill(local, NBYTES, 77);
        status = nixl_pair_write(token, local, NBYTES, &move);
        MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&move, MPT_PATIENCE) : status);
    } else {
        (void)expose(0, NIXL_PAIR_READ, token);
        MPT_OK(nixl_notify(0, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    }
    hear_token(0, token); /* to die */
    raise(SIGKILL);
    return 1;
}
