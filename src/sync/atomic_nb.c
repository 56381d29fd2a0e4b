/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nonblocking atomics and signals: the public calls, and changes of words as operations of
 * requests. If a change can be made at once, it is; otherwise a request is queued after the puts
 * that are under way. No lock of its own.
 */
#include "config.h"

#include "transfer/copy_thread.h"
#include "host/atomic_ask.h"
#include "host/atomic_serve.h"
#include "region/segment_request.h"
#include "transfer/op.h"
#include "transfer/transfer.h"
#include "util/status.h"
#include "core/wait.h"
#include "sync/atomic.h"

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

/* Start a request with a change of a word, or continue it with that after its put or get. */
static int atomic_op_start(struct nxr_op *op)
{
    struct nxr_segment *segment = op->segment;
    int status;

    if (op->kind != NXR_OP_ATOMIC) {
        return nxr_op_submit(op);
    }
    nxr_request_hand_to(op, segment->transport);
    status = atomic_op_change(op);
    if (status == NIXL_E_STALE) {
        nxr_region_mark_stale(segment);
    }
    return status;
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

/* ---- the calls ------------------------------------------------------------------------------- */

static int fail_req_p(const char *operation, int rank)
{
    return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "req_p is NULL");
}

/* A request was made: report what has ended within the call; no thread waits for the rest. */
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
    nxr_request_leave();
    return NIXL_INPROGRESS;
}

/* Change a word, now or after the puts that are under way. */
static int change_nb(const char *operation, int rank, struct nixl_region *region,
                     const struct nxr_atomic *atomic, bool is_signal, void *fetched_p,
                     struct nixl_req **req_p)
{
    struct nxr_op op = {.kind = NXR_OP_ATOMIC,
                        .offset = atomic->offset,
                        .local = fetched_p,
                        .nbytes = nxr_atomic_nbytes(atomic),
                        .atomic = *atomic,
                        .is_signal = is_signal};
    struct nixl_req *req = NULL;
    uint64_t fetched;
    int status;

    if (req_p == NULL) {
        return fail_req_p(operation, rank);
    }
    if (nxr_atomic_change_at_once(rank, region, atomic, &fetched)) {
        if (fetched_p != NULL) {
            nxr_atomic_store_value(fetched_p, fetched, op.nbytes);
        }
        return NIXL_OK;
    }
    status = nxr_atomic_find_segment(operation, rank, region, atomic, &op.segment);
    status =
        status == NIXL_OK ? nxr_request_make_at(operation, &atomic_op_owner, &op, &req) : status;
    return atomic_op_leave(operation, status, req, req_p);
}

int nixl_atomic_nb(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
                   enum nixl_atomic_op op, const void *operand, void *fetched_p,
                   struct nixl_req **req_p)
{
    struct nxr_atomic atomic;
    int status = nxr_atomic_of("nixl_atomic_nb", rank, offset, type, op, operand, &atomic);

    return status == NIXL_OK
               ? change_nb("nixl_atomic_nb", rank, region, &atomic, false, fetched_p, req_p)
               : status;
}

int nixl_atomic_compare_swap_nb(int rank, struct nixl_region *region, uint64_t offset,
                                enum nixl_type type, const void *expected, const void *desired,
                                void *fetched_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_atomic_compare_swap_nb";
    struct nxr_atomic atomic;
    int status = nxr_atomic_of_swap(operation, rank, offset, type, expected, desired, &atomic);

    return status == NIXL_OK ? change_nb(operation, rank, region, &atomic, false, fetched_p, req_p)
                             : status;
}

int nixl_signal_nb(int rank, struct nixl_region *region, uint64_t offset, enum nixl_signal_op op,
                   uint64_t value, struct nixl_req **req_p)
{
    const struct nxr_atomic atomic = nxr_signal_atomic(offset, op, value);

    return (unsigned)op <= NIXL_SIGNAL_SET
               ? change_nb("nixl_signal_nb", rank, region, &atomic, true, NULL, req_p)
               : nxr_signal_fail_op("nixl_signal_nb", rank, op);
}

/* ---- data and a signal ----------------------------------------------------------------------- */

/* Can the data be moved, as far as that is known without asking its owner? */
static int check_data(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                      const void *local, size_t nbytes)
{
    int status = nxr_transfer_check(operation, rank, region, local, nbytes);
    struct nxr_segment *segment = status == NIXL_OK ? nxr_region_segment(region, rank) : NULL;

    return segment != NULL
               ? nxr_transfer_find_segment(operation, rank, region, offset, nbytes, &segment)
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
    int status = check_data(operation, rank, region, what->offset, what->src, what->nbytes);

    if (status == NIXL_OK) {
        status = nxr_region_request(operation, region, rank, &atomic_op_owner, &op, &after, &req);
    }
    return atomic_op_leave(operation, status, req, req_p);
}

int nixl_put_signal_nb(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                       size_t nbytes, struct nixl_region *signal_region, uint64_t signal_offset,
                       enum nixl_signal_op op, uint64_t value, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_put_signal_nb";
    struct nxr_put_signal what = {.offset = offset,
                                  .src = src,
                                  .nbytes = nbytes,
                                  .atomic = nxr_signal_atomic(signal_offset, op, value)};
    struct nxr_segment *word_segment;
    int status;

    if ((unsigned)op > NIXL_SIGNAL_SET) {
        return nxr_signal_fail_op(operation, rank, op);
    }
    if (req_p == NULL) {
        return fail_req_p(operation, rank);
    }
    if (nbytes <= NXR_AT_ONCE_NBYTES &&
        nxr_atomic_put_at_once(rank, region, signal_region, &what)) {
        return NIXL_OK;
    }
    status = nxr_atomic_find_segment(operation, rank, signal_region, &what.atomic, &word_segment);
    if (status != NIXL_OK) {
        return status;
    }
    what.word_segment = word_segment;
    if (nxr_atomic_put_in_one_trip(rank, region, &what) == NIXL_OK) {
        return NIXL_OK;
    }
    if (nbytes == 0) {
        status = check_data(operation, rank, region, offset, src, nbytes);
        return status == NIXL_OK
                   ? change_nb(operation, rank, signal_region, &what.atomic, true, NULL, req_p)
                   : status;
    }
    if (nxr_transfer_put_here(rank, region, offset, src, nbytes)) {
        return change_nb(operation, rank, signal_region, &what.atomic, true, NULL, req_p);
    }
    return put_signal_later(operation, rank, region, &what, word_segment, req_p);
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

int nixl_get_signal_nb(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                       size_t nbytes, uint64_t *signal, enum nixl_signal_op op, uint64_t value,
                       struct nixl_req **req_p)
{
    static const char operation[] = "nixl_get_signal_nb";
    const struct nxr_after after = {.local = signal, .atomic = nxr_signal_atomic(0, op, value)};
    const struct nxr_op get = {
        .kind = NXR_OP_GET, .offset = offset, .local = dst, .nbytes = nbytes};
    struct nixl_req *req = NULL;
    int status;

    if ((unsigned)op > NIXL_SIGNAL_SET) {
        return nxr_signal_fail_op(operation, rank, op);
    }
    if (req_p == NULL) {
        return fail_req_p(operation, rank);
    }
    status = check_own_signal(operation, rank, signal);
    if (status == NIXL_OK) {
        status = check_data(operation, rank, region, offset, dst, nbytes);
    }
    if (status == NIXL_OK && nbytes == 0) {
        (void)nxr_atomic_apply(signal, &after.atomic);
        nxr_wake_self();
        return NIXL_OK;
    }
    if (status == NIXL_OK) {
        status = nxr_region_request(operation, region, rank, &atomic_op_owner, &get, &after, &req);
    }
    return atomic_op_leave(operation, status, req, req_p);
}
