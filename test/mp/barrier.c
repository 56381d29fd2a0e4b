/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests wait for: a notification, and a barrier over all ranks that is made of notifications,
 * which one thread at a time may call.
 */
#include "mptest.h"

#define BARRIER_TAG 0xba00000000000000ull

const struct nixl_note *mpt_hear(int from, uint64_t tag)
{
    static _Thread_local struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(from, tag, UINT64_MAX, MPT_PATIENCE, &note));
    return &note;
}

void mpt_barrier(void)
{
    static uint64_t count;
    uint64_t tag = BARRIER_TAG | count++;
    int size = nixl_size();

    if (nixl_rank() != 0) {
        MPT_OK(nixl_notify(0, tag, NULL, 0, MPT_PATIENCE));
        mpt_hear(0, tag);
        return;
    }
    for (int rank = 1; rank < size; rank++) {
        mpt_hear(rank, tag);
    }
    for (int rank = 1; rank < size; rank++) {
        MPT_OK(nixl_notify(rank, tag, NULL, 0, MPT_PATIENCE));
    }
}
