/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared transfers that no call may accept, by name and at random: each is refused, or stays
 * inside of the two regions that it names. Usage: bad_xfer [SEED]
 */
#include "mptest.h"
#include "test/op_form.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBYTES 4096

static struct nixl_region *here, *there;
static struct nixl_blocks good_local, good_remote;

static int create(const struct nixl_blocks *local, const struct nixl_blocks *remote)
{
    struct nixl_xfer *xfer = NULL;
    int status = nixl_xfer_create(NIXL_XFER_PUT, 0, local, 1, remote, 1, &xfer);

    MPT_EQ(xfer != NULL, status == NIXL_OK);
    if (xfer != NULL) {
        MPT_OK(nixl_xfer_free(xfer));
    }
    return status;
}

static void bad_entries(void)
{
    struct nixl_blocks bad = good_remote;

    MPT_OK(create(&good_local, &good_remote));
    bad.struct_nbytes--;
    MPT_STATUS(create(&good_local, &bad), NIXL_E_INVALID_ARG);
    MPT_STATUS(create(&bad, &good_remote), NIXL_E_INVALID_ARG);
    bad = good_remote;
    bad.region = NULL;
    MPT_STATUS(create(&good_local, &bad), NIXL_E_INVALID_ARG);
    MPT_STATUS(create(&bad, &good_remote), NIXL_E_INVALID_ARG);
    bad = good_remote;
    bad.addr = &bad;
    MPT_STATUS(create(&good_local, &bad), NIXL_E_INVALID_ARG);
    MPT_STATUS(create(&bad, &good_remote), NIXL_E_INVALID_ARG);
    bad = good_remote;
    bad.block_nbytes = 0;
    MPT_STATUS(create(&good_local, &bad), NIXL_E_INVALID_ARG);
    bad.block_nbytes = 65; /* the sides differ */
    MPT_STATUS(create(&good_local, &bad), NIXL_E_INVALID_ARG);
    bad = good_remote;
    bad.nblocks = UINT64_MAX / 32;
    MPT_STATUS(create(&bad, &bad), NIXL_E_INVALID_ARG);
    bad = good_remote;
    bad.offset = NBYTES;
    MPT_STATUS(create(&good_local, &bad), NIXL_E_RANGE);
    MPT_STATUS(create(&bad, &good_remote), NIXL_E_RANGE);
}

static void bad_arguments(void)
{
    static const int ranks[] = {-1, -2, 1000, INT_MAX, INT_MIN};
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    const struct nixl_blocks *local = &good_local, *remote = &good_remote;
    struct nixl_xfer *xfer = NULL, *none = NULL;

    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, ranks[i], local, 1, remote, 1, &none),
                   NIXL_E_INVALID_ARG);
    }
    MPT_STATUS(nixl_xfer_create((enum nixl_xfer_op)2, 0, local, 1, remote, 1, &none),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, 0, NULL, 1, remote, 1, &none), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, 0, local, 1, NULL, 1, &none), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, 0, local, 0, remote, 1, &none), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, 0, local, 1, remote, 0, &none), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, 0, local, 1, remote, 1, NULL), NIXL_E_INVALID_ARG);
    MPT_TRUE(none == NULL);
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 0, local, 1, remote, 1, &xfer));
    MPT_STATUS(nixl_xfer_set_index(xfer, (enum nixl_xfer_side)2, 0, 1, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 1, 1, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, UINT64_MAX, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_wait(xfer, -1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_cancel(xfer, -1, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(1, NULL, 4)}, NULL),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(1, &info, NIXL_NOTE_MAX + 1)}, NULL),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_query(xfer, NULL), NIXL_E_INVALID_ARG);
    info.struct_nbytes--;
    MPT_STATUS(nixl_xfer_query(xfer, &info), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_xfer_start(xfer, NULL)); /* nothing of this has hurt it */
    MPT_OK(nixl_xfer_free(xfer));
}

static void every_call_refuses(struct nixl_xfer *xfer)
{
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;

    MPT_STATUS(nixl_xfer_start(xfer, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(1, NULL, 0)}, NULL),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_wait(xfer, 0), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_cancel(xfer, 0, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, 1, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_query(xfer, &info), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_xfer_free(xfer), NIXL_E_INVALID_ARG);
}

static void bad_handles(void)
{
    struct nixl_region *closed = NULL;
    struct nixl_blocks bad = good_local;
    struct nixl_xfer *xfer = NULL;

    every_call_refuses(NULL);
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, 0, &good_local, 1, &good_remote, 1, &xfer));
    MPT_OK(nixl_xfer_free(xfer));
    every_call_refuses(xfer);
    MPT_OK(nixl_region_alloc("closed", NBYTES, NULL, &closed));
    bad.region = closed;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 0, &bad, 1, &good_remote, 1, &xfer));
    MPT_OK(nixl_region_close(closed, MPT_PATIENCE));
    MPT_STATUS(nixl_xfer_start(xfer, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(create(&bad, &good_remote), NIXL_E_INVALID_ARG);
    MPT_STATUS(create(&good_local, &bad), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_region_open("here", &closed)); /* a handle without an own segment */
    bad.region = closed;
    MPT_STATUS(create(&bad, &good_remote), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_region_close(closed, MPT_PATIENCE));
}

/* Numbers that reach for the edges. */
static uint64_t odd_number(uint64_t *state)
{
    static const uint64_t edges[] = {
        0, 1, 2, 63, 64, 65, NBYTES - 1, NBYTES, NBYTES + 1, 1ull << 32, 1ull << 63, UINT64_MAX};
    uint64_t random = mpt_random(state);

    switch (random % 4) {
    case 0:
        return edges[random / 4 % (sizeof(edges) / sizeof(edges[0]))];
    case 1:
        return UINT64_MAX / (1 + random / 4 % 100) + mpt_random(state) % 3;
    default:
        return random / 4 % 80;
    }
}

static void at_random(uint64_t seed)
{
    uint64_t state = seed, index[2][64];
    unsigned n_accepted = 0;

    for (int round = 0; round < 20000; round++) {
        struct nixl_blocks sides[2] = {good_local, good_remote};
        struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
        struct nixl_xfer *xfer = NULL;

        for (int i = 0; i < 2; i++) {
            sides[i].offset = odd_number(&state);
            sides[i].block_nbytes = odd_number(&state);
            sides[i].stride = odd_number(&state);
            sides[i].nblocks = mpt_random(&state) % 2 ? odd_number(&state) : 1;
            if (mpt_random(&state) % 2) {
                sides[i].nblocks %= 65;
                sides[i].index = index[i];
            }
            for (int j = 0; j < 64; j++) {
                index[i][j] = mpt_random(&state) % 8 ? mpt_random(&state) % 8 : odd_number(&state);
            }
        }
        if (mpt_random(&state) % 2) {
            sides[1].block_nbytes = sides[0].block_nbytes;
            sides[1].nblocks = sides[0].nblocks;
            sides[1].index = sides[0].index != NULL ? index[1] : NULL;
        }
        if (nixl_xfer_create(NIXL_XFER_PUT, nixl_rank(), &sides[0], 1, &sides[1], 1, &xfer) ==
            NIXL_OK) {
            MPT_OK(nixl_xfer_query(xfer, &info));
            if (info.nbytes <= 1u << 20) { /* a block may be named any number of times */
                MPT_OK(nixl_xfer_start(xfer, NULL));
                n_accepted++;
            }
            MPT_OK(nixl_xfer_free(xfer));
        }
    }
    printf("seed %llu: %u of 20000 were good and moved\n", (unsigned long long)seed, n_accepted);
    MPT_TRUE(n_accepted > 0);
}

int main(int argc, char **argv)
{
    unsigned char *guarded;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    guarded = calloc(3, NBYTES);
    MPT_TRUE(guarded != NULL);
    MPT_OK(nixl_region_register("here", guarded, NBYTES, NULL, &here));
    MPT_OK(nixl_region_register("there", guarded + NBYTES, NBYTES, NULL, &there));
    good_local = good_remote = (struct nixl_blocks)NIXL_BLOCKS_INIT;
    good_local.region = here;
    good_remote.region = there;
    good_local.block_nbytes = good_remote.block_nbytes = 64;
    mpt_barrier();
    bad_entries();
    bad_arguments();
    bad_handles();
    memset(guarded, 0x55, NBYTES);
    at_random(argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
    MPT_CHECK_BYTES(guarded, NBYTES, 0x55);             /* what was read */
    MPT_CHECK_BYTES(guarded + 2ul * NBYTES, NBYTES, 0); /* the bytes behind */
    mpt_barrier();
    MPT_OK(nixl_region_close(here, MPT_PATIENCE));
    MPT_OK(nixl_region_close(there, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    free(guarded);
    return mpt_passed();
}
