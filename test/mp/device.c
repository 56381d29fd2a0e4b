/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory on both sides: `device vulkan|cuda [ROUNDS]`. Every rank has a segment on a device
 * and memory of the device to put from and to get into. What is put, by one call or by several at
 * once, is announced by a notification and must be there when that comes; segments come and go all
 * the time.
 */
#include "mptest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBYTES (1u << 20)
#define N_REQS 8
#define SLICE  (NBYTES / N_REQS)

#define TAG_PUT  0xde01
#define TAG_READ 0xde02

static struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
static struct nixl_region *here; /* memory of the device to put from and to get into */
static unsigned char *bytes;     /* what goes there, on the host */
static int rank, size, next, prev;

static void end(int status, struct nixl_req **req)
{
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(req, MPT_PATIENCE) : status);
}

static void *here_at(size_t offset)
{
    return (char *)nixl_region_addr(here) + offset;
}

/* Bytes of this round into our device memory, from the host. */
static void prepare(uint64_t number, size_t nbytes)
{
    mpt_fill(bytes, nbytes, number);
    MPT_OK(nixl_put(rank, here, 0, bytes, nbytes));
}

/* Copy a segment back to the host, past all caches of the device, and look at it. */
static void expect_part(struct nixl_region *part, int of, uint64_t number, size_t nbytes)
{
    memset(bytes, 0, nbytes);
    MPT_OK(nixl_get(of, part, 0, bytes, nbytes));
    MPT_CHECK(bytes, nbytes, number);
}

/* From device to device in one call, with a notification. */
static void put_at_once(struct nixl_region *part, uint64_t number)
{
    size_t nbytes = 1 + number * 7919 % NBYTES;

    prepare(number * 64 + (uint64_t)rank, nbytes);
    MPT_OK(nixl_put_notify(next, part, 0, here_at(0), nbytes, TAG_PUT, NULL, 0, MPT_PATIENCE));
    mpt_hear(prev, TAG_PUT);
    expect_part(part, rank, number * 64 + (uint64_t)prev, nbytes);
}

/* The same in pieces that are under way together; the notification comes behind all. */
static void put_in_pieces(struct nixl_region *part, uint64_t number)
{
    struct nixl_req *reqs[N_REQS] = {NULL};
    int statuses[N_REQS];

    prepare(number * 64 + (uint64_t)rank, NBYTES);
    for (size_t i = 0; i < N_REQS; i++) {
        statuses[i] = nixl_put_x(next, part, i * SLICE, here_at(i * SLICE), SLICE, NULL, &reqs[i]);
    }
    MPT_OK(nixl_notify(next, TAG_PUT, NULL, 0, MPT_PATIENCE));
    mpt_hear(prev, TAG_PUT);
    expect_part(part, rank, number * 64 + (uint64_t)prev, NBYTES);
    for (size_t i = 0; i < N_REQS; i++) {
        end(statuses[i], &reqs[i]);
    }
}

/* From a peer's device memory into ours, and to the host; the owner hears that it was read. */
static void get_back(struct nixl_region *part, uint64_t number)
{
    size_t nbytes = 1 + number * 104729 % NBYTES;

    mpt_fill(bytes, nbytes, number * 64 + (uint64_t)rank);
    MPT_OK(nixl_put(rank, part, 0, bytes, nbytes));
    mpt_barrier();
    MPT_OK(nixl_get_notify(next, part, 0, here_at(0), nbytes, TAG_READ, NULL, 0, MPT_PATIENCE));
    expect_part(here, rank, number * 64 + (uint64_t)next, nbytes);
    mpt_hear(prev, TAG_READ);
    expect_part(part, next, number * 64 + (uint64_t)next, nbytes);
}

/* Parts are zeroed, live for a round, and are refused when they are gone. */
static void use_part(uint64_t number)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *part = NULL;
    char name[32];
    int status;

    snprintf(name, sizeof(name), "device.%" PRIu64, number % 3);
    MPT_OK(nixl_region_alloc(name, NBYTES, &params, &part));
    MPT_OK(nixl_get(rank, part, 0, bytes, NBYTES));
    MPT_CHECK_BYTES(bytes, NBYTES, 0);
    mpt_barrier();
    MPT_OK(nixl_region_query(next, part, MPT_PATIENCE, &info));
    MPT_EQ(info.kind, params.kind);
    MPT_EQ(info.nbytes, NBYTES);
    MPT_TEXT(info.method, "device");
    put_at_once(part, number);
    mpt_barrier();
    put_in_pieces(part, number);
    mpt_barrier();
    get_back(part, number);
    mpt_barrier();
    MPT_OK(nixl_region_close(part, MPT_PATIENCE));
    MPT_OK(nixl_region_open(name, &part));
    status = nixl_region_query(next, part, 0, &info);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    MPT_OK(nixl_region_close(part, MPT_PATIENCE));
    mpt_barrier();
}

int main(int argc, char **argv)
{
    uint64_t n_rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 20;

    mpt_start();
    params.kind = argc > 1 && strcmp(argv[1], "cuda") == 0 ? NIXL_MEM_CUDA : NIXL_MEM_VULKAN;
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    next = (rank + 1) % size;
    prev = (rank + size - 1) % size;
    bytes = malloc(NBYTES);
    if (nixl_region_alloc("here", NBYTES, &params, &here) == NIXL_E_NO_DEVICE) {
        mpt_skip("%s", nixl_last_error()->text);
    }
    for (uint64_t number = 0; number < n_rounds; number++) {
        use_part(number);
    }
    MPT_OK(nixl_region_close(here, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    free(bytes);
    return mpt_passed();
}
