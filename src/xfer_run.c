/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driving prepared transfers. A start in flight is driven by one thread at a time: it is driven, or
 * ready (in the queue of those that somebody should drive), or waits for the end of an operation.
 * Whoever ends an operation puts the transfer into the queue, and nobody drives from inside of
 * that, so that transports may end operations wherever they like. What is ready, and each operation
 * at a transport, counts in nxr_n_started: it says whether anybody has to be driven.
 * Lock: nxr_xfers_lock.
 */
#include "config.h"

#include "host/service.h"
#include "notify.h"
#include "progress.h"
#include "request.h"
#include "transfer.h"
#include "util/clock.h"
#include "util/status.h"
#include "xfer.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that a start copies in the caller's thread, and that each later turn does. */
#define START_NBYTES (64ul << 20)
#define TURN_NBYTES  (8ul << 20)

#define LOOK_EVERY_NS (1 * NXR_MS) /* the service thread's turn, should the user not drive */

pthread_mutex_t nxr_xfers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list ready = {&ready, &ready};
static _Atomic uint32_t n_ready;
static _Atomic uint32_t n_in_flight;

/* How a turn ended. */
enum turn {
    TURN_OVER,    /* everything was handed over, or nothing more shall be */
    TURN_MORE,    /* there is more to copy */
    TURN_BLOCKED, /* an operation must end first */
};

void nxr_xfer_make_ready(struct nixl_xfer *xfer)
{
    if (xfer->is_driven) {
        xfer->must_drive_again = true;
    } else if (xfer->is_running && nxr_list_is_empty(&xfer->ready_link)) {
        nxr_list_append(&ready, &xfer->ready_link);
        atomic_fetch_add(&n_ready, 1);
        atomic_fetch_add(&nxr_n_started, 1);
    }
}

/* ---- driving --------------------------------------------------------------------------------- */

static enum turn drive(struct nixl_xfer *xfer, uint64_t budget)
{
    uint64_t left = budget;

    while (left > 0) {
        int status;

        if (nxr_peer_is_lost(xfer->peer)) {
            nxr_xfer_set_failure(xfer, xfer->part, NIXL_ERR_PEER_LOST);
        }
        if (atomic_load(&xfer->failure) != NIXL_OK || !nxr_xfer_stage(xfer, left)) {
            return TURN_OVER;
        }
        status = nxr_xfer_hand_over(xfer, &left);
        if (status == NIXL_ERR_AGAIN) {
            return TURN_BLOCKED;
        }
        if (status < 0) {
            nxr_xfer_set_failure(xfer, xfer->part, status);
        }
    }
    return TURN_MORE;
}

/*
 * The end of a turn. True: all is over, and the caller, who still drives, concludes it. Else the
 * transfer is no more the caller's.
 */
static bool end_turn(struct nixl_xfer *xfer, enum turn turn)
{
    bool is_over;

    pthread_mutex_lock(&nxr_xfers_lock);
    is_over = turn == TURN_OVER && xfer->n_busy == 0;
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

/* Everything has ended: tell the rank, keep what it took; the transfer may be started again. */
static int conclude(struct nixl_xfer *xfer, struct nixl_req *req)
{
    int64_t now = nxr_now_ns();
    int status = atomic_load(&xfer->failure);

    if (status == NIXL_ERR_STALE) {
        nxr_region_mark_stale(xfer->failed_part);
    }
    /* The request still holds notifications back: this one waits for it, and others behind it. */
    if (status == NIXL_OK && xfer->has_note) {
        status = nxr_notify_hand_over(xfer->peer, xfer->tag, xfer->msg, xfer->msg_nbytes);
    }
    pthread_mutex_lock(&nxr_xfers_lock);
    if (req != NULL) {
        req->op.nbytes_done = xfer->nbytes_done;
    }
    if (status == NIXL_OK) {
        nxr_xfer_learn(xfer, (uint64_t)(now - xfer->started_at));
    }
    xfer->req = NULL;
    xfer->is_driven = false;
    xfer->is_running = false;
    atomic_fetch_sub(&n_in_flight, 1);
    pthread_mutex_unlock(&nxr_xfers_lock);
    return status;
}

static struct nixl_xfer *next_ready(void)
{
    struct nxr_list *link;
    struct nixl_xfer *xfer = NULL;

    pthread_mutex_lock(&nxr_xfers_lock);
    link = nxr_list_pop(&ready);
    if (link != NULL) {
        xfer = nxr_list_entry(link, struct nixl_xfer, ready_link);
        xfer->is_driven = true;
        atomic_fetch_sub(&n_ready, 1);
        atomic_fetch_sub(&nxr_n_started, 1);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return xfer;
}

bool nxr_xfer_progress(void)
{
    struct nixl_xfer *xfer;
    bool has_moved = false;

    for (uint32_t n = atomic_load_explicit(&n_ready, memory_order_relaxed);
         n > 0 && (xfer = next_ready()) != NULL; n--) {
        struct nixl_req *req = xfer->req; /* stays while it is driven */

        if (end_turn(xfer, drive(xfer, TURN_NBYTES))) {
            nxr_request_end(req, conclude(xfer, req));
        }
        has_moved = true;
    }
    return has_moved;
}

int64_t nxr_xfer_tick(int64_t now)
{
    static uint32_t seen_rounds; /* the service thread's */
    uint32_t rounds = atomic_load_explicit(&nxr_n_user_rounds, memory_order_relaxed);
    bool is_driven_by_user = rounds != seen_rounds;

    seen_rounds = rounds;
    if (atomic_load_explicit(&n_ready, memory_order_relaxed) > 0 && !is_driven_by_user) {
        return now;
    }
    return atomic_load(&n_in_flight) > 0 ? now + LOOK_EVERY_NS : INT64_MAX;
}

/* ---- stopping -------------------------------------------------------------------------------- */

void nxr_xfer_stop(struct nixl_xfer *xfer, const struct nixl_req *req)
{
    bool is_it;

    pthread_mutex_lock(&nxr_xfers_lock);
    is_it = xfer->is_running && xfer->req == req;
    if (is_it) {
        nxr_xfer_set_failure(xfer, NULL, NIXL_ERR_CANCELED);
        nxr_xfer_make_ready(xfer);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    if (is_it) {
        nxr_xfer_cancel_slots(xfer);
    }
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Claim the transfer for a start. */
static int claim(const char *operation, struct nixl_xfer *xfer)
{
    bool is_taken;

    pthread_mutex_lock(&nxr_xfers_lock);
    is_taken = xfer->is_running || xfer->kept != NULL;
    if (!is_taken) {
        xfer->is_running = true;
        xfer->is_driven = true;
        xfer->must_drive_again = false;
        xfer->nbytes_done = 0;
        atomic_fetch_add(&n_in_flight, 1);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return is_taken ? nxr_fail(NIXL_ERR_IN_USE, operation, xfer->rank, "", 0,
                               "the last start of the transfer has not been waited for")
                    : NIXL_OK;
}

/* Not started: all is as before. */
static int unclaim(struct nixl_xfer *xfer, int status)
{
    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->is_running = false;
    xfer->is_driven = false;
    atomic_fetch_sub(&n_in_flight, 1);
    pthread_mutex_unlock(&nxr_xfers_lock);
    return status;
}

/* Look at both sides as they are now, and stand at their beginnings. */
static int prepare(const char *operation, struct nixl_xfer *xfer)
{
    int status = nxr_xfer_find(operation, xfer);

    if (status == NIXL_OK && xfer->spare == NULL && (xfer->spare = nxr_request_new()) == NULL) {
        status =
            nxr_fail(NIXL_ERR_NO_MEMORY, operation, xfer->rank, "", 0, "no memory for a request");
    }
    for (int i = 0; i < 2; i++) {
        xfer->walks[i] = (struct nxr_walk){.side = &xfer->sides[i]};
    }
    xfer->n_staged = 0;
    xfer->mover = NULL;
    xfer->n_pieces = 0;
    atomic_store(&xfer->failure, NIXL_OK);
    return status;
}

/* The caller's turn is over and something is left: it goes on as a request. */
static void go_on(const char *operation, struct nixl_xfer *xfer, enum turn turn,
                  struct nixl_req **req_p)
{
    struct nixl_req *req = xfer->spare;

    xfer->spare = NULL;
    nxr_request_run_xfer(req, operation, xfer);
    *req_p = req;
    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->req = req;
    xfer->is_driven = false;
    if (turn != TURN_BLOCKED || xfer->must_drive_again) {
        nxr_xfer_make_ready(xfer);
    }
    xfer->must_drive_again = false;
    pthread_mutex_unlock(&nxr_xfers_lock);
    nxr_service_kick();
}

/* A start that failed within its call. */
static int fail_start(const char *operation, struct nixl_xfer *xfer, int status)
{
    if (status == NIXL_ERR_PEER_LOST) {
        return nxr_peer_fail_lost(operation, xfer->rank, "");
    }
    if (status == NIXL_ERR_RANGE) {
        return nxr_fail(status, operation, xfer->rank, "", 0,
                        "an index was changed during the start and leads outside");
    }
    return nxr_transfer_fail_copy(operation, status, xfer->walks[NIXL_XFER_REMOTE].of->region,
                                  xfer->failed_part);
}

static int start(const char *operation, struct nixl_xfer *xfer, struct nixl_req **req_p)
{
    bool is_over;
    enum turn turn;
    int status;

    xfer->estimated_ns = nxr_xfer_estimate(xfer);
    xfer->started_at = nxr_now_ns();
    status = prepare(operation, xfer);
    if (status != NIXL_OK) {
        return unclaim(xfer, status);
    }
    turn = drive(xfer, START_NBYTES);
    pthread_mutex_lock(&nxr_xfers_lock);
    is_over = turn == TURN_OVER && xfer->n_busy == 0;
    pthread_mutex_unlock(&nxr_xfers_lock);
    if (!is_over) {
        go_on(operation, xfer, turn, req_p != NULL ? req_p : &xfer->kept);
        return NIXL_INPROGRESS;
    }
    status = conclude(xfer, NULL);
    return status == NIXL_OK ? status : fail_start(operation, xfer, status);
}

int nixl_xfer_start(struct nixl_xfer *xfer, struct nixl_req **req_p)
{
    int status = nxr_xfer_check("nixl_xfer_start", xfer);

    if (status == NIXL_OK) {
        status = claim("nixl_xfer_start", xfer);
    }
    if (status != NIXL_OK) {
        return status;
    }
    xfer->has_note = false;
    return start("nixl_xfer_start", xfer, req_p);
}

int nixl_xfer_start_notify(struct nixl_xfer *xfer, uint64_t tag, const void *msg, size_t msg_nbytes,
                           struct nixl_req **req_p)
{
    const char *operation = "nixl_xfer_start_notify";
    int status = nxr_xfer_check(operation, xfer);

    if (status == NIXL_OK) {
        status = nxr_notify_check(operation, xfer->rank, msg, msg_nbytes, 0);
    }
    if (status == NIXL_OK) {
        status = claim(operation, xfer);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (msg_nbytes > 0 && xfer->msg == NULL && (xfer->msg = malloc(NIXL_NOTE_MAX)) == NULL) {
        return unclaim(xfer, nxr_fail(NIXL_ERR_NO_MEMORY, operation, xfer->rank, "", 0,
                                      "no memory for the message"));
    }
    if (msg_nbytes > 0) {
        memcpy(xfer->msg, msg, msg_nbytes);
    }
    xfer->has_note = true;
    xfer->tag = tag;
    xfer->msg_nbytes = msg_nbytes;
    return start(operation, xfer, req_p);
}
