/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls on requests: test, wait, cancel, free. Lock: requests_lock, which request.c
 * owns.
 */
#include "config.h"

#include "core/request.h"
#include "core/life.h"
#include "core/progress.h"
#include "core/request_watch.h"
#include "core/service.h"
#include "core/trace.h"
#include "util/env.h"
#include "util/status.h"
#include "core/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool req_is_done(void *arg)
{
    struct nixl_req *req = arg;

    if (req->owner->look != NULL && !nxr_request_is_done(req)) {
        req->owner->look(req);
    }
    return nxr_request_is_done(req);
}

const char *(*nxr_storage_why)(enum nxr_op_kind kind, int rank, const struct nxr_segment *segment,
                               int *error_p);

const char *nxr_op_why_failed(int status, enum nxr_op_kind kind, int rank,
                              const struct nxr_segment *segment, int *error_p)
{
    *error_p = 0;
    if (status == NIXL_E_STORAGE && nxr_storage_why != NULL) {
        return nxr_storage_why(kind, rank, segment, error_p);
    }
    /* EFAULT from a process_vm call, which does not say at which end. */
    if (status != NIXL_E_TRANSPORT || segment == NULL || segment->method != NXR_METHOD_PROCESS_VM) {
        return "";
    }
    *error_p = EFAULT;
    return "the memory at one end is gone; registered memory must stay mapped until "
           "nixl_region_close() has returned NIXL_OK";
}

void nxr_op_describe(const struct nixl_req *req, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "%s of %zu bytes at offset %llu of %s", req->operation, req->op.nbytes,
             (unsigned long long)req->op.offset, nxr_peer_name(req->peer));
}

void nxr_request_keep_failure(struct nixl_req *req, int rank, const char *why)
{
    req->lost_rank = rank;
    req->why = strdup(why);
}

/* The other rank that it concerns; -1: none, or several. */
static int rank_of_req(const struct nixl_req *req)
{
    return req->owner->has_peer ? req->peer->rank : req->lost_rank;
}

/* Records the failure of a request that has ended. */
static void request_fail(const char *operation, const struct nixl_req *req, int status)
{
    int rank = rank_of_req(req);
    const char *why = "";
    int error = 0;
    char what[192];

    if (req->why != NULL) {
        nxr_fail(status, operation, rank, "", 0, "%s: %s", req->operation, req->why);
        return;
    }
    if (status == NIXL_E_PEER_LOST) {
        why = nxr_peer_why_lost(rank);
    } else if (status == NIXL_E_STORAGE || req->transport[0] != '\0') {
        why = nxr_op_why_failed(status, req->op.kind, rank, req->op.segment, &error);
    }
    snprintf(what, sizeof(what), "%s", req->operation);
    if (req->owner->describe != NULL) {
        req->owner->describe(req, what, sizeof(what));
    }
    nxr_fail(status, operation, rank, req->transport, error, "%s: %s%s%s", what,
             nixl_strerror(status), why[0] != '\0' ? ": " : "", why);
}

/* Free a request that has ended. The thread that ended it may still hold the lock. */
static void request_seen(struct nixl_req *req)
{
    bool may_free;

    pthread_mutex_lock(&nxr_requests_lock);
    atomic_fetch_sub(&nxr_n_done_unseen, 1);
    if (req->is_failed_put) {
        atomic_fetch_sub(&req->peer->doubts, NXR_DOUBT_PUT);
    }
    may_free = nxr_request_unlink(req);
    pthread_mutex_unlock(&nxr_requests_lock);
    if (may_free) {
        nxr_request_free(req);
    }
}

int nxr_request_collect(struct nixl_req *req)
{
    int status = atomic_load_explicit(&req->status, memory_order_acquire);

    if (status == NIXL_E_PEER_LOST && req->owner->has_peer && req->why == NULL) {
        nxr_life_lost(req->peer); /* a system call may have noticed it first */
    }
    request_seen(req);
    return status;
}

int nxr_request_finish(const char *operation, struct nixl_req **req_p)
{
    struct nixl_req *req = *req_p;
    int status = atomic_load_explicit(&req->status, memory_order_acquire);

    if (status < 0) {
        request_fail(operation, req, status);
    }
    *req_p = NULL;
    return nxr_request_collect(req);
}

void nxr_request_leave(void)
{
    bool is_at_network = atomic_load(&nxr_n_at_networks) > 0 && !atomic_load(&nxr_net_is_polled);

    if (is_at_network || nxr_must_drive()) {
        nxr_service_kick();
    }
}

static int req_check_req(const char *operation, struct nixl_req **req_p, int64_t timeout_ns)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && req_p == NULL) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "req_p is NULL");
    } else if (status == NIXL_OK && timeout_ns < 0) {
        status = nxr_fail_timeout(operation, -1, timeout_ns);
    }
    return status;
}

/* Is there nothing to wait for, since all was done within the call that began it? */
static inline bool req_is_none(struct nixl_req *const *req_p, int64_t timeout_ns)
{
    return __builtin_expect(nxr_is_ready() && req_p != NULL && *req_p == NULL && timeout_ns >= 0,
                            1);
}

/* What a thread waits for in the call. */
static struct nxr_reason req_reason(const char *call, const struct nixl_req *req)
{
    return (struct nxr_reason){.kind = NXR_WAIT_REQUEST,
                               .call = call,
                               .peer = req->owner->has_peer ? req->peer->rank : -1,
                               .object = req->operation};
}

static int req_wait(const char *call, struct nixl_req *req, int64_t timeout_ns)
{
    const struct nxr_reason reason = req_reason(call, req);

    return nxr_wait_as(req_is_done, req, timeout_ns, nxr_describe_reason, &reason);
}

int nixl_req_test(struct nixl_req **req_p)
{
    int status = req_check_req("nixl_req_test", req_p, 0);

    if (status != NIXL_OK || *req_p == NULL) {
        return status;
    }
    nxr_progress();
    nxr_poll_copy_briefly();
    return req_is_done(*req_p) ? nxr_request_finish("nixl_req_test", req_p) : NIXL_INPROGRESS;
}

static int __attribute__((noinline)) call_req_wait(struct nixl_req **req_p, int64_t timeout_ns)
{
    int status = req_check_req("nixl_req_wait", req_p, timeout_ns);

    if (status != NIXL_OK || *req_p == NULL) {
        return status;
    }
    status = req_wait("nixl_req_wait", *req_p, timeout_ns);
    if (status == NIXL_E_TIMEOUT) {
        return nxr_fail(status, "nixl_req_wait", rank_of_req(*req_p), "", 0,
                        "%s is not complete after %s; the request is still valid",
                        (*req_p)->operation, nxr_duration(timeout_ns).text);
    }
    return status == NIXL_OK ? nxr_request_finish("nixl_req_wait", req_p) : status;
}

int nixl_req_wait(struct nixl_req **req_p, int64_t timeout_ns)
{
    if (req_is_none(req_p, timeout_ns)) {
        return NIXL_OK;
    }
    return NXR_TRACED(NXR_TRACE_WAIT, "nixl_req_wait", -1, 0, 0, call_req_wait(req_p, timeout_ns));
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
        if (any->reqs[i] != NULL && req_is_done(any->reqs[i])) {
            any->index = i;
            return true;
        }
    }
    return false;
}

static int call_req_wait_any(struct nixl_req **reqs, size_t nreqs, int64_t timeout_ns,
                             size_t *index_p)
{
    struct any_wait any = {reqs, nreqs, 0};
    int status = req_check_req("nixl_req_wait_any", reqs, timeout_ns);
    size_t n_live = 0;

    if (status != NIXL_OK) {
        return status;
    }
    for (size_t i = 0; i < nreqs; i++) {
        n_live += reqs[i] != NULL;
    }
    if (n_live == 0 || index_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, "nixl_req_wait_any", -1, "", 0, "%s",
                        index_p == NULL ? "index_p is NULL" : "there is no request to wait for");
    }
    status = nxr_wait_as(
        is_any_done, &any, timeout_ns, nxr_describe_reason,
        &(const struct nxr_reason){
            .kind = NXR_WAIT_REQUESTS, .peer = -1, .call = "nixl_req_wait_any", .value = n_live});
    if (status == NIXL_E_TIMEOUT) {
        return nxr_fail(status, "nixl_req_wait_any", -1, "", 0,
                        "none of %zu requests is complete after %s; they are still valid", n_live,
                        nxr_duration(timeout_ns).text);
    }
    if (status != NIXL_OK) {
        return status;
    }
    *index_p = any.index;
    return nxr_request_finish("nixl_req_wait_any", &reqs[any.index]);
}

int nixl_req_wait_any(struct nixl_req **reqs, size_t nreqs, int64_t timeout_ns, size_t *index_p)
{
    return NXR_TRACED(NXR_TRACE_WAIT, "nixl_req_wait_any", -1, 0, 0,
                      call_req_wait_any(reqs, nreqs, timeout_ns, index_p));
}

int nxr_request_complete(const char *operation, struct nixl_req *req, int64_t timeout_ns)
{
    int rank = req->owner->has_peer ? req->peer->rank : -1;
    size_t nbytes = req->op.nbytes, nbytes_done;
    bool is_late = req_wait(operation, req, timeout_ns) != NIXL_OK;

    if (is_late && nxr_request_stop(req) == NIXL_INPROGRESS) {
        (void)req_wait(operation, req, NIXL_FOREVER);
    }
    if (!is_late || atomic_load(&req->status) != NIXL_E_CANCELED) {
        return nxr_request_finish(operation, &req);
    }
    nbytes_done = req->op.nbytes_done;
    nxr_request_finish(operation, &req);
    return nxr_fail(NIXL_E_TIMEOUT, operation, rank, "", 0,
                    "%zu of %zu bytes were moved within %s (%s); stopped", nbytes_done, nbytes,
                    timeout_ns == nxr_env.op_timeout ? "NIXLRUN_OP_TIMEOUT" : "the deadline",
                    nxr_duration(timeout_ns).text);
}

bool nxr_request_withdraw(struct nixl_req *req, int (**cancel_p)(struct nxr_op *op))
{
    const struct nxr_req_owner *owner;
    const struct nxr_transport *transport;
    bool is_idle;

    pthread_mutex_lock(&nxr_job.lock);
    pthread_mutex_lock(&nxr_requests_lock);
    is_idle = req->phase != NXR_REQUEST_DONE && !req->is_started;
    if (is_idle) {
        nxr_list_remove(&req->link);
        nxr_list_remove(&req->age_link);
    }
    transport = nxr_request_transport(&req->op);
    owner = req->word_owner != NULL ? req->word_owner : req->owner;
    *cancel_p = transport == NULL               ? NULL
                : req->op.kind == NXR_OP_ATOMIC ? owner->cancel_word
                                                : transport->cancel;
    pthread_mutex_unlock(&nxr_requests_lock);
    pthread_mutex_unlock(&nxr_job.lock);
    return is_idle;
}

int nxr_request_stop(struct nixl_req *req)
{
    int (*cancel)(struct nxr_op * op);

    if (nxr_request_withdraw(req, &cancel)) {
        nxr_request_end(req, NIXL_E_CANCELED);
    } else if (!req_is_done(req) && cancel != NULL) {
        cancel(&req->op);
    } else if (!req_is_done(req) && req->owner->stop != NULL) {
        req->owner->stop(req);
    }
    return req_is_done(req) ? NIXL_OK : NIXL_INPROGRESS;
}

static int call_req_cancel(struct nixl_req **req_p, int64_t timeout_ns, int32_t *outcome_p)
{
    int status = req_check_req("nixl_req_cancel", req_p, timeout_ns);
    int32_t outcome = NIXL_OUTCOME_DONE;
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
    if (nxr_request_stop(req) == NIXL_INPROGRESS) {
        status = req_wait("nixl_req_cancel", req, timeout_ns);
        if (status == NIXL_E_TIMEOUT) {
            return nxr_fail(
                status, "nixl_req_cancel", rank_of_req(req), "", 0,
                "%s is still in flight %s after it was canceled; the request is still valid",
                req->operation, nxr_duration(timeout_ns).text);
        }
        if (status != NIXL_OK) {
            return status;
        }
    }
    if (atomic_load(&req->status) != NIXL_OK) {
        outcome = req->op.nbytes_done == 0 ? NIXL_OUTCOME_UNTOUCHED : NIXL_OUTCOME_PARTIAL;
    }
    *req_p = NULL;
    (void)nxr_request_collect(req); /* the call has not failed: no failure is recorded */
    if (outcome_p != NULL) {
        *outcome_p = outcome;
    }
    return NIXL_OK;
}

int nixl_req_cancel(struct nixl_req **req_p, int64_t timeout_ns, int32_t *outcome_p)
{
    return NXR_TRACED(NXR_TRACE_WAIT, "nixl_req_cancel", -1, 0, 0,
                      call_req_cancel(req_p, timeout_ns, outcome_p));
}

void nxr_request_abandon(struct nixl_req *req)
{
    bool has_ended, may_free = false;

    pthread_mutex_lock(&nxr_requests_lock);
    has_ended = req->phase == NXR_REQUEST_DONE;
    req->is_freed = true;
    if (has_ended) {
        atomic_fetch_sub(&nxr_n_done_unseen, 1);
        nxr_request_leave_to_flush(req, atomic_load(&req->status));
        if (req->is_failed_put) {
            atomic_fetch_sub(&req->peer->doubts, NXR_DOUBT_PUT);
        }
        may_free = nxr_request_unlink(req);
    } else {
        atomic_fetch_add(&req->peer->n_detached, req->owner->has_peer);
    }
    pthread_mutex_unlock(&nxr_requests_lock);
    if (may_free) {
        nxr_request_free(req);
    }
}

int nixl_req_detach(struct nixl_req **req_p)
{
    int status = req_check_req("nixl_req_detach", req_p, 0);

    if (status != NIXL_OK || *req_p == NULL) {
        return status;
    }
    nxr_request_abandon(*req_p);
    *req_p = NULL;
    return NIXL_OK;
}
