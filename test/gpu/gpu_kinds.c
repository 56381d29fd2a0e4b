/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of every kind, had in every way: puts and gets of ranks 1.. to and from memory of rank 0,
 * with the local side in memory of every kind that the library allocates.
 *
 *     gpu_kinds [ROUNDS]
 *
 * And memory that is freed and had again, ROUNDS times, while the others put into it and get from
 * it: a call works, or says that the region is stale; what was put is there or nowhere.
 */
#include "test/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#define NBYTES ((size_t)3 << 20)
#define WINDOW 8192

static const size_t sizes[] = {1, 8, 100, 4096, 65537, 1 << 20};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const enum gpu_way ways[] = {GPU_HOST, GPU_CUDA,   GPU_VULKAN, GPU_MALLOC, GPU_VMM,
                                    GPU_POOL, GPU_FABRIC, GPU_ASYNC,  GPU_MANAGED};

static int rank, size;

/* Rank 0 tells the others whether the region is there. */
static bool all_have(bool has)
{
    struct nixl_note note;

    nixl_note_init(&note);
    for (int other = 1; rank == 0 && other < size; other++) {
        MPT_OK(nixl_notify(other, has, NULL, 0, MPT_PATIENCE));
    }
    if (rank != 0) {
        MPT_OK(nixl_notify_recv(0, 0, UINT64_MAX - 1, MPT_PATIENCE, &note));
        has = note.tag == 1;
    }
    return has;
}

/* One rank after the other, so that the whole part can be written. */
static void visit(struct nixl_region *region, enum gpu_way way)
{
    struct gpu_region here;
    uint64_t seed = (uint64_t)rank * 1000 + way, place;

    if (!gpu_region_make("here", way, NBYTES, &here)) {
        printf("# no %s memory: skipped as the local side\n", gpu_way_names[way]);
        return;
    }
    for (size_t i = 0; i < N_SIZES; i++) {
        place = i * 1001 % 512;
        gpu_fill(&here, place, sizes[i], seed + i);
        MPT_OK(nixl_put(0, region, place + 7, (char *)here.addr + place, sizes[i]));
        gpu_fill(&here, place, sizes[i], 1);
        MPT_OK(nixl_flush(0, MPT_PATIENCE));
        MPT_OK(nixl_get(0, region, place + 7, (char *)here.addr + place, sizes[i]));
        GPU_CHECK(&here, place, sizes[i], seed + i);
    }
    MPT_STATUS(nixl_put(0, region, NBYTES - 1, (char *)here.addr, 2), NIXL_E_RANGE);
    gpu_region_end(&here);
}

/* What the owner finds in its memory by its own means. */
static void put_all(struct nixl_region *region)
{
    struct gpu_region here;

    MPT_TRUE(gpu_region_make("here", GPU_CUDA, NBYTES, &here));
    gpu_fill(&here, 0, NBYTES, (uint64_t)rank);
    MPT_OK(nixl_put(0, region, 0, (char *)here.addr, NBYTES));
    gpu_region_end(&here);
}

static void check_way(enum gpu_way way)
{
    struct gpu_region part = {0};
    struct nixl_region *region = NULL;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    char name[32];

    snprintf(name, sizeof(name), "way %d", way);
    if (!all_have(rank != 0 || gpu_region_make(name, way, NBYTES, &part))) {
        printf("# no %s memory: skipped\n", gpu_way_names[way]);
        return;
    }
    region = part.region;
    if (rank != 0) {
        MPT_OK(nixl_region_open(name, &region));
    }
    MPT_OK(nixl_region_query(0, region, MPT_PATIENCE, &info));
    printf("# %s of rank 0 from rank %d: %s, %s; %s\n", gpu_way_names[way], rank, info.transport,
           info.method, info.note);
    for (int turn = 1; turn < size; turn++) {
        for (enum gpu_way local = GPU_HOST; turn == rank && local <= GPU_VULKAN; local++) {
            visit(region, local);
        }
        if (turn == rank) {
            put_all(region);
        }
        mpt_barrier();
        if (rank == 0) {
            GPU_CHECK(&part, 0, NBYTES, (uint64_t)turn);
        }
        mpt_barrier();
    }
    if (rank == 0) {
        gpu_region_end(&part);
    } else {
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    }
}

/*
 * ---- freed and had again -----------------------------------------------------------------------
 */

static void churn_owner(int n_rounds)
{
    static const enum gpu_way churned[] = {GPU_CUDA, GPU_MALLOC, GPU_VMM,
                                           GPU_POOL, GPU_ASYNC,  GPU_MANAGED};
    struct gpu_region part;
    struct nixl_note note;

    for (int round = 0; round < n_rounds; round++) {
        gpu_region_make("churn", churned[round % 4], NBYTES, &part);
        nixl_note_init(&note);
        /* Some rank has got through at least once; then in the middle of whatever goes on. */
        MPT_OK(nixl_notify_recv(1, (uint64_t)round, UINT64_MAX, MPT_PATIENCE, &note));
        gpu_region_end(&part);
    }
    for (int other = 1; other < size; other++) {
        MPT_OK(nixl_notify(other, UINT64_MAX, NULL, 0, MPT_PATIENCE));
    }
}

static bool is_over(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    return nixl_notify_recv(0, UINT64_MAX, UINT64_MAX, 0, &note) == NIXL_OK;
}

/* Until the owner says that it is over: this rank's window of the part, again and again. */
static void churn_peer(void)
{
    struct gpu_region here;
    struct nixl_region *region;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    uint64_t place = (uint64_t)rank * WINDOW, n = 0, n_rounds = 0;
    bool is_told = true;
    int status;

    MPT_OK(nixl_region_open("churn", &region));
    MPT_TRUE(gpu_region_make("here", GPU_CUDA, 2 * WINDOW, &here));
    while (!is_over()) {
        status = nixl_region_query(0, region, 50 * MPT_MS, &info);
        if (status != NIXL_OK) {
            MPT_STATUS(status, NIXL_E_TIMEOUT);
            continue;
        }
        is_told = false;
        do {
            gpu_fill(&here, 0, WINDOW, ++n);
            status = nixl_put(0, region, place, (char *)here.addr, WINDOW);
            status = status == NIXL_OK ? nixl_flush(0, MPT_PATIENCE) : status;
            if (status == NIXL_OK) {
                status = nixl_get(0, region, place, (char *)here.addr + WINDOW, WINDOW);
            }
            if (status == NIXL_OK) {
                GPU_CHECK(&here, WINDOW, WINDOW, n);
            }
            if (status == NIXL_OK && !is_told) {
                is_told = true;
                if (rank == 1) {
                    MPT_OK(nixl_notify(0, n_rounds++, NULL, 0, MPT_PATIENCE));
                }
            }
        } while (status == NIXL_OK);
        MPT_STATUS(status, NIXL_E_STALE);
    }
    printf("# %llu times\n", (unsigned long long)n);
    gpu_region_end(&here);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    gpu_start();
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        check_way(ways[i]);
        mpt_barrier();
    }
    if (rank == 0) {
        churn_owner(argc > 1 ? atoi(argv[1]) : 8);
    } else {
        churn_peer();
    }
    mpt_barrier();
    gpu_stop();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
