/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that becomes another user's while it has segments of others open: the kernel then forbids
 * it process_vm calls, and its puts and gets go through the owner.
 *
 *     other_user 0|1|2|3    by which call
 *     other_user collectives  which all members then do through shared memory
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

    MPT_OK(nixl_region_query(0, region, MPT_PATIENCE, &info));
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
        status = nixl_put_x(0, region, 0, bytes, NBYTES, NULL, &req);
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

/* ---- collectives ----------------------------------------------------------------------------- */

#define SEED_OF(_rank, _round) ((uint64_t)(_rank)*16 + (_round))

/* Memory outside of all regions. */
static unsigned char *private_memory(size_t nbytes)
{
    unsigned char *bytes = malloc(nbytes);

    MPT_TRUE(bytes != NULL);
    memset(bytes, 0, nbytes);
    return bytes;
}

static void broadcast(struct nixl_team *team, uint64_t round)
{
    unsigned char *bytes = private_memory(NBYTES);

    for (int root = 0; root < nixl_size(); root++) {
        if (nixl_rank() == root) {
            mpt_fill(bytes, NBYTES, SEED_OF(root, round));
        }
        MPT_OK(nixl_broadcast(team, root, bytes, NBYTES, MPT_PATIENCE));
        MPT_CHECK(bytes, NBYTES, SEED_OF(root, round));
    }
    free(bytes);
}

static void allgather(struct nixl_team *team, uint64_t round)
{
    size_t size = (size_t)nixl_size();
    unsigned char *src = private_memory(NBYTES), *dst = private_memory(size * NBYTES);

    mpt_fill(src, NBYTES, SEED_OF(nixl_rank(), round));
    MPT_OK(nixl_allgather(team, src, dst, NBYTES, MPT_PATIENCE));
    for (size_t i = 0; i < size; i++) {
        MPT_CHECK(dst + i * NBYTES, NBYTES, SEED_OF(i, round));
    }
    free(src);
    free(dst);
}

static void allreduce(struct nixl_team *team, uint64_t round)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    uint64_t size = (uint64_t)nixl_size(), sum = size * (size - 1) / 2 + size * round;
    uint64_t *src = (void *)private_memory(NBYTES), *dst = (void *)private_memory(NBYTES);

    for (size_t i = 0; i < NBYTES / sizeof(*src); i++) {
        src[i] = (uint64_t)nixl_rank() + round;
    }
    args.src = src;
    args.dst = dst;
    args.count = NBYTES / sizeof(*src);
    args.type = NIXL_TYPE_UINT64;
    args.op = NIXL_REDUCE_SUM;
    MPT_OK(nixl_allreduce(team, &args, MPT_PATIENCE));
    for (size_t i = 0; i < NBYTES / sizeof(*src); i++) {
        MPT_EQ(dst[i], sum);
    }
    free(src);
    free(dst);
}

static void run_collectives(void)
{
    struct nixl_team *team;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    for (uint64_t round = 0; round < 3; round++) {
        broadcast(team, round);
        allgather(team, round);
        allreduce(team, round);
        if (round == 0) {
            change_user();
        }
    }
    MPT_OK(nixl_team_free(team));
    MPT_OK(nixl_finalize());
}

int main(int argc, char **argv)
{
    unsigned way = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    unsigned char *bytes = malloc(NBYTES);

    mpt_start();
    MPT_OK(nixl_init(NULL));
    if (argc > 1 && strcmp(argv[1], "collectives") == 0) {
        run_collectives();
        free(bytes);
        return mpt_passed();
    }
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
