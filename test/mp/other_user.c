/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that becomes another user's while it has parts of others open: the kernel then forbids it
 * process_vm calls, and its puts and gets go through the owner.
 *
 *     other_user 0|1|2|3   by which call
 *
 * Rank 0 owns the memory. With the rights of root rank 1 gives them up; without, the kernel guards
 * rank 0's memory as that of a program with privileges.
 */
#include "mptest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NBYTES (1ul << 20)
#define NOBODY 65534

#define TAG_DONE 0xa701

static unsigned char *memory;
static struct nixl_region *region;

static void change_user(void)
{
    if (nixl_rank() == 1 && geteuid() == 0) {
        MPT_EQ(setuid(NOBODY), 0);
    } else if (nixl_rank() == 0 && geteuid() != 0) {
        MPT_EQ(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), 0);
    }
    mpt_barrier();
}

static void expect_method(const char *method)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    MPT_OK(nixl_region_query(region, 0, MPT_PATIENCE, &info));
    MPT_TEXT(info.method, method);
    MPT_EQ(strstr(info.note, "process_vm calls on pid") != NULL, strcmp(method, "bounce") == 0);
}

/* One of the ways to move bytes, there and back. */
static void move(unsigned way, unsigned char *bytes)
{
    struct nixl_blocks here = NIXL_BLOCKS_INIT, there = NIXL_BLOCKS_INIT;
    struct nixl_req *req = NULL;
    struct nixl_xfer *xfer;
    int status;

    switch (way) {
    case 0:
        MPT_OK(nixl_put(0, region, 0, bytes, NBYTES));
        break;
    case 1:
        status = nixl_put_nb(0, region, 0, bytes, NBYTES, &req);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        break;
    case 2:
        MPT_OK(nixl_put_notify(0, region, 0, bytes, NBYTES, TAG_DONE, NULL, 0, MPT_PATIENCE));
        break;
    default:
        here.addr = bytes;
        there.region = region;
        here.block_nbytes = there.block_nbytes = NBYTES;
        MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 0, &here, 1, &there, 1, &xfer));
        MPT_TRUE(nixl_xfer_start(xfer, NULL) >= NIXL_OK);
        MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
        MPT_OK(nixl_xfer_free(xfer));
    }
    memset(bytes, 0, NBYTES);
    MPT_OK(nixl_get(0, region, 0, bytes, NBYTES));
}

int main(int argc, char **argv)
{
    unsigned way = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    unsigned char *bytes = malloc(NBYTES);

    mpt_start();
    MPT_OK(nixl_init(NULL));
    memory = malloc(NBYTES);
    memset(memory, 1, NBYTES);
    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_register("other_user", memory, NBYTES, NULL, &region));
    } else {
        MPT_OK(nixl_region_open("other_user", &region));
        MPT_OK(nixl_put(0, region, 0, memory, NBYTES));
        expect_method("process_vm");
    }
    mpt_barrier();
    change_user();
    if (nixl_rank() == 1) {
        mpt_fill(bytes, NBYTES, way);
        move(way, bytes);
        MPT_CHECK(bytes, NBYTES, way);
        expect_method("bounce");
    }
    mpt_barrier();
    if (nixl_rank() == 0) {
        MPT_CHECK(memory, NBYTES, way);
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    free(bytes);
    free(memory);
    return mpt_passed();
}
