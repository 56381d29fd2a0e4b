/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link that is slow is not dead.
 *
 *     slow KIBIBYTES LEAST_S
 *
 * The first rank puts so much to the last one, at once, over a link that the line of the .mp file
 * has made slow: it takes at least LEAST_S seconds, which are more than NIXLRUN_PEER_TIMEOUT. All
 * that time answers to the question whether a rank lives stand behind the data. Every byte arrives,
 * and no rank is lost.
 */
#include "test/net/bed.h"

#include <stdio.h>
#include <stdlib.h>

#define TAG_SENT 0xb201

#define SEED 77

static void put_all(int last, struct nixl_region *region, size_t nbytes, int64_t least_ns)
{
    unsigned char *bytes = malloc(nbytes);
    int64_t began_ns = mpt_now_ns();
    struct nixl_req *req = NULL;
    int status;

    MPT_TRUE(bytes != NULL);
    mpt_fill(bytes, nbytes, SEED);
    status = nixl_put_x(last, region, 0, bytes, nbytes, NULL, &req);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
    MPT_OK(nixl_flush(last, MPT_PATIENCE));
    MPT_LT(least_ns, mpt_now_ns() - began_ns); /* the link was slow */
    MPT_OK(nixl_notify(last, TAG_SENT, NULL, 0, MPT_PATIENCE));
    printf("%zu bytes in %.1f s\n", nbytes, (double)(mpt_now_ns() - began_ns) / MPT_S);
    free(bytes);
}

static void receive_all(const struct nixl_region *region, size_t nbytes)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_SENT, UINT64_MAX, 2 * MPT_PATIENCE, &note));
    MPT_CHECK(nixl_region_addr(region), nbytes, SEED);
}

int main(int argc, char **argv)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_region *region = NULL;
    size_t nbytes;
    int last;

    mpt_start();
    MPT_EQ(argc, 3);
    nbytes = (size_t)atoi(argv[1]) << 10;
    MPT_OK(nixl_init(NULL));
    last = nixl_size() - 1;
    MPT_OK(nixl_region_alloc("slow", nbytes, NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        put_all(last, region, nbytes, atoi(argv[2]) * MPT_S);
    } else if (nixl_rank() == last) {
        receive_all(region, nbytes);
    }
    bed_meet("done");
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    for (int rank = 0; rank <= last; rank++) {
        MPT_EQ(nixl_peer_state(rank), NIXL_PEER_ALIVE);
    }
    bed_meet("looked"); /* closing makes events, too */
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
