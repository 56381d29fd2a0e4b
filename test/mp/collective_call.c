/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective by its number, blocking, started or prepared. What is reduced are sums of 32-bit
 * numbers. One caller at a time: the arrays of those with sizes are static, and overwritten once a
 * call has returned, as a program may do.
 */
#include "mptest.h"

#include <string.h>

#define MAX_MEMBERS 64

static bool is_extended(const struct mpt_call *call, struct nixl_req **req_p)
{
    return req_p != NULL || call->op != NULL;
}

static int call_one_way(enum mpt_collective which, const struct mpt_call *call,
                        struct nixl_req **req_p)
{
    switch (which) {
    case MPT_BARRIER:
        return is_extended(call, req_p) ? nixl_barrier_x(call->team, call->op, req_p)
                                        : nixl_barrier(call->team, MPT_PATIENCE);
    case MPT_BROADCAST:
        return is_extended(call, req_p)
                   ? nixl_broadcast_x(call->team, call->root, call->dst, call->nbytes, call->op,
                                      req_p)
                   : nixl_broadcast(call->team, call->root, call->dst, call->nbytes, MPT_PATIENCE);
    case MPT_GATHER:
        return is_extended(call, req_p) ? nixl_gather_x(call->team, call->root, call->src,
                                                        call->dst, call->nbytes, call->op, req_p)
                                        : nixl_gather(call->team, call->root, call->src, call->dst,
                                                      call->nbytes, MPT_PATIENCE);
    default:
        return is_extended(call, req_p) ? nixl_scatter_x(call->team, call->root, call->src,
                                                         call->dst, call->nbytes, call->op, req_p)
                                        : nixl_scatter(call->team, call->root, call->src, call->dst,
                                                       call->nbytes, MPT_PATIENCE);
    }
}

static int call_all_ways(enum mpt_collective which, const struct mpt_call *call,
                         struct nixl_req **req_p)
{
    if (which == MPT_ALLGATHER) {
        return is_extended(call, req_p)
                   ? nixl_allgather_x(call->team, call->src, call->dst, call->nbytes, call->op,
                                      req_p)
                   : nixl_allgather(call->team, call->src, call->dst, call->nbytes, MPT_PATIENCE);
    }
    return is_extended(call, req_p)
               ? nixl_alltoall_x(call->team, call->src, call->dst, call->nbytes, call->op, req_p)
               : nixl_alltoall(call->team, call->src, call->dst, call->nbytes, MPT_PATIENCE);
}

static int call_reduction(enum mpt_collective which, const struct mpt_call *call,
                          struct nixl_req **req_p)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

    args.src = call->src;
    args.dst = call->dst;
    args.count = call->nbytes / sizeof(int32_t);
    args.type = NIXL_TYPE_INT32;
    switch (which) {
    case MPT_REDUCE:
        return is_extended(call, req_p)
                   ? nixl_reduce_x(call->team, call->root, &args, call->op, req_p)
                   : nixl_reduce(call->team, call->root, &args, MPT_PATIENCE);
    case MPT_ALLREDUCE:
        return is_extended(call, req_p) ? nixl_allreduce_x(call->team, &args, call->op, req_p)
                                        : nixl_allreduce(call->team, &args, MPT_PATIENCE);
    case MPT_REDUCE_SCATTER:
        return is_extended(call, req_p) ? nixl_reduce_scatter_x(call->team, &args, call->op, req_p)
                                        : nixl_reduce_scatter(call->team, &args, MPT_PATIENCE);
    default:
        return is_extended(call, req_p) ? nixl_scan_x(call->team, &args, call->op, req_p)
                                        : nixl_scan(call->team, &args, MPT_PATIENCE);
    }
}

static int call_vector(enum mpt_collective which, const struct mpt_call *call,
                       struct nixl_req **req_p)
{
    static size_t sizes[MAX_MEMBERS], offsets[MAX_MEMBERS];
    struct nixl_vector_args args = NIXL_VECTOR_ARGS_INIT;
    int status, size = nixl_team_size(call->team);

    MPT_TRUE(size <= MAX_MEMBERS);
    for (int i = 0; i < size; i++) {
        sizes[i] = call->nbytes;
        offsets[i] = (size_t)i * call->nbytes;
    }
    args.src = call->src;
    args.dst = call->dst;
    args.nbytes = call->nbytes;
    args.src_nbytes = args.dst_nbytes = sizes;
    args.src_offsets = args.dst_offsets = offsets;
    switch (which) {
    case MPT_GATHERV:
        status = is_extended(call, req_p)
                     ? nixl_gatherv_x(call->team, call->root, &args, call->op, req_p)
                     : nixl_gatherv(call->team, call->root, &args, MPT_PATIENCE);
        break;
    case MPT_SCATTERV:
        status = is_extended(call, req_p)
                     ? nixl_scatterv_x(call->team, call->root, &args, call->op, req_p)
                     : nixl_scatterv(call->team, call->root, &args, MPT_PATIENCE);
        break;
    case MPT_ALLGATHERV:
        status = is_extended(call, req_p) ? nixl_allgatherv_x(call->team, &args, call->op, req_p)
                                          : nixl_allgatherv(call->team, &args, MPT_PATIENCE);
        break;
    default:
        status = is_extended(call, req_p) ? nixl_alltoallv_x(call->team, &args, call->op, req_p)
                                          : nixl_alltoallv(call->team, &args, MPT_PATIENCE);
    }
    memset(sizes, 0xff, sizeof(sizes));
    memset(offsets, 0xff, sizeof(offsets));
    return status;
}

int mpt_collective(enum mpt_collective which, const struct mpt_call *call, struct nixl_req **req_p)
{
    if (which <= MPT_SCATTER) {
        return call_one_way(which, call, req_p);
    }
    if (which <= MPT_ALLTOALL) {
        return call_all_ways(which, call, req_p);
    }
    return which <= MPT_SCAN ? call_reduction(which, call, req_p) : call_vector(which, call, req_p);
}
