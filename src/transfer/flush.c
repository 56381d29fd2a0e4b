/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fence and flush: waiting until earlier puts to a peer are ordered before later ones, or visible
 * there. First the requests must end, then the transport is polled until it reports success. Lock:
 * flushes_lock for the flushes that were started without waiting.
 */
#include "config.h"

#include "net/net.h"
#include "region/region.h"
#include "core/form.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "core/trace.h"
#include "transfer/durable.h"
#include "transfer/transfer.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdlib.h>

static bool has_no_pending(void *arg)
{
    const struct nxr_peer *peer = arg;

    return atomic_load_explicit(&peer->n_pending, memory_order_acquire) == 0 ||
           nxr_peer_is_lost(peer);
}

/* The same for a flush, which also waits for words, and for gets whose requests were detached. */
static inline __attribute__((always_inline)) bool has_nothing_open(void *arg)
{
    const struct nxr_peer *peer = arg;

    return nxr_peer_is_lost(peer) ||
           (has_no_pending(arg) &&
            atomic_load_explicit(&peer->n_words, memory_order_acquire) == 0 &&
            atomic_load_explicit(&peer->n_detached, memory_order_acquire) == 0);
}

/* The same for a flush that also waits for gets whose requests are still there. */
static bool has_no_gets_either(void *arg)
{
    const struct nxr_peer *peer = arg;

    return nxr_peer_is_lost(peer) ||
           (has_nothing_open(arg) &&
            atomic_load_explicit(&peer->n_gets, memory_order_acquire) == 0);
}

static int fail_late(const char *operation, const struct nxr_peer *peer, int64_t timeout_ns)
{
    uint32_t n_puts = atomic_load(&peer->n_pending), n_words = atomic_load(&peer->n_words);
    uint32_t n_gets = atomic_load(&peer->n_gets), n_detached = atomic_load(&peer->n_detached);
    const struct nxr_duration time = nxr_duration(timeout_ns);

    if (n_puts + n_gets + n_words + n_detached == 0) {
        return nxr_fail(NIXL_E_TIMEOUT, operation, peer->rank, "", 0,
                        "%s has not acknowledged the puts to it within %s", nxr_peer_name(peer),
                        time.text);
    }
    return nxr_fail(NIXL_E_TIMEOUT, operation, peer->rank, "", 0,
                    "in flight to %s after %s: %u puts, %u gets, %u atomics; %u of the requests "
                    "are detached",
                    nxr_peer_name(peer), time.text, n_puts, n_gets, n_words, n_detached);
}

static int fail_drain(const char *operation, const struct nxr_peer *peer, int status,
                      int64_t timeout_ns)
{
    if (nxr_peer_is_lost(peer)) {
        return nxr_peer_fail_lost(operation, peer->rank, "");
    }
    return status == NIXL_E_TIMEOUT
               ? fail_late(operation, peer, timeout_ns)
               : nxr_fail(status, operation, peer->rank, "", 0, "%s", nixl_strerror(status));
}

/* Is there a failure that no other call reports? */
static inline bool has_failure(const struct nxr_peer *peer)
{
    return nxr_peer_is_doubtful(peer) ||
           atomic_load_explicit(&peer->freed_failure, memory_order_relaxed) != NIXL_OK;
}

/* Take it. NIXL_OK: there is none. */
static int take_failure(struct nxr_peer *peer)
{
    if (nxr_peer_has_refusal(peer)) {
        nxr_net_refusal_heard(peer); /* before the failure is taken: it may be of a later refusal */
    }
    atomic_fetch_and(&peer->doubts, ~NXR_DOUBT_DETACHED);
    return atomic_exchange(&peer->freed_failure, NIXL_OK);
}

int nxr_transfer_report(const char *operation, struct nxr_peer *peer)
{
    int status = has_failure(peer) ? take_failure(peer) : NIXL_OK, error;
    const char *why;

    if (status == NIXL_OK) {
        return NIXL_OK;
    }
    why = nxr_op_why_failed(status, NXR_OP_PUT, peer->rank, NULL, &error);
    return nxr_fail(status, operation, peer->rank, "", error,
                    "an earlier put to %s that no call waits for has failed: %s%s%s",
                    nxr_peer_name(peer), nixl_strerror(status), why[0] != '\0' ? ": " : "", why);
}

/*
 * The function of a peer's transport that orders, or flushes, puts to the peer. NULL: the peer has
 * no transport, or is not connected yet, so that its transport's state may be missing.
 */
typedef int order_fn(struct nxr_peer *peer);
typedef order_fn *order_of_fn(const struct nxr_peer *peer);

static order_fn *fence_of(const struct nxr_peer *peer)
{
    return nxr_peer_is_up(peer) && peer->transport != NULL ? peer->transport->fence : NULL;
}

static order_fn *flush_of(const struct nxr_peer *peer)
{
    return nxr_peer_is_up(peer) && peer->transport != NULL ? peer->transport->flush : NULL;
}

/* The same for a flush of gets, too. */
static order_fn *flush_gets_of(const struct nxr_peer *peer)
{
    return flush_of(peer);
}

/* The condition to wait for before the transport is called. */
static nxr_ready_fn *ready_for(order_of_fn *order_of)
{
    return order_of == fence_of   ? has_no_pending
           : order_of == flush_of ? has_nothing_open
                                  : has_no_gets_either;
}

/* A fence or flush for which the transport is called repeatedly. */
struct ordering {
    struct nxr_peer *peer;
    order_fn *order;
    int status;
};

static bool flush_is_in_order(void *arg)
{
    struct ordering *ordering = arg;

    ordering->status = ordering->order(ordering->peer);
    return ordering->status != NIXL_INPROGRESS;
}

/* The fast path: check without reading the clock, which can take longer than the check. */
static inline bool is_drained(struct nxr_peer *peer, order_of_fn *order_of)
{
    order_fn *order;

    if (!ready_for(order_of)(peer)) {
        return false;
    }
    order = order_of(peer);
    return (order == NULL || order(peer) == NIXL_OK) && !nxr_peer_is_lost(peer);
}

/* Wait for the requests to one peer, then for its transport's fence or flush. */
static int wait_drained(const char *operation, struct nxr_peer *peer, int64_t timeout_ns,
                        order_of_fn *order_of)
{
    struct ordering ordering = {.peer = peer};
    int64_t deadline = nxr_deadline(timeout_ns);
    int status = nxr_wait_as(
        ready_for(order_of), peer, timeout_ns, nxr_describe_reason,
        &(const struct nxr_reason){.kind = NXR_WAIT_FLUSH, .peer = peer->rank, .call = operation});

    ordering.order = order_of(peer);
    if (status == NIXL_OK && !nxr_peer_is_lost(peer) && ordering.order != NULL) {
        status = nxr_wait_as(flush_is_in_order, &ordering, nxr_left(timeout_ns, deadline),
                             nxr_describe_reason,
                             &(const struct nxr_reason){
                                 .kind = NXR_WAIT_FLUSH, .peer = peer->rank, .call = operation});
        status = status == NIXL_OK ? ordering.status : status;
    }
    if (status < 0 || nxr_peer_is_lost(peer)) {
        return fail_drain(operation, peer, status, timeout_ns);
    }
    return status;
}

/* Without a look at failures that no other call reports. */
static inline __attribute__((always_inline)) int
drain_only(const char *operation, struct nxr_peer *peer, int64_t timeout_ns, order_of_fn *order_of)
{
    return is_drained(peer, order_of) ? NIXL_OK
                                      : wait_drained(operation, peer, timeout_ns, order_of);
}

static inline __attribute__((always_inline)) int drain(const char *operation, struct nxr_peer *peer,
                                                       int64_t timeout_ns, order_of_fn *order_of)
{
    int status = drain_only(operation, peer, timeout_ns, order_of);

    return status == NIXL_OK && has_failure(peer) ? nxr_transfer_report(operation, peer) : status;
}

int nxr_transfer_fence(const char *operation, struct nxr_peer *peer)
{
    return drain(operation, peer, nxr_env.op_timeout, fence_of);
}

/* Does the peer need a fence or flush? If it is not connected, puts may wait for the connection. */
static bool flush_is_used(struct nxr_peer *peer)
{
    return peer != NULL && !peer->is_detached &&
           (nxr_peer_is_up(peer) || !has_no_gets_either(peer));
}

/*
 * Report one of the failures that are reported once: those of other peers stay for the next flush.
 */
static int report_one(const char *operation)
{
    int status = NIXL_OK;

    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL && status == NIXL_OK;
         peer = nxr_peers_next(peer)) {
        status = nxr_transfer_report(operation, peer);
    }
    return status;
}

/*
 * A failure that is reported only once is told by a call that has waited for all: it takes
 * precedence over lost peers, which are reported each time.
 */
static int drain_all(const char *operation, int64_t timeout_ns, order_of_fn *order_of)
{
    int64_t deadline = nxr_deadline(timeout_ns);
    int first_failure = NIXL_OK, lost_rank = -1;

    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        if (nxr_peer_is_up(peer) && nxr_peer_is_remote(peer)) {
            order_of(peer)(peer); /* start with all before waiting for each */
        }
    }
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        int status = flush_is_used(peer)
                         ? drain_only(operation, peer, nxr_left(timeout_ns, deadline), order_of)
                         : NIXL_OK;

        if (status == NIXL_E_PEER_LOST) {
            lost_rank = peer->rank; /* it may be freed while others are waited for */
        } else if (first_failure == NIXL_OK) {
            first_failure = status;
        }
    }
    if (first_failure == NIXL_OK) {
        first_failure = report_one(operation);
    }
    return first_failure == NIXL_OK && lost_rank >= 0 ? nxr_peer_fail_lost(operation, lost_rank, "")
                                                      : first_failure;
}

static int call_fence(int rank)
{
    int status = nxr_check_ready("nixl_fence");
    struct nxr_peer *peer;

    if (status != NIXL_OK) {
        return status;
    }
    if (rank == NIXL_ALL_RANKS) {
        return drain_all("nixl_fence", nxr_env.op_timeout, fence_of);
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_fence", rank);
    }
    peer = nxr_peer_find(rank);
    if (peer == NULL) {
        return NIXL_OK;
    }
    return nxr_transfer_fence("nixl_fence", peer);
}

int nixl_fence(int rank)
{
    return NXR_TRACED(NXR_TRACE_WAIT, "nixl_fence", rank, 0, 0, call_fence(rank));
}

static inline int flush(const char *operation, int rank, order_of_fn *order_of, int64_t timeout_ns)
{
    struct nxr_peer *peer;

    if (rank == NIXL_ALL_RANKS) {
        return drain_all(operation, timeout_ns, order_of);
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank(operation, rank);
    }
    peer = nxr_peer_find(rank);
    if (peer == NULL) {
        return NIXL_OK;
    }
    return drain(operation, peer, timeout_ns, order_of);
}

static inline __attribute__((always_inline)) int call_flush(int rank, int64_t timeout_ns)
{
    int status = nxr_is_ready() ? NIXL_OK : nxr_check_ready("nixl_flush");

    if (__builtin_expect(status != NIXL_OK, 0)) {
        return status;
    }
    return timeout_ns < 0 ? nxr_fail_timeout("nixl_flush", rank, timeout_ns)
                          : flush("nixl_flush", rank, flush_of, timeout_ns);
}

/* Apart: what it keeps would have to be saved by calls without a trace, too. */
static __attribute__((noinline)) int flush_traced(int rank, int64_t timeout_ns)
{
    return NXR_TRACED(NXR_TRACE_WAIT, "nixl_flush", rank, 0, 0, call_flush(rank, timeout_ns));
}

int nixl_flush(int rank, int64_t timeout_ns)
{
    return nxr_trace_has(NXR_TRACE_WAIT) ? flush_traced(rank, timeout_ns)
                                         : call_flush(rank, timeout_ns);
}

/* ---- flushing without waiting ---------------------------------------------------------------- */

/*
 * A flush that was started: looked at whenever progress is driven, and by the service thread each
 * millisecond. `rank`: of the peers that it has still to drain, from `next` to `last`.
 */
struct started_flush {
    struct nxr_list link;
    struct nixl_req *req;
    order_of_fn *order_of;
    int next, last;
    int status;    /* the first failure that is not the loss of a peer */
    int lost_rank; /* the first one that is lost; -1: none */

    /* Then make durable what was put into this region, or all, at the ranks from `first` on. */
    bool is_durable;
    struct nixl_region *region;
    int first;
};

static pthread_mutex_t flushes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list flushes = {&flushes, &flushes};
static _Atomic uint32_t n_flushes;

#define LOOK_NS (1 * NXR_MS)

/* Is that peer drained, or lost? */
static bool flush_is_past(struct started_flush *flush, struct nxr_peer *peer)
{
    order_fn *order;
    int status = NIXL_OK;

    if (!flush_is_used(peer)) {
        return true;
    }
    if (!ready_for(flush->order_of)(peer)) {
        return false;
    }
    order = flush->order_of(peer);
    if (order != NULL && !nxr_peer_is_lost(peer)) {
        status = order(peer);
    }
    if (status == NIXL_INPROGRESS) {
        return false;
    }
    if (status == NIXL_E_PEER_LOST || nxr_peer_is_lost(peer)) {
        flush->lost_rank = flush->lost_rank < 0 ? peer->rank : flush->lost_rank;
    } else if (status != NIXL_OK && flush->status == NIXL_OK) {
        flush->status = status;
        flush->req->lost_rank = peer->rank;
    }
    return true;
}

/* Caller holds flushes_lock. */
static bool flush_is_over(struct started_flush *flush)
{
    while (flush->next <= flush->last && flush_is_past(flush, nxr_peer_find(flush->next))) {
        flush->next++;
    }
    return flush->next > flush->last;
}

/*
 * How a flush has ended that has waited for all: as drain_all(). One that is given up before that
 * takes no failure from those that come later.
 */
static int flush_judge(const struct started_flush *flush)
{
    int status = flush->status;

    for (int rank = flush->first; rank <= flush->last && status == NIXL_OK; rank++) {
        struct nxr_peer *peer = nxr_peer_find(rank);

        if (peer != NULL && has_failure(peer)) {
            status = take_failure(peer);
            flush->req->lost_rank = rank;
        }
    }
    if (status == NIXL_OK && flush->lost_rank >= 0) {
        flush->req->lost_rank = flush->lost_rank;
        status = NIXL_E_PEER_LOST;
    }
    return status;
}

static bool flushes_progress(void)
{
    struct nxr_list *link, *after, ended;
    bool has_ended;

    if (atomic_load_explicit(&n_flushes, memory_order_relaxed) == 0 ||
        pthread_mutex_trylock(&flushes_lock) != 0) {
        return false;
    }
    nxr_list_init(&ended);
    nxr_list_for_each (link, after, &flushes) {
        if (flush_is_over(nxr_list_entry(link, struct started_flush, link))) {
            nxr_list_remove(link);
            nxr_list_append(&ended, link);
            atomic_fetch_sub(&n_flushes, 1);
        }
    }
    pthread_mutex_unlock(&flushes_lock);
    has_ended = !nxr_list_is_empty(&ended);
    while ((link = nxr_list_pop(&ended)) != NULL) {
        struct started_flush *flush = nxr_list_entry(link, struct started_flush, link);
        int status = flush_judge(flush);

        if (flush->is_durable && status == NIXL_OK) {
            nxr_durable_run(flush->req, flush->region, flush->first, flush->last);
        } else {
            nxr_request_end(flush->req, status);
        }
        free(flush);
    }
    return has_ended;
}

static void flushes_serve(void)
{
    (void)flushes_progress();
}

static int64_t flushes_tick(int64_t now)
{
    return atomic_load(&n_flushes) != 0 ? now + LOOK_NS : INT64_MAX;
}

/* Give a flush up, if it has not ended. */
static void flush_stop(struct nixl_req *req)
{
    struct nxr_list *link, *after;
    struct started_flush *found = NULL;

    pthread_mutex_lock(&flushes_lock);
    nxr_list_for_each (link, after, &flushes) {
        struct started_flush *flush = nxr_list_entry(link, struct started_flush, link);

        if (flush->req == req) {
            found = flush;
            nxr_list_remove(link);
            atomic_fetch_sub(&n_flushes, 1);
        }
    }
    pthread_mutex_unlock(&flushes_lock);
    if (found != NULL) {
        free(found);
        nxr_request_end(req, NIXL_E_CANCELED);
    } else {
        nxr_durable_stop(req);
    }
}

static const struct nxr_req_owner flush_owner = {.is_unflushed = true, .stop = flush_stop};

/* What a flush covers. */
struct flushed {
    order_of_fn *order_of;
    bool is_durable;
    struct nixl_region *region;
};

static int flush_start(const char *operation, int rank, const struct flushed *what,
                       struct nixl_req **req_p)
{
    struct started_flush *flush = malloc(sizeof(*flush));
    struct nixl_req *req = flush != NULL ? nxr_request_new(operation, &flush_owner, NULL) : NULL;

    if (req == NULL) {
        free(flush);
        return nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0, "no memory for a request");
    }
    req->lost_rank = rank == NIXL_ALL_RANKS ? -1 : rank;
    *flush = (struct started_flush){
        .req = req,
        .order_of = what->order_of,
        .is_durable = what->is_durable,
        .region = what->region,
        .first = rank == NIXL_ALL_RANKS ? 0 : rank,
        .next = rank == NIXL_ALL_RANKS ? 0 : rank,
        .last = rank == NIXL_ALL_RANKS ? (int)nxr_n_numbers() - 1 : rank,
        .lost_rank = -1,
    };
    pthread_mutex_lock(&flushes_lock);
    nxr_list_append(&flushes, &flush->link);
    atomic_fetch_add(&n_flushes, 1);
    pthread_mutex_unlock(&flushes_lock);
    (void)flushes_progress();
    if (nxr_request_is_done(req)) {
        return nxr_request_finish(operation, &req);
    }
    nxr_service_kick();
    *req_p = req;
    return NIXL_INPROGRESS;
}

/* Is the region known to be no storage at that rank? */
static int flush_check_durable(const char *operation, int rank, struct nixl_region *region)
{
    const struct nxr_segment *segment =
        region != NULL && rank != NIXL_ALL_RANKS ? nxr_region_segment(region, rank) : NULL;

    return segment == NULL || nxr_segment_is_storage(segment)
               ? NIXL_OK
               : nxr_form_refuse(
                     operation, rank, "NIXL_OP_DURABLE",
                     "the region is memory at that rank, which lasts no longer than "
                     "its process; allowed: files and objects, or NULL for all of them");
}

/* Without a request there is nothing in progress when the call returns. */
static int flush_and_wait(const char *operation, int rank, order_of_fn *order_of,
                          int64_t timeout_ns)
{
    int status = flush(operation, rank, order_of, timeout_ns);

    return status != NIXL_INPROGRESS
               ? status
               : nxr_fail(NIXL_E_TIMEOUT, operation, rank < 0 ? -1 : rank, "", 0,
                          "not all that was put is visible yet, and NIXL_AT_ONCE does not wait");
}

static int call_flush_x(int rank, struct nixl_region *region, const struct nixl_op *op,
                        struct nixl_req **req_p)
{
    static const char operation[] = "nixl_flush_x";
    struct nixl_req *req = NULL;
    struct nxr_form form;
    int status = nxr_form_read_start(operation, op, NIXL_OP_GETS | NIXL_OP_DURABLE, req_p, &form);
    const struct flushed what = {
        .order_of = nxr_form_has(&form, NIXL_OP_GETS) ? flush_gets_of : flush_of,
        .is_durable = nxr_form_has(&form, NIXL_OP_DURABLE),
        .region = region,
    };

    if (status == NIXL_OK && region != NULL && !nxr_region_is_open(region)) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "the region is closed");
    }
    if (status == NIXL_OK && rank != NIXL_ALL_RANKS && !nxr_is_rank(rank)) {
        status = nxr_fail_rank(operation, rank);
    }
    if (status == NIXL_OK && what.is_durable) {
        status = flush_check_durable(operation, rank, region);
    }
    if (status == NIXL_OK && req_p == NULL && form.op->cq == NULL && !what.is_durable) {
        return flush_and_wait(operation, rank, what.order_of, form.timeout_ns);
    }
    if (status == NIXL_OK) {
        status = flush_start(operation, rank, &what, &req);
    }
    return nxr_form_end(operation, &form, status, req, req_p);
}

int nixl_flush_x(int rank, struct nixl_region *region, const struct nixl_op *op,
                 struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_WAIT, "nixl_flush_x", rank, 0, 0,
                      call_flush_x(rank, region, op, req_p));
}

const struct nxr_subsystem nxr_flush_subsystem = {
    .name = "flush",
    .tick = flushes_tick,
    .serve = flushes_serve,
    .progress = flushes_progress,
};
