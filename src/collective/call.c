/* SPDX-License-Identifier: Apache-2.0 */
/* Checking the arguments of collectives, and running them. No state. */
#include "config.h"

#include "collective/call.h"
#include "collective/device.h"
#include "collective/plan.h"
#include "collective/whole.h"
#include "core/trace.h"
#include "util/status.h"
#include "util/struct.h"
#include "util/symbol.h"

#include <string.h>

static int call_fail(const char *operation, const char *why)
{
    return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s", why);
}

static int __attribute__((noinline, cold))
fail_buffers(const char *operation, const void *src, bool has_src)
{
    return call_fail(operation, has_src && src == NULL ? "src is NULL" : "dst is NULL");
}

/* Buffers with bytes must not be NULL; one in device memory sets has_device. */
static inline int take_buffers(const char *operation, const void *src, bool has_src,
                               const void *dst, bool has_dst, struct nxr_call *call_p)
{
    if (__builtin_expect((has_src && src == NULL) || (has_dst && dst == NULL), 0)) {
        return fail_buffers(operation, src, has_src);
    }
    call_p->has_device = nxr_range_has_device(has_src ? src : NULL, has_dst ? dst : NULL);
    call_p->is_plain = !call_p->has_device;
    return NIXL_OK;
}

static int check_root(const char *operation, const struct nixl_team *team, int root)
{
    if (root >= 0 && root < team->size) {
        return NIXL_OK;
    }
    return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                    "root %d is not in the team; allowed: 0 to %d", root, team->size - 1);
}

/* ---- reductions ------------------------------------------------------------------------------ */

static int check_operation(const char *operation, const struct nixl_reduce_args *args)
{
    if (__builtin_expect(nxr_combine_is_valid(args->type, args->op), 1)) {
        return NIXL_OK;
    }
    if (args->op == NIXL_REDUCE_USER) {
        if (args->combine == NULL) {
            return call_fail(operation, "the operation is NIXL_REDUCE_USER, and combine is NULL");
        }
        return args->element_nbytes != 0 || nxr_combine_type_nbytes(args->type) != 0
                   ? NIXL_OK
                   : call_fail(operation, "the elements have neither a type nor a size");
    }
    if (nxr_combine_type_nbytes(args->type) == 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "type %d; allowed: 0 to NIXL_TYPE_BFLOAT16 (%d)", (int)args->type,
                        NIXL_TYPE_BFLOAT16);
    }
    if ((unsigned)args->op > NIXL_REDUCE_USER) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "operation %d; allowed: NIXL_REDUCE_SUM (0) to NIXL_REDUCE_USER (%d)",
                        (int)args->op, NIXL_REDUCE_USER);
    }
    return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                    "operation %d works on bits; it does not apply to floating-point type %d",
                    (int)args->op, (int)args->type);
}

NXR_HOT int nxr_call_of_reduction(const char *operation, const struct nixl_team *team, int root,
                                  const struct nixl_reduce_args *theirs, enum nxr_reduce_kind kind,
                                  struct nxr_call *call_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_reduce_args, NIXL_REDUCE_ARGS_INIT, op);
    struct nixl_reduce_args copy;
    const struct nixl_reduce_args *args = NULL;
    struct nxr_reduction *reduction = &call_p->reduction; /* every field is set: it is large */
    size_t n_parts = kind == NXR_REDUCE_SCATTER ? (size_t)team->size : 1, nbytes;
    bool wants_dst = kind != NXR_REDUCE || team->me == root;
    int status = check_root(operation, team, root);

    if (status == NIXL_OK) {
        args = nxr_struct_view(operation, "args", &type, theirs, &copy, &status);
    }
    if (args == NULL) {
        return status;
    }
    status = check_operation(operation, args);
    if (status != NIXL_OK) {
        return status;
    }
    if (args->is_exclusive != 0 && (kind != NXR_SCAN || args->is_exclusive != 1)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "is_exclusive is %d; allowed: 0, and 1 for nixl_scan", args->is_exclusive);
    }
    call_p->kind = NXR_CALL_REDUCTION;
    call_p->plan = NULL;
    reduction->kind = kind;
    reduction->root = root;
    reduction->is_exclusive = args->is_exclusive != 0;
    reduction->src = args->src;
    reduction->dst = args->dst;
    reduction->begins = NULL;
    nxr_combine_make(args, &reduction->combine);
    if (__builtin_mul_overflow(args->count, n_parts, &nbytes) ||
        __builtin_mul_overflow(nbytes, reduction->combine.element_nbytes, &nbytes)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "%zu elements of %zu bytes exceed any memory", args->count,
                        reduction->combine.element_nbytes);
    }
    reduction->nbytes = call_p->nbytes = nbytes;
    status =
        take_buffers(operation, args->src, nbytes > 0, args->dst, nbytes > 0 && wants_dst, call_p);
    call_p->is_plain &= reduction->combine.element_nbytes <= NXR_ELEMENT_MAX;
    return status;
}

/* ---- data that moves ------------------------------------------------------------------------- */

static bool is_root(const struct nixl_team *team, const struct nxr_exchange *exchange)
{
    return team->me == exchange->root;
}

NXR_HOT int nxr_call_of_exchange(const char *operation, const struct nixl_team *team,
                                 struct nxr_call *call_p)
{
    const struct nxr_exchange *exchange = &call_p->exchange;
    bool is_sender = exchange->all_send || is_root(team, exchange);
    bool is_receiver = exchange->all_receive || is_root(team, exchange);
    size_t all_nbytes;
    int status = check_root(operation, team, exchange->root);

    if (status != NIXL_OK) {
        return status;
    }
    if (__builtin_mul_overflow(exchange->nbytes, (size_t)team->size, &all_nbytes)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "%zu bytes for each member exceed any memory", exchange->nbytes);
    }
    call_p->kind = NXR_CALL_EXCHANGE;
    call_p->plan = NULL;
    call_p->nbytes = exchange->nbytes;
    return take_buffers(operation, exchange->src, is_sender && all_nbytes > 0, exchange->dst,
                        is_receiver && all_nbytes > 0, call_p);
}

/* Check arrays of sizes and offsets. *nbytes_p: the total. */
static int check_pieces(const char *operation, const struct nixl_team *team, const size_t *nbytes,
                        const size_t *offsets, size_t *nbytes_p)
{
    size_t end;

    *nbytes_p = 0;
    if (nbytes == NULL || offsets == NULL) {
        return call_fail(operation, "an array of sizes or offsets is NULL");
    }
    for (int i = 0; i < team->size; i++) {
        if (__builtin_add_overflow(offsets[i], nbytes[i], &end) ||
            __builtin_add_overflow(*nbytes_p, nbytes[i], nbytes_p)) {
            return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                            "%zu bytes at offset %zu for member %d exceed any memory", nbytes[i],
                            offsets[i], i);
        }
    }
    return NIXL_OK;
}

int nxr_call_of_vector(const char *operation, const struct nixl_team *team,
                       const struct nxr_exchange *exchange, const struct nixl_vector_args *theirs,
                       struct nxr_call *call_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_vector_args, NIXL_VECTOR_ARGS_INIT, dst_offsets);
    struct nixl_vector_args copy;
    const struct nixl_vector_args *args = NULL;
    bool is_sender = exchange->all_send || is_root(team, exchange);
    bool is_receiver = exchange->all_receive || is_root(team, exchange);
    bool has_src_arrays = is_sender && exchange->is_private;
    bool has_dst_arrays = is_receiver && exchange->all_send;
    size_t src_nbytes, dst_nbytes;
    int status = check_root(operation, team, exchange->root);

    if (status == NIXL_OK) {
        args = nxr_struct_view(operation, "args", &type, theirs, &copy, &status);
    }
    if (args == NULL) {
        return status;
    }
    src_nbytes = dst_nbytes = args->nbytes;
    if (has_src_arrays) {
        status = check_pieces(operation, team, args->src_nbytes, args->src_offsets, &src_nbytes);
    }
    if (status == NIXL_OK && has_dst_arrays) {
        status = check_pieces(operation, team, args->dst_nbytes, args->dst_offsets, &dst_nbytes);
    }
    if (status != NIXL_OK) {
        return status;
    }
    call_p->kind = NXR_CALL_EXCHANGE;
    call_p->plan = NULL;
    call_p->nbytes = args->nbytes;
    call_p->exchange = *exchange;
    call_p->exchange.is_vector = true;
    call_p->exchange.src = args->src;
    call_p->exchange.dst = args->dst;
    call_p->exchange.nbytes = args->nbytes;
    /* Arrays that the call does not use may lead nowhere. */
    call_p->exchange.src_nbytes = has_src_arrays ? args->src_nbytes : NULL;
    call_p->exchange.src_offsets = has_src_arrays ? args->src_offsets : NULL;
    call_p->exchange.dst_nbytes = has_dst_arrays ? args->dst_nbytes : NULL;
    call_p->exchange.dst_offsets = has_dst_arrays ? args->dst_offsets : NULL;
    return take_buffers(operation, args->src, is_sender && src_nbytes > 0, args->dst,
                        is_receiver && dst_nbytes > 0, call_p);
}

int nxr_call_of_strided(const char *operation, const struct nixl_team *team,
                        const struct nixl_strided_args *theirs, struct nxr_call *call_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_strided_args, NIXL_STRIDED_ARGS_INIT, dst_stride);
    struct nixl_strided_args copy;
    const struct nixl_strided_args *args = NULL;
    size_t n_blocks, nbytes;
    int status = NIXL_OK;

    args = nxr_struct_view(operation, "args", &type, theirs, &copy, &status);
    if (args == NULL) {
        return status;
    }
    if (args->block_nbytes == 0) {
        return call_fail(operation, "block_nbytes is 0");
    }
    if (args->dst_stride < args->block_nbytes) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "a dst_stride of %zu bytes; allowed: at least block_nbytes, %zu",
                        args->dst_stride, args->block_nbytes);
    }
    if (__builtin_mul_overflow(args->nblocks, (size_t)team->size, &n_blocks) ||
        __builtin_mul_overflow(n_blocks, args->block_nbytes, &nbytes) ||
        __builtin_mul_overflow(n_blocks, args->dst_stride, &nbytes) ||
        __builtin_mul_overflow(n_blocks, args->src_stride, &nbytes)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "%zu blocks of %zu bytes for each member exceed any memory", args->nblocks,
                        args->block_nbytes);
    }
    if (n_blocks > 0 && (args->src == NULL || args->dst == NULL)) {
        return call_fail(operation, args->src == NULL ? "src is NULL" : "dst is NULL");
    }
    call_p->kind = NXR_CALL_STRIDED;
    call_p->plan = NULL;
    call_p->has_device = false; /* its blocks are copied to the host one by one */
    call_p->is_plain = false;
    call_p->nbytes = args->block_nbytes * args->nblocks;
    call_p->strided = (struct nxr_strided){.src = args->src,
                                           .dst = args->dst,
                                           .block_nbytes = args->block_nbytes,
                                           .nblocks = args->nblocks,
                                           .src_stride = args->src_stride,
                                           .dst_stride = args->dst_stride};
    return NIXL_OK;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static bool call_has_arrays(const struct nxr_call *call)
{
    return call->kind == NXR_CALL_EXCHANGE && call->exchange.is_vector;
}

size_t nxr_call_arrays_nbytes(const struct nixl_team *team, const struct nxr_call *call)
{
    return call_has_arrays(call) ? 4 * (size_t)team->size * sizeof(size_t) : 0;
}

/* Copy an array with one entry per member. Returns where the next one goes. */
static size_t *keep_array(const struct nixl_team *team, size_t *to, const size_t **array_p)
{
    if (*array_p == NULL) {
        return to;
    }
    memcpy(to, *array_p, (size_t)team->size * sizeof(*to));
    *array_p = to;
    return to + team->size;
}

void nxr_call_keep_arrays(const struct nixl_team *team, struct nxr_call *call, size_t *to)
{
    if (call_has_arrays(call)) {
        to = keep_array(team, to, &call->exchange.src_nbytes);
        to = keep_array(team, to, &call->exchange.src_offsets);
        to = keep_array(team, to, &call->exchange.dst_nbytes);
        keep_array(team, to, &call->exchange.dst_offsets);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* All members on the host are known to have host memory, and the call to be no special one. */
static int call_run_planned(struct nixl_team *team, const struct nxr_call *call)
{
    int status;

    if (call->plan->is_in_cells) {
        return nxr_node_allreduce_cells(team, &call->reduction);
    }
    if (!call->plan->has_offers) {
        return nxr_call_run_on_host(team, call);
    }
    nxr_plan_enter(team, call->plan);
    status = nxr_call_run_on_host(team, call);
    nxr_plan_leave(team);
    return status;
}

static int __attribute__((noinline))
call_run_special(struct nixl_team *team, const struct nxr_call *call)
{
    if (call->plan != NULL && call->plan->is_used) {
        return call_run_planned(team, call);
    }
    if (call->kind == NXR_CALL_STRIDED) {
        return nxr_strided_alltoall(team, &call->strided);
    }
    if (call->kind == NXR_CALL_REDUCTION &&
        call->reduction.combine.element_nbytes > NXR_ELEMENT_MAX) {
        return nxr_whole_reduce(team, &call->reduction);
    }
    return nxr_call_run_plain(team, call);
}

NXR_HOT static inline int call_run(struct nixl_team *team, const struct nxr_call *call)
{
    team->is_plain = call->is_plain && !nxr_device_may_be_there(team, call);
    return __builtin_expect(team->is_plain, 1) ? nxr_call_run_on_host(team, call)
                                               : call_run_special(team, call);
}

/* It has failed, or it has waited for others, or it was timed (began_ns is not 0). */
static int __attribute__((noinline))
call_count(struct nixl_team *team, const struct nxr_call *call, int status, int64_t began_ns)
{
    struct nxr_stats_named *record = team->record;

    if (status != NIXL_OK) {
        nxr_stats_add(&record->n[NXR_STATS_FAILED], 1);
    } else {
        nxr_stats_add(&record->n[NXR_STATS_OPS], 1);
        nxr_stats_add(&record->n[NXR_STATS_NBYTES], call->nbytes);
        if (began_ns != 0) {
            nxr_stats_add_time(&record->complete, nxr_now_ns() - began_ns);
        }
    }
    if (team->waited_ns != 0) {
        nxr_stats_add_time(&record->wait, team->waited_ns);
        team->waited_ns = 0;
    }
    return status;
}

static int __attribute__((noinline))
call_run_timed(struct nixl_team *team, const struct nxr_call *call)
{
    int64_t began_ns = nxr_now_ns();

    return call_count(team, call, call_run(team, call), began_ns);
}

NXR_HOT static inline int call_run_counted(struct nixl_team *team, const struct nxr_call *call)
{
    int status;

    team->record = nxr_team_record(team);
    if (__builtin_expect(nxr_team_is_timed(team->record, call->nbytes), 0)) {
        return call_run_timed(team, call);
    }
    status = call_run(team, call);
    if (__builtin_expect(status != NIXL_OK || team->waited_ns != 0, 0)) {
        return call_count(team, call, status, 0);
    }
    nxr_stats_add(&team->record->n[NXR_STATS_OPS], 1);
    nxr_stats_add(&team->record->n[NXR_STATS_NBYTES], call->nbytes);
    return NIXL_OK;
}

static int __attribute__((noinline))
call_run_traced(struct nixl_team *team, const struct nxr_call *call)
{
    return NXR_TRACED(NXR_TRACE_COLLECTIVE, team->operation, -1, call->nbytes, 0,
                      call_run_counted(team, call));
}

NXR_HOT int nxr_call_run(struct nixl_team *team, const struct nxr_call *call)
{
    return nxr_trace_has(NXR_TRACE_COLLECTIVE) ? call_run_traced(team, call)
                                               : call_run_counted(team, call);
}
