/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put and get. The fast path is a range check and one call of the transport's put or get;
 * everything else (first use, closed handles, dead peers, operations that take time) is on the
 * slow path. No lock of its own.
 */
#include "config.h"

#include "core/life.h"
#include "host/atomic_ask.h"
#include "core/progress.h"
#include "core/trace.h"
#include "region/segment_request.h"
#include "transfer/copy_thread.h"
#include "transfer/op.h"
#include "transfer/transfer.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"
#include "core/wait.h"

/* ---- the slow path --------------------------------------------------------------------------- */

/* A local buffer that begins in device memory, in the range, must end there. */
static int check_local_range(const char *operation, int rank, const struct nxr_range *range,
                             const void *local, size_t nbytes)
{
    if (range == NULL || nbytes <= range->addr + range->nbytes - (uintptr_t)local) {
        return NIXL_OK;
    }
    return nxr_fail(NIXL_E_RANGE, operation, rank, "", 0,
                    "the local buffer of %zu bytes at %p goes beyond its region of %s memory, "
                    "which ends at %p",
                    nbytes, local, range->kind->name, (void *)(range->addr + range->nbytes));
}

/* *range_p: where the local buffer lies; NULL: in host memory. */
static int check_call(const char *operation, int rank, const struct nixl_region *region,
                      const void *local, size_t nbytes, const struct nxr_range **range_p)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank(operation, rank);
    }
    if (!nxr_region_is_open(region)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "%s",
                        region == NULL ? "the region is NULL" : "the region is closed");
    }
    if (local == NULL && nbytes > 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "the local buffer is NULL and nbytes is %zu", nbytes);
    }
    *range_p = nxr_range_find(local);
    return check_local_range(operation, rank, *range_p, local, nbytes);
}

int nxr_transfer_check(const char *operation, int rank, const struct nixl_region *region,
                       const void *local, size_t nbytes)
{
    const struct nxr_range *range = NULL;

    return check_call(operation, rank, region, local, nbytes, &range);
}

static int fail_range(const char *operation, int rank, const struct nixl_region *region,
                      const struct nxr_segment *segment, uint64_t offset, size_t nbytes)
{
    return nxr_fail(NIXL_E_RANGE, operation, rank, segment->transport->name, 0,
                    "offset %llu with %zu bytes is outside of region '%s' of %s, which has %llu",
                    (unsigned long long)offset, nbytes, nxr_region_label(region->name),
                    nxr_peer_name(segment->peer), (unsigned long long)segment->nbytes);
}

/* May the segment be used so? `forbidden_by`: see nxr_segment_allows(). */
static int check_segment(const char *operation, int rank, const struct nixl_region *region,
                         const struct nxr_segment *segment, uint32_t forbidden_by, uint64_t offset,
                         size_t nbytes)
{
    if (!nxr_segment_allows(segment, forbidden_by)) {
        return nxr_region_fail_access(operation, region, segment, forbidden_by);
    }
    return nxr_segment_has_range(segment, offset, nbytes)
               ? NIXL_OK
               : fail_range(operation, rank, region, segment, offset, nbytes);
}

/* Find the segment, asking its owner if need be, and check access and range. */
static int transfer_find_segment(const char *operation, int rank, struct nixl_region *region,
                                 uint32_t forbidden_by, uint64_t *offset_p, size_t nbytes,
                                 struct nxr_segment **segment_p)
{
    int status = NIXL_OK;

    *segment_p = nxr_region_segment_at(region, rank, offset_p, nbytes);
    if (*segment_p == NULL) {
        status =
            nxr_region_resolve(operation, region, rank, false, nxr_env.resolve_timeout, segment_p);
        if (status == NIXL_OK) {
            status = nxr_extents_place(operation, region, segment_p, offset_p, nbytes);
        }
    }
    if (status == NIXL_E_TIMEOUT) {
        return nxr_region_fail_unanswered(NIXL_E_NOT_FOUND, operation, region, rank,
                                          "NIXLRUN_RESOLVE_TIMEOUT");
    }
    return status == NIXL_OK
               ? check_segment(operation, rank, region, *segment_p, forbidden_by, *offset_p, nbytes)
               : status;
}

int nxr_transfer_find_segment(const char *operation, int rank, struct nixl_region *region,
                              uint32_t forbidden_by, uint64_t *offset_p, size_t nbytes,
                              struct nxr_segment **segment_p)
{
    int status = nxr_transfer_check(operation, rank, region, region, nbytes);

    return status == NIXL_OK ? transfer_find_segment(operation, rank, region, forbidden_by,
                                                     offset_p, nbytes, segment_p)
                             : status;
}

int nxr_transfer_find_now(const char *operation, int rank, struct nixl_region *region,
                          uint32_t forbidden_by, uint64_t *offset_p, size_t nbytes,
                          struct nxr_segment **segment_p)
{
    int status = nxr_transfer_check(operation, rank, region, region, nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    *segment_p = nxr_region_segment_at(region, rank, offset_p, nbytes);
    if (*segment_p == NULL && nxr_rank_is_lost(rank)) {
        return nxr_peer_fail_lost(operation, rank, "");
    }
    return *segment_p != NULL
               ? check_segment(operation, rank, region, *segment_p, forbidden_by, *offset_p, nbytes)
               : nxr_fail(NIXL_E_STALE, operation, rank, "", 0,
                          "region '%s' of %s was closed, or was looked up anew, before the "
                          "operation could start",
                          nxr_region_label(region->name), nxr_rank_name(rank));
}

int nxr_transfer_fail(const char *operation, int status, struct nixl_region *region,
                      struct nxr_segment *segment)
{
    struct nxr_peer *peer = segment->peer;

    if (status == NIXL_E_PEER_LOST) {
        nxr_life_lost(peer); /* a kernel call discovered it first */
    }
    if (nxr_life_check(peer)) {
        return nxr_peer_fail_lost(operation, peer->rank, segment->transport->name);
    }
    if (status == NIXL_E_STALE) {
        nxr_region_mark_stale(segment);
        return nxr_fail(status, operation, peer->rank, segment->transport->name, 0,
                        "%s has closed region '%s'; nixl_region_query() finds a new one",
                        nxr_peer_name(peer), nxr_region_label(region->name));
    }
    if (status == NIXL_E_TIMEOUT) {
        return nxr_fail(status, operation, peer->rank, segment->transport->name, 0,
                        "%s has not answered for %s (NIXLRUN_OP_TIMEOUT): asked for region "
                        "'%s'; it is not known to be dead, it may be stopped",
                        nxr_peer_name(peer), nxr_duration(nxr_env.op_timeout).text,
                        nxr_region_label(region->name));
    }
    return nxr_fail(status, operation, peer->rank, segment->transport->name, 0, "%s",
                    status == NIXL_E_LIMIT ? "more threads use this peer than it has slots for"
                                           : nixl_strerror(status));
}

int nxr_transfer_fail_copy(const char *operation, enum nxr_op_kind kind, int status,
                           struct nixl_region *region, struct nxr_segment *segment)
{
    int error;
    const char *why = nxr_op_why_failed(status, kind, segment->peer->rank, segment, &error);

    if (why[0] == '\0' || nxr_life_check(segment->peer)) {
        return nxr_transfer_fail(operation, status, region, segment);
    }
    return nxr_fail(status, operation, segment->peer->rank, segment->transport->name, error,
                    "region '%s' of %s: %s", nxr_region_label(region->name),
                    nxr_peer_name(segment->peer), why);
}

/* Start an operation that takes time, and wait for it. */
static int run_request(const char *operation, const struct nxr_op *op)
{
    struct nixl_req *req;
    struct nxr_op waited = *op;
    int status;

    waited.is_waited = true;
    status = nxr_request_make_begun(operation, &nxr_transfer_owner, &waited, &req);

    return status == NIXL_INPROGRESS ? nxr_request_complete(operation, req, nxr_env.op_timeout)
                                     : status;
}

/* The arguments of a put or a get. */
struct transfer_call {
    int rank;
    struct nixl_region *region;
    uint64_t offset;
    void *local;
    size_t nbytes;
};

/* `takes_time`: the segment's transport has just answered NIXL_E_AGAIN. */
static __attribute__((noinline, cold)) int transfer_slow(const char *operation,
                                                         enum nxr_op_kind kind, bool takes_time,
                                                         const struct transfer_call *call)
{
    const int rank = call->rank;
    struct nixl_region *region = call->region;
    const size_t nbytes = call->nbytes;
    void *local = call->local;
    struct nxr_op op = {.kind = kind,
                        .offset = call->offset,
                        .local = local,
                        .nbytes = nbytes,
                        .takes_time = takes_time};
    const struct nxr_transport *mover;
    const struct nxr_range *range = NULL;
    int status = check_call(operation, rank, region, local, nbytes, &range);

    if (status == NIXL_OK) {
        op.is_host = range == NULL;
        status = transfer_find_segment(operation, rank, region, nxr_op_forbidden_by(kind),
                                       &op.offset, nbytes, &op.segment);
    }
    if (status != NIXL_OK || nbytes == 0) {
        return status;
    }
    mover = nxr_segment_mover(op.segment, local);
    status = nxr_op_move(&op, mover);
    if (status == NIXL_E_AGAIN && kind == NXR_OP_PUT && mover == op.segment->transport &&
        nxr_atomic_serves_put(op.segment, op.offset, nbytes)) {
        status = nxr_atomic_put(op.segment, op.offset, local, nbytes);
        if (status == NIXL_OK) {
            nxr_stats_moved(op.segment, kind, nbytes);
        }
    }
    if (status == NIXL_E_AGAIN || (status == NIXL_E_UNSUPPORTED && !op.is_host)) {
        return run_request(operation, &op);
    }
    return status == NIXL_OK ? status
                             : nxr_transfer_fail_copy(operation, kind, status, region, op.segment);
}

/* ---- put and get ----------------------------------------------------------------------------- */

/* `is_host`: the caller knows that `local` is not device memory. */
static inline __attribute__((always_inline)) int
move_at_once(const char *operation, enum nxr_op_kind kind, bool is_host, int rank,
             struct nixl_region *region, uint64_t offset, void *local, size_t nbytes)
{
    struct nxr_segment *segment = nxr_region_segment(region, rank);
    struct transfer_call call;
    int status = NIXL_INPROGRESS; /* transport not called */

    if (__builtin_expect(segment != NULL &&
                             nxr_transfer_is_allowed(segment,
                                                     kind == NXR_OP_PUT ? segment->put_at_once
                                                                        : segment->get_at_once,
                                                     kind, offset, local, nbytes) &&
                             (is_host || !nxr_range_is_device(local)),
                         1)) {
        call = (struct transfer_call){rank, region, offset, local, nbytes};
        NXR_KEEP_IN_MEMORY(call);
        status = kind == NXR_OP_PUT ? segment->transport->put(segment, offset, local, nbytes)
                                    : segment->transport->get(segment, offset, local, nbytes);
        if (__builtin_expect(status == NIXL_OK, 1)) {
            return NIXL_OK;
        }
    } else {
        call = (struct transfer_call){rank, region, offset, local, nbytes};
    }
    return transfer_slow(operation, kind, status == NIXL_E_AGAIN, &call);
}

/* With a driver in the process: apart, so that without one no function is called but put(). */
static __attribute__((noinline)) int put_beside_driver(const char *operation, int rank,
                                                       struct nixl_region *region, uint64_t offset,
                                                       const void *src, size_t nbytes)
{
    return move_at_once(operation, NXR_OP_PUT, false, rank, region, offset, (void *)src, nbytes);
}

static __attribute__((noinline)) int get_beside_driver(const char *operation, int rank,
                                                       struct nixl_region *region, uint64_t offset,
                                                       void *dst, size_t nbytes)
{
    return move_at_once(operation, NXR_OP_GET, false, rank, region, offset, dst, nbytes);
}

static inline __attribute__((always_inline)) int put(const char *operation, int rank,
                                                     struct nixl_region *region, uint64_t offset,
                                                     const void *src, size_t nbytes)
{
    return nxr_range_may_be_device(src)
               ? put_beside_driver(operation, rank, region, offset, src, nbytes)
               : move_at_once(operation, NXR_OP_PUT, true, rank, region, offset, (void *)src,
                              nbytes);
}

static inline __attribute__((always_inline)) int get(const char *operation, int rank,
                                                     struct nixl_region *region, uint64_t offset,
                                                     void *dst, size_t nbytes)
{
    return nxr_range_may_be_device(dst)
               ? get_beside_driver(operation, rank, region, offset, dst, nbytes)
               : move_at_once(operation, NXR_OP_GET, true, rank, region, offset, dst, nbytes);
}

int nxr_transfer_put(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     const void *src, size_t nbytes)
{
    return put(operation, rank, region, offset, src, nbytes);
}

int nxr_transfer_get(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     void *dst, size_t nbytes)
{
    return get(operation, rank, region, offset, dst, nbytes);
}

bool nxr_transfer_put_here(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                           size_t nbytes)
{
    struct nxr_segment *segment = nxr_transfer_usable_up_to(NXR_AT_ONCE_NBYTES, NXR_OP_PUT, rank,
                                                            region, offset, src, nbytes);

    return segment != NULL && segment->method < NXR_METHOD_MESSAGE &&
           segment->transport->put(segment, offset, src, nbytes) == NIXL_OK;
}

/* Functions of their own: what they keep would have to be saved by calls without a trace, too. */
static __attribute__((noinline)) int put_traced(int rank, struct nixl_region *region,
                                                uint64_t offset, const void *src, size_t nbytes)
{
    return NXR_TRACED(NXR_TRACE_PUT, "nixl_put", rank, nbytes, 0,
                      nxr_transfer_put("nixl_put", rank, region, offset, src, nbytes));
}

static __attribute__((noinline)) int get_traced(int rank, struct nixl_region *region,
                                                uint64_t offset, void *dst, size_t nbytes)
{
    return NXR_TRACED(NXR_TRACE_GET, "nixl_get", rank, nbytes, 0,
                      nxr_transfer_get("nixl_get", rank, region, offset, dst, nbytes));
}

int nixl_put(int rank, struct nixl_region *region, uint64_t offset, const void *src, size_t nbytes)
{
    return nxr_trace_has(NXR_TRACE_PUT) ? put_traced(rank, region, offset, src, nbytes)
                                        : put("nixl_put", rank, region, offset, src, nbytes);
}

int nixl_get(int rank, struct nixl_region *region, uint64_t offset, void *dst, size_t nbytes)
{
    return nxr_trace_has(NXR_TRACE_GET) ? get_traced(rank, region, offset, dst, nbytes)
                                        : get("nixl_get", rank, region, offset, dst, nbytes);
}

/*
 * Move bytes between host memories: all, or only the first part of a copy on this host of more
 * than max_nbytes. NIXL_E_AGAIN: start the rest.
 */
static int begin_here(struct nxr_op *op, size_t max_nbytes)
{
    if (op->nbytes > max_nbytes && nxr_copy_thread_reaches(op->segment)) {
        return nxr_copy_thread_begin(op) ? NIXL_OK : NIXL_E_AGAIN;
    }
    return nxr_op_move(op, op->segment->transport);
}

/*
 * Carry out an operation whose segment is not looked up yet: within the call if it has up to
 * max_nbytes or does not take long, else start it. A caller that does not wait for the request
 * must call nxr_request_leave().
 */
static int begin_transfer(const char *operation, size_t max_nbytes, int rank,
                          struct nixl_region *region, struct nxr_op *op, struct nixl_req **req_p)
{
    struct nxr_segment *segment;
    const struct nxr_range *range = NULL;
    uint64_t offset = op->offset;
    int status = check_call(operation, rank, region, op->local, op->nbytes, &range);

    if (status != NIXL_OK) {
        return status;
    }
    op->is_host = range == NULL;
    segment = nxr_region_segment_at(region, rank, &offset, op->nbytes);
    if (segment != NULL) {
        status = check_segment(operation, rank, region, segment, nxr_op_forbidden_by(op->kind),
                               offset, op->nbytes);
        if (status != NIXL_OK || op->nbytes == 0) {
            return status;
        }
    }
    if (segment == NULL) {
        op->takes_time = false;
        return nxr_region_request(operation, region, rank, &nxr_transfer_owner, op, NULL, NULL,
                                  req_p);
    }
    op->segment = segment;
    op->offset = offset;
    if (segment->method == NXR_METHOD_DEVICE || !op->is_host) {
        op->takes_time = false;
        return nxr_request_make_begun(operation, &nxr_transfer_owner, op, req_p);
    }
    status = begin_here(op, max_nbytes);
    if (status == NIXL_E_AGAIN) {
        return nxr_request_make_begun(operation, &nxr_transfer_owner, op, req_p);
    }
    return status == NIXL_OK ? status
                             : nxr_transfer_fail_copy(operation, op->kind, status, region, segment);
}

int nxr_transfer_start(const char *operation, enum nxr_op_kind kind, int rank,
                       struct nixl_region *region, const struct nxr_piece *what,
                       struct nixl_req **req_p)
{
    struct nxr_segment *segment = nxr_transfer_usable_up_to(
        NXR_AT_ONCE_NBYTES, kind, rank, region, what->offset, what->local, what->nbytes);
    const bool is_put = kind == NXR_OP_PUT;
    struct nxr_op op = {
        .kind = kind, .offset = what->offset, .local = what->local, .nbytes = what->nbytes};
    int status = NIXL_INPROGRESS; /* transport not called */

    if (__builtin_expect(segment != NULL && segment->method != NXR_METHOD_DEVICE &&
                             what->nbytes <= (is_put ? segment->put_at_once : segment->get_at_once),
                         1)) {
        status = is_put ? segment->transport->put(segment, what->offset, what->local, what->nbytes)
                        : segment->transport->get(segment, what->offset, what->local, what->nbytes);
    }
    if (__builtin_expect(status == NIXL_OK, 1)) {
        return NIXL_OK;
    }
    op.takes_time = status == NIXL_E_AGAIN;
    return begin_transfer(operation, NXR_AT_ONCE_NBYTES, rank, region, &op, req_p);
}

struct nxr_segment *nxr_transfer_message_segment(int rank, struct nixl_region *region,
                                                 uint64_t *offset_p, const void *local,
                                                 size_t nbytes)
{
    struct nxr_segment *segment = nxr_region_segment_at(region, rank, offset_p, nbytes);

    return segment != NULL && segment->method >= NXR_METHOD_MESSAGE &&
                   nxr_transfer_is_usable(segment, SIZE_MAX, NXR_OP_PUT, *offset_p, local, nbytes)
               ? segment
               : NULL;
}

/* Is the put still under way, and is it certain that nothing sent from now on overtakes it? */
static bool is_on_its_way(struct nixl_req *req)
{
    return nxr_request_is_ordered(req) && !nxr_request_is_done(req);
}

/* Start a put over a network that may share a message with what follows it. */
static int begin_followed(const char *operation, struct nxr_segment *segment,
                          const struct nxr_piece *what, bool may_trail, struct nixl_req **req_p)
{
    const struct nxr_op op = {
        .segment = segment,
        .kind = NXR_OP_PUT,
        .offset = what->offset,
        .local = what->local,
        .nbytes = what->nbytes,
        .is_followed = true,
        .may_trail = may_trail,
    };

    return nxr_request_make_at(operation, &nxr_transfer_owner, &op, req_p);
}

/* What is left until then; see struct nxr_put_signal. */
static int64_t left_until(int64_t until_ns)
{
    return until_ns == 0 ? nxr_env.op_timeout : nxr_left(NIXL_FOREVER, until_ns);
}

int nxr_transfer_put_then(const char *operation, int rank, struct nixl_region *region,
                          const struct nxr_piece *what, int64_t until_ns, int (*then)(void *),
                          void *arg)
{
    struct nxr_segment *segment = nxr_transfer_usable_up_to(
        SIZE_MAX, NXR_OP_PUT, rank, region, what->offset, what->local, what->nbytes);
    struct nixl_req *req = NULL;
    int status, done;

    if (segment == NULL || nxr_atomic_serves_put(segment, what->offset, what->nbytes)) {
        status = nxr_transfer_put(operation, rank, region, what->offset, what->local, what->nbytes);
    } else if (segment->method >= NXR_METHOD_MESSAGE) {
        status = begin_followed(operation, segment, what, until_ns != 0, &req);
    } else {
        struct nxr_op op = {.kind = NXR_OP_PUT,
                            .offset = what->offset,
                            .local = what->local,
                            .nbytes = what->nbytes};

        status = begin_transfer(operation, SIZE_MAX, rank, region, &op, &req);
    }
    if (req == NULL || status != NIXL_INPROGRESS) {
        return status == NIXL_OK ? then(arg) : status;
    }
    if (is_on_its_way(req)) {
        done = then(arg);
        status = nxr_request_complete(operation, req, left_until(until_ns));
        return status == NIXL_OK ? done : status;
    }
    status = nxr_request_complete(operation, req, left_until(until_ns));
    return status == NIXL_OK ? then(arg) : status;
}
