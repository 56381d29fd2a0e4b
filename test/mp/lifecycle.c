/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before nixl_init, after the last nixl_finalize, and again: `lifecycle ROUNDS` joins the job that
 * often. Also what a rank sees of one that has left in order.
 */
#include "mptest.h"

#include <stdlib.h>
#include <string.h>

#define TAG_HERE 0x11fe

static void meet(void)
{
    struct nixl_region *region = NULL;
    int next = (nixl_rank() + 1) % nixl_size();
    uint64_t word = 7;

    MPT_OK(nixl_region_alloc("life", 64, NULL, &region));
    mpt_barrier();
    MPT_OK(nixl_put_notify(next, region, 0, &word, 8, TAG_HERE, NULL, 0, MPT_PATIENCE));
    {
        static struct nixl_note note;

        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_HERE, UINT64_MAX, MPT_PATIENCE, &note));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* Requests, regions and handles that were not given back end with the last finalize. */
static void leave_untidy(void)
{
    struct nixl_region *region = NULL, *opened = NULL;

    MPT_OK(nixl_region_alloc("untidy", 1u << 20, NULL, &region));
    MPT_OK(nixl_region_open("untidy", &opened));
    mpt_barrier();
}

/* A region whose pages stay: a pointer to this rank's own segment is never released. */
static const char *leave_mapped(void)
{
    struct nixl_region *region = NULL;
    void *addr;

    MPT_OK(nixl_region_alloc("mapped", 4096, NULL, &region));
    MPT_OK(nixl_region_map(nixl_rank(), region, &addr));
    memset(addr, 7, 4096);
    return addr;
}

int main(int argc, char **argv)
{
    const char *mapped;
    int n_rounds = argc > 1 ? atoi(argv[1]) : 1;

    mpt_start();
    MPT_EQ(nixl_last_error()->status, NIXL_OK);
    mpt_every_call(NULL, NIXL_E_NOT_INIT);
    for (int round = 0; round < n_rounds; round++) {
        MPT_OK(nixl_init(NULL));
        MPT_OK(nixl_init(NULL));
        meet();
        MPT_OK(nixl_finalize());
        meet();
        leave_untidy();
        mapped = leave_mapped();
        MPT_OK(nixl_finalize());
        MPT_CHECK_BYTES(mapped, 4096, 7);
        mpt_every_call(NULL, NIXL_E_NOT_INIT);
    }
    return mpt_passed();
}
