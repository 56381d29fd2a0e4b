/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data in GPU memory (--memory): what the caller copies from and to, and what the rows are held
 * beside, for a connection of the bench's own cannot read such memory. Between hosts that is the
 * same work in host memory over the same transport; on one host the same within rank 0's segment.
 */
#include "config.h"

#include "bench.h"

#include <string.h>

#define STAGED_GOAL      (1 / 0.9) /* of the time in host memory */
#define STAGED_GOAL_FROM (1 << 20)

bool device_is_used(const struct bench *bench)
{
    return bench->options.there != NIXL_MEM_HOST || bench->options.here != NIXL_MEM_HOST;
}

void device_open(struct bench *bench, uint64_t nbytes)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    void *beside;

    if (bench->options.here != NIXL_MEM_HOST) {
        params.kind = bench->options.here;
        bench_check(nixl_region_alloc("bench.local", nbytes, &params, &bench->local_region),
                    "allocating local memory");
        bench->local = nixl_region_addr(bench->local_region);
    }
    if (bench->wire != NULL) {
        bench_check(nixl_region_alloc("bench.beside", nbytes, NULL, &bench->beside.region),
                    "allocating memory of the host");
        beside = nixl_region_addr(bench->beside.region);
        memset(beside, 1, nbytes);
        bench->beside.src = stage_map_private(nbytes);
    }
}

void device_close(struct bench *bench, uint64_t nbytes)
{
    if (bench->local_region != NULL) {
        bench_check(nixl_region_close(bench->local_region, BENCH_TIMEOUT_NS),
                    "closing local memory");
        bench->local_region = NULL;
    }
    if (bench->wire != NULL) {
        bench_check(nixl_region_close(bench->beside.region, BENCH_TIMEOUT_NS),
                    "closing memory of the host");
        stage_unmap_private(bench->beside.src, nbytes);
    }
}

/* The lane's own function on the other memory. */
static void beside(struct bench *bench, long n, int arg)
{
    struct nixl_region *region = bench->region;
    unsigned char *src = bench->src;
    int peer = bench->peer;

    if (bench->wire != NULL) {
        bench->region = bench->beside.region;
        bench->src = bench->beside.src + bench->alignment.src;
    } else {
        bench->peer = bench->rank;
    }
    bench->beside.fn(bench, n, arg);
    bench->region = region;
    bench->src = src;
    bench->peer = peer;
}

struct bench_lane device_beside_lane(struct bench *bench, const struct bench_lane *lane)
{
    struct bench_lane other = *lane;

    bench->beside.fn = lane->fn;
    other.name = bench->wire != NULL ? "host memory" : "within own part";
    other.fn = beside;
    return other;
}

double device_goal(const struct bench *bench)
{
    /* With --tcp on one host the transports of the two are not the same. */
    return bench->wire != NULL && !bench->options.is_by_tcp && bench->nbytes >= STAGED_GOAL_FROM
               ? STAGED_GOAL
               : 0;
}
