/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 1 is in its last nixl_finalize(), which waits for rank 0. What it has published serves as
 * before; first uses of names that it never published end, also those without a limit of time.
 */
#include "mptest.h"

#include <string.h>

#define NBYTES 4096

static char buffer[NBYTES];

static struct nixl_region *open_name(const char *name)
{
    struct nixl_region *region;

    MPT_OK(nixl_region_open(name, &region));
    return region;
}

/* Begin a get from a region that will never be. */
static struct nixl_req *get_early(struct nixl_region *region)
{
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_get_x(1, region, 0, buffer, NBYTES, NULL, &req), NIXL_INPROGRESS);
    /* Its answer comes after the question of the get has arrived. */
    MPT_STATUS(nixl_region_is_published(1, region, MPT_PATIENCE), NIXL_E_NOT_FOUND);
    return req;
}

static void hear_never(int status)
{
    MPT_STATUS(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, 1);
    MPT_TRUE(strstr(nixl_last_error()->text, "nixl_finalize") != NULL);
}

/* Rank 1 has not died: what it has published can be found and used for the first time. */
static void use_published(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region = open_name("there");

    MPT_EQ(nixl_peer_state(1), NIXL_PEER_ALIVE);
    MPT_OK(nixl_region_query(1, region, NIXL_FOREVER, &info));
    mpt_fill(buffer, NBYTES, 7);
    MPT_OK(nixl_put(1, region, 0, buffer, NBYTES));
    MPT_OK(nixl_flush(1, MPT_PATIENCE));
    memset(buffer, 0, NBYTES);
    MPT_OK(nixl_get(1, region, 0, buffer, NBYTES));
    MPT_CHECK(buffer, NBYTES, 7);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void use_missing(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region = open_name("never");
    struct nixl_channel *channel;

    for (int i = 0; i < 3; i++) {
        hear_never(nixl_region_query(1, region, NIXL_FOREVER, &info));
    }
    hear_never(nixl_put(1, region, 0, buffer, NBYTES));
    hear_never(nixl_get(1, region, 0, buffer, NBYTES));
    MPT_STATUS(nixl_region_is_published(1, region, MPT_PATIENCE), NIXL_E_NOT_FOUND);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    hear_never(nixl_channel_open("never", 1, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &channel));
}

int main(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_region *mine, *never;
    struct nixl_req *req;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    if (nixl_rank() == 1) {
        MPT_OK(nixl_region_alloc("there", NBYTES, NULL, &mine));
        mpt_barrier();
        mpt_finalize();
        return mpt_passed();
    }
    never = open_name("never read");
    req = get_early(never);
    mpt_barrier();
    hear_never(nixl_req_wait(&req, NIXL_FOREVER));
    use_missing();
    use_published();
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    MPT_OK(nixl_region_close(never, MPT_PATIENCE));
    mpt_finalize();
    return mpt_passed();
}
