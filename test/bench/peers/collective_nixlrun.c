/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun's collectives in the peers' loop. PEER_REGIONS=1: the buffers lie in allocated regions.
 */
#include "collective.h"

#include <nixlrun.h>

static struct nixl_team *team;
static unsigned char *src, *dst;

static void check(int status)
{
    if (status != NIXL_OK) {
        nixl_abort(1, nixl_last_error()->text);
    }
}

static void barrier(void)
{
    check(nixl_barrier(team, NIXL_FOREVER));
}

static long share(long value)
{
    check(nixl_broadcast(team, 0, &value, sizeof(value), NIXL_FOREVER));
    return value;
}

static void run_barrier(int root)
{
    (void)root;
    check(nixl_barrier(team, NIXL_FOREVER));
}

static void run_broadcast(int root)
{
    check(nixl_broadcast(team, root, src, peer_nbytes, NIXL_FOREVER));
}

static struct nixl_reduce_args sum(void)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

    args.src = src;
    args.dst = dst;
    args.count = peer_nbytes / sizeof(float);
    args.type = NIXL_TYPE_FLOAT;
    args.op = NIXL_REDUCE_SUM;
    return args;
}

static void run_reduce(int root)
{
    struct nixl_reduce_args args = sum();

    check(nixl_reduce(team, root, &args, NIXL_FOREVER));
}

static void run_allreduce(int root)
{
    struct nixl_reduce_args args = sum();

    (void)root;
    check(nixl_allreduce(team, &args, NIXL_FOREVER));
}

static void run_reduce_scatter(int root)
{
    struct nixl_reduce_args args = sum();

    (void)root;
    check(nixl_reduce_scatter(team, &args, NIXL_FOREVER));
}

static void run_scan(int root)
{
    struct nixl_reduce_args args = sum();

    (void)root;
    check(nixl_scan(team, &args, NIXL_FOREVER));
}

static void run_gather(int root)
{
    check(nixl_gather(team, root, src, dst, peer_nbytes, NIXL_FOREVER));
}

static void run_scatter(int root)
{
    check(nixl_scatter(team, root, src, dst, peer_nbytes, NIXL_FOREVER));
}

static void run_allgather(int root)
{
    (void)root;
    check(nixl_allgather(team, src, dst, peer_nbytes, NIXL_FOREVER));
}

static void run_alltoall(int root)
{
    (void)root;
    check(nixl_alltoall(team, src, dst, peer_nbytes, NIXL_FOREVER));
}

int main(void)
{
    static const struct collective_call calls[] = {{"barrier", run_barrier},
                                                   {"broadcast", run_broadcast},
                                                   {"reduce", run_reduce},
                                                   {"allreduce", run_allreduce},
                                                   {"reduce_scatter", run_reduce_scatter},
                                                   {"scan", run_scan},
                                                   {"gather", run_gather},
                                                   {"scatter", run_scatter},
                                                   {"allgather", run_allgather},
                                                   {"alltoall", run_alltoall}};
    struct collective_peer peer = {.barrier = barrier,
                                   .share = share,
                                   .calls = calls,
                                   .n_calls = sizeof(calls) / sizeof(calls[0])};
    struct nixl_region *region = NULL;
    size_t nbytes;

    peer_pin_early();
    check(nixl_init(NULL));
    peer_rank = nixl_rank();
    peer.size = nixl_size();
    nbytes = (size_t)peer.size * collective_largest();
    if (getenv("PEER_REGIONS") != NULL) {
        check(nixl_region_alloc("data", 2 * nbytes, NULL, &region));
        src = nixl_region_addr(region);
        dst = src + nbytes;
    } else if (posix_memalign((void **)&src, 4096, nbytes) != 0 ||
               posix_memalign((void **)&dst, 4096, nbytes) != 0) {
        nixl_abort(1, "no memory");
    }
    collective_fill(src, nbytes);
    collective_fill(dst, nbytes);
    check(nixl_team_world(NIXL_FOREVER, &team));
    peer.src = peer.broadcast_dst = src;
    peer.dst = dst;
    collective_run(&peer);
    check(nixl_team_free(team));
    if (region != NULL) {
        check(nixl_region_close(region, NIXL_FOREVER));
    }
    check(nixl_finalize());
    return 0;
}
