/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing the pieces of a prepared transfer to transports. Pieces are gathered by walking both
 * sides together. A list of them is moved at once if the transport can; else it becomes operations:
 * one for the whole list, or one for each piece, of which a limited number is under way. Called by
 * the one thread that drives the transfer; operations end in any thread. Lock: nxr_xfers_lock.
 */
#include "config.h"

#include "transfer/copy_thread.h"
#include "core/progress.h"
#include "core/wait.h"
#include "transfer/xfer.h"
#include "transfer/op.h"
#include "transfer/staging.h"

#include <stdlib.h>

/*
 * The most operations under way, how many of them may be lists, and the most bytes in a list. Other
 * operations wait behind lists that are staged, so these are smaller.
 */
#define MAX_SLOTS     64
#define MAX_LISTS     4
#define LIST_NBYTES   (1ul << 30)
#define STAGED_NBYTES (8ul << 20)

/*
 * The budget of a turn is counted in bytes copied. A piece costs PIECE_COST bytes more; starting
 * an operation costs only its bytes divided by OP_SHARE.
 */
#define PIECE_COST 512
#define OP_SHARE   512

/* ---- slots ----------------------------------------------------------------------------------- */

void nxr_xfer_set_failure(struct nixl_xfer *xfer, struct nxr_segment *segment, int status)
{
    int none = NIXL_OK;

    status = segment != NULL ? nxr_op_status(status, segment) : status;
    if (atomic_compare_exchange_strong(&xfer->failure, &none, status)) {
        xfer->failed_segment = segment;
    }
}

static void slot_ended(struct nxr_op *op, int status)
{
    struct nxr_xfer_slot *slot = nxr_list_entry(op, struct nxr_xfer_slot, op);
    struct nixl_xfer *xfer = slot->xfer;

    if (status != NIXL_OK) {
        nxr_xfer_set_failure(xfer, op->segment, status);
    }
    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->nbytes_done += status == NIXL_OK ? op->nbytes : op->nbytes_done;
    xfer->n_lists -= op->pieces != NULL;
    xfer->n_busy--;
    atomic_fetch_sub(&nxr_n_started, 1);
    slot->is_busy = false;
    nxr_list_append(&xfer->free_slots, &slot->link);
    nxr_xfer_make_ready(xfer);
    pthread_mutex_unlock(&nxr_xfers_lock);
    nxr_wake_self();
}

static int make_slots(struct nixl_xfer *xfer)
{
    struct nxr_xfer_slot *slots = calloc(MAX_SLOTS, sizeof(*slots));

    if (slots == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->slots = slots;
    for (unsigned i = 0; i < MAX_SLOTS; i++) {
        slots[i].xfer = xfer;
        nxr_list_append(&xfer->free_slots, &slots[i].link);
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return NIXL_OK;
}

/*
 * An operation that ends meanwhile is canceled too late, which transports tolerate. No slot is
 * reused: while n_stopping is not 0 no operation takes one, and the start does not end.
 */
void nxr_xfer_cancel_slots(struct nixl_xfer *xfer)
{
    for (unsigned i = 0; xfer->slots != NULL && i < MAX_SLOTS; i++) {
        struct nxr_xfer_slot *slot = &xfer->slots[i];
        bool is_busy;

        pthread_mutex_lock(&nxr_xfers_lock);
        is_busy = slot->is_busy;
        pthread_mutex_unlock(&nxr_xfers_lock);
        if (is_busy) {
            nxr_request_transport(&slot->op)->cancel(&slot->op);
        }
    }
}

void nxr_xfer_free_slots(struct nixl_xfer *xfer)
{
    for (unsigned i = 0; xfer->slots != NULL && i < MAX_SLOTS; i++) {
        free(xfer->slots[i].pieces);
    }
    free(xfer->slots);
    xfer->slots = NULL;
}

uint64_t nxr_xfer_slots_nbytes(const struct nixl_xfer *xfer)
{
    uint64_t nbytes = 0;

    for (unsigned i = 0; xfer->slots != NULL && i < MAX_SLOTS; i++) {
        nbytes += sizeof(xfer->slots[i]);
        nbytes += xfer->slots[i].pieces != NULL ? NXR_LIST_MAX * sizeof(struct nxr_piece) : 0;
    }
    return nbytes;
}

/* NIXL_E_AGAIN: as many operations as allowed are under way, or a thread stops them. */
static int xfer_submit_take_slot(struct nixl_xfer *xfer, bool is_list,
                                 struct nxr_xfer_slot **slot_p)
{
    int status = xfer->slots == NULL ? make_slots(xfer) : NIXL_OK;
    struct nxr_list *link = NULL;

    if (status != NIXL_OK) {
        return status;
    }
    pthread_mutex_lock(&nxr_xfers_lock);
    if (xfer->n_stopping == 0 && (!is_list || xfer->n_lists < MAX_LISTS)) {
        link = nxr_list_pop(&xfer->free_slots);
    }
    if (link != NULL) {
        *slot_p = nxr_list_entry(link, struct nxr_xfer_slot, link);
        atomic_fetch_add(&nxr_n_started, 1);
        xfer->n_busy++;
        xfer->n_lists += is_list;
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return link != NULL ? NIXL_OK : NIXL_E_AGAIN;
}

/* Return the slot of an operation that the transport did not take. */
static void give_slot(struct nxr_xfer_slot *slot, bool is_list)
{
    struct nixl_xfer *xfer = slot->xfer;

    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->n_lists -= is_list;
    xfer->n_busy--;
    atomic_fetch_sub(&nxr_n_started, 1);
    slot->is_busy = false;
    nxr_list_append(&xfer->free_slots, &slot->link);
    pthread_mutex_unlock(&nxr_xfers_lock);
}

/* ---- gathering pieces ------------------------------------------------------------------------ */

static bool has_run(struct nxr_walk *walk)
{
    return walk->nbytes > 0 || nxr_walk_next(walk);
}

/* The next piece: bytes that are contiguous on both sides. */
static struct nxr_piece xfer_submit_take_piece(struct nxr_walk *local, struct nxr_walk *remote,
                                               uint64_t max_nbytes)
{
    uint64_t nbytes = local->nbytes < remote->nbytes ? local->nbytes : remote->nbytes;
    struct nxr_piece piece = {.offset = remote->start, .local = local->place->base + local->start};

    piece.nbytes = nbytes < max_nbytes ? nbytes : max_nbytes;
    local->start += piece.nbytes;
    local->nbytes -= piece.nbytes;
    remote->start += piece.nbytes;
    remote->nbytes -= piece.nbytes;
    return piece;
}

/* The next piece begins a list: determine the memory of both sides, and the mover between them. */
static void xfer_submit_aim(struct nixl_xfer *xfer)
{
    const struct nxr_walk *local = &xfer->walks[NIXL_XFER_LOCAL];
    const struct nxr_transport *mover;
    enum nxr_method method;

    xfer->segment = xfer->walks[NIXL_XFER_REMOTE].place->segment;
    xfer->range = local->place->range;
    mover = nxr_segment_mover(xfer->segment, local->place->base + local->start);
    method = atomic_load_explicit(&xfer->segment->method, memory_order_relaxed);
    if (mover != xfer->mover || method != xfer->method) {
        xfer->takes_lists = false;
        xfer->list_pieces = NXR_XFER_COPY_PIECES;
        xfer->mover = mover;
        xfer->method = method;
    }
}

static uint64_t xfer_submit_list_nbytes(const struct nixl_xfer *xfer)
{
    return xfer->mover == &nxr_transport_staging || xfer->method == NXR_METHOD_BOUNCE
               ? STAGED_NBYTES
               : LIST_NBYTES;
}

/*
 * Gather as many pieces as a list may have, all of the segment and range that xfer_submit_aim()
 * chose.
 */
static size_t xfer_submit_gather(struct nixl_xfer *xfer, uint64_t max_nbytes)
{
    struct nxr_walk *local = &xfer->walks[NIXL_XFER_LOCAL];
    struct nxr_walk *remote = &xfer->walks[NIXL_XFER_REMOTE];
    size_t n = 0, max_n = xfer->takes_lists ? xfer->list_pieces : NXR_XFER_COPY_PIECES;
    uint64_t left = xfer->takes_lists ? xfer_submit_list_nbytes(xfer) : max_nbytes;
    bool has_batches = true;

    do {
        xfer->staged[n] = xfer_submit_take_piece(local, remote, left);
        left -= xfer->staged[n].nbytes;
        n++;
        xfer->n_pieces += local->nbytes == 0 || remote->nbytes == 0; /* a cut piece: once */
        if (has_batches && n < max_n && left > 0) {
            size_t n_taken = nxr_walks_take(local, remote, &xfer->staged[n], max_n - n, &left);

            n += n_taken;
            xfer->n_pieces += n_taken;
            has_batches = n_taken > 0; /* where blocks merge, it costs more than it saves */
        }
    } while (n < max_n && left > 0 && has_run(local) && has_run(remote) &&
             remote->place->segment == xfer->segment && local->place->range == xfer->range);
    return n;
}

bool nxr_xfer_stage(struct nixl_xfer *xfer, uint64_t max_nbytes)
{
    struct nxr_walk *local = &xfer->walks[NIXL_XFER_LOCAL];
    struct nxr_walk *remote = &xfer->walks[NIXL_XFER_REMOTE];
    size_t n = 0;

    if (xfer->n_staged > 0) {
        return true;
    }
    if (has_run(local) && has_run(remote)) {
        xfer_submit_aim(xfer);
        n = xfer_submit_gather(xfer, max_nbytes);
    }
    xfer->staged_at = 0;
    xfer->n_staged = n;
    if (local->is_outside || remote->is_outside) {
        nxr_xfer_set_failure(xfer, xfer->segment, NIXL_E_RANGE);
    }
    return n > 0 && atomic_load(&xfer->failure) == NIXL_OK;
}

/*
 * The first staged pieces were handed over: remove them, and charge their cost to the turn's
 * budget.
 */
static void staged_is_gone(struct nixl_xfer *xfer, size_t n_pieces, uint64_t cost, uint64_t *left_p)
{
    xfer->staged_at += n_pieces;
    xfer->n_staged -= n_pieces;
    *left_p -= cost < *left_p ? cost : *left_p;
}

/* ---- handing over ---------------------------------------------------------------------------- */

/* Move the staged pieces that can be moved at once. NIXL_E_AGAIN: the rest cannot. */
static int move_staged(struct nixl_xfer *xfer, uint64_t *left_p)
{
    const struct nxr_piece *pieces = &xfer->staged[xfer->staged_at];
    size_t n_done;
    int status = nxr_op_move_list(xfer->mover, xfer->segment, xfer->kind, pieces, xfer->n_staged,
                                  xfer->sides[NIXL_XFER_LOCAL].nbytes, &n_done);
    uint64_t nbytes = nxr_pieces_nbytes(pieces, n_done);

    staged_is_gone(xfer, n_done, nbytes + n_done * PIECE_COST, left_p);
    xfer->is_copying = n_done > 0 && nxr_copy_thread_reaches(xfer->segment);
    pthread_mutex_lock(&nxr_xfers_lock);
    xfer->nbytes_done += nbytes;
    pthread_mutex_unlock(&nxr_xfers_lock);
    return status;
}

static struct nxr_op make_op(const struct nixl_xfer *xfer, size_t n_pieces)
{
    const struct nxr_piece *pieces = &xfer->staged[xfer->staged_at];

    return (struct nxr_op){.transport = xfer->mover,
                           .segment = xfer->segment,
                           .kind = xfer->kind,
                           .offset = pieces->offset,
                           .local = pieces->local,
                           .nbytes = nxr_pieces_nbytes(pieces, n_pieces),
                           .takes_time = true, /* move_staged() has tried, or need not */
                           .ended = slot_ended};
}

/*
 * Start the operation of a slot. A cancel that came before a transport had it found nothing there,
 * so it is repeated.
 */
static int xfer_submit_begin(struct nxr_xfer_slot *slot)
{
    struct nixl_xfer *xfer = slot->xfer;
    int status;

    pthread_mutex_lock(&nxr_xfers_lock);
    slot->is_busy = true;
    pthread_mutex_unlock(&nxr_xfers_lock);
    status = nxr_op_submit(&slot->op);
    if (status == NIXL_INPROGRESS && atomic_load(&xfer->failure) != NIXL_OK) {
        slot->op.transport->cancel(&slot->op);
    }
    return status;
}

/* Room for lists of any length, the first time that one becomes an operation. False: no memory. */
static bool grow_staged(struct nixl_xfer *xfer)
{
    struct nxr_piece *grown;

    if (xfer->max_staged == NXR_LIST_MAX) {
        return true;
    }
    grown = realloc(xfer->staged, NXR_LIST_MAX * sizeof(*grown));
    if (grown != NULL) {
        xfer->staged = grown;
        xfer->max_staged = NXR_LIST_MAX;
    }
    return grown != NULL;
}

/*
 * Start all staged pieces as one operation; from then on lists grow. The slot keeps the array of
 * the pieces, and the next ones are gathered in the array that the slot had before, or in a new
 * one.
 */
static int start_list(struct nixl_xfer *xfer, uint64_t *left_p)
{
    size_t n_pieces = xfer->n_staged;
    struct nxr_piece *pieces, *kept;
    struct nxr_xfer_slot *slot;
    uint64_t nbytes;
    int status = grow_staged(xfer) ? xfer_submit_take_slot(xfer, true, &slot) : NIXL_E_NO_MEMORY;

    if (status != NIXL_OK) {
        return status;
    }
    kept = slot->pieces;
    pieces = kept != NULL ? kept : malloc(NXR_LIST_MAX * sizeof(*pieces));
    slot->pieces = xfer->staged;
    slot->op = make_op(xfer, n_pieces);
    slot->op.pieces = &xfer->staged[xfer->staged_at];
    slot->op.n_pieces = n_pieces;
    nbytes = slot->op.nbytes;
    status = pieces != NULL ? xfer_submit_begin(slot) : NIXL_E_NO_MEMORY;
    if (status == NIXL_INPROGRESS) {
        staged_is_gone(xfer, n_pieces, nbytes / OP_SHARE, left_p);
        xfer->is_copying = false;
        xfer->staged = pieces;
        xfer->takes_lists = true;
        xfer->list_pieces += xfer->list_pieces / 2;
        xfer->list_pieces = xfer->list_pieces < NXR_LIST_MAX ? xfer->list_pieces : NXR_LIST_MAX;
    } else {
        slot->pieces = kept;
        if (kept == NULL) {
            free(pieces);
        }
        give_slot(slot, true);
    }
    return status;
}

/* Start the first staged piece as an operation. */
static int start_piece(struct nixl_xfer *xfer, uint64_t *left_p)
{
    uint64_t nbytes = xfer->staged[xfer->staged_at].nbytes;
    struct nxr_xfer_slot *slot;
    int status = xfer_submit_take_slot(xfer, false, &slot);

    if (status != NIXL_OK) {
        return status;
    }
    slot->op = make_op(xfer, 1);
    status = xfer_submit_begin(slot);
    if (status == NIXL_INPROGRESS) {
        staged_is_gone(xfer, 1, nbytes / OP_SHARE, left_p);
        xfer->is_copying = false;
    } else {
        give_slot(slot, false);
    }
    return status;
}

int nxr_xfer_hand_over(struct nixl_xfer *xfer, uint64_t *left_p)
{
    int status = NIXL_E_AGAIN;

    if (!xfer->takes_lists) {
        status = move_staged(xfer, left_p);
    }
    if (status == NIXL_E_AGAIN) {
        status = start_list(xfer, left_p);
    }
    return status == NIXL_E_UNSUPPORTED ? start_piece(xfer, left_p) : status;
}
