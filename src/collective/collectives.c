/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public collectives: each checks its arguments, makes a call from them, and runs or starts it
 * (start.h). No lock of its own.
 */
#include "config.h"

#include "collective/start.h"
#include "util/symbol.h"

/* ---- barrier and broadcast ------------------------------------------------------------------- */

NXR_HOT int nixl_barrier(struct nixl_team *team, int64_t timeout_ns)
{
    static const struct nxr_call call = {.kind = NXR_CALL_BARRIER, .is_plain = true};
    int status = nxr_call_check_team("nixl_barrier", team);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_barrier", &call, timeout_ns) : status;
}

int nixl_barrier_x(struct nixl_team *team, const struct nixl_op *op, struct nixl_req **req_p)
{
    static const struct nxr_call call = {.kind = NXR_CALL_BARRIER, .is_plain = true};
    int status = nxr_call_check_team("nixl_barrier_x", team);

    return nxr_collective_start(team, "nixl_barrier_x", status, &call, op, req_p);
}

NXR_HOT static int make_broadcast(const char *operation, struct nixl_team *team, int root,
                                  void *buf, size_t nbytes, struct nxr_call *call_p)
{
    int status = nxr_call_check_team(operation, team);

    call_p->exchange = (struct nxr_exchange){
        .root = root, .all_receive = true, .src = buf, .dst = buf, .nbytes = nbytes};
    return status == NIXL_OK ? nxr_call_of_exchange(operation, team, call_p) : status;
}

NXR_HOT int nixl_broadcast(struct nixl_team *team, int root, void *buf, size_t nbytes,
                           int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_broadcast("nixl_broadcast", team, root, buf, nbytes, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_broadcast", &call, timeout_ns)
                             : status;
}

int nixl_broadcast_x(struct nixl_team *team, int root, void *buf, size_t nbytes,
                     const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_broadcast("nixl_broadcast_x", team, root, buf, nbytes, &call);

    return nxr_collective_start(team, "nixl_broadcast_x", status, &call, op, req_p);
}

/* ---- reductions ------------------------------------------------------------------------------ */

NXR_HOT static int make_reduction(const char *operation, const struct nixl_team *team, int root,
                                  const struct nixl_reduce_args *args, enum nxr_reduce_kind kind,
                                  struct nxr_call *call_p)
{
    int status = nxr_call_check_team(operation, team);

    return status == NIXL_OK ? nxr_call_of_reduction(operation, team, root, args, kind, call_p)
                             : status;
}

NXR_HOT int nixl_allreduce(struct nixl_team *team, const struct nixl_reduce_args *args,
                           int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_reduction("nixl_allreduce", team, 0, args, NXR_ALLREDUCE, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_allreduce", &call, timeout_ns)
                             : status;
}

int nixl_allreduce_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                     const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_reduction("nixl_allreduce_x", team, 0, args, NXR_ALLREDUCE, &call);

    return nxr_collective_start(team, "nixl_allreduce_x", status, &call, op, req_p);
}

NXR_HOT int nixl_reduce(struct nixl_team *team, int root, const struct nixl_reduce_args *args,
                        int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_reduction("nixl_reduce", team, root, args, NXR_REDUCE, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_reduce", &call, timeout_ns) : status;
}

int nixl_reduce_x(struct nixl_team *team, int root, const struct nixl_reduce_args *args,
                  const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_reduction("nixl_reduce_x", team, root, args, NXR_REDUCE, &call);

    return nxr_collective_start(team, "nixl_reduce_x", status, &call, op, req_p);
}

NXR_HOT int nixl_reduce_scatter(struct nixl_team *team, const struct nixl_reduce_args *args,
                                int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_reduction("nixl_reduce_scatter", team, 0, args, NXR_REDUCE_SCATTER, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_reduce_scatter", &call, timeout_ns)
                             : status;
}

int nixl_reduce_scatter_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                          const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_reduction("nixl_reduce_scatter_x", team, 0, args, NXR_REDUCE_SCATTER, &call);

    return nxr_collective_start(team, "nixl_reduce_scatter_x", status, &call, op, req_p);
}

NXR_HOT int nixl_scan(struct nixl_team *team, const struct nixl_reduce_args *args,
                      int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_reduction("nixl_scan", team, 0, args, NXR_SCAN, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_scan", &call, timeout_ns) : status;
}

int nixl_scan_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_reduction("nixl_scan_x", team, 0, args, NXR_SCAN, &call);

    return nxr_collective_start(team, "nixl_scan_x", status, &call, op, req_p);
}

/* ---- data of one size ------------------------------------------------------------------------ */

static const struct nxr_exchange gather_kind = {.all_send = true};
static const struct nxr_exchange scatter_kind = {.all_receive = true, .is_private = true};
static const struct nxr_exchange allgather_kind = {.all_send = true, .all_receive = true};
static const struct nxr_exchange alltoall_kind = {
    .all_send = true, .all_receive = true, .is_private = true};

/* Buffers of one size, for an exchange of that kind. */
struct buffers {
    const void *src;
    void *dst;
    size_t nbytes;
};

NXR_HOT static int make_exchange(const char *operation, const struct nixl_team *team,
                                 const struct nxr_exchange *kind, int root,
                                 const struct buffers *buffers, struct nxr_call *call_p)
{
    int status = nxr_call_check_team(operation, team);

    call_p->exchange = *kind;
    call_p->exchange.root = root;
    call_p->exchange.src = buffers->src;
    call_p->exchange.dst = buffers->dst;
    call_p->exchange.nbytes = buffers->nbytes;
    return status == NIXL_OK ? nxr_call_of_exchange(operation, team, call_p) : status;
}

NXR_HOT int nixl_gather(struct nixl_team *team, int root, const void *src, void *dst, size_t nbytes,
                        int64_t timeout_ns)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_gather", team, &gather_kind, root, &buffers, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_gather", &call, timeout_ns) : status;
}

int nixl_gather_x(struct nixl_team *team, int root, const void *src, void *dst, size_t nbytes,
                  const struct nixl_op *op, struct nixl_req **req_p)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_gather_x", team, &gather_kind, root, &buffers, &call);

    return nxr_collective_start(team, "nixl_gather_x", status, &call, op, req_p);
}

NXR_HOT int nixl_scatter(struct nixl_team *team, int root, const void *src, void *dst,
                         size_t nbytes, int64_t timeout_ns)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_scatter", team, &scatter_kind, root, &buffers, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_scatter", &call, timeout_ns) : status;
}

int nixl_scatter_x(struct nixl_team *team, int root, const void *src, void *dst, size_t nbytes,
                   const struct nixl_op *op, struct nixl_req **req_p)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_scatter_x", team, &scatter_kind, root, &buffers, &call);

    return nxr_collective_start(team, "nixl_scatter_x", status, &call, op, req_p);
}

NXR_HOT int nixl_allgather(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                           int64_t timeout_ns)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_allgather", team, &allgather_kind, 0, &buffers, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_allgather", &call, timeout_ns)
                             : status;
}

int nixl_allgather_x(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                     const struct nixl_op *op, struct nixl_req **req_p)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_allgather_x", team, &allgather_kind, 0, &buffers, &call);

    return nxr_collective_start(team, "nixl_allgather_x", status, &call, op, req_p);
}

NXR_HOT int nixl_alltoall(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                          int64_t timeout_ns)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_alltoall", team, &alltoall_kind, 0, &buffers, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_alltoall", &call, timeout_ns)
                             : status;
}

int nixl_alltoall_x(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                    const struct nixl_op *op, struct nixl_req **req_p)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_alltoall_x", team, &alltoall_kind, 0, &buffers, &call);

    return nxr_collective_start(team, "nixl_alltoall_x", status, &call, op, req_p);
}

int nixl_alltoall_strided(struct nixl_team *team, const struct nixl_strided_args *args,
                          int64_t timeout_ns)
{
    const char *operation = "nixl_alltoall_strided";
    struct nxr_call call;
    int status = nxr_call_check_team(operation, team);

    if (status == NIXL_OK) {
        status = nxr_call_of_strided(operation, team, args, &call);
    }
    return status == NIXL_OK ? nxr_collective_run(team, operation, &call, timeout_ns) : status;
}

int nixl_alltoall_strided_x(struct nixl_team *team, const struct nixl_strided_args *args,
                            const struct nixl_op *op, struct nixl_req **req_p)
{
    const char *operation = "nixl_alltoall_strided_x";
    struct nxr_call call;
    int status = nxr_call_check_team(operation, team);

    if (status == NIXL_OK) {
        status = nxr_call_of_strided(operation, team, args, &call);
    }
    return nxr_collective_start(team, operation, status, &call, op, req_p);
}

/* ---- data of different sizes ----------------------------------------------------------------- */

static int make_vector(const char *operation, const struct nixl_team *team,
                       const struct nxr_exchange *kind, int root,
                       const struct nixl_vector_args *args, struct nxr_call *call_p)
{
    struct nxr_exchange exchange = *kind;
    int status = nxr_call_check_team(operation, team);

    exchange.root = root;
    return status == NIXL_OK ? nxr_call_of_vector(operation, team, &exchange, args, call_p)
                             : status;
}

int nixl_gatherv(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                 int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_vector("nixl_gatherv", team, &gather_kind, root, args, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_gatherv", &call, timeout_ns) : status;
}

int nixl_gatherv_x(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                   const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_vector("nixl_gatherv_x", team, &gather_kind, root, args, &call);

    return nxr_collective_start(team, "nixl_gatherv_x", status, &call, op, req_p);
}

int nixl_scatterv(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                  int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_vector("nixl_scatterv", team, &scatter_kind, root, args, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_scatterv", &call, timeout_ns)
                             : status;
}

int nixl_scatterv_x(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                    const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_vector("nixl_scatterv_x", team, &scatter_kind, root, args, &call);

    return nxr_collective_start(team, "nixl_scatterv_x", status, &call, op, req_p);
}

int nixl_allgatherv(struct nixl_team *team, const struct nixl_vector_args *args, int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_vector("nixl_allgatherv", team, &allgather_kind, 0, args, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_allgatherv", &call, timeout_ns)
                             : status;
}

int nixl_allgatherv_x(struct nixl_team *team, const struct nixl_vector_args *args,
                      const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_vector("nixl_allgatherv_x", team, &allgather_kind, 0, args, &call);

    return nxr_collective_start(team, "nixl_allgatherv_x", status, &call, op, req_p);
}

int nixl_alltoallv(struct nixl_team *team, const struct nixl_vector_args *args, int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_vector("nixl_alltoallv", team, &alltoall_kind, 0, args, &call);

    return status == NIXL_OK ? nxr_collective_run(team, "nixl_alltoallv", &call, timeout_ns)
                             : status;
}

int nixl_alltoallv_x(struct nixl_team *team, const struct nixl_vector_args *args,
                     const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_vector("nixl_alltoallv_x", team, &alltoall_kind, 0, args, &call);

    return nxr_collective_start(team, "nixl_alltoallv_x", status, &call, op, req_p);
}
