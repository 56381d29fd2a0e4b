/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of requests, and the public calls on them. Lock: requests_lock guards phases and lists;
 * it is taken inside job.lock and never held while bytes move.
 */
#include "config.h"

#include "request.h"
#include "notify.h"
#include "progress.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"
#include "wait.h"

#include <stdlib.h>
#include <string.h>

_Atomic uint32_t nxr_n_started;

static pthread_mutex_t requests_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list begun = {&begun, &begun};             /* to be started */
static struct nxr_list resolving = {&resolving, &resolving}; /* by age */
static _Atomic uint32_t n_done_unseen;

static bool is_done(void *arg)
{
    const struct nixl_req *req = arg;

    return atomic_load_explicit(&req->status, memory_order_acquire) != NIXL_INPROGRESS;
}

bool nxr_request_any_done(void)
{
    return atomic_load_explicit(&n_done_unseen, memory_order_acquire) != 0;
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* End a request of any phase. Any thread; job.lock may be held. */
static void end_request(struct nixl_req *req, int status)
{
    struct nxr_peer *peer = req->peer;
    bool was_begun, is_freed;

    pthread_mutex_lock(&requests_lock);
    was_begun = req->phase == NXR_REQUEST_BEGUN;
    req->phase = NXR_REQUEST_DONE;
    nxr_list_remove(&req->link);
    nxr_list_remove(&req->age_link);
    is_freed = req->is_freed;
    if (is_freed) {
        if (status != NIXL_OK) {
            atomic_store(&peer->freed_failure, status);
        }
    } else {
        atomic_fetch_add(&n_done_unseen, 1);
    }
    if (req->op.kind == NXR_OP_PUT) {
        atomic_fetch_sub_explicit(&peer->n_pending, 1, memory_order_release);
    }
    if (was_begun) {
        atomic_fetch_sub(&nxr_n_started, 1);
    }
    /* From the store on, a waiter may free the request. */
    atomic_store_explicit(&req->status, status, memory_order_release);
    pthread_mutex_unlock(&requests_lock);
    if (is_freed) {
        free(req);
    }
    nxr_notify_send_held(peer);
    nxr_wake_self();
}

void nxr_op_done(struct nxr_op *op, int status)
{
    end_request(nxr_list_entry(op, struct nixl_req, op), status);
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* Put a request on the list of those to start. Caller holds requests_lock. */
static void begin(struct nixl_req *req)
{
    nxr_list_remove(&req->link);
    nxr_list_remove(&req->age_link);
    req->phase = NXR_REQUEST_BEGUN;
    nxr_list_append(&begun, &req->link);
    atomic_fetch_add(&nxr_n_started, 1);
}

void nxr_request_begin_waiting(struct nxr_list *waiting)
{
    pthread_mutex_lock(&requests_lock);
    while (!nxr_list_is_empty(waiting)) {
        begin(nxr_list_entry(waiting->next, struct nixl_req, link));
    }
    pthread_mutex_unlock(&requests_lock);
}

void nxr_request_fail_waiting(struct nxr_list *waiting, int status)
{
    while (!nxr_list_is_empty(waiting)) {
        end_request(nxr_list_entry(waiting->next, struct nixl_req, link), status);
    }
}

/* Move the bytes, or hand the operation to the transport. */
static void start(struct nixl_req *req)
{
    struct nxr_op *op = &req->op;
    struct nxr_part *part = op->part;
    int status;

    if (!nxr_part_has_range(part, op->offset, op->nbytes)) {
        end_request(req, NIXL_ERR_RANGE);
        return;
    }
    status = op->kind == NXR_OP_PUT ? part->transport->put(part, op->offset, op->local, op->nbytes)
                                    : part->transport->get(part, op->offset, op->local, op->nbytes);
    if (status == NIXL_ERR_AGAIN) {
        status = part->transport->start(op);
        if (status == NIXL_INPROGRESS) {
            return;
        }
    }
    if (status == NIXL_ERR_STALE) {
        nxr_region_mark_stale(part);
    }
    if (status == NIXL_OK) {
        op->nbytes_done = op->nbytes;
    }
    end_request(req, status);
}

bool nxr_request_start_begun(void)
{
    struct nxr_list *link;
    bool has_started = false;

    for (;;) {
        struct nixl_req *req;

        pthread_mutex_lock(&requests_lock);
        link = nxr_list_pop(&begun);
        req = link != NULL ? nxr_list_entry(link, struct nixl_req, link) : NULL;
        if (req != NULL) {
            req->is_started = true;
        }
        pthread_mutex_unlock(&requests_lock);
        if (req == NULL) {
            return has_started;
        }
        start(req);
        has_started = true;
    }
}

int nxr_request_make(const char *operation, enum nxr_op_kind kind, struct nixl_region *region,
                     int rank, uint64_t offset, void *local, size_t nbytes, struct nixl_req **req_p)
{
    struct nixl_req *req = calloc(1, sizeof(*req));
    struct nxr_region_part *part;
    int status = NIXL_ERR_NO_MEMORY, state;

    if (req == NULL) {
        return nxr_fail(status, operation, rank, "", 0, "no memory for a request");
    }
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_region_want_part(region, rank, false, &part);
    state = status == NIXL_OK ? atomic_load(&part->state) : NXR_PART_FAILED;
    if (state == NXR_PART_STALE || state == NXR_PART_FAILED) {
        pthread_mutex_unlock(&nxr_job.lock);
        free(req);
        return status == NIXL_OK ? nxr_region_fail_part(operation, part)
                                 : nxr_fail(status, operation, rank, "", 0, "no memory for a part");
    }
    req->op = (struct nxr_op){
        .part = &part->part, .kind = kind, .offset = offset, .local = local, .nbytes = nbytes};
    req->operation = operation;
    req->part = part;
    req->peer = nxr_job.peers[rank];
    req->resolve_by = nxr_deadline(nxr_env.resolve_timeout);
    atomic_init(&req->status, NIXL_INPROGRESS);
    nxr_list_init(&req->link);
    nxr_list_init(&req->age_link);
    if (kind == NXR_OP_PUT) {
        atomic_fetch_add(&req->peer->n_pending, 1);
    }
    pthread_mutex_lock(&requests_lock);
    if (state == NXR_PART_READY) {
        begin(req);
    } else {
        nxr_list_append(&part->waiting, &req->link);
        nxr_list_append(&resolving, &req->age_link);
    }
    pthread_mutex_unlock(&requests_lock);
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_service_kick();
    *req_p = req;
    return NIXL_INPROGRESS;
}

int64_t nxr_request_tick(int64_t now)
{
    while (!nxr_list_is_empty(&resolving)) {
        struct nixl_req *oldest = nxr_list_entry(resolving.next, struct nixl_req, age_link);

        if (oldest->resolve_by > now) {
            return oldest->resolve_by;
        }
        end_request(oldest, NIXL_ERR_NOT_FOUND);
    }
    return INT64_MAX;
}

/* ---- the public calls ------------------------------------------------------------------------ */

/* The transport that a request used; "" where its part was never opened. */
static const char *transport_of(const struct nixl_req *req)
{
    int state = atomic_load_explicit(&req->part->state, memory_order_acquire);

    return state == NXR_PART_READY || state == NXR_PART_STALE ? req->op.part->transport->name : "";
}

/* Report the outcome of a request that has ended, and free it. */
static int finish(const char *operation, struct nixl_req **req_p)
{
    struct nixl_req *req = *req_p;
    int status = atomic_load_explicit(&req->status, memory_order_acquire);

    if (status < 0) {
        nxr_fail(status, operation, req->peer->rank, transport_of(req), 0,
                 "%s of %zu bytes at offset %llu of rank %d: %s", req->operation, req->op.nbytes,
                 (unsigned long long)req->op.offset, req->peer->rank, nixl_strerror(status));
    }
    /* Whoever ended it may still hold the lock: its last touch is the unlock. */
    pthread_mutex_lock(&requests_lock);
    atomic_fetch_sub(&n_done_unseen, 1);
    pthread_mutex_unlock(&requests_lock);
    free(req);
    *req_p = NULL;
    return status;
}

static int check_req(const char *operation, struct nixl_req **req_p, int64_t timeout_ns)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && (req_p == NULL || timeout_ns < 0)) {
        status = nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "%s",
                          req_p == NULL ? "req_p is NULL" : "the timeout is negative");
    }
    return status;
}

int nixl_req_test(struct nixl_req **req_p)
{
    int status = check_req("nixl_req_test", req_p, 0);

    if (status != NIXL_OK || *req_p == NULL) {
        return status;
    }
    nxr_progress();
    return is_done(*req_p) ? finish("nixl_req_test", req_p) : NIXL_INPROGRESS;
}

int nixl_req_wait(struct nixl_req **req_p, int64_t timeout_ns)
{
    int status = check_req("nixl_req_wait", req_p, timeout_ns);

    if (status != NIXL_OK || *req_p == NULL) {
        return status;
    }
    status = nxr_wait(is_done, *req_p, timeout_ns);
    if (status == NIXL_ERR_TIMEOUT) {
        return nxr_fail(status, "nixl_req_wait", (*req_p)->peer->rank, "", 0,
                        "%s is not complete in time; the request lives", (*req_p)->operation);
    }
    return status == NIXL_OK ? finish("nixl_req_wait", req_p) : status;
}

struct any_wait {
    struct nixl_req **reqs;
    size_t n_reqs;
    size_t index;
};

static bool is_any_done(void *arg)
{
    struct any_wait *any = arg;

    for (size_t i = 0; i < any->n_reqs; i++) {
        if (any->reqs[i] != NULL && is_done(any->reqs[i])) {
            any->index = i;
            return true;
        }
    }
    return false;
}

int nixl_req_wait_any(struct nixl_req **reqs, size_t nreqs, int64_t timeout_ns, size_t *index_p)
{
    struct any_wait any = {reqs, nreqs, 0};
    int status = check_req("nixl_req_wait_any", reqs, timeout_ns);
    size_t n_live = 0;

    if (status != NIXL_OK) {
        return status;
    }
    for (size_t i = 0; i < nreqs; i++) {
        n_live += reqs[i] != NULL;
    }
    if (n_live == 0 || index_p == NULL) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, "nixl_req_wait_any", -1, "", 0, "%s",
                        index_p == NULL ? "index_p is NULL" : "there is no request to wait for");
    }
    status = nxr_wait(is_any_done, &any, timeout_ns);
    if (status == NIXL_ERR_TIMEOUT) {
        return nxr_fail(status, "nixl_req_wait_any", -1, "", 0,
                        "none of %zu requests is complete in time", n_live);
    }
    if (status != NIXL_OK) {
        return status;
    }
    *index_p = any.index;
    return finish("nixl_req_wait_any", &reqs[any.index]);
}

/* Stop what has not started; NIXL_INPROGRESS if the transport finishes what it has begun. */
static int stop_request(struct nixl_req *req)
{
    bool is_idle = false;

    pthread_mutex_lock(&nxr_job.lock);
    pthread_mutex_lock(&requests_lock);
    if (req->phase != NXR_REQUEST_DONE && !req->is_started) {
        nxr_list_remove(&req->link);
        nxr_list_remove(&req->age_link);
        is_idle = true;
    }
    pthread_mutex_unlock(&requests_lock);
    pthread_mutex_unlock(&nxr_job.lock);
    if (is_idle) {
        end_request(req, NIXL_ERR_CANCELED);
    } else if (!is_done(req)) {
        req->op.part->transport->cancel(&req->op);
    }
    return is_done(req) ? NIXL_OK : NIXL_INPROGRESS;
}

int nixl_req_cancel(struct nixl_req **req_p, int64_t timeout_ns, enum nixl_outcome *outcome_p)
{
    int status = check_req("nixl_req_cancel", req_p, timeout_ns);
    enum nixl_outcome outcome = NIXL_OUTCOME_DONE;
    struct nixl_req *req;

    if (status != NIXL_OK) {
        return status;
    }
    if (*req_p == NULL) {
        if (outcome_p != NULL) {
            *outcome_p = outcome;
        }
        return NIXL_OK;
    }
    req = *req_p;
    if (stop_request(req) == NIXL_INPROGRESS) {
        status = nxr_wait(is_done, req, timeout_ns);
        if (status == NIXL_ERR_TIMEOUT) {
            return nxr_fail(status, "nixl_req_cancel", req->peer->rank, "", 0,
                            "a copy is still in flight; the request lives");
        }
        if (status != NIXL_OK) {
            return status;
        }
    }
    if (atomic_load(&req->status) != NIXL_OK) {
        outcome = req->op.nbytes_done == 0 ? NIXL_OUTCOME_UNTOUCHED : NIXL_OUTCOME_PARTIAL;
    }
    finish("nixl_req_cancel", req_p);
    if (outcome_p != NULL) {
        *outcome_p = outcome;
    }
    return NIXL_OK;
}

int nixl_req_free(struct nixl_req **req_p)
{
    int status = check_req("nixl_req_free", req_p, 0);
    struct nixl_req *req;
    bool has_ended;

    if (status != NIXL_OK || *req_p == NULL) {
        return status;
    }
    req = *req_p;
    pthread_mutex_lock(&requests_lock);
    has_ended = req->phase == NXR_REQUEST_DONE;
    req->is_freed = true;
    if (has_ended) {
        atomic_fetch_sub(&n_done_unseen, 1);
        if (atomic_load(&req->status) != NIXL_OK) {
            atomic_store(&req->peer->freed_failure, atomic_load(&req->status));
        }
    }
    pthread_mutex_unlock(&requests_lock);
    if (has_ended) {
        free(req);
    }
    *req_p = NULL;
    return NIXL_OK;
}
