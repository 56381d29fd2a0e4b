/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications that found no room when their sender left the job: they end with it, and in its
 * next life in the process it answers those who wait for a rank that leaves.
 */
#include "mptest.h"

enum { N_NOTES = 400 }; /* more than a ring takes */

static void leave_notes(void)
{
    struct nixl_op op = NIXL_OP_INIT;

    for (int i = 0; i < N_NOTES; i++) {
        struct nixl_req *req = NULL;
        int status = nixl_notify_x(1, 1, "x", 1, &op, &req);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    }
}

int main(void)
{
    static struct nixl_note note;

    mpt_start();
    nixl_note_init(&note);
    MPT_OK(nixl_init(NULL));
    if (nixl_rank() == 0) {
        leave_notes();
    }
    MPT_OK(nixl_finalize());
    MPT_OK(nixl_init(NULL));
    if (nixl_rank() == 1) { /* rank 0 is in nixl_finalize(), or comes there */
        MPT_STATUS(nixl_notify_recv(0, 7, UINT64_MAX, MPT_PATIENCE, &note), NIXL_E_PEER_LOST);
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
