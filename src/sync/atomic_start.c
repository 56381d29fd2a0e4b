/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nonblocking atomics and signals: the public calls, and changes of words as operations of
 * requests. If a change can be made at once, it is; otherwise a request is queued after the puts
 * that are under way. No lock of its own.
 */
#include "config.h"

#include "core/stats.h"
#include "transfer/copy_thread.h"
#include "host/atomic_ask.h"
#include "host/atomic_serve.h"
#include "region/segment_request.h"
#include "transfer/op.h"
#include "transfer/transfer.h"
#include "util/status.h"
#include "core/form.h"
#include "core/trace.h"
#include "core/wait.h"
#include "sync/atomic.h"
#include "sync/following.h"
#include "sync/stream_signal.h"

#include <stdlib.h>

/* ---- bad arguments --------------------------------------------------------------------------- */

int nxr_atomic_fail(const char *operation, int rank, unsigned type, unsigned op)
{
    if (nxr_type_nbytes(type) == 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "type %u; allowed: NIXL_TYPE_INT32 (0) to NIXL_TYPE_DOUBLE (%d)", type,
                        NIXL_TYPE_DOUBLE);
    }
    if (op > NIXL_ATOMIC_FETCH) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "operation %u; allowed: NIXL_ATOMIC_ADD (0) to NIXL_ATOMIC_FETCH (%d)", op,
                        NIXL_ATOMIC_FETCH);
    }
    return nxr_atomic_is_valid(type, op)
               ? nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "the operand is NULL")
               : nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                          "operation %u works on bits; it does not apply to NIXL_TYPE_FLOAT and "
                          "NIXL_TYPE_DOUBLE",
                          op);
}

/* ---- words as operations --------------------------------------------------------------------- */

/* Does the segment's network change its words? Otherwise its owner does. */
static bool is_of_network(const struct nxr_op *op)
{
    return nxr_peer_is_remote(op->segment->peer);
}

static int atomic_op_change(struct nxr_op *op)
{
    struct nxr_segment *segment = op->segment;
    int status = NIXL_E_AGAIN;

    if (segment->method == NXR_METHOD_MEMCPY) {
        return nxr_atomic_change(segment, &op->atomic, op->is_signal, &op->fetched);
    }
    if (op->is_signal) {
        status = segment->transport->signal(segment, &op->atomic);
    }
    if (status != NIXL_E_AGAIN) {
        return status;
    }
    if (is_of_network(op)) {
        return segment->transport->start(op);
    }
    if (segment->peer->rank == nxr_job.rank) {
        return nxr_atomic_start_device(op);
    }
    status = nxr_atomic_ask_at_once(segment, &op->atomic, &op->fetched);
    return status == NIXL_E_AGAIN ? nxr_host_atomic_start(op) : status;
}

/* The same, counted. Of a mapped word that is done within the call. */
static int atomic_op_change_counted(struct nxr_op *op)
{
    struct nxr_stats_post post;
    int status;

    if (op->segment->method == NXR_METHOD_MEMCPY) {
        return atomic_op_change(op);
    }
    op->nbytes = nxr_atomic_nbytes(&op->atomic);
    nxr_stats_begin(op, op->segment->transport);
    post = nxr_stats_post_of(op);
    status = atomic_op_change(op);
    if (status == NIXL_INPROGRESS) {
        nxr_stats_posted(&post);
    } else {
        nxr_stats_end(op, status);
    }
    return status;
}

/* Start a request with a change of a word, or continue it with that after its put or get. */
static int atomic_op_start(struct nxr_op *op)
{
    struct nxr_segment *segment = op->segment;
    int status;

    if (op->kind != NXR_OP_ATOMIC) {
        return nxr_op_submit(op);
    }
    nxr_request_hand_to(op, segment->transport);
    status = atomic_op_change_counted(op);
    if (status == NIXL_E_STALE) {
        nxr_region_mark_stale(segment);
    }
    return nxr_op_status(status, segment);
}

static int atomic_op_cancel(struct nxr_op *op)
{
    if (is_of_network(op)) {
        return op->segment->transport->cancel(op);
    }
    return op->segment->peer->rank == nxr_job.rank ? NIXL_INPROGRESS : nxr_host_atomic_cancel(op);
}

static const struct nxr_req_owner atomic_op_owner = {.has_peer = true,
                                                     .start = atomic_op_start,
                                                     .cancel_word = atomic_op_cancel,
                                                     .describe = nxr_op_describe};

/* ---- changing a word ------------------------------------------------------------------------- */

/* A request was made: report what has ended within the call. */
static int atomic_op_leave(const char *operation, int status, struct nixl_req *req,
                           struct nixl_req **req_p)
{
    if (status != NIXL_INPROGRESS) {
        return status;
    }
    nxr_request_start_begun(); /* a signal whose data has arrived */
    if (nxr_request_is_done(req)) {
        return nxr_request_finish(operation, &req);
    }
    *req_p = req;
    return NIXL_INPROGRESS;
}

/* The operation that changes a word. */
static struct nxr_op change_op(const struct nxr_atomic *atomic, bool is_signal, void *fetched_p)
{
    return (struct nxr_op){.kind = NXR_OP_ATOMIC,
                           .offset = atomic->offset,
                           .local = fetched_p,
                           .nbytes = nxr_atomic_nbytes(atomic),
                           .atomic = *atomic,
                           .is_signal = is_signal};
}

/* Change a word by a request. Apart, since the operation is a large struct. */
static int __attribute__((noinline))
change_request(const char *operation, int rank, struct nixl_region *region,
               const struct nxr_atomic *atomic, bool is_signal, void *fetched_p,
               struct nixl_req **req_p)
{
    struct nxr_op op = change_op(atomic, is_signal, fetched_p);
    struct nixl_req *req = NULL;
    int status;

    status = nxr_atomic_find_segment(operation, rank, region, &op.atomic, is_signal, &op.segment);
    op.offset = op.atomic.offset;
    if (status == NIXL_OK) {
        status = nxr_transfer_report_refusal(operation, op.segment->peer);
    }
    status =
        status == NIXL_OK ? nxr_request_make_at(operation, &atomic_op_owner, &op, &req) : status;
    return atomic_op_leave(operation, status, req, req_p);
}

/* Change a word, now or after the puts that are under way. */
static inline int change_start(const char *operation, int rank, struct nixl_region *region,
                               const struct nxr_atomic *atomic, bool is_signal, void *fetched_p,
                               struct nixl_req **req_p)
{
    uint64_t fetched;

    if (__builtin_expect(!nxr_atomic_change_at_once(rank, region, atomic, is_signal, &fetched),
                         0)) {
        return change_request(operation, rank, region, atomic, is_signal, fetched_p, req_p);
    }
    if (fetched_p != NULL) {
        nxr_atomic_store_value(fetched_p, fetched, nxr_type_nbytes(atomic->type));
    }
    return NIXL_OK;
}

static int start_change(const char *operation, struct nxr_segment *segment, struct nxr_op *op,
                        struct nixl_req **req_p)
{
    struct nixl_req *req = NULL;
    int status;

    op->segment = segment;
    status = nxr_request_make_at(operation, &atomic_op_owner, op, &req);
    return atomic_op_leave(operation, status, req, req_p);
}

int nxr_atomic_start(const char *operation, struct nxr_segment *segment,
                     const struct nxr_atomic *atomic, uint64_t *fetched_p, struct nixl_req **req_p)
{
    struct nxr_op op = change_op(atomic, false, fetched_p);

    return start_change(operation, segment, &op, req_p);
}

int nxr_atomic_start_unordered(const char *operation, struct nxr_segment *segment,
                               const struct nxr_atomic *atomic, uint64_t *fetched_p,
                               struct nixl_req **req_p)
{
    struct nxr_op op = change_op(atomic, false, fetched_p);

    op.is_unordered = true;
    return start_change(operation, segment, &op, req_p);
}

/* The same in the extended form, of a call that takes no flags. `status`: of its arguments. */
static inline int change_extended(const char *operation, int status, int rank,
                                  struct nixl_region *region, const struct nxr_atomic *atomic,
                                  const struct nixl_op *op, void *fetched_p,
                                  struct nixl_req **req_p)
{
    struct nixl_req *req = NULL;
    struct nxr_form form;

    if (nxr_form_is_plain(op, req_p) && status == NIXL_OK) {
        status = change_start(operation, rank, region, atomic, false, fetched_p, &req);
        return nxr_form_end_plain(status, req, req_p);
    }
    if (status == NIXL_OK) {
        status = nxr_form_read_start(operation, op, 0, req_p, &form);
    }
    if (status == NIXL_OK) {
        status =
            nxr_following_await(operation, rank, region, nxr_form_is_started(&form, req_p), &form);
    }
    if (status != NIXL_OK) {
        return status;
    }
    status = change_start(operation, rank, region, atomic, false, fetched_p, &req);
    return nxr_form_end(operation, &form, status, req, req_p);
}

static int call_atomic_x(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
                         enum nixl_atomic_op atomic_op, const void *operand,
                         const struct nixl_op *op, void *fetched_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_atomic_x";
    struct nxr_atomic atomic;
    int status = nxr_atomic_of(operation, rank, offset, type, atomic_op, operand, &atomic);

    return change_extended(operation, status, rank, region, &atomic, op, fetched_p, req_p);
}

int nixl_atomic_x(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
                  enum nixl_atomic_op atomic_op, const void *operand, const struct nixl_op *op,
                  void *fetched_p, struct nixl_req **req_p)
{
    return NXR_TRACED(
        NXR_TRACE_ATOMIC, "nixl_atomic_x", rank, 0, 0,
        call_atomic_x(rank, region, offset, type, atomic_op, operand, op, fetched_p, req_p));
}

static int call_atomic_compare_swap_x(int rank, struct nixl_region *region, uint64_t offset,
                                      enum nixl_type type, const void *expected,
                                      const void *desired, const struct nixl_op *op,
                                      void *fetched_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_atomic_compare_swap_x";
    struct nxr_atomic atomic;
    int status = nxr_atomic_of_swap(operation, rank, offset, type, expected, desired, &atomic);

    return change_extended(operation, status, rank, region, &atomic, op, fetched_p, req_p);
}

int nixl_atomic_compare_swap_x(int rank, struct nixl_region *region, uint64_t offset,
                               enum nixl_type type, const void *expected, const void *desired,
                               const struct nixl_op *op, void *fetched_p, struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_ATOMIC, "nixl_atomic_compare_swap_x", rank, 0, 0,
                      call_atomic_compare_swap_x(rank, region, offset, type, expected, desired, op,
                                                 fetched_p, req_p));
}

static int call_signal_x(int rank, struct nixl_region *region, uint64_t offset,
                         enum nixl_signal_op signal_op, uint64_t value, const struct nixl_op *op,
                         struct nixl_req **req_p)
{
    static const char operation[] = "nixl_signal_x";
    const struct nxr_atomic atomic = nxr_signal_atomic(offset, signal_op, value);
    struct nixl_req *req = NULL;
    struct nxr_form form;
    int status;

    if (nxr_form_is_plain(op, req_p) && (unsigned)signal_op <= NIXL_SIGNAL_SET) {
        status = change_start(operation, rank, region, &atomic, true, NULL, &req);
        return nxr_form_end_plain(status, req, req_p);
    }
    status = nxr_form_read_start(operation, op, NIXL_OP_STREAM, req_p, &form);
    if (status == NIXL_OK && (unsigned)signal_op > NIXL_SIGNAL_SET) {
        status = nxr_signal_fail_op(operation, rank, signal_op);
    }
    if (status == NIXL_OK) {
        status =
            nxr_following_await(operation, rank, region, nxr_form_is_started(&form, req_p), &form);
    }
    if (status == NIXL_OK) {
        status = nxr_form_has(&form, NIXL_OP_STREAM)
                     ? nxr_stream_signal(operation, rank, region, &atomic, form.op->stream)
                     : change_start(operation, rank, region, &atomic, true, NULL, &req);
    }
    return nxr_form_end(operation, &form, status, req, req_p);
}

int nixl_signal_x(int rank, struct nixl_region *region, uint64_t offset,
                  enum nixl_signal_op signal_op, uint64_t value, const struct nixl_op *op,
                  struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_SIGNAL, "nixl_signal_x", rank, 0, 0,
                      call_signal_x(rank, region, offset, signal_op, value, op, req_p));
}

/* ---- data and a signal ----------------------------------------------------------------------- */

/* Can the data be moved, as far as that is known without asking its owner? */
static int check_data(const char *operation, enum nxr_op_kind kind, int rank,
                      struct nixl_region *region, uint64_t offset, const void *local, size_t nbytes)
{
    int status = nxr_transfer_check(operation, rank, region, local, nbytes);
    struct nxr_segment *segment = NULL;
    bool is_known = status == NIXL_OK && (nxr_region_segment(region, rank) != NULL ||
                                          nxr_region_extents(region, rank) != NULL);

    return is_known ? nxr_transfer_find_segment(operation, rank, region, nxr_op_forbidden_by(kind),
                                                &offset, nbytes, &segment)
                    : status;
}

static int put_signal_later(const char *operation, int rank, struct nixl_region *region,
                            const struct nxr_put_signal *what, struct nxr_segment *word_segment,
                            struct nixl_req **req_p)
{
    const struct nxr_after after = {.segment = word_segment, .atomic = what->atomic};
    const struct nxr_op op = {.kind = NXR_OP_PUT,
                              .offset = what->offset,
                              .local = (void *)what->src,
                              .nbytes = what->nbytes};
    struct nixl_req *req = NULL;
    int status =
        check_data(operation, NXR_OP_PUT, rank, region, what->offset, what->src, what->nbytes);

    if (status == NIXL_OK) {
        status =
            nxr_region_request(operation, region, rank, &atomic_op_owner, &op, &after, NULL, &req);
    }
    return atomic_op_leave(operation, status, req, req_p);
}

/* The data cannot be moved, and its word changed, in place and at once. */
static __attribute__((noinline)) int put_signal_start_slow(const char *operation, int rank,
                                                           struct nixl_region *region,
                                                           struct nixl_region *signal_region,
                                                           const struct nxr_put_signal *what,
                                                           struct nixl_req **req_p)
{
    struct nxr_put_signal placed = *what;
    struct nxr_segment *word_segment;
    int status = nxr_atomic_find_segment(operation, rank, signal_region, &placed.atomic, true,
                                         &word_segment);

    if (status == NIXL_OK) {
        status = nxr_transfer_report_refusal(operation, word_segment->peer);
    }
    if (status != NIXL_OK) {
        return status;
    }
    placed.word_segment = word_segment;
    if (nxr_atomic_put_in_one_trip(rank, region, &placed, false) == NIXL_OK) {
        return NIXL_OK;
    }
    if (what->nbytes == 0) {
        status = check_data(operation, NXR_OP_PUT, rank, region, what->offset, what->src, 0);
        return status == NIXL_OK
                   ? change_start(operation, rank, signal_region, &what->atomic, true, NULL, req_p)
                   : status;
    }
    if (nxr_transfer_put_here(rank, region, what->offset, what->src, what->nbytes)) {
        return change_start(operation, rank, signal_region, &what->atomic, true, NULL, req_p);
    }
    return put_signal_later(operation, rank, region, &placed, word_segment, req_p);
}

int nxr_put_signal_start(const char *operation, int rank, struct nixl_region *region,
                         const struct nxr_piece *data, struct nixl_region *signal_region,
                         const struct nxr_atomic *atomic, struct nixl_req **req_p)
{
    const struct nxr_put_signal what = {
        .offset = data->offset, .src = data->local, .nbytes = data->nbytes, .atomic = *atomic};

    if (what.nbytes <= NXR_AT_ONCE_NBYTES &&
        nxr_atomic_put_at_once(rank, region, signal_region, &what)) {
        return NIXL_OK;
    }
    return put_signal_start_slow(operation, rank, region, signal_region, &what, req_p);
}

/* Can the processor change that word of this process? */
static int check_own_signal(const char *operation, int rank, const uint64_t *signal)
{
    if (signal == NULL || (uintptr_t)signal % sizeof(*signal) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "the signal at %p is NULL or not aligned to 8 bytes", (const void *)signal);
    }
    if (nxr_range_find(signal) != NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "the signal at %p lies in device memory; allowed: host memory",
                        (const void *)signal);
    }
    return NIXL_OK;
}

/* The data is not here yet. */
static __attribute__((noinline)) int
get_signal_start_slow(const char *operation, int rank, struct nixl_region *region,
                      const struct nxr_piece *data, uint64_t *signal,
                      const struct nxr_atomic *atomic, struct nixl_req **req_p)
{
    const struct nxr_after after = {.local = signal, .atomic = *atomic};
    const struct nxr_op get = {
        .kind = NXR_OP_GET, .offset = data->offset, .local = data->local, .nbytes = data->nbytes};
    struct nixl_req *req = NULL;
    int status =
        check_data(operation, NXR_OP_GET, rank, region, data->offset, data->local, data->nbytes);

    if (status == NIXL_OK && data->nbytes == 0) {
        (void)nxr_atomic_apply(signal, atomic);
        nxr_wake_self();
        return NIXL_OK;
    }
    if (status == NIXL_OK) {
        status =
            nxr_region_request(operation, region, rank, &atomic_op_owner, &get, &after, NULL, &req);
    }
    return atomic_op_leave(operation, status, req, req_p);
}

int nxr_get_signal_start(const char *operation, int rank, struct nixl_region *region,
                         const struct nxr_piece *data, uint64_t *signal,
                         const struct nxr_atomic *atomic, struct nixl_req **req_p)
{
    int status = check_own_signal(operation, rank, signal);

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_transfer_get_mapped(rank, region, data->offset, data->local, data->nbytes)) {
        (void)nxr_atomic_apply(signal, atomic);
        nxr_wake_self();
        return NIXL_OK;
    }
    return get_signal_start_slow(operation, rank, region, data, signal, atomic, req_p);
}

/* ---- a signal behind another operation ------------------------------------------------------- */

int nxr_signal_find(const char *operation, int rank, struct nixl_region *region,
                    const struct nxr_atomic *atomic, struct nxr_after *signal_p)
{
    struct nxr_after signal = {.atomic = *atomic, .owner = &atomic_op_owner};
    int status =
        nxr_atomic_find_segment(operation, rank, region, &signal.atomic, true, &signal.segment);

    if (status == NIXL_OK) {
        *signal_p = signal;
    }
    return status;
}

int nxr_signal_start(const char *operation, const struct nxr_after *signal, struct nixl_req **req_p)
{
    struct nxr_op op = change_op(&signal->atomic, true, NULL);

    return start_change(operation, signal->segment, &op, req_p);
}
