/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases whose operation is under way: when it has ended, the place is given back, and then the
 * caller's request ends. Of each step a follower is told; the next thread that drives progress, or
 * that waits for the request, takes the next one. Lock: leases_lock guards the list and who drives
 * what; no lock is taken while it is held.
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

#include <stdio.h>
#include <stdlib.h>

#define STOP_NS (1 * NXR_S) /* the last finalize waits so long for those under way */

static pthread_mutex_t leases_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list leases = {&leases, &leases};
static _Atomic uint32_t n_leases;

const char nxr_lease_why_stale[] =
    "it ended meanwhile, as its owner took this process for lost: use none of the bytes";

/* ---- the steps ------------------------------------------------------------------------------- */

int nxr_lease_leave(struct nxr_lease *lease, struct nixl_req **leaving_p)
{
    const struct nxr_atomic swap = nxr_lease_leaving(lease);
    int status;

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

static void lease_await(struct nxr_lease *lease, struct nixl_req *under_way, bool is_leaving)
{
    pthread_mutex_lock(&leases_lock);
    lease->under_way = under_way;
    lease->is_leaving = is_leaving;
    atomic_store(&lease->is_told, false);
    pthread_mutex_unlock(&leases_lock);
    lease->follower = (struct nxr_follower){.go = lease_told};
    nxr_request_follow(under_way, &lease->follower);
}

void nxr_lease_continue(struct nxr_lease *lease, struct nixl_req *under_way, bool is_leaving,
                        struct nixl_req **req_p)
{
    *req_p = lease->req;
    lease->is_driven = true; /* until it waits: nobody else knows what for */
    pthread_mutex_lock(&leases_lock);
    nxr_list_append(&leases, &lease->link);
    pthread_mutex_unlock(&leases_lock);
    atomic_fetch_add(&n_leases, 1);
    lease_await(lease, under_way, is_leaving);
    pthread_mutex_lock(&leases_lock);
    lease->is_driven = false;
    pthread_mutex_unlock(&leases_lock);
}

/* Both have ended: so does the caller's request. */
static void lease_end(struct nxr_lease *lease, int status, const char *why)
{
    struct nixl_req *req = lease->req;

    pthread_mutex_lock(&leases_lock);
    nxr_list_remove(&lease->link);
    req->owned = (void *)why;
    pthread_mutex_unlock(&leases_lock);
    atomic_fetch_sub(&n_leases, 1);
    nxr_lease_free(lease);
    nxr_request_end(req, status);
}

/* The operation has ended: give the place back. False: that is under way. */
static bool lease_after_move(struct nxr_lease *lease, int status, size_t nbytes_done)
{
    struct nixl_req *leaving = NULL;

    lease->req->op.nbytes_done = nbytes_done;
    if (status != NIXL_OK) {
        nxr_lease_abort(lease);
        lease_end(lease, status, NULL);
        return true;
    }
    status = nxr_lease_leave(lease, &leaving);
    if (status == NIXL_INPROGRESS) {
        lease_await(lease, leaving, true);
        return false;
    }
    lease_end(lease, status, status == NIXL_E_STALE ? nxr_lease_why_stale : NULL);
    return true;
}

/* Take the next step of a lease that this thread drives. */
static void lease_drive(struct nxr_lease *lease)
{
    size_t nbytes_done = lease->under_way->op.nbytes_done;
    uint64_t mine = nxr_lease_leaving(lease).compare;
    int status;

    atomic_fetch_sub(&nxr_n_started, 1);
    status = nxr_request_collect(lease->under_way);
    if (lease->is_leaving) {
        bool is_stale = status == NIXL_OK && lease->fetched != mine;

        lease_end(lease, is_stale ? NIXL_E_STALE : status, is_stale ? nxr_lease_why_stale : NULL);
        return;
    }
    if (!lease_after_move(lease, status, nbytes_done)) {
        pthread_mutex_lock(&leases_lock);
        lease->is_driven = false;
        pthread_mutex_unlock(&leases_lock);
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

/* Stop what moves, unless the lease has come further. */
static void lease_req_stop(struct nixl_req *req)
{
    struct nxr_list *link, *after;
    struct nxr_lease *found = NULL;

    pthread_mutex_lock(&leases_lock);
    nxr_list_for_each (link, after, &leases) {
        struct nxr_lease *lease = nxr_list_entry(link, struct nxr_lease, link);

        if (lease->req == req && !lease->is_driven && !lease->is_leaving) {
            lease->n_stoppers++;
            found = lease;
        }
    }
    pthread_mutex_unlock(&leases_lock);
    if (found == NULL) {
        return;
    }
    (void)nxr_request_stop(found->under_way);
    pthread_mutex_lock(&leases_lock);
    found->n_stoppers--;
    pthread_mutex_unlock(&leases_lock);
    (void)nxr_leases_progress();
}

/* `owned` is the lease until it has ended, and then why it failed, or NULL. */
static void lease_req_describe(const struct nixl_req *req, char *text, size_t nbytes)
{
    const char *why = req->owned;

    snprintf(text, nbytes, "%s of %zu bytes with a grant of %s%s%s", req->operation, req->op.nbytes,
             nxr_rank_name(req->lost_rank), why != NULL ? ": " : "", why != NULL ? why : "");
}

const struct nxr_req_owner nxr_lease_owner = {
    .stop = lease_req_stop, .look = lease_req_look, .describe = lease_req_describe};

/* ---- the end --------------------------------------------------------------------------------- */

static bool leases_are_over(void *arg)
{
    (void)arg;
    (void)nxr_leases_progress();
    return atomic_load(&n_leases) == 0;
}

/* The request of the first lease; NULL: there is none. */
static struct nixl_req *first_request(void)
{
    struct nixl_req *req = NULL;

    pthread_mutex_lock(&leases_lock);
    if (!nxr_list_is_empty(&leases)) {
        req = nxr_list_entry(leases.next, struct nxr_lease, link)->req;
    }
    pthread_mutex_unlock(&leases_lock);
    return req;
}

void nxr_leases_stop(void)
{
    struct nixl_req *req = first_request();

    while (req != NULL && atomic_load(&n_leases) > 0) {
        uint32_t n_before = atomic_load(&n_leases);

        lease_req_stop(req);
        (void)nxr_wait(leases_are_over, NULL, STOP_NS);
        if (atomic_load(&n_leases) >= n_before) {
            return; /* what is left is in the hands of a peer that does not answer */
        }
        req = first_request();
    }
}
