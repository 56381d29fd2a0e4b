/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is added to a request after its start: what follows it, a deadline, the completion queue
 * that reports it. A thread that stops one of them holds it, so that it is not freed meanwhile.
 * Lock: requests_lock, which request.c owns.
 */
#include "config.h"

#include "core/cq.h"
#include "core/request_watch.h"
#include "core/observe.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "util/clock.h"

#include <stdlib.h>

static struct nxr_list expiring = {&expiring, &expiring}; /* with a deadline; in no order */

/* Stop a request that others may free meanwhile; it is_held. */
static void request_stop_held(struct nixl_req *req)
{
    bool must_free;

    (void)nxr_request_stop(req);
    pthread_mutex_lock(&nxr_requests_lock);
    req->is_held = false;
    must_free = req->must_free;
    pthread_mutex_unlock(&nxr_requests_lock);
    if (must_free) {
        nxr_request_free(req);
    }
}

void nxr_request_leave_to_flush(struct nixl_req *req, int status)
{
    if (status != NIXL_OK && !req->owner->is_unflushed) {
        if (req->is_failed_put) {
            atomic_fetch_or(&req->peer->doubts, NXR_DOUBT_DETACHED);
        }
        atomic_store(&req->peer->freed_failure, status);
    }
}

/* ---- what follows, and deadlines ------------------------------------------------------------- */

void nxr_request_follow(struct nixl_req *req, struct nxr_follower *follower)
{
    int status;

    pthread_mutex_lock(&nxr_requests_lock);
    status = atomic_load(&req->status);
    if (status == NIXL_INPROGRESS && req->op.kind == NXR_OP_PUT &&
        req->phase == NXR_REQUEST_BEGUN && req->is_started && !req->is_pending) {
        status = NIXL_OK; /* it is ordered already */
    }
    if (status == NIXL_INPROGRESS) {
        follower->next = req->followers;
        req->followers = follower;
    }
    pthread_mutex_unlock(&nxr_requests_lock);
    if (status != NIXL_INPROGRESS) {
        follower->go(follower, status);
    }
}

void nxr_request_expire(struct nixl_req *req, int64_t at_ns)
{
    bool is_added;

    pthread_mutex_lock(&nxr_requests_lock);
    is_added = req->phase != NXR_REQUEST_DONE;
    if (is_added) {
        req->expires_at = at_ns;
        nxr_list_append(&expiring, &req->expire_link);
    }
    pthread_mutex_unlock(&nxr_requests_lock);
    if (is_added) {
        nxr_service_kick();
    }
}

/* The request whose time is over, held; or NULL, and *next_p is when the next one is. */
static struct nixl_req *take_expired(int64_t now, int64_t *next_p)
{
    struct nxr_list *link, *after;
    struct nixl_req *found = NULL;

    pthread_mutex_lock(&nxr_requests_lock);
    nxr_list_for_each (link, after, &expiring) {
        struct nixl_req *req = nxr_list_entry(link, struct nixl_req, expire_link);

        if (req->expires_at <= now && !req->is_held) {
            nxr_list_remove(&req->expire_link);
            req->is_held = true;
            found = req;
            break;
        }
        *next_p = req->expires_at < *next_p ? req->expires_at : *next_p;
    }
    pthread_mutex_unlock(&nxr_requests_lock);
    return found;
}

static void stop_expired(void)
{
    int64_t now = nxr_now_ns(), next = INT64_MAX;
    struct nixl_req *req;

    while ((req = take_expired(now, &next)) != NULL) {
        atomic_store(&req->is_late, true);
        request_stop_held(req);
    }
}

/* When the next one's time is over. */
static int64_t expiry_tick(int64_t now)
{
    int64_t next = INT64_MAX;

    (void)now;
    pthread_mutex_lock(&nxr_requests_lock);
    for (struct nxr_list *link = expiring.next; link != &expiring; link = link->next) {
        int64_t at = nxr_list_entry(link, struct nixl_req, expire_link)->expires_at;

        next = at < next ? at : next;
    }
    pthread_mutex_unlock(&nxr_requests_lock);
    return next;
}

/* ---- for observers --------------------------------------------------------------------------- */

/* List what is under way, by peer. */
static void request_observe(struct nxr_observe_waits *waits)
{
    struct nxr_wait_flights *flights = &waits->flights;

    nxr_observe_write_begin(&flights->counter);
    flights->n = flights->n_listed = 0;
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        uint32_t n = atomic_load_explicit(&peer->n_pending, memory_order_relaxed) +
                     atomic_load_explicit(&peer->n_gets, memory_order_relaxed) +
                     atomic_load_explicit(&peer->n_words, memory_order_relaxed) +
                     atomic_load_explicit(&peer->n_held, memory_order_relaxed);

        if (n > 0 && flights->n_listed < NXR_OBSERVE_N_FLIGHTS) {
            flights->listed[flights->n_listed].rank = peer->rank;
            flights->listed[flights->n_listed].n = n;
            flights->n_listed++;
        }
        flights->n += n;
    }
    nxr_observe_write_end(&flights->counter);
}

const struct nxr_subsystem nxr_request_watch_subsystem = {
    .name = "request watch",
    .observe = request_observe,
    .tick = expiry_tick,
    .serve = stop_expired,
};

/* ---- completion queues ----------------------------------------------------------------------- */

void nxr_request_report(struct nixl_req *req, struct nixl_cq *cq, uint64_t user_data)
{
    pthread_mutex_lock(&nxr_requests_lock);
    req->cq = cq;
    req->user_data = user_data;
    nxr_cq_begun(req);
    if (req->phase == NXR_REQUEST_DONE) {
        atomic_fetch_sub(&nxr_n_done_unseen, 1);
        nxr_cq_ended(req);
    }
    pthread_mutex_unlock(&nxr_requests_lock);
}

size_t nxr_request_take_reported(struct nixl_cq *cq, struct nixl_req **reqs, size_t max)
{
    struct nixl_req *req;
    size_t n = 0;

    pthread_mutex_lock(&nxr_requests_lock);
    while (n < max && (req = nxr_cq_take_from(&cq->ended)) != NULL) {
        if (req->is_failed_put) {
            atomic_fetch_sub(&req->peer->doubts, NXR_DOUBT_PUT);
        }
        req->is_alone = !req->is_held; /* nobody finds it any more who could hold it */
        reqs[n++] = req;
    }
    atomic_fetch_sub(&cq->n_ended, n);
    pthread_mutex_unlock(&nxr_requests_lock);
    return n;
}

/* One under way with that user_data that was not canceled yet, held; or NULL. */
static struct nixl_req *hold_reported(struct nixl_cq *cq, uint64_t user_data)
{
    struct nixl_req *found = NULL;

    pthread_mutex_lock(&nxr_requests_lock);
    for (struct nxr_list *link = cq->under_way.next; link != &cq->under_way && found == NULL;
         link = link->next) {
        struct nixl_req *req = nxr_list_entry(link, struct nixl_req, cq_link);

        if (req->user_data == user_data && !req->is_canceled && !req->is_held) {
            req->is_canceled = true;
            req->is_held = true;
            found = req;
        }
    }
    pthread_mutex_unlock(&nxr_requests_lock);
    return found;
}

void nxr_request_stop_reported(struct nixl_cq *cq, uint64_t user_data)
{
    struct nixl_req *req;

    while ((req = hold_reported(cq, user_data)) != NULL) {
        request_stop_held(req);
    }
}

void nxr_request_abandon_reported(struct nixl_cq *cq)
{
    struct nixl_req *req;

    /* These first: one that ends between the two would be in the list that is done. */
    do {
        pthread_mutex_lock(&nxr_requests_lock);
        req = nxr_cq_take_from(&cq->under_way);
        if (req != NULL) {
            req->cq = NULL;
            req->is_freed = true;
            atomic_fetch_add(&req->peer->n_detached, req->owner->has_peer);
        }
        pthread_mutex_unlock(&nxr_requests_lock);
    } while (req != NULL);
    while (nxr_request_take_reported(cq, &req, 1) > 0) {
        pthread_mutex_lock(&nxr_requests_lock);
        nxr_request_leave_to_flush(req, atomic_load(&req->status));
        pthread_mutex_unlock(&nxr_requests_lock);
        nxr_request_drop(req);
    }
}
