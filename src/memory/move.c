/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts and gets by device copies: for segments that are device memory, for mapped segments if the
 * local side is device memory, and gets from peers' files that this process reads. Transports have
 * these functions in their tables, or call them.
 *
 * While a copy is in progress its segment is entered: n_copies keeps it open here. A slot in the
 * owner's page keeps the owner from freeing it; an imported segment has such a slot for as long
 * as it is open. Lock: that of device_moves, a leaf.
 */
#include "config.h"

#include "memory/memory.h"
#include "core/progress.h"
#include "core/stats.h"
#include "core/wait.h"
#include "util/spare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy in progress, of an operation or for a caller that waits. */
struct device_move {
    struct nxr_device_copy copy;
    struct nxr_segment *segment; /* NULL: no segment is involved */
    nxr_inflight_word *hold;     /* NULL: the segment has one of its own */
    struct nxr_op *op;           /* NULL: a caller waits */
    _Atomic int status;          /* of the wait; NIXL_INPROGRESS until the copy has ended */
    atomic_bool is_left;         /* whichever comes second, the end or the waiter, frees it */
    struct nxr_device_piece pieces[];
};

/* ---- entering -------------------------------------------------------------------------------- */

static bool device_move_is_open(const struct nxr_segment *segment)
{
    return atomic_load(&segment->generation) != 0 &&
           atomic_load_explicit(segment->generation_now, memory_order_acquire) ==
               segment->key.generation;
}

static int device_move_enter(struct device_move *move, struct nxr_segment *segment)
{
    int status = NIXL_OK;

    atomic_fetch_add(&segment->n_copies, 1);
    if (segment->import == NULL) {
        status = nxr_inflight_hold(segment, &move->hold);
    }
    if (status == NIXL_OK && !device_move_is_open(segment)) {
        status = NIXL_E_STALE;
        if (move->hold != NULL) {
            nxr_inflight_release(move->hold);
        }
    }
    if (status != NIXL_OK) {
        atomic_fetch_sub(&segment->n_copies, 1);
        return status;
    }
    move->segment = segment;
    return NIXL_OK;
}

static void device_move_leave(struct device_move *move)
{
    if (move->hold != NULL) {
        nxr_inflight_release(move->hold);
    }
    if (move->segment != NULL) {
        atomic_fetch_sub_explicit(&move->segment->n_copies, 1, memory_order_release);
    }
}

bool nxr_device_segment_hold(struct nxr_segment *segment)
{
    atomic_fetch_add(&segment->n_copies, 1);
    if (segment->import != NULL && device_move_is_open(segment)) {
        return true;
    }
    nxr_device_segment_release(segment);
    return false;
}

void nxr_device_segment_release(struct nxr_segment *segment)
{
    atomic_fetch_sub_explicit(&segment->n_copies, 1, memory_order_release);
}

bool nxr_device_segment_is_busy(const struct nxr_segment *segment)
{
    NXR_ASSERT(nxr_segment_may_be_closed(segment));
    return atomic_load(&segment->n_copies) != 0;
}

bool nxr_device_serves(const struct nxr_segment *segment, const struct nxr_range *range)
{
    (void)segment;
    (void)range;
    return true;
}

/* ---- beginning and ending -------------------------------------------------------------------- */

static struct nxr_spares device_moves; /* with one piece */

static void device_move_free(struct device_move *move)
{
    if (move->copy.n_pieces == 1) {
        nxr_spare_give(&device_moves, move);
    } else {
        free(move);
    }
}

static void device_move_move_ended(struct nxr_device_copy *copy, int status)
{
    struct device_move *move = nxr_list_entry(copy, struct device_move, copy);

    device_move_leave(move);
    if (move->op != NULL) {
        atomic_fetch_sub(&nxr_n_at_devices, 1);
        move->op->nbytes_done = status == NIXL_OK ? move->op->nbytes : copy->nbytes_touched;
        move->op->has_synced = copy->has_synced;
        nxr_stats_by(move->op, copy->by);
        nxr_op_done(move->op, status);
        device_move_free(move);
        return;
    }
    atomic_store_explicit(&move->status, status, memory_order_release);
    if (atomic_exchange(&move->is_left, true)) {
        device_move_free(move);
    } else {
        nxr_wake_self();
    }
}

static struct device_move *device_move_move_new(size_t n_pieces)
{
    struct device_move *move;
    size_t nbytes = sizeof(*move) + n_pieces * sizeof(move->pieces[0]);

    move = n_pieces == 1 ? nxr_spare_take(&device_moves, nbytes) : malloc(nbytes);

    if (move != NULL) {
        memset(move, 0, nbytes);
        move->copy.pieces = move->pieces;
        move->copy.n_pieces = n_pieces;
        move->copy.ended = device_move_move_ended;
        atomic_init(&move->status, NIXL_INPROGRESS);
    }
    return move;
}

static bool device_move_is_over(void *arg)
{
    const struct device_move *move = arg;

    nxr_device_progress();
    return atomic_load_explicit(&move->status, memory_order_acquire) != NIXL_INPROGRESS;
}

/*
 * Start a copy and wait for it; takes ownership of the move. A GPU's copy cannot be stopped, and
 * both sides are in use until it has ended: so the wait has no timeout. *by_p: by what it was done,
 * as in struct nxr_device_copy.
 */
static int device_move_run(struct device_move *move, enum nxr_method *by_p)
{
    int status = nxr_device_copy_begin(&move->copy);

    *by_p = move->copy.by;
    if (status != NIXL_INPROGRESS) {
        device_move_leave(move);
        device_move_free(move);
        return status;
    }
    (void)nxr_wait_as(device_move_is_over, move, NIXL_FOREVER, nxr_describe_reason,
                      &(const struct nxr_reason){.kind = NXR_WAIT_DEVICE, .peer = -1});
    status = atomic_load_explicit(&move->status, memory_order_acquire);
    if (!atomic_exchange(&move->is_left, true)) {
        return status; /* its end is still being reported, and frees it */
    }
    device_move_free(move);
    return status;
}

int nxr_device_copy(const struct nxr_range *dst_range, void *dst, const struct nxr_range *src_range,
                    const void *src, size_t nbytes)
{
    struct device_move *move = device_move_move_new(1);
    enum nxr_method by;

    if (move == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    move->copy.dst = dst_range;
    move->copy.src = src_range;
    move->pieces[0] = (struct nxr_device_piece){dst, src, nbytes};
    return device_move_run(move, &by);
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Pin the host side of a copy, which makes it faster. Done once for a segment. */
static void pin_segment(struct nxr_segment *segment, const struct nxr_range *device)
{
    if (!atomic_exchange_explicit(&segment->is_pinned, true, memory_order_relaxed)) {
        device->kind->pin(segment->addr,
                          segment->mapped_nbytes != 0 ? segment->mapped_nbytes : segment->nbytes);
    }
}

/* The range of the segment's side; NULL: it is mapped. The segment is entered, so it stays. */
static const struct nxr_range *range_there(const struct nxr_segment *segment)
{
    if (segment->method != NXR_METHOD_DEVICE) {
        return segment->readable; /* of a get */
    }
    return segment->range != NULL ? segment->range : nxr_range_find(segment->addr);
}

/* Enter the segment and set the two sides; all local pieces are in one range, `here`. */
static int device_move_aim(struct device_move *move, struct nxr_segment *segment,
                           enum nxr_op_kind kind, const struct nxr_range *here)
{
    int status = device_move_enter(move, segment);
    const struct nxr_range *there;

    if (status != NIXL_OK) {
        return status;
    }
    there = range_there(segment);
    if (there == NULL && (here == NULL || segment->method == NXR_METHOD_DEVICE)) {
        device_move_leave(move);
        return segment->method == NXR_METHOD_DEVICE ? NIXL_E_STALE : NIXL_E_INTERNAL;
    }
    if (there == NULL) {
        pin_segment(segment, here);
    }
    move->copy.dst = kind == NXR_OP_PUT ? there : here;
    move->copy.src = kind == NXR_OP_PUT ? here : there;
    return NIXL_OK;
}

static void set_piece(struct nxr_device_piece *piece, char *there, enum nxr_op_kind kind,
                      void *local, size_t nbytes)
{
    *piece = kind == NXR_OP_PUT ? (struct nxr_device_piece){there, local, nbytes}
                                : (struct nxr_device_piece){local, there, nbytes};
}

/* What can be stopped becomes a request, which has a deadline. */
static bool can_stop(const struct nxr_segment *segment)
{
    const struct nxr_memory_kind *kind = nxr_memory_kind((enum nixl_mem_kind)segment->key.kind);

    return segment->method == NXR_METHOD_DEVICE && kind != NULL && kind->copy_cancel != NULL;
}

static int move_now(struct nxr_segment *segment, enum nxr_op_kind kind, uint64_t offset,
                    void *local, size_t nbytes)
{
    struct device_move *move;
    enum nxr_method by;
    int status;

    if (can_stop(segment)) {
        return NIXL_E_AGAIN;
    }
    move = device_move_move_new(1);
    if (move == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    status = device_move_aim(move, segment, kind, nxr_range_find(local));
    if (status != NIXL_OK) {
        device_move_free(move);
        return status;
    }
    set_piece(&move->pieces[0], segment->addr + offset, kind, local, nbytes);
    status = device_move_run(move, &by);
    if (status == NIXL_OK) {
        nxr_stats_moved_by(segment, kind, nbytes, by);
    }
    return status;
}

int nxr_device_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes)
{
    return move_now(segment, NXR_OP_PUT, offset, (void *)src, nbytes);
}

int nxr_device_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes)
{
    return move_now(segment, NXR_OP_GET, offset, dst, nbytes);
}

int nxr_device_start(struct nxr_op *op)
{
    const struct nxr_piece one = {op->offset, op->local, op->nbytes};
    const struct nxr_piece *pieces = op->pieces != NULL ? op->pieces : &one;
    size_t n_pieces = op->pieces != NULL ? op->n_pieces : 1;
    struct device_move *move = device_move_move_new(n_pieces);
    int status;

    NXR_ASSERT(nxr_op_may_start(op));
    if (move == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    status = device_move_aim(move, op->segment, op->kind, nxr_op_range(op));
    if (status != NIXL_OK) {
        device_move_free(move);
        return status;
    }
    move->op = op;
    move->copy.owner = op;
    move->copy.is_of_op = true;
    move->copy.stream = op->stream;
    move->copy.is_durable = op->is_durable;
    for (size_t i = 0; i < n_pieces; i++) {
        set_piece(&move->pieces[i], op->segment->addr + pieces[i].offset, op->kind, pieces[i].local,
                  pieces[i].nbytes);
    }
    atomic_fetch_add(&nxr_n_at_devices, 1); /* before: what is begun may take long to begin */
    status = nxr_device_copy_begin(&move->copy);
    if (status == NIXL_OK) {
        device_move_move_ended(&move->copy, NIXL_OK);
        return NIXL_INPROGRESS;
    }
    if (status != NIXL_INPROGRESS) {
        atomic_fetch_sub(&nxr_n_at_devices, 1);
        device_move_leave(move);
        device_move_free(move);
    }
    return status;
}

/* A copy that a GPU, or a disk, has started cannot be canceled; a request to a store can. */
int nxr_device_cancel(struct nxr_op *op)
{
    op->is_cancelled = true;
    nxr_device_copy_cancel(op);
    return NIXL_INPROGRESS;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int device_probe(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static int device_reach(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why,
                        size_t why_nbytes)
{
    if (scope == NIXL_SCOPE_SELF && kind != NIXL_MEM_HOST) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "reaches only device memory of the rank itself");
    return NIXL_E_UNSUPPORTED;
}

/* It is this process's own memory: there is nothing to open. */
static int device_segment_open(struct nxr_segment *segment, int fd,
                               const struct nxr_remote_key *remote)
{
    (void)fd;
    (void)remote;
    segment->addr = (char *)(uintptr_t)segment->key.addr;
    segment->range = nxr_range_find(segment->addr);
    segment->method = NXR_METHOD_DEVICE;
    return NIXL_OK;
}

static void device_segment_close(struct nxr_segment *segment)
{
    segment->range = NULL;
}

const struct nxr_transport nxr_transport_device = {
    .name = "device",
    .probe = device_probe,
    .reach = device_reach,
    .serves = nxr_device_serves,
    .segment_open = device_segment_open,
    .segment_close = device_segment_close,
    .segment_is_busy = nxr_device_segment_is_busy,
    .put = nxr_device_put,
    .get = nxr_device_get,
    .put_notify = nxr_no_put_notify,
    .put_signal = nxr_no_put_signal,
    .move_list = nxr_no_move_list,
    .start = nxr_device_start,
    .start_list = nxr_device_start,
    .cancel = nxr_device_cancel,
    .progress = nxr_no_progress,
    .fence = nxr_no_order,
    .flush = nxr_no_order,
    .atomic = nxr_no_atomic,
    .signal = nxr_no_signal,
};
