/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory that is in no region, as the local side of calls: the library never takes it for host
 * memory. The program itself loads the driver and allocates the memory: before nixl_init(), or,
 * with `late`, after a put of host memory.
 *
 *     gpu_loose [late]
 *
 * Puts and gets to and from host memory, the library's GPU memory and a pool that cannot be shared
 * (its owner moves the bytes) move the right ones, also by prepared transfers, and collectives take
 * it. What only the processor could read is refused with a reason.
 */
#include "test/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBYTES ((size_t)3 << 20)
#define PIECE  4096

static const enum gpu_way loose_ways[] = {GPU_MALLOC, GPU_ASYNC, GPU_VMM, GPU_MANAGED};
static const enum gpu_way part_ways[] = {GPU_HOST, GPU_CUDA, GPU_ASYNC};
#define COUNT(_array) (sizeof(_array) / sizeof((_array)[0]))

static const size_t sizes[] = {8, 4000, 1 << 20};

static int other;

/* ---- moving ---------------------------------------------------------------------------------- */

static void check_moves(struct nixl_region *region, const struct gpu_region *loose, uint64_t seed)
{
    char *local = (char *)loose->addr;

    for (size_t i = 0; i < COUNT(sizes); i++) {
        gpu_fill(loose, 0, sizes[i], seed + i);
        MPT_OK(nixl_put(other, region, 64, local, sizes[i]));
        MPT_OK(nixl_flush(other, MPT_PATIENCE));
        gpu_fill(loose, 0, sizes[i], 1);
        MPT_OK(nixl_get(other, region, 64, local, sizes[i]));
        GPU_CHECK(loose, 0, sizes[i], seed + i);
    }
}

static void check_requests(struct nixl_region *region, const struct gpu_region *loose,
                           uint64_t seed)
{
    char *local = (char *)loose->addr;
    struct nixl_req *req = NULL;
    int status;

    gpu_fill(loose, 0, NBYTES / 2, seed);
    status = nixl_put_x(other, region, 0, local, NBYTES / 2, NULL, &req);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
    MPT_OK(nixl_flush(other, MPT_PATIENCE));
    gpu_fill(loose, 0, NBYTES / 2, 1);
    status = nixl_get_x(other, region, 0, local, NBYTES / 2, NULL, &req);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
    GPU_CHECK(loose, 0, NBYTES / 2, seed);
}

/* Every other piece, by a prepared transfer. */
static void check_xfer(struct nixl_region *region, const struct gpu_region *loose, uint64_t seed)
{
    struct nixl_blocks here = NIXL_BLOCKS_INIT, there = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;
    int status;

    here.addr = (char *)loose->addr;
    there.region = region;
    here.block_nbytes = there.block_nbytes = PIECE;
    here.stride = there.stride = (size_t)2 * PIECE;
    here.nblocks = there.nblocks = 16;
    gpu_fill(loose, 0, PIECE, seed);
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, other, &here, 1, &there, 1, &xfer));
    status = nixl_xfer_start(xfer, NULL);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    MPT_OK(nixl_flush(other, MPT_PATIENCE));
    MPT_OK(nixl_xfer_free(xfer));
    gpu_fill(loose, 0, PIECE, 1);
    MPT_OK(nixl_get(other, region, 0, (char *)loose->addr, PIECE));
    GPU_CHECK(loose, 0, PIECE, seed);
}

/* ---- other calls ----------------------------------------------------------------------------- */

static void check_collectives(struct nixl_team *team, const struct gpu_region *loose)
{
    for (size_t nbytes = 64; nbytes <= NBYTES / 2; nbytes *= 128) {
        char *src = (char *)loose->addr, *dst = src + NBYTES / 2;

        gpu_fill(loose, 0, nbytes, 77);
        MPT_OK(nixl_broadcast(team, 0, src, nbytes, MPT_PATIENCE));
        GPU_CHECK(loose, 0, nbytes, 77);
        MPT_OK(nixl_allgather(team, src, dst, nbytes / 2, MPT_PATIENCE));
        GPU_CHECK(loose, NBYTES / 2, nbytes / 2, 77);
    }
}

/* What only the processor could read. */
static void check_refusals(struct nixl_region *region, const struct gpu_region *loose)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_blocks here = NIXL_BLOCKS_INIT, there = NIXL_BLOCKS_INIT;
    static char bytes[PIECE];
    struct nixl_region *mine;
    struct nixl_xfer *xfer;

    params.kind = NIXL_MEM_HOST;
    MPT_STATUS(nixl_region_register("not host", (void *)loose->addr, NBYTES, &params, &mine),
               NIXL_E_INVALID_ARG);
    if (loose->way == GPU_MANAGED) {
        return;
    }
    MPT_STATUS(nixl_notify(other, 1, (void *)loose->addr, 8, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_notify(other, region, 0, bytes, 8, 1, (void *)loose->addr, 8, MPT_PATIENCE),
               NIXL_E_INVALID_ARG);
    here.addr = bytes;
    there.region = region;
    here.block_nbytes = there.block_nbytes = 64;
    here.nblocks = there.nblocks = 1;
    there.index = (const uint64_t *)loose->addr;
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, other, &here, 1, &there, 1, &xfer),
               NIXL_E_INVALID_ARG);
}

static void check_all(struct nixl_team *team, const struct gpu_region *loose)
{
    struct gpu_region part;
    char name[32];

    for (size_t i = 0; i < COUNT(part_ways); i++) {
        uint64_t seed = 1000 * i + 10 * (uint64_t)loose->way + (uint64_t)nixl_rank();

        snprintf(name, sizeof(name), "part %zu", i);
        if (!gpu_region_make(name, part_ways[i], NBYTES, &part)) {
            continue;
        }
        printf("# %s to a part of %s memory\n", gpu_way_names[loose->way],
               gpu_way_names[part_ways[i]]);
        check_moves(part.region, loose, seed);
        check_requests(part.region, loose, seed);
        check_xfer(part.region, loose, seed);
        check_refusals(part.region, loose);
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
        gpu_region_end(&part);
    }
    check_collectives(team, loose);
}

/* A driver that comes after the library has moved host memory. */
static void put_before_driver(struct nixl_team *team)
{
    static const char bytes[8] = "before";
    struct nixl_region *region;

    MPT_OK(nixl_region_alloc("before", NBYTES, NULL, &region));
    MPT_OK(nixl_put(other, region, 0, bytes, sizeof(bytes)));
    MPT_OK(nixl_flush(other, MPT_PATIENCE));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_TRUE(memcmp(nixl_region_addr(region), bytes, sizeof(bytes)) == 0);
    gpu_start();
    {
        struct gpu_region loose;

        MPT_TRUE(gpu_memory_make(GPU_MALLOC, NBYTES, &loose));
        check_moves(region, &(struct gpu_region){.way = GPU_MALLOC, .addr = loose.addr}, 5);
        gpu_memory_end(&loose);
    }
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    bool is_late = argc > 1 && strcmp(argv[1], "late") == 0;
    struct gpu_region loose;
    struct nixl_team *team;

    mpt_start();
    if (!is_late && cuda_load("libcuda.so.1") != NULL) {
        mpt_skip("%s", cuda_load("libcuda.so.1"));
    }
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    other = 1 - nixl_rank();
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    if (is_late) {
        put_before_driver(team);
    } else {
        gpu_start();
    }
    for (size_t i = 0; i < COUNT(loose_ways); i++) {
        if (gpu_memory_make(loose_ways[i], NBYTES, &loose)) {
            check_all(team, &loose);
            MPT_OK(nixl_barrier(team, MPT_PATIENCE));
            gpu_memory_end(&loose);
        }
    }
    MPT_OK(nixl_finalize());
    gpu_stop();
    return mpt_passed();
}
