/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flush of all ranks that comes before any rank was reached: puts that wait for their
 * connection are waited for, too. Once it has returned, the memory they came from may be used
 * again.
 */
#include "mptest.h"

#include <string.h>

#define TAG_DONE 0xf101

static struct nixl_region *region;

static void put_to_all(void)
{
    uint64_t src = 0x1122334455667788, seen;

    for (int rank = 1; rank < nixl_size(); rank++) {
        struct nixl_req *req = NULL;
        int status = nixl_put_x(rank, region, 8, &src, sizeof(src), NULL, &req);

        MPT_OK(status == NIXL_INPROGRESS ? nixl_req_detach(&req) : status);
    }
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
    src = 0;
    for (int rank = 1; rank < nixl_size(); rank++) {
        MPT_OK(nixl_get(rank, region, 8, &seen, sizeof(seen)));
        MPT_EQ(seen, 0x1122334455667788);
        MPT_OK(nixl_notify(rank, TAG_DONE, NULL, 0, MPT_PATIENCE));
    }
    MPT_OK(nixl_fence(NIXL_ALL_RANKS));
}

int main(void)
{
    static struct nixl_note note;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_fence(NIXL_ALL_RANKS)); /* nothing was put */
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, 0));
    MPT_OK(nixl_region_alloc("first", 16, NULL, &region));
    if (nixl_rank() == 0) {
        put_to_all();
    } else {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(0, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
