/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extended forms of put, get and notify: started at once or waited for, on a stream or not,
 * with a notification and a signal behind the data. No lock.
 */
#include "config.h"

#include "sync/atomic.h"
#include "core/trace.h"
#include "sync/following.h"
#include "sync/granted.h"
#include "sync/notify.h"
#include "sync/peer.h"
#include "sync/stream_signal.h"
#include "transfer/durable.h"
#include "transfer/stream.h"
#include "transfer/transfer.h"
#include "util/status.h"

/* As many notifications to a peer may wait here before nixl_notify_x() asks to try again. */
#define MAX_HANDED_OVER 1024

/* A put or a get. */
struct moving {
    const char *operation;
    enum nxr_op_kind kind;
    int rank;
    struct nixl_region *region;
    struct nxr_piece piece;
};

/* ---- put and get ----------------------------------------------------------------------------- */

/* Start it, without what follows, except for a signal that the same request raises. */
static int moving_off_stream(const struct moving *what, const struct nxr_form *form,
                             struct nixl_req **req_p)
{
    struct nxr_atomic atomic;
    int status;

    if (!nxr_form_has(form, NIXL_OP_SIGNAL)) {
        return nxr_transfer_start(what->operation, what->kind, what->rank, what->region,
                                  &what->piece, req_p);
    }
    status = nxr_following_atomic(what->operation, what->rank, form, &atomic);
    if (status != NIXL_OK) {
        return status;
    }
    return what->kind == NXR_OP_PUT
               ? nxr_put_signal_start(what->operation, what->rank, what->region, &what->piece,
                                      form->op->signal_region, &atomic, req_p)
               : nxr_get_signal_start(what->operation, what->rank, what->region, &what->piece,
                                      form->op->signal, &atomic, req_p);
}

/*
 * Queue it on the stream, and the signal behind it. If the signal cannot be queued, the call fails,
 * but the stream has the copy: a flush covers it.
 */
static int moving_on_stream(const struct moving *what, const struct nxr_form *form,
                            struct nixl_req **req_p)
{
    struct nxr_op op = {.kind = what->kind,
                        .offset = what->piece.offset,
                        .local = what->piece.local,
                        .nbytes = what->piece.nbytes,
                        .stream = nxr_stream_of(form->op->stream)};
    struct nixl_req *req = NULL;
    struct nxr_atomic atomic;
    int status = NIXL_OK;

    if (nxr_form_has(form, NIXL_OP_SIGNAL)) {
        status = what->kind == NXR_OP_PUT
                     ? nxr_following_atomic(what->operation, what->rank, form, &atomic)
                     : nxr_form_refuse(what->operation, what->rank, "NIXL_OP_SIGNAL",
                                       "a stream raises signals of other ranks only");
    }
    if (status == NIXL_OK) {
        status = nxr_stream_queue(what->operation, what->rank, what->region, &op, &req);
    }
    if (status == NIXL_INPROGRESS && nxr_form_has(form, NIXL_OP_SIGNAL)) {
        status = nxr_stream_signal(what->operation, what->rank, form->op->signal_region, &atomic,
                                   form->op->stream);
        if (status != NIXL_OK) {
            (void)nixl_req_detach(&req);
            return status;
        }
        status = NIXL_INPROGRESS;
    }
    *req_p = req;
    return status;
}

/* A small put whose notification goes with it or right behind it. NIXL_E_AGAIN: start it. */
static int put_and_notify_at_once(const struct moving *what, const struct nxr_form *form)
{
    struct nxr_put_notify put = {.offset = what->piece.offset,
                                 .src = what->piece.local,
                                 .nbytes = what->piece.nbytes,
                                 .message = nxr_following_message(form)};
    struct nxr_segment *segment =
        nxr_transfer_message_segment(what->rank, what->region, &put.offset, put.src, put.nbytes);
    int status =
        nxr_notify_check(what->operation, what->rank, put.message.bytes, put.message.nbytes, 0);

    if (status != NIXL_OK) {
        return status;
    }
    if (segment != NULL) {
        return nxr_notify_put(segment, &put) == NIXL_OK ? NIXL_OK : NIXL_E_AGAIN;
    }
    if (!nxr_transfer_put_here(what->rank, what->region, what->piece.offset, put.src, put.nbytes)) {
        return NIXL_E_AGAIN;
    }
    status = nxr_notify_hand_over(nxr_peer_find(what->rank), &put.message);
    return status == NIXL_OK
               ? status
               : nxr_fail(status, what->operation, what->rank, "", 0, "%s", nixl_strerror(status));
}

/* What follows an operation that names a grant; as nxr_following_make(). */
static int granted_follow(const struct moving *what, const struct nxr_form *form,
                          struct nxr_following *following)
{
    if (nxr_form_has(form, NIXL_OP_STREAM)) {
        return nxr_form_refuse(what->operation, what->rank, "NIXL_OP_STREAM",
                               "a stream does not take and give back uses of a grant");
    }
    return nxr_following_make(what->operation, what->rank, form, what->kind, following);
}

/* The check of a durable put before anything is taken for it. */
static int granted_check_durable(const struct moving *what)
{
    struct nxr_segment *segment = NULL;
    uint64_t offset = what->piece.offset;
    int status = nxr_durable_check(what->operation, what->kind, what->rank, NULL);

    if (status == NIXL_OK) {
        status = nxr_transfer_find_segment(what->operation, what->rank, what->region,
                                           nxr_op_forbidden_by(what->kind), &offset,
                                           what->piece.nbytes, &segment);
    }
    return status == NIXL_OK ? nxr_durable_check(what->operation, what->kind, what->rank, segment)
                             : status;
}

static int granted_move(const char *operation, const struct nxr_granted *what,
                        struct nixl_req **req_p)
{
    return what->is_durable ? nxr_durable_put(operation, what->rank, what->region, &what->piece,
                                              nxr_transfer_find_now, NULL, req_p)
                            : nxr_transfer_start(operation, what->kind, what->rank, what->region,
                                                 &what->piece, req_p);
}

/* Start a put or get of blocks that are lent. */
static int moving_granted(const struct moving *what, const struct nxr_form *form,
                          struct nixl_req **req_p)
{
    const bool is_durable = nxr_form_has(form, NIXL_OP_DURABLE);
    struct nxr_following following = {.note = NULL};
    const struct nxr_granted granted = {.token = form->op->grant,
                                        .kind = what->kind,
                                        .rank = what->rank,
                                        .region = what->region,
                                        .piece = what->piece,
                                        .nbytes = what->piece.nbytes,
                                        .is_durable = is_durable,
                                        .signal = &following.signal,
                                        .move = granted_move};
    int status = nxr_transfer_check(what->operation, what->rank, what->region, what->piece.local,
                                    what->piece.nbytes);

    if (status == NIXL_OK && is_durable) {
        status = granted_check_durable(what);
    }
    if (status == NIXL_OK) {
        status = granted_follow(what, form, &following);
    }
    if (status == NIXL_OK) {
        status = nxr_granting->start(what->operation, &granted, req_p);
    }
    return nxr_following_begin(what->operation, &following, status, req_p);
}

/* Start a put that ends, and is followed by a notification or signal, when it is durable. */
static int moving_durable(const struct moving *what, const struct nxr_form *form,
                          struct nixl_req **req_p)
{
    struct nxr_following following = {.note = NULL};
    int status = nxr_durable_check(what->operation, what->kind, what->rank, NULL);

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_form_has(form, NIXL_OP_STREAM)) {
        return nxr_form_refuse(what->operation, what->rank, "NIXL_OP_DURABLE",
                               "no stream reads or writes a file");
    }
    status = nxr_transfer_check(what->operation, what->rank, what->region, what->piece.local,
                                what->piece.nbytes);
    if (status == NIXL_OK) {
        status = nxr_following_make(what->operation, what->rank, form, what->kind, &following);
    }
    if (status == NIXL_OK) {
        status = nxr_durable_put(what->operation, what->rank, what->region, &what->piece,
                                 nxr_transfer_find_segment, &following.signal, req_p);
    }
    return nxr_following_begin(what->operation, &following, status, req_p);
}

static int moving_start(const struct moving *what, const struct nxr_form *form,
                        struct nixl_req **req_p)
{
    struct nxr_following following = {.note = NULL};
    int status = NIXL_E_AGAIN;

    if ((form->op->flags & ~(uint32_t)NIXL_OP_SIGNAL) == 0) { /* nothing else follows */
        return moving_off_stream(what, form, req_p);
    }
    if (nxr_form_has(form, NIXL_OP_GRANT)) {
        return moving_granted(what, form, req_p);
    }
    if (nxr_form_has(form, NIXL_OP_DURABLE)) {
        return moving_durable(what, form, req_p);
    }
    if (form->op->flags == NIXL_OP_NOTE && what->kind == NXR_OP_PUT) {
        status = put_and_notify_at_once(what, form);
    }
    if (status != NIXL_E_AGAIN) {
        return status;
    }
    status = nxr_following_note(what->operation, what->rank, form, what->kind, &following);
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_form_has(form, NIXL_OP_STREAM) ? moving_on_stream(what, form, req_p)
                                                : moving_off_stream(what, form, req_p);
    return nxr_following_begin(what->operation, &following, status, req_p);
}

/* The segments that are looked up within the call: that of a put or get alone need not be. */
static int moving_await(const struct moving *what, struct nixl_req *const *req_p,
                        struct nxr_form *form)
{
    const uint32_t in_order = NIXL_OP_STREAM | NIXL_OP_GRANT | NIXL_OP_DURABLE;
    const bool is_started = nxr_form_is_started(form, req_p);
    int status = NIXL_OK;

    if ((form->op->flags & in_order) != 0) {
        status = nxr_following_await(what->operation, what->rank, what->region, is_started, form);
    }
    return status == NIXL_OK && nxr_form_has(form, NIXL_OP_SIGNAL) && what->kind == NXR_OP_PUT
               ? nxr_following_await(what->operation, what->rank, form->op->signal_region,
                                     is_started, form)
               : status;
}

static int moving_run(const struct moving *what, const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nixl_req *req = NULL;
    struct nxr_form form;
    int status = nxr_form_read_start(what->operation, op,
                                     NIXL_OP_NOTE | NIXL_OP_SIGNAL | NIXL_OP_STREAM |
                                         NIXL_OP_GRANT | NIXL_OP_DURABLE,
                                     req_p, &form);

    if (status == NIXL_OK) {
        status = moving_await(what, req_p, &form);
    }
    if (status == NIXL_OK) {
        status = moving_start(what, &form, &req);
    }
    if (status == NIXL_INPROGRESS && nxr_form_has(&form, NIXL_OP_STREAM) && req_p == NULL &&
        form.op->cq == NULL) {
        return nixl_req_detach(&req); /* queued: the stream tells when it is done */
    }
    return nxr_form_end(what->operation, &form, status, req, req_p);
}

static int start_plain(const struct moving *what, struct nixl_req **req_p)
{
    struct nixl_req *req = NULL;
    int status = nxr_transfer_start(what->operation, what->kind, what->rank, what->region,
                                    &what->piece, &req);

    return nxr_form_end_plain(status, req, req_p);
}

/* Data and signal are put at once. False: the call must read its form. */
static inline bool put_signaled_at_once(const struct moving *call, const struct nixl_op *op,
                                        struct nixl_req *const *req_p)
{
    if (op == NULL || call->piece.nbytes > NXR_AT_ONCE_NBYTES ||
        !nxr_form_is_plain_but(op, req_p, NIXL_OP_SIGNAL) ||
        (unsigned)op->signal_op > NIXL_SIGNAL_SET) {
        return false;
    }
    const struct nxr_put_signal what = {
        .offset = call->piece.offset,
        .src = call->piece.local,
        .nbytes = call->piece.nbytes,
        .atomic = nxr_signal_atomic(op->signal_offset, (enum nixl_signal_op)op->signal_op,
                                    op->signal_value),
    };
    return nxr_atomic_put_at_once(call->rank, call->region, op->signal_region, &what);
}

static inline int run_extended(const struct moving *what, const struct nixl_op *op,
                               struct nixl_req **req_p)
{
    if (what->kind == NXR_OP_PUT && put_signaled_at_once(what, op, req_p)) {
        *req_p = NULL;
        return NIXL_OK;
    }
    return nxr_form_is_plain(op, req_p) ? start_plain(what, req_p) : moving_run(what, op, req_p);
}

/* What is not done at once, or traced. They fill in what is the same for all calls. */
static __attribute__((noinline)) int put_x_slow(struct moving *what, const struct nixl_op *op,
                                                struct nixl_req **req_p)
{
    what->operation = "nixl_put_x";
    what->kind = NXR_OP_PUT;
    return NXR_TRACED(NXR_TRACE_PUT, what->operation, what->rank, what->piece.nbytes, 0,
                      run_extended(what, op, req_p));
}

static __attribute__((noinline)) int get_x_slow(struct moving *what, const struct nixl_op *op,
                                                struct nixl_req **req_p)
{
    what->operation = "nixl_get_x";
    what->kind = NXR_OP_GET;
    return NXR_TRACED(NXR_TRACE_GET, what->operation, what->rank, what->piece.nbytes, 0,
                      run_extended(what, op, req_p));
}

/*
 * A few bytes in mapped memory, for a call that asks for nothing but a request, move at once.
 * `is_host`: the caller knows that `local` is not device memory.
 */
static inline __attribute__((always_inline)) int
move_extended(enum nxr_op_kind kind, bool is_host, int rank, struct nixl_region *region,
              uint64_t offset, void *local, size_t nbytes, const struct nixl_op *op,
              struct nixl_req **req_p)
{
    const bool is_put = kind == NXR_OP_PUT;
    struct nxr_segment *segment;
    struct moving what;

    what.rank = rank;
    what.region = region;
    what.piece = (struct nxr_piece){offset, local, nbytes};
    NXR_KEEP_IN_MEMORY(what);
    if (nxr_trace_has(is_put ? NXR_TRACE_PUT : NXR_TRACE_GET) || !nxr_form_is_plain(op, req_p)) {
        return is_put ? put_x_slow(&what, op, req_p) : get_x_slow(&what, op, req_p);
    }
    segment = nxr_region_segment(region, rank);
    if (__builtin_expect(segment != NULL &&
                             nxr_transfer_is_allowed(segment, segment->copied_at_once, kind, offset,
                                                     local, nbytes) &&
                             (is_host || !nxr_range_is_device(local)) &&
                             (is_put ? segment->transport->put(segment, offset, local, nbytes)
                                     : segment->transport->get(segment, offset, local, nbytes)) ==
                                 NIXL_OK,
                         1)) {
        *req_p = NULL;
        return NIXL_OK;
    }
    return is_put ? put_x_slow(&what, NULL, req_p) : get_x_slow(&what, NULL, req_p);
}

/* With a driver in the process: apart, so that without one no function is called but put(). */
static __attribute__((noinline)) int put_x_beside_driver(int rank, struct nixl_region *region,
                                                         uint64_t offset, const void *src,
                                                         size_t nbytes, const struct nixl_op *op,
                                                         struct nixl_req **req_p)
{
    return move_extended(NXR_OP_PUT, false, rank, region, offset, (void *)src, nbytes, op, req_p);
}

static __attribute__((noinline)) int get_x_beside_driver(int rank, struct nixl_region *region,
                                                         uint64_t offset, void *dst, size_t nbytes,
                                                         const struct nixl_op *op,
                                                         struct nixl_req **req_p)
{
    return move_extended(NXR_OP_GET, false, rank, region, offset, dst, nbytes, op, req_p);
}

int nixl_put_x(int rank, struct nixl_region *region, uint64_t offset, const void *src,
               size_t nbytes, const struct nixl_op *op, struct nixl_req **req_p)
{
    return nxr_range_may_be_device(src)
               ? put_x_beside_driver(rank, region, offset, src, nbytes, op, req_p)
               : move_extended(NXR_OP_PUT, true, rank, region, offset, (void *)src, nbytes, op,
                               req_p);
}

int nixl_get_x(int rank, struct nixl_region *region, uint64_t offset, void *dst, size_t nbytes,
               const struct nixl_op *op, struct nixl_req **req_p)
{
    return nxr_range_may_be_device(dst)
               ? get_x_beside_driver(rank, region, offset, dst, nbytes, op, req_p)
               : move_extended(NXR_OP_GET, true, rank, region, offset, dst, nbytes, op, req_p);
}

/* ---- notify ---------------------------------------------------------------------------------- */

/* Leave the notification to the library, which keeps a copy if it cannot be sent yet. */
static int hand_over(const char *operation, int rank, const struct nxr_message *message)
{
    struct nxr_peer *peer = nxr_peer_get(rank);
    int status;

    if (peer == NULL) {
        return nxr_fail_no_peer(operation, rank);
    }
    if (atomic_load(&sync_peer_of(peer)->n_queued) >= MAX_HANDED_OVER) {
        return nxr_fail(NIXL_E_AGAIN, operation, rank, "", 0,
                        "%d notifications to %s wait for room, for the connection or for earlier "
                        "puts",
                        MAX_HANDED_OVER, nxr_peer_name(peer));
    }
    if (atomic_load(&peer->connection) == NXR_CONNECTION_NONE) {
        pthread_mutex_lock(&nxr_job.lock);
        nxr_peer_want(peer);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    status = nxr_transfer_report_refusal(operation, peer);
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_notify_hand_over(peer, message);
    return status == NIXL_E_PEER_LOST ? nxr_peer_fail_lost(operation, rank, "")
           : status != NIXL_OK
               ? nxr_fail(status, operation, rank, "", 0, "%s", nixl_strerror(status))
               : status;
}

static int call_notify_x(int rank, uint64_t tag, const void *msg, size_t nbytes,
                         const struct nixl_op *op, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_notify_x";
    struct nxr_message message = {.tag = tag, .bytes = msg, .nbytes = nbytes};
    struct nxr_form form;
    int status = nxr_form_read_start(operation, op, 0, req_p, &form);

    if (status == NIXL_OK) {
        status = nxr_notify_check(operation, rank, msg, nbytes, form.timeout_ns);
    }
    if (status != NIXL_OK) {
        return nxr_form_end(operation, &form, status, NULL, req_p);
    }
    message.context = form.context->id;
    status = req_p == NULL && form.op->cq == NULL
                 ? nxr_notify_send(operation, rank, &message, form.timeout_ns)
                 : hand_over(operation, rank, &message);
    return nxr_form_end(operation, &form, status, NULL, req_p);
}

int nixl_notify_x(int rank, uint64_t tag, const void *msg, size_t nbytes, const struct nixl_op *op,
                  struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_NOTE, "nixl_notify_x", rank, nbytes, tag,
                      call_notify_x(rank, tag, msg, nbytes, op, req_p));
}
