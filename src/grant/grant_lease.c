/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of which a step is under way: between hosts a place and a use are taken first; when the
 * operation has ended, the place is given back, and then the caller's request ends. Of each step a
 * follower is told; the next thread that drives progress, or that waits for the request, takes the
 * next one. Lock: leases_lock guards the list and who drives what; no lock is taken while it is
 * held.
 */
#include "config.h"

#include "grant/grant.h"
#include "core/progress.h"
#include "core/request.h"
#include "core/service.h"
#include "core/wait.h"
#include "sync/atomic.h"
#include "transfer/transfer.h"
#include "util/clock.h"
#include "util/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_NS (1 * NXR_S) /* the last finalize waits so long for those under way */

static pthread_mutex_t leases_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list leases = {&leases, &leases};
static _Atomic uint32_t n_leases;

const char nxr_lease_why_stale[] =
    "it ended meanwhile, as its owner took this process for lost: use none of the bytes";

/* ---- the steps ------------------------------------------------------------------------------- */

int nxr_lease_leave(struct nxr_lease *lease, struct nixl_req **leaving_p)
{
    struct nxr_atomic swap;
    int status;

    lease->step = NXR_LEASE_LEAVE;
    swap = nxr_lease_change(lease);
    if (lease->table->method != NXR_METHOD_MEMCPY) {
        status =
            nxr_atomic_start(lease->operation, lease->table, &swap, &lease->fetched, leaving_p);
    } else {
        status = nxr_atomic_change(lease->table, &swap, false, &lease->fetched);
    }
    return status == NIXL_OK && lease->fetched != swap.compare ? NIXL_E_STALE : status;
}

/* What it waits for may have ended. */
static void lease_told(struct nxr_follower *follower, int status)
{
    struct nxr_lease *lease = (struct nxr_lease *)follower; /* its first member */

    (void)status; /* the request has it */
    atomic_fetch_add(&nxr_n_started, 1);
    atomic_store_explicit(&lease->is_told, true, memory_order_release);
    nxr_service_kick();
}

/*
 * Stop a lease that has not come to its last step. A word that was sent to the owner may change at
 * any time, and be answered late or never: the caller's request ends at once, and what the answer
 * has taken is given back when it comes. Caller holds the lock. *ended_p: the request that ends.
 */
static void lease_stop_locked(struct nxr_lease *lease, struct nixl_req **ended_p)
{
    lease->must_stop = true;
    if (lease->is_driven) {
        return; /* who drives it sees that */
    }
    lease->n_stoppers++;
    if (lease->step < NXR_LEASE_MOVE) {
        *ended_p = lease->req;
        lease->req->owned = NULL;
        lease->req = NULL;
    }
}

/* A stop that `n_stoppers` counts. `ended`: the caller's request that ends by it, or NULL. */
static void lease_stop_step(struct nxr_lease *lease, struct nixl_req *ended)
{
    (void)nxr_request_stop(lease->under_way);
    if (ended != NULL) {
        nxr_granted_drop(&lease->what);
    }
    pthread_mutex_lock(&leases_lock);
    lease->n_stoppers--;
    pthread_mutex_unlock(&leases_lock);
    if (ended != NULL) {
        nxr_request_end(ended, NIXL_E_CANCELED);
    }
}

/* The step is under way: this thread drives the lease no longer. */
static void lease_await(struct nxr_lease *lease, struct nixl_req *under_way)
{
    struct nixl_req *ended = NULL;
    bool must_stop;

    atomic_store(&lease->is_told, false);
    lease->follower = (struct nxr_follower){.go = lease_told};
    lease->under_way = under_way;
    nxr_request_follow(under_way, &lease->follower);
    pthread_mutex_lock(&leases_lock);
    lease->is_driven = false;
    must_stop = lease->must_stop && lease->step != NXR_LEASE_LEAVE && lease->req != NULL;
    if (must_stop) {
        lease_stop_locked(lease, &ended);
    }
    pthread_mutex_unlock(&leases_lock);
    if (must_stop) {
        lease_stop_step(lease, ended);
    }
}

/* From now on others know the lease; this thread drives it. */
static void lease_list(struct nxr_lease *lease)
{
    lease->is_driven = true;
    lease->must_stop = false;
    lease->n_stoppers = 0;
    pthread_mutex_lock(&leases_lock);
    nxr_list_append(&leases, &lease->link);
    pthread_mutex_unlock(&leases_lock);
    atomic_fetch_add(&n_leases, 1);
}

/* The caller's request stands for the lease from now on: a flush of the peer waits for it. */
static void lease_req_begin(struct nxr_lease *lease)
{
    lease->req->op.kind = lease->what.kind;
    nxr_request_take_signal(lease->req, lease->what.signal);
    nxr_request_has_begun(lease->req, lease->table->peer);
}

void nxr_lease_continue(struct nxr_lease *lease, enum nxr_lease_step step,
                        struct nixl_req *under_way, struct nixl_req **req_p)
{
    lease_req_begin(lease);
    nxr_request_has_moved(lease->req); /* the put itself is counted */
    *req_p = lease->req;
    lease->step = step;
    lease_list(lease);
    lease_await(lease, under_way);
}

/* All has ended: so does the caller's request. */
static void lease_end(struct nxr_lease *lease, int status, const char *why)
{
    struct nixl_req *req;

    pthread_mutex_lock(&leases_lock);
    nxr_list_remove(&lease->link);
    req = lease->req;
    if (req != NULL) {
        req->owned = (void *)why;
    }
    pthread_mutex_unlock(&leases_lock);
    atomic_fetch_sub(&n_leases, 1);
    nxr_lease_free(lease);
    if (req != NULL) {
        nxr_request_end(req, status);
    }
}

/* The operation has ended: give the place back. */
static void lease_after_move(struct nxr_lease *lease, int status, size_t nbytes_done)
{
    struct nixl_req *leaving = NULL;

    lease->req->op.nbytes_done = nbytes_done;
    if (status != NIXL_OK) {
        nxr_lease_abort(lease);
        lease_end(lease, status, NULL);
        return;
    }
    status = nxr_lease_leave(lease, &leaving);
    if (status == NIXL_INPROGRESS) {
        lease_await(lease, leaving);
    } else {
        lease_end(lease, status, status == NIXL_E_STALE ? nxr_lease_why_stale : NULL);
    }
}

static int lease_check_region(const struct nxr_lease *lease, const struct nixl_region *region)
{
    return nxr_region_is_open(region) && strcmp(region->name, lease->opened->name) == 0
               ? NIXL_OK
               : nxr_fail(NIXL_E_INVALID_ARG, lease->operation, lease->what.rank, "", 0,
                          "the region was closed before the grant was entered");
}

/* The caller may have closed a handle meanwhile, whose memory another region may have now. */
static int lease_check_regions(const struct nxr_lease *lease)
{
    const struct nxr_side *side = lease->what.side;
    int status = NIXL_OK;

    if (side == NULL) {
        return lease_check_region(lease, lease->what.region);
    }
    for (size_t i = 0; i < side->n_entries && status == NIXL_OK; i++) {
        status = lease_check_region(lease, side->blocks[i].region);
    }
    return status;
}

/* A use was taken: move. What follows a put waits for the put itself from now on. */
static void lease_move(struct nxr_lease *lease)
{
    const struct nxr_granted *what = &lease->what;
    struct nixl_req *started = NULL;
    int status;

    lease->step = NXR_LEASE_MOVE;
    status = lease_check_regions(lease);
    if (status == NIXL_OK) {
        status = what->move(lease->operation, what, &started);
    } else {
        nxr_granted_drop(what);
    }
    if (status < 0) {
        nxr_request_keep_failure(lease->req, what->rank, nixl_last_error()->text);
        lease_after_move(lease, status, 0);
        return;
    }
    nxr_request_has_moved(lease->req);
    if (status == NIXL_INPROGRESS) {
        lease_await(lease, started);
    } else {
        lease_after_move(lease, status, what->nbytes);
    }
}

/* Start the next change that enters. NIXL_OK: a use is taken; NIXL_INPROGRESS; or the failure. */
static int lease_enter_on(struct nxr_lease *lease, struct nixl_req **under_way_p)
{
    int status;

    do {
        const struct nxr_atomic swap = nxr_lease_change(lease);

        status = nxr_atomic_start_unordered(lease->operation, lease->table, &swap, &lease->fetched,
                                            under_way_p);
        if (status == NIXL_OK) {
            status = nxr_lease_judge(lease, lease->fetched);
        }
    } while (status == NIXL_E_AGAIN);
    return status;
}

/* Was it stopped? What the last step has taken is then given back. */
static bool lease_is_stopped(struct nxr_lease *lease)
{
    bool is_stopped;

    pthread_mutex_lock(&leases_lock);
    is_stopped = lease->must_stop;
    pthread_mutex_unlock(&leases_lock);
    return is_stopped;
}

/* Take the steps that enter. `status`: of the last one, as nxr_lease_judge() has it. */
static void lease_enter(struct nxr_lease *lease, int status)
{
    struct nixl_req *under_way = NULL;

    if (status == NIXL_E_AGAIN && !lease_is_stopped(lease)) {
        status = lease_enter_on(lease, &under_way);
    }
    if (status == NIXL_INPROGRESS) {
        lease_await(lease, under_way);
        return;
    }
    if ((status == NIXL_OK || status == NIXL_E_AGAIN) && lease_is_stopped(lease)) {
        status = NIXL_E_CANCELED;
    }
    if (status == NIXL_OK) {
        lease_move(lease);
        return;
    }
    if (lease->step == NXR_LEASE_USE) {
        nxr_lease_abort(lease);
    }
    if (lease->req != NULL) { /* else whoever stopped it has done that */
        nxr_granted_drop(&lease->what);
    }
    lease_end(lease, status, lease->why);
}

int nxr_lease_start(struct nxr_lease *lease, struct nixl_req **req_p)
{
    const char *operation = lease->operation;
    struct nixl_req *req = lease->req;

    lease_req_begin(lease);
    lease_list(lease);
    lease_enter(lease, nxr_lease_begin(lease));
    if (nxr_request_is_done(req)) {
        return nxr_request_finish(operation, &req);
    }
    *req_p = req;
    return NIXL_INPROGRESS;
}

/* Take the next step of a lease that this thread drives. */
static void lease_drive(struct nxr_lease *lease)
{
    size_t nbytes_done = lease->under_way->op.nbytes_done;
    int status;

    atomic_fetch_sub(&nxr_n_started, 1);
    status = nxr_request_collect(lease->under_way);
    if (lease->step == NXR_LEASE_LEAVE) {
        bool is_stale = status == NIXL_OK && lease->fetched != nxr_lease_change(lease).compare;

        lease_end(lease, is_stale ? NIXL_E_STALE : status, is_stale ? nxr_lease_why_stale : NULL);
    } else if (lease->step == NXR_LEASE_MOVE) {
        lease_after_move(lease, status, nbytes_done);
    } else {
        lease_enter(lease, status == NIXL_OK ? nxr_lease_judge(lease, lease->fetched) : status);
    }
}

/* One whose next step can be taken: the caller drives it. NULL: none. */
static struct nxr_lease *lease_take_ready(void)
{
    struct nxr_list *link, *after;
    struct nxr_lease *found = NULL;

    pthread_mutex_lock(&leases_lock);
    nxr_list_for_each (link, after, &leases) {
        struct nxr_lease *lease = nxr_list_entry(link, struct nxr_lease, link);

        if (found == NULL && !lease->is_driven && lease->n_stoppers == 0 &&
            atomic_load_explicit(&lease->is_told, memory_order_acquire) &&
            nxr_request_is_done(lease->under_way)) {
            lease->is_driven = true;
            found = lease;
        }
    }
    pthread_mutex_unlock(&leases_lock);
    return found;
}

bool nxr_leases_progress(void)
{
    struct nxr_lease *lease;
    bool has_moved = false;

    if (atomic_load_explicit(&n_leases, memory_order_relaxed) == 0) {
        return false;
    }
    while ((lease = lease_take_ready()) != NULL) {
        lease_drive(lease);
        has_moved = true;
    }
    return has_moved;
}

/* ---- the request ----------------------------------------------------------------------------- */

/* Drive it if it can be driven: nothing else may, while only networks have something to do. */
static void lease_req_look(struct nixl_req *req)
{
    (void)req;
    (void)nxr_leases_progress();
}

static void lease_req_stop(struct nixl_req *req)
{
    struct nxr_list *link, *after;
    struct nxr_lease *found = NULL;
    struct nixl_req *ended = NULL;

    pthread_mutex_lock(&leases_lock);
    nxr_list_for_each (link, after, &leases) {
        struct nxr_lease *lease = nxr_list_entry(link, struct nxr_lease, link);

        if (lease->req == req && lease->step != NXR_LEASE_LEAVE) {
            lease_stop_locked(lease, &ended);
            found = lease->is_driven ? NULL : lease;
        }
    }
    pthread_mutex_unlock(&leases_lock);
    if (found != NULL) {
        lease_stop_step(found, ended);
    }
    (void)nxr_leases_progress();
}

/* `owned` is the lease until it has ended, and then why it failed, or NULL. */
static void lease_req_describe(const struct nixl_req *req, char *text, size_t nbytes)
{
    const char *why = req->owned;

    snprintf(text, nbytes, "%s of %zu bytes with a grant of %s%s%s", req->operation, req->op.nbytes,
             nxr_rank_name(req->peer->rank), why != NULL ? ": " : "", why != NULL ? why : "");
}

const struct nxr_req_owner nxr_lease_owner = {.has_peer = true,
                                              .stop = lease_req_stop,
                                              .look = lease_req_look,
                                              .describe = lease_req_describe};

/* ---- the end --------------------------------------------------------------------------------- */

static bool leases_are_over(void *arg)
{
    (void)arg;
    (void)nxr_leases_progress();
    return atomic_load(&n_leases) == 0;
}

/* A request that a lease has; NULL: there is none. */
static struct nixl_req *first_request(void)
{
    struct nixl_req *req = NULL;
    struct nxr_list *link, *after;

    pthread_mutex_lock(&leases_lock);
    nxr_list_for_each (link, after, &leases) {
        if (req == NULL) {
            req = nxr_list_entry(link, struct nxr_lease, link)->req;
        }
    }
    pthread_mutex_unlock(&leases_lock);
    return req;
}

void nxr_leases_stop(void)
{
    struct nixl_req *req;

    while ((req = first_request()) != NULL) {
        uint32_t n_before = atomic_load(&n_leases);

        lease_req_stop(req);
        if (first_request() == req) {
            (void)nxr_wait(leases_are_over, NULL, STOP_NS);
        }
        if (first_request() == req && atomic_load(&n_leases) >= n_before) {
            return; /* what is left is in the hands of a peer that does not answer */
        }
    }
    (void)nxr_wait(leases_are_over, NULL, STOP_NS); /* places that stopped ones give back */
}

/* Their requests may still end, and tell them: the memory stays. */
void nxr_leases_forget(void)
{
    struct nxr_list *link;

    pthread_mutex_lock(&leases_lock);
    while ((link = nxr_list_pop(&leases)) != NULL) {
        const struct nxr_lease *lease = nxr_list_entry(link, struct nxr_lease, link);

        /* Networks have ended what was under way: nobody will take the step that is now due. */
        atomic_fetch_sub(&nxr_n_started, atomic_load(&lease->is_told));
        atomic_fetch_sub(&n_leases, 1);
    }
    pthread_mutex_unlock(&leases_lock);
}
