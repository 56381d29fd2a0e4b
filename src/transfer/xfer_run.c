/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driving prepared transfers. A start in flight is driven by one thread at a time. It is either
 * being driven, or ready (in a queue of transfers to drive), or waiting for an operation to end.
 * A thread that ends an operation puts the transfer into the queue but does not drive it there,
 * so transports may end operations in any context. There are two queues: transfers that copy
 * between memories of this host are for the copy thread (copy_thread.h) and its helpers, all
 * others for threads that drive progress. Ready transfers of the second queue, and operations at
 * transports, count in nxr_n_started, which shows whether progress has anything to drive. Lock:
 * nxr_xfers_lock.
 */
#include "config.h"

#include "transfer/copy_thread.h"
#include "core/service.h"
#include "core/progress.h"
#include "core/request.h"
#include "transfer/durable.h"
#include "core/trace.h"
#include "transfer/transfer.h"
#include "util/clock.h"
#include "util/status.h"
#include "transfer/xfer.h"
#include "core/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The budget of a turn after the first, in bytes; for the first one, see start_nbytes(). */
#define TURN_NBYTES (8ul << 20)

#define LOOK_EVERY_NS (1 * NXR_MS) /* how often the service thread checks */

pthread_mutex_t nxr_xfers_lock = PTHREAD_MUTEX_INITIALIZER;
struct nxr_xfer_queue {
    struct nxr_list xfers;
    _Atomic uint32_t n;
    _Atomic uint32_t *n_to_do_p; /* the library's counter of work to do that includes this queue */
};

static struct nxr_xfer_queue xfer_run_ready = {
    {&xfer_run_ready.xfers, &xfer_run_ready.xfers}, 0, &nxr_n_started};
static struct nxr_xfer_queue copying = {{&copying.xfers, &copying.xfers}, 0, &nxr_n_to_copy};
static _Atomic uint32_t n_in_flight;

/* The result of a turn. */
enum turn {
    TURN_OVER,    /* everything was handed over, or the start has failed */
    TURN_MORE,    /* there is more to copy */
    TURN_BLOCKED, /* an operation must end first */
};

void nxr_xfer_make_ready(struct nixl_xfer *xfer)
{
    if (xfer->is_driven) {
        xfer->must_drive_again = true;
    } else if (xfer->is_running && nxr_list_is_empty(&xfer->ready_link)) {
        xfer->queue = xfer->is_copying && nxr_copy_thread_is_there() ? &copying : &xfer_run_ready;
        nxr_list_append(&xfer->queue->xfers, &xfer->ready_link);
        atomic_fetch_add(&xfer->queue->n, 1);
        atomic_fetch_add(xfer->queue->n_to_do_p, 1);
        if (xfer->queue == &copying) {
            nxr_copy_thread_kick();
        }
    }
}

bool nxr_xfer_is_idle(struct nixl_xfer *xfer)
{
    bool is_idle;

    pthread_mutex_lock(&nxr_xfers_lock);
    is_idle = !xfer->is_running ||
              (!xfer->is_driven && xfer->n_stopping == 0 && nxr_list_is_empty(&xfer->ready_link));
    pthread_mutex_unlock(&nxr_xfers_lock);
    return is_idle;
}

/* ---- driving --------------------------------------------------------------------------------- */

static enum turn xfer_run_drive(struct nixl_xfer *xfer, uint64_t budget)
{
    uint64_t left = budget;

    while (left > 0) {
        int status;

        if (nxr_peer_is_lost(xfer->peer)) {
            nxr_xfer_set_failure(xfer, xfer->segment, NIXL_E_PEER_LOST);
        }
        if (atomic_load(&xfer->failure) != NIXL_OK || !nxr_xfer_stage(xfer, left)) {
            return TURN_OVER;
        }
        status = nxr_xfer_hand_over(xfer, &left);
        if (status == NIXL_E_AGAIN) {
            return TURN_BLOCKED;
        }
        if (status < 0) {
            nxr_xfer_set_failure(xfer, xfer->segment, status);
        }
    }
    return nxr_xfer_stage(xfer, TURN_NBYTES) ? TURN_MORE : TURN_OVER;
}

/*
 * End a turn. True: the start is over, and the caller, which still drives the transfer, must
 * conclude it. False: the caller must not touch the transfer any more.
 */
static bool end_turn(struct nixl_xfer *xfer, enum turn turn)
{
    bool is_over;

    pthread_mutex_lock(&nxr_xfers_lock);
    is_over = turn == TURN_OVER && xfer->n_busy == 0 && xfer->n_stopping == 0;
    xfer->is_ending = is_over;
    if (!is_over) {
        xfer->is_driven = false;
        if (turn == TURN_MORE || xfer->must_drive_again) {
            nxr_xfer_make_ready(xfer);
        }
        xfer->must_drive_again = false;
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return is_over;
}

/* Everything has moved, or will not: record it and how long it took. Caller holds the lock. */
static void set_moved(struct nixl_xfer *xfer, struct nixl_req *req, int64_t now)
{
    if (req != NULL) {
        req->op.nbytes_done = xfer->nbytes_done;
    }
    if (atomic_load(&xfer->failure) == NIXL_OK) {
        nxr_xfer_learn(xfer, (uint64_t)(now - xfer->started_at));
    }
}

/* The transfer may be started again. Caller holds the lock. */
static void set_over(struct nixl_xfer *xfer)
{
    xfer->req = NULL;
    xfer->is_syncing = false;
    xfer->is_driven = false;
    xfer->is_running = false;
    atomic_fetch_sub(&n_in_flight, 1);
}

/*
 * Conclude a start of which everything has ended: one without a request is over, any other when its
 * request ends. Returns the outcome.
 */
static int xfer_run_conclude(struct nixl_xfer *xfer, struct nixl_req *req)
{
    int64_t now = nxr_now_ns();
    int status = atomic_load(&xfer->failure);

    if (status == NIXL_E_STALE) {
        nxr_region_mark_stale(xfer->failed_segment);
    }
    pthread_mutex_lock(&nxr_xfers_lock);
    set_moved(xfer, req, now);
    if (req == NULL) {
        set_over(xfer);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return status;
}

/* The files that a start has written to; NULL: no memory. */
static struct nxr_durable *files_of(const struct nixl_xfer *xfer, struct nixl_req *req)
{
    const struct nxr_side *side = &xfer->sides[NIXL_XFER_REMOTE];
    struct nxr_durable *durable = nxr_durable_new(req);

    for (size_t i = 0; durable != NULL && i < side->n_entries; i++) {
        if (side->blocks[i].nblocks > 0) {
            nxr_durable_add(durable, nxr_blocks_first_place(&side->blocks[i])->segment);
        }
    }
    return durable;
}

/*
 * All bytes of a durable start are in its files: its request goes on until they are durable. False:
 * it has failed, and its driver must conclude it.
 */
static bool xfer_run_sync(struct nixl_xfer *xfer, struct nixl_req *req)
{
    int64_t now = nxr_now_ns();
    struct nxr_durable *durable = files_of(xfer, req);
    bool is_syncing;

    if (durable == NULL) {
        nxr_xfer_set_failure(xfer, NULL, NIXL_E_NO_MEMORY);
        return false;
    }
    nxr_request_has_moved(req);
    pthread_mutex_lock(&nxr_xfers_lock);
    is_syncing = atomic_load(&xfer->failure) == NIXL_OK;
    if (is_syncing) {
        set_moved(xfer, req, now);
        xfer->is_syncing = true;
        nxr_durable_list(durable); /* it may be stopped from now on, and be over at once */
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    if (is_syncing) {
        nxr_durable_begin(durable);
    } else {
        nxr_durable_drop(durable);
    }
    return is_syncing;
}

static struct nixl_xfer *next_of(struct nxr_xfer_queue *queue)
{
    struct nxr_list *link;
    struct nixl_xfer *xfer = NULL;

    pthread_mutex_lock(&nxr_xfers_lock);
    link = nxr_list_pop(&queue->xfers);
    if (link != NULL) {
        xfer = nxr_list_entry(link, struct nixl_xfer, ready_link);
        xfer->is_driven = true;
        atomic_fetch_sub(&queue->n, 1);
        atomic_fetch_sub(queue->n_to_do_p, 1);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return xfer;
}

/* Give the next transfer of a queue a turn. False: there is none. */
static bool take_turn(struct nxr_xfer_queue *queue, uint64_t nbytes)
{
    struct nixl_xfer *xfer = next_of(queue);
    struct nixl_req *req;

    if (xfer == NULL) {
        return false;
    }
    req = xfer->req; /* does not change while the transfer is driven */
    if (end_turn(xfer, xfer_run_drive(xfer, nbytes)) &&
        !(xfer->is_durable && atomic_load(&xfer->failure) == NIXL_OK && xfer_run_sync(xfer, req))) {
        nxr_request_end(req, xfer_run_conclude(xfer, req));
    }
    return true;
}

bool nxr_xfer_progress(void)
{
    uint32_t n = atomic_load_explicit(&xfer_run_ready.n, memory_order_relaxed);
    bool has_moved = false;

    while (n-- > 0 && take_turn(&xfer_run_ready, TURN_NBYTES)) {
        has_moved = true;
    }
    return has_moved;
}

bool nxr_xfer_copy(uint64_t nbytes)
{
    return atomic_load_explicit(&copying.n, memory_order_relaxed) > 0 &&
           take_turn(&copying, nbytes);
}

int64_t nxr_xfer_tick(int64_t now)
{
    static uint32_t seen_rounds; /* the service thread's */
    uint32_t rounds = atomic_load_explicit(&nxr_n_user_rounds, memory_order_relaxed);
    bool is_driven_by_user = rounds != seen_rounds;

    seen_rounds = rounds;
    if (atomic_load_explicit(&xfer_run_ready.n, memory_order_relaxed) > 0 && !is_driven_by_user) {
        return now;
    }
    return atomic_load(&n_in_flight) > 0 ? now + LOOK_EVERY_NS : INT64_MAX;
}

/* ---- the request ----------------------------------------------------------------------------- */

/* A thread that was counted in n_stopping is done. The transfer may be freed when it returns. */
static void xfer_run_stopped(struct nixl_xfer *xfer)
{
    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->n_stopping--;
    nxr_xfer_make_ready(xfer);
    pthread_mutex_unlock(&nxr_xfers_lock);
    nxr_wake_self();
}

/*
 * Stop the start of that request, if it is still in flight. The request is not freed meanwhile, but
 * from its end on its user may start the transfer again, or free it.
 */
static void xfer_run_stop(struct nixl_req *req)
{
    struct nixl_xfer *xfer = req->owned;
    bool is_it, is_syncing, must_cancel;

    pthread_mutex_lock(&nxr_xfers_lock);
    is_it = xfer->is_running && xfer->req == req;
    is_syncing = is_it && xfer->is_syncing;
    must_cancel = is_it && !xfer->is_ending;
    if (is_it) {
        nxr_xfer_set_failure(xfer, NULL, NIXL_E_CANCELED);
    }
    if (must_cancel) {
        xfer->n_stopping++;
        nxr_xfer_make_ready(xfer);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    if (must_cancel) {
        nxr_xfer_cancel_slots(xfer);
        xfer_run_stopped(xfer);
    }
    if (is_syncing) {
        nxr_durable_stop(req);
    }
}

void nxr_xfer_stop_sync(struct nixl_xfer *xfer)
{
    struct nixl_req *req;

    pthread_mutex_lock(&nxr_xfers_lock);
    req = xfer->is_syncing ? xfer->req : NULL;
    pthread_mutex_unlock(&nxr_xfers_lock);
    if (req != NULL) {
        nxr_durable_stop(req);
    }
}

static void xfer_run_ended(struct nixl_req *req, int status)
{
    struct nixl_xfer *xfer = req->owned;

    (void)status;
    pthread_mutex_lock(&nxr_xfers_lock);
    if (xfer != NULL) { /* else the library was left before */
        set_over(xfer);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
}

/* Does not use the transfer, which may have been freed by now. */
static void xfer_run_describe(const struct nixl_req *req, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "%s of %zu bytes to or from %s", req->operation, req->op.nbytes,
             nxr_peer_name(req->peer));
}

static const struct nxr_req_owner xfer_run_owner = {
    .has_peer = true,
    .stop = xfer_run_stop,
    .ended = xfer_run_ended,
    .describe = xfer_run_describe,
};

/* ---- starting -------------------------------------------------------------------------------- */

int nxr_xfer_claim(const char *operation, struct nixl_xfer *xfer)
{
    bool is_taken;

    pthread_mutex_lock(&nxr_xfers_lock);
    is_taken = xfer->is_running || xfer->kept != NULL;
    if (!is_taken) {
        xfer->is_running = true;
        xfer->is_driven = true;
        xfer->must_drive_again = false;
        xfer->is_ending = false;
        xfer->nbytes_done = 0;
        xfer->sides[NIXL_XFER_REMOTE].asks_nobody = false;
        atomic_fetch_add(&n_in_flight, 1);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return is_taken ? nxr_fail(NIXL_E_IN_USE, operation, xfer->rank, "", 0,
                               "the last start of the transfer has not been waited for")
                    : NIXL_OK;
}

int nxr_xfer_unclaim(struct nixl_xfer *xfer, int status)
{
    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->is_running = false;
    xfer->is_driven = false;
    atomic_fetch_sub(&n_in_flight, 1);
    pthread_mutex_unlock(&nxr_xfers_lock);
    return status;
}

/* Find the memory of both sides as it is now, and reset everything to the beginning. */
static int xfer_run_prepare(const char *operation, struct nixl_xfer *xfer)
{
    int status = nxr_xfer_find(operation, xfer);

    if (status == NIXL_OK && xfer->spare == NULL) {
        xfer->spare = nxr_request_new(operation, &xfer_run_owner, xfer);
    }
    if (status == NIXL_OK && xfer->spare == NULL) {
        status =
            nxr_fail(NIXL_E_NO_MEMORY, operation, xfer->rank, "", 0, "no memory for a request");
    }
    for (int i = 0; i < 2; i++) {
        xfer->walks[i] = (struct nxr_walk){.side = &xfer->sides[i]};
    }
    xfer->n_staged = 0;
    xfer->is_copying = false;
    xfer->mover = NULL;
    xfer->n_pieces = 0;
    atomic_store(&xfer->failure, NIXL_OK);
    return status;
}

/* The caller's turn is over and something is left: continue the start as a request. */
static void go_on(const char *operation, struct nixl_xfer *xfer, enum turn turn,
                  struct nxr_after *signal, struct nixl_req **req_p)
{
    struct nixl_req *req = xfer->spare;
    bool is_copying;

    xfer->spare = NULL;
    req->operation = operation;
    req->op = (struct nxr_op){.kind = xfer->kind, .nbytes = xfer->sides[NIXL_XFER_LOCAL].nbytes};
    nxr_request_take_signal(req, signal);
    nxr_request_has_begun(req, xfer->peer);
    *req_p = req;
    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->req = req;
    xfer->is_driven = false;
    if (turn != TURN_BLOCKED || xfer->must_drive_again) {
        nxr_xfer_make_ready(xfer);
    }
    xfer->must_drive_again = false;
    is_copying = !nxr_list_is_empty(&xfer->ready_link) && xfer->queue == &copying;
    pthread_mutex_unlock(&nxr_xfers_lock);
    if (!is_copying) { /* else the copy thread has been kicked */
        nxr_service_kick();
    }
}

/* A start that failed within its call. */
static int fail_start(const char *operation, struct nixl_xfer *xfer, int status)
{
    if (status == NIXL_E_PEER_LOST && nxr_peer_is_replaced(xfer->peer)) {
        return nxr_fail(NIXL_E_STALE, operation, xfer->rank, "", 0,
                        "it was prepared for %s, which has ended; prepare it again for %s",
                        nxr_peer_name(xfer->peer), nxr_rank_name(xfer->rank));
    }
    if (status == NIXL_E_PEER_LOST) {
        return nxr_peer_fail_lost(operation, xfer->rank, "");
    }
    if (status == NIXL_E_RANGE) {
        return nxr_fail(status, operation, xfer->rank, "", 0,
                        "an index was changed during the start and leads outside");
    }
    return nxr_transfer_fail_copy(operation, xfer->kind, status,
                                  xfer->walks[NIXL_XFER_REMOTE].of->region, xfer->failed_segment);
}

/*
 * What the caller's turn may copy: all of a transfer that is only a little larger than the limit.
 */
static uint64_t start_nbytes(const struct nixl_xfer *xfer)
{
    uint64_t nbytes = xfer->sides[NIXL_XFER_LOCAL].nbytes;

    return nbytes <= 2 * NXR_AT_ONCE_NBYTES ? 2 * NXR_AT_ONCE_NBYTES : NXR_AT_ONCE_NBYTES;
}

int nxr_xfer_check_durable(const char *operation, const struct nixl_xfer *xfer)
{
    const struct nxr_side *side = &xfer->sides[NIXL_XFER_REMOTE];
    int status = nxr_durable_check(operation, xfer->kind, xfer->rank, NULL);

    for (size_t i = 0; status == NIXL_OK && i < side->n_entries; i++) {
        if (side->blocks[i].nblocks > 0) {
            status = nxr_durable_check(operation, xfer->kind, xfer->rank,
                                       nxr_blocks_first_place(&side->blocks[i])->segment);
        }
    }
    return status;
}

int nxr_xfer_start(const char *operation, struct nixl_xfer *xfer, bool is_durable,
                   struct nxr_after *signal, struct nixl_req **req_p)
{
    bool is_over;
    enum turn turn;
    int status;

    xfer->started_at = nxr_now_ns();
    status = xfer_run_prepare(operation, xfer);
    if (status == NIXL_OK && is_durable) {
        status = nxr_xfer_check_durable(operation, xfer);
    }
    if (status != NIXL_OK) {
        return nxr_xfer_unclaim(xfer, status);
    }
    xfer->estimated_ns = nxr_xfer_estimate(xfer);
    xfer->is_durable = is_durable;
    turn = xfer_run_drive(xfer, start_nbytes(xfer));
    pthread_mutex_lock(&nxr_xfers_lock);
    is_over = turn == TURN_OVER && xfer->n_busy == 0 &&
              (!is_durable || atomic_load(&xfer->failure) != NIXL_OK);
    pthread_mutex_unlock(&nxr_xfers_lock);
    if (!is_over) {
        go_on(operation, xfer, turn, signal, req_p != NULL ? req_p : &xfer->kept);
        return NIXL_INPROGRESS;
    }
    status = xfer_run_conclude(xfer, NULL);
    return status == NIXL_OK ? status : fail_start(operation, xfer, status);
}

int nxr_xfer_start_plain(const char *operation, struct nixl_xfer *xfer, struct nixl_req **req_p)
{
    int status = nxr_xfer_check(operation, xfer);

    if (status == NIXL_OK) {
        status = nxr_xfer_claim(operation, xfer);
    }
    return status == NIXL_OK ? nxr_xfer_start(operation, xfer, false, NULL, req_p) : status;
}

int nixl_xfer_start(struct nixl_xfer *xfer, struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_XFER, "nixl_xfer_start", -1, 0, 0,
                      nxr_xfer_start_plain("nixl_xfer_start", xfer, req_p));
}
