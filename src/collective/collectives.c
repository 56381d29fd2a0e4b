/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public collectives: each checks its arguments, makes a call from them, and runs it at once or
 * passes it to the team's worker. No lock of its own.
 */
#include "config.h"

#include "collective/later.h"
#include "util/clock.h"
#include "core/form.h"
#include "util/status.h"

/* ---- beginning ------------------------------------------------------------------------------- */

/* Must a call check first? Something may have failed, be under way, or be on another host. */
static inline bool collectives_needs_look(const struct nixl_team *team)
{
    const struct nxr_node_head *head = team->node.head;

    return atomic_load_explicit(&team->broken, memory_order_relaxed) != NIXL_OK ||
           atomic_load_explicit(&team->n_later, memory_order_acquire) != 0 || team->n_nodes > 1 ||
           (head != NULL && atomic_load_explicit(&head->broken, memory_order_relaxed) != NIXL_OK);
}

static int collectives_begin_slow(struct nixl_team *team, const char *operation, int64_t timeout_ns)
{
    int status;

    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, -1, timeout_ns);
    }
    if (timeout_ns == 0 && team->size > 1) {
        return nxr_fail(NIXL_E_AGAIN, operation, -1, "", 0,
                        "the timeout is 0 and the team has other members; use %s_x", operation);
    }
    if (atomic_load(&team->n_later) != 0) {
        int64_t deadline = nxr_deadline(timeout_ns);

        status = nxr_later_wait(team, timeout_ns);
        if (status != NIXL_OK) {
            return nxr_fail(status, operation, -1, "", 0,
                            "earlier collectives of the team are still in progress");
        }
        timeout_ns = nxr_left(timeout_ns, deadline);
    }
    nxr_team_begin(team, operation, timeout_ns);
    status = nxr_team_look(team, -1);
    return status == NIXL_OK ? status : nxr_team_end(team, status);
}

/*
 * Start a public call on a team that was checked, once all calls started earlier have ended.
 * Records the failure if the team is broken or the timeout is invalid.
 */
static inline int collectives_begin(struct nixl_team *team, const char *operation,
                                    int64_t timeout_ns)
{
    if (__builtin_expect(timeout_ns <= 0 || collectives_needs_look(team), 0)) {
        return collectives_begin_slow(team, operation, timeout_ns);
    }
    nxr_team_begin(team, operation, timeout_ns);
    return NIXL_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static inline int collectives_run(struct nixl_team *team, const char *operation,
                                  const struct nxr_call *call, int64_t timeout_ns)
{
    int status = collectives_begin(team, operation, timeout_ns);

    if (__builtin_expect(status != NIXL_OK, 0)) {
        return status;
    }
    status = nxr_call_run(team, call);
    return __builtin_expect(status == NIXL_OK, 1) ? status : nxr_team_end(team, status);
}

/*
 * Run or start a call of the extended form; `status`: the outcome of making it from the arguments,
 * recorded if it is a failure.
 */
static int collectives_start(struct nixl_team *team, const char *operation, int status,
                             const struct nxr_call *call, const struct nixl_op *op,
                             struct nixl_req **req_p)
{
    struct nixl_req *req = NULL;
    struct nxr_form form = {.op = NIXL_OP_INIT};

    if (status == NIXL_OK) {
        status = nxr_form_read_start(operation, op, 0, req_p, &form);
    }
    if (status == NIXL_OK && req_p == NULL && form.op.cq == NULL) {
        return collectives_run(team, operation, call, form.timeout_ns);
    }
    if (status == NIXL_OK) {
        status = team->size == 1 ? collectives_run(team, operation, call, NIXL_FOREVER)
                                 : nxr_later_start(team, operation, call, &req);
    }
    return nxr_form_end(operation, &form, status, req, req_p);
}

/* ---- barrier and broadcast ------------------------------------------------------------------- */

int nixl_barrier(struct nixl_team *team, int64_t timeout_ns)
{
    static const struct nxr_call call = {.kind = NXR_CALL_BARRIER};
    int status = nxr_call_check_team("nixl_barrier", team);

    return status == NIXL_OK ? collectives_run(team, "nixl_barrier", &call, timeout_ns) : status;
}

int nixl_barrier_x(struct nixl_team *team, const struct nixl_op *op, struct nixl_req **req_p)
{
    static const struct nxr_call call = {.kind = NXR_CALL_BARRIER};
    int status = nxr_call_check_team("nixl_barrier_x", team);

    return collectives_start(team, "nixl_barrier_x", status, &call, op, req_p);
}

static int make_broadcast(const char *operation, struct nixl_team *team, int root, void *buf,
                          size_t nbytes, struct nxr_call *call_p)
{
    const struct nxr_exchange exchange = {
        .root = root, .all_receive = true, .src = buf, .dst = buf, .nbytes = nbytes};
    int status = nxr_call_check_team(operation, team);

    return status == NIXL_OK ? nxr_call_of_exchange(operation, team, &exchange, call_p) : status;
}

int nixl_broadcast(struct nixl_team *team, int root, void *buf, size_t nbytes, int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_broadcast("nixl_broadcast", team, root, buf, nbytes, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_broadcast", &call, timeout_ns) : status;
}

int nixl_broadcast_x(struct nixl_team *team, int root, void *buf, size_t nbytes,
                     const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_broadcast("nixl_broadcast_x", team, root, buf, nbytes, &call);

    return collectives_start(team, "nixl_broadcast_x", status, &call, op, req_p);
}

/* ---- reductions ------------------------------------------------------------------------------ */

static int make_reduction(const char *operation, const struct nixl_team *team, int root,
                          const struct nixl_reduce_args *args, enum nxr_reduce_kind kind,
                          struct nxr_call *call_p)
{
    int status = nxr_call_check_team(operation, team);

    return status == NIXL_OK ? nxr_call_of_reduction(operation, team, root, args, kind, call_p)
                             : status;
}

int nixl_allreduce(struct nixl_team *team, const struct nixl_reduce_args *args, int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_reduction("nixl_allreduce", team, 0, args, NXR_ALLREDUCE, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_allreduce", &call, timeout_ns) : status;
}

int nixl_allreduce_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                     const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_reduction("nixl_allreduce_x", team, 0, args, NXR_ALLREDUCE, &call);

    return collectives_start(team, "nixl_allreduce_x", status, &call, op, req_p);
}

int nixl_reduce(struct nixl_team *team, int root, const struct nixl_reduce_args *args,
                int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_reduction("nixl_reduce", team, root, args, NXR_REDUCE, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_reduce", &call, timeout_ns) : status;
}

int nixl_reduce_x(struct nixl_team *team, int root, const struct nixl_reduce_args *args,
                  const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_reduction("nixl_reduce_x", team, root, args, NXR_REDUCE, &call);

    return collectives_start(team, "nixl_reduce_x", status, &call, op, req_p);
}

int nixl_reduce_scatter(struct nixl_team *team, const struct nixl_reduce_args *args,
                        int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_reduction("nixl_reduce_scatter", team, 0, args, NXR_REDUCE_SCATTER, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_reduce_scatter", &call, timeout_ns)
                             : status;
}

int nixl_reduce_scatter_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                          const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_reduction("nixl_reduce_scatter_x", team, 0, args, NXR_REDUCE_SCATTER, &call);

    return collectives_start(team, "nixl_reduce_scatter_x", status, &call, op, req_p);
}

int nixl_scan(struct nixl_team *team, const struct nixl_reduce_args *args, int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_reduction("nixl_scan", team, 0, args, NXR_SCAN, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_scan", &call, timeout_ns) : status;
}

int nixl_scan_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_reduction("nixl_scan_x", team, 0, args, NXR_SCAN, &call);

    return collectives_start(team, "nixl_scan_x", status, &call, op, req_p);
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

static int make_exchange(const char *operation, const struct nixl_team *team,
                         const struct nxr_exchange *kind, int root, const struct buffers *buffers,
                         struct nxr_call *call_p)
{
    struct nxr_exchange exchange = *kind;
    int status = nxr_call_check_team(operation, team);

    exchange.root = root;
    exchange.src = buffers->src;
    exchange.dst = buffers->dst;
    exchange.nbytes = buffers->nbytes;
    return status == NIXL_OK ? nxr_call_of_exchange(operation, team, &exchange, call_p) : status;
}

int nixl_gather(struct nixl_team *team, int root, const void *src, void *dst, size_t nbytes,
                int64_t timeout_ns)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_gather", team, &gather_kind, root, &buffers, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_gather", &call, timeout_ns) : status;
}

int nixl_gather_x(struct nixl_team *team, int root, const void *src, void *dst, size_t nbytes,
                  const struct nixl_op *op, struct nixl_req **req_p)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_gather_x", team, &gather_kind, root, &buffers, &call);

    return collectives_start(team, "nixl_gather_x", status, &call, op, req_p);
}

int nixl_scatter(struct nixl_team *team, int root, const void *src, void *dst, size_t nbytes,
                 int64_t timeout_ns)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_scatter", team, &scatter_kind, root, &buffers, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_scatter", &call, timeout_ns) : status;
}

int nixl_scatter_x(struct nixl_team *team, int root, const void *src, void *dst, size_t nbytes,
                   const struct nixl_op *op, struct nixl_req **req_p)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_scatter_x", team, &scatter_kind, root, &buffers, &call);

    return collectives_start(team, "nixl_scatter_x", status, &call, op, req_p);
}

int nixl_allgather(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                   int64_t timeout_ns)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_allgather", team, &allgather_kind, 0, &buffers, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_allgather", &call, timeout_ns) : status;
}

int nixl_allgather_x(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                     const struct nixl_op *op, struct nixl_req **req_p)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_allgather_x", team, &allgather_kind, 0, &buffers, &call);

    return collectives_start(team, "nixl_allgather_x", status, &call, op, req_p);
}

int nixl_alltoall(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                  int64_t timeout_ns)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_alltoall", team, &alltoall_kind, 0, &buffers, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_alltoall", &call, timeout_ns) : status;
}

int nixl_alltoall_x(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                    const struct nixl_op *op, struct nixl_req **req_p)
{
    const struct buffers buffers = {src, dst, nbytes};
    struct nxr_call call;
    int status = make_exchange("nixl_alltoall_x", team, &alltoall_kind, 0, &buffers, &call);

    return collectives_start(team, "nixl_alltoall_x", status, &call, op, req_p);
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
    return status == NIXL_OK ? collectives_run(team, operation, &call, timeout_ns) : status;
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
    return collectives_start(team, operation, status, &call, op, req_p);
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

    return status == NIXL_OK ? collectives_run(team, "nixl_gatherv", &call, timeout_ns) : status;
}

int nixl_gatherv_x(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                   const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_vector("nixl_gatherv_x", team, &gather_kind, root, args, &call);

    return collectives_start(team, "nixl_gatherv_x", status, &call, op, req_p);
}

int nixl_scatterv(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                  int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_vector("nixl_scatterv", team, &scatter_kind, root, args, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_scatterv", &call, timeout_ns) : status;
}

int nixl_scatterv_x(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                    const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_vector("nixl_scatterv_x", team, &scatter_kind, root, args, &call);

    return collectives_start(team, "nixl_scatterv_x", status, &call, op, req_p);
}

int nixl_allgatherv(struct nixl_team *team, const struct nixl_vector_args *args, int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_vector("nixl_allgatherv", team, &allgather_kind, 0, args, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_allgatherv", &call, timeout_ns) : status;
}

int nixl_allgatherv_x(struct nixl_team *team, const struct nixl_vector_args *args,
                      const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_vector("nixl_allgatherv_x", team, &allgather_kind, 0, args, &call);

    return collectives_start(team, "nixl_allgatherv_x", status, &call, op, req_p);
}

int nixl_alltoallv(struct nixl_team *team, const struct nixl_vector_args *args, int64_t timeout_ns)
{
    struct nxr_call call;
    int status = make_vector("nixl_alltoallv", team, &alltoall_kind, 0, args, &call);

    return status == NIXL_OK ? collectives_run(team, "nixl_alltoallv", &call, timeout_ns) : status;
}

int nixl_alltoallv_x(struct nixl_team *team, const struct nixl_vector_args *args,
                     const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_call call;
    int status = make_vector("nixl_alltoallv_x", team, &alltoall_kind, 0, args, &call);

    return collectives_start(team, "nixl_alltoallv_x", status, &call, op, req_p);
}
