/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of requests; the public calls on them are in request_calls.c, what is added to them
 * after their start in request_watch.c, and what follows them in request_follow.c. Lock:
 * requests_lock (nxr_requests_lock) guards phases and lists; it is taken inside job.lock and never
 * held while bytes move.
 */
#include "config.h"

#include "core/request.h"
#include "core/cq.h"
#include "core/request_follow.h"
#include "core/request_watch.h"
#include "core/subsystem.h"
#include "core/progress.h"
#include "core/service.h"
#include "core/stats.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/spare.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t nxr_requests_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list begun = {&begun, &begun};             /* to be started */
static struct nxr_list behind = {&behind, &behind};          /* words that wait for earlier puts */
static struct nxr_list resolving = {&resolving, &resolving}; /* by age */
_Atomic uint32_t nxr_n_done_unseen;
static struct nxr_spares request_spares;

bool nxr_request_any_done(void)
{
    return atomic_load_explicit(&nxr_n_done_unseen, memory_order_acquire) != 0;
}

/* Send what was held back until earlier puts ended, if there is any. */
static inline void request_send_held(struct nxr_peer *peer)
{
    if (atomic_load_explicit(&peer->n_held, memory_order_acquire) != 0) {
        nxr_subsystems_puts_ended(peer);
    }
}

bool nxr_request_unlink(struct nixl_req *req)
{
    nxr_list_remove(&req->expire_link);
    nxr_list_remove(&req->cq_link);
    req->must_free = req->is_held;
    return !req->is_held;
}

void nxr_request_drop(struct nixl_req *req)
{
    bool may_free = req->is_alone;

    if (!may_free) {
        pthread_mutex_lock(&nxr_requests_lock);
        may_free = nxr_request_unlink(req);
        pthread_mutex_unlock(&nxr_requests_lock);
    }
    if (may_free) {
        nxr_request_free(req);
    }
}

/* ---- ending ---------------------------------------------------------------------------------- */

/*
 * No put to that peer is under way: queue the words that waited for that. Caller holds
 * requests_lock.
 */
static bool begin_behind(const struct nxr_peer *peer)
{
    struct nxr_list *link, *after;
    bool has_begun = false;

    nxr_list_for_each (link, after, &behind) {
        if (nxr_list_entry(link, struct nixl_req, link)->peer == peer) {
            nxr_list_remove(link);
            nxr_list_append(&begun, link);
            has_begun = true;
        }
    }
    return has_begun;
}

/*
 * What follows the put need not wait for it any more. Caller holds requests_lock. True: there is
 * something to start.
 */
static bool stop_pending(struct nixl_req *req)
{
    if (!req->is_pending) {
        return false;
    }
    req->is_pending = false;
    return atomic_fetch_sub_explicit(&req->peer->n_pending, 1, memory_order_release) == 1 &&
           begin_behind(req->peer);
}

static void request_op_ended(struct nxr_op *op, int status);

/* The word that the request must change next; NULL: none. */
static struct nxr_after *req_next_word(struct nixl_req *req)
{
    return req->after.segment != NULL && !req->op.has_synced ? &req->after
           : req->signal.segment != NULL                     ? &req->signal
                                                             : NULL;
}

/* The operation becomes the change of that word. */
static void req_set_word(struct nixl_req *req, struct nxr_after *word)
{
    req->op.kind = NXR_OP_ATOMIC;
    req->op.segment = word->segment;
    req->op.offset = word->atomic.offset;
    req->op.atomic = word->atomic;
    req->op.local = NULL;
    req->op.is_signal = word->atomic.op != NXR_ATOMIC_SYNC; /* whose end is waited for */
    req->op.is_unordered = false;
    req->op.transport = NULL;
    req->op.ended = request_op_ended; /* an owner may have ended the former one itself */
    req->transport = word->segment->transport->name;
    req->word_owner = word->owner;
    word->segment = NULL;
#ifdef NXR_DEBUG
    atomic_store(&req->op.has_ended, false);
#endif
}

/* Must the request still change a word, now that its operation has succeeded? If so, queue that. */
static bool goes_on(struct nixl_req *req)
{
    struct nxr_peer *peer = req->peer;
    struct nxr_after *word = req_next_word(req);
    const bool was_word = req->op.kind == NXR_OP_ATOMIC;

    if (word == NULL) {
        return false;
    }
    pthread_mutex_lock(&nxr_requests_lock);
    req_set_word(req, word);
    req->is_started = false;
    if (req->phase != NXR_REQUEST_BEGUN) { /* its owner has begun it */
        req->phase = NXR_REQUEST_BEGUN;
        atomic_fetch_add(&nxr_n_started, 1);
    }
    if (!was_word) {
        atomic_fetch_add(&peer->n_words, 1);
    }
    nxr_list_append(&begun, &req->link);
    (void)stop_pending(req);
    pthread_mutex_unlock(&nxr_requests_lock);
    request_send_held(peer);
    nxr_service_kick();
    return true;
}

/* The operation has succeeded: store what it fetched, and change the word of this process. */
static void write_words(const struct nixl_req *req)
{
    if (req->op.kind == NXR_OP_ATOMIC && req->op.local != NULL) {
        nxr_atomic_store_value(req->op.local, req->op.fetched, nxr_atomic_nbytes(&req->op.atomic));
    }
    if (req->after.local != NULL) {
        (void)nxr_atomic_apply(req->after.local, &req->after.atomic);
    }
}

void nxr_request_end(struct nixl_req *req, int status)
{
    struct nxr_peer *peer = req->peer;
    struct nxr_follower *followers;
    bool was_begun, is_freed, has_begun;

    if (status == NIXL_E_CANCELED && atomic_load(&req->is_late)) {
        status = NIXL_E_TIMEOUT;
    }
    if (status == NIXL_OK && goes_on(req)) {
        return;
    }
    if (status == NIXL_OK) {
        write_words(req);
    }
    if (req->owner->ended != NULL) {
        req->owner->ended(req, status);
    }
    pthread_mutex_lock(&nxr_requests_lock);
    was_begun = req->phase == NXR_REQUEST_BEGUN;
    req->phase = NXR_REQUEST_DONE;
    nxr_list_remove(&req->link);
    nxr_list_remove(&req->age_link);
    is_freed = req->is_freed;
    req->is_failed_put = status != NIXL_OK && req->is_pending && !req->op.is_waited &&
                         !req->owner->is_unflushed && !req->op.has_synced;
    if (is_freed) {
        nxr_request_leave_to_flush(req, status);
        atomic_fetch_sub_explicit(&peer->n_detached, req->owner->has_peer, memory_order_release);
    } else {
        if (req->is_failed_put) {
            atomic_fetch_add(&peer->doubts, NXR_DOUBT_PUT);
        }
        if (req->cq != NULL) {
            nxr_cq_ended(req);
        } else {
            atomic_fetch_add(&nxr_n_done_unseen, 1);
        }
    }
    if (req->is_failed_put) {
        atomic_fetch_add(&peer->n_failed_puts, 1);
    }
    nxr_list_remove(&req->expire_link);
    followers = nxr_followers_take(req);
    has_begun = stop_pending(req);
    if (req->op.kind == NXR_OP_ATOMIC) {
        atomic_fetch_sub_explicit(&peer->n_words, 1, memory_order_release);
    } else if (req->is_get) {
        atomic_fetch_sub_explicit(&peer->n_gets, 1, memory_order_release);
    }
    if (was_begun) {
        atomic_fetch_sub(&nxr_n_started, 1);
    }
    /* From the store on, a waiter may free the request. */
    atomic_store_explicit(&req->status, status, memory_order_release);
    pthread_mutex_unlock(&nxr_requests_lock);
    if (is_freed) {
        nxr_request_drop(req);
    }
    nxr_followers_tell(followers, status);
    request_send_held(peer);
    if (has_begun) {
        nxr_service_kick();
    }
    nxr_wake_self();
}

static void request_op_ended(struct nxr_op *op, int status)
{
    nxr_request_end(nxr_list_entry(op, struct nixl_req, op), status);
}

void nxr_request_has_moved(struct nixl_req *req)
{
    struct nxr_peer *peer = req->peer;
    bool has_begun;

    pthread_mutex_lock(&nxr_requests_lock);
    has_begun = stop_pending(req);
    pthread_mutex_unlock(&nxr_requests_lock);
    request_send_held(peer);
    if (has_begun) {
        nxr_service_kick();
    }
}

bool nxr_request_is_ordered(struct nixl_req *req)
{
    bool is_ordered;

    pthread_mutex_lock(&nxr_requests_lock);
    is_ordered = !req->is_pending;
    pthread_mutex_unlock(&nxr_requests_lock);
    return is_ordered;
}

/* Does what follows wait until the put is durable? Then order alone is not enough. */
static bool is_to_be_durable(const struct nixl_req *req)
{
    return req->after.segment != NULL && req->after.atomic.op == NXR_ATOMIC_SYNC;
}

void nxr_op_ordered(struct nxr_op *op)
{
    if (op->ended == request_op_ended) { /* otherwise it is one of several pieces */
        struct nixl_req *req = nxr_list_entry(op, struct nixl_req, op);
        bool has_begun;

        pthread_mutex_lock(&nxr_requests_lock);
        has_begun = stop_pending(req);
        if (!is_to_be_durable(req)) {
            nxr_followers_make_due(nxr_followers_take(req));
        }
        pthread_mutex_unlock(&nxr_requests_lock);
        if (has_begun || nxr_followers_are_due()) {
            nxr_service_kick();
        }
    }
}

void nxr_op_done(struct nxr_op *op, int status)
{
#ifdef NXR_DEBUG
    if (atomic_exchange(&op->has_ended, true)) {
        NXR_ASSERT(false); /* it ends once */
    }
#endif
    NXR_ASSERT(status != NIXL_INPROGRESS && status != NIXL_E_AGAIN && !nxr_core_is_locked());
    nxr_stats_end(op, status);
    op->ended(op, status);
}

/* ---- beginning ------------------------------------------------------------------------------- */

void nxr_request_begin_waiting(struct nxr_list *waiting, void (*aim)(struct nxr_op *op))
{
    struct nxr_list *link;

    pthread_mutex_lock(&nxr_requests_lock);
    while ((link = nxr_list_pop(waiting)) != NULL) {
        struct nixl_req *req = nxr_list_entry(link, struct nixl_req, link);

        nxr_list_remove(&req->age_link);
        if (aim != NULL) {
            aim(&req->op);
        }
        req->transport = req->op.segment->transport->name;
        req->phase = NXR_REQUEST_BEGUN;
        nxr_list_append(&begun, &req->link);
        atomic_fetch_add(&nxr_n_started, 1);
    }
    pthread_mutex_unlock(&nxr_requests_lock);
}

void nxr_request_fail_waiting(struct nxr_list *waiting, int status)
{
    while (!nxr_list_is_empty(waiting)) {
        nxr_request_end(nxr_list_entry(waiting->next, struct nixl_req, link), status);
    }
}

void nxr_request_hand_to(struct nxr_op *op, const struct nxr_transport *transport)
{
    atomic_store_explicit(&op->transport, transport, memory_order_release);
}

const struct nxr_transport *nxr_request_transport(const struct nxr_op *op)
{
    return atomic_load_explicit(&op->transport, memory_order_acquire);
}

/*
 * A word must arrive after earlier puts: does it have to wait for them? It is then started when
 * they end.
 */
static bool waits_behind(struct nixl_req *req)
{
    bool waits;

    pthread_mutex_lock(&nxr_requests_lock);
    waits = atomic_load_explicit(&req->peer->n_pending, memory_order_acquire) != 0;
    if (waits) {
        req->is_started = false;
        nxr_list_append(&behind, &req->link);
    }
    pthread_mutex_unlock(&nxr_requests_lock);
    return waits;
}

static void request_start(struct nixl_req *req)
{
    struct nxr_peer *peer =
        req->peer; /* the request may end, and be freed, before start() returns */
    int status;

    if (req->op.kind == NXR_OP_ATOMIC && !req->op.is_unordered && waits_behind(req)) {
        return;
    }
    status = (req->word_owner != NULL ? req->word_owner : req->owner)->start(&req->op);
    if (status == NIXL_INPROGRESS) {
        request_send_held(peer);
    } else {
        nxr_request_end(req, status);
    }
}

bool nxr_request_start_begun(void)
{
    struct nxr_list *link;
    bool has_started = false;

    nxr_followers_tell_due();
    for (;;) {
        struct nixl_req *req;

        pthread_mutex_lock(&nxr_requests_lock);
        link = nxr_list_pop(&begun);
        req = link != NULL ? nxr_list_entry(link, struct nixl_req, link) : NULL;
        if (req != NULL) {
            req->is_started = true;
        }
        pthread_mutex_unlock(&nxr_requests_lock);
        if (req == NULL) {
            return has_started;
        }
        request_start(req);
        has_started = true;
    }
}

static void request_count(struct nixl_req *req)
{
    req->is_pending = req->op.kind == NXR_OP_PUT;
    req->is_get = req->op.kind == NXR_OP_GET;
    if (req->is_pending) {
        atomic_fetch_add(&req->peer->n_pending, 1);
    } else if (req->is_get) {
        atomic_fetch_add(&req->peer->n_gets, 1);
    }
}

/* A peer that may be freed is not, while a request concerns it. */
static void request_set_peer(struct nixl_req *req, struct nxr_peer *peer)
{
    req->peer = peer;
    if (peer->is_counted) {
        atomic_fetch_add(&peer->n_requests, 1);
    }
}

void nxr_request_free(struct nixl_req *req)
{
    if (req->peer != NULL && req->peer->is_counted) {
        atomic_fetch_sub(&req->peer->n_requests, 1);
    }
    free(req->why);
    nxr_spare_give(&request_spares, req);
}

static bool request_peer_is_used(struct nxr_peer *peer)
{
    return atomic_load(&peer->n_requests) != 0;
}

static void request_set_op(struct nixl_req *req, const struct nxr_op *op, struct nxr_peer *peer)
{
    req->op = *op;
    req->op.ended = request_op_ended;
    request_set_peer(req, peer);
    request_count(req);
}

void nxr_request_begin(struct nixl_req *req, const struct nxr_op *op)
{
    request_set_op(req, op, op->segment->peer);
    req->transport = op->segment->transport->name;
    req->phase = NXR_REQUEST_BEGUN;
    req->is_started = true;
    if (op->kind == NXR_OP_ATOMIC) {
        atomic_fetch_add(&req->peer->n_words, 1);
    }
    atomic_fetch_add(&nxr_n_started, 1);
    request_start(req);
    if (nxr_must_drive()) {
        nxr_service_kick();
    }
}

void nxr_request_await(struct nixl_req *req, const struct nxr_op *op, struct nxr_peer *peer,
                       struct nxr_list *waiting)
{
    request_set_op(req, op, peer);
    req->resolve_by = nxr_deadline(nxr_env.resolve_timeout);
    pthread_mutex_lock(&nxr_requests_lock);
    nxr_list_append(waiting, &req->link);
    nxr_list_append(&resolving, &req->age_link);
    pthread_mutex_unlock(&nxr_requests_lock);
}

void nxr_request_has_begun(struct nixl_req *req, struct nxr_peer *peer)
{
    request_set_peer(req, peer);
    req->transport = peer->transport->name;
    req->is_started = true;
    request_count(req);
}

struct nixl_req *nxr_request_new(const char *operation, const struct nxr_req_owner *owner,
                                 void *owned)
{
    struct nixl_req *req = nxr_spare_take(&request_spares, sizeof(*req));

    if (req == NULL) {
        return NULL;
    }
    *req = (struct nixl_req){.operation = operation,
                             .owner = owner,
                             .owned = owned,
                             .transport = "",
                             .lost_rank = -1,
                             .is_started = !owner->has_peer};
    atomic_init(&req->status, NIXL_INPROGRESS);
    nxr_list_init(&req->link);
    nxr_list_init(&req->age_link);
    nxr_list_init(&req->expire_link);
    nxr_list_init(&req->cq_link);
    if (!owner->has_peer) {
        req->peer = nxr_peer_find(nxr_job.rank);
    }
    return req;
}

int nxr_request_make_begun(const char *operation, const struct nxr_req_owner *owner,
                           const struct nxr_op *op, struct nixl_req **req_p)
{
    struct nixl_req *req = nxr_request_new(operation, owner, NULL);

    if (req == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, op->segment->peer->rank, "", 0,
                        "no memory for a request");
    }
    nxr_request_begin(req, op);
    *req_p = req;
    return NIXL_INPROGRESS;
}

int nxr_request_make_at(const char *operation, const struct nxr_req_owner *owner,
                        const struct nxr_op *op, struct nixl_req **req_p)
{
    struct nixl_req *req = NULL;
    int status = nxr_request_make_begun(operation, owner, op, &req);

    if (req != NULL && nxr_request_is_done(req) && atomic_load(&req->status) != NIXL_OK) {
        return nxr_request_finish(operation, &req); /* it was not queued: there is no request */
    }
    *req_p = req;
    return status;
}

void nxr_request_queue(struct nixl_req *req, const struct nxr_op *op)
{
    request_set_op(req, op, op->segment->peer);
    req->transport = op->segment->transport->name;
    pthread_mutex_lock(&nxr_requests_lock);
    req->phase = NXR_REQUEST_BEGUN;
    if (op->kind == NXR_OP_ATOMIC) {
        atomic_fetch_add(&req->peer->n_words, 1);
    }
    atomic_fetch_add(&nxr_n_started, 1);
    nxr_list_append(&begun, &req->link);
    pthread_mutex_unlock(&nxr_requests_lock);
    nxr_service_kick();
}

int64_t nxr_request_tick(int64_t now)
{
    while (!nxr_list_is_empty(&resolving)) {
        struct nixl_req *oldest = nxr_list_entry(resolving.next, struct nixl_req, age_link);

        if (oldest->resolve_by > now) {
            return oldest->resolve_by;
        }
        nxr_request_end(oldest, NIXL_E_NOT_FOUND);
    }
    return INT64_MAX;
}

static void request_serve(void)
{
    nxr_request_start_begun();
}

const struct nxr_subsystem nxr_request_subsystem = {
    .name = "request",
    .tick = nxr_request_tick,
    .serve = request_serve,
    .progress = nxr_request_start_begun,
    .peer_is_used = request_peer_is_used,
};
