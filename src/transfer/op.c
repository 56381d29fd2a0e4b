/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying out puts and gets, for requests and for calls that wait. No lock. */
#include "config.h"

#include "core/stats.h"
#include "memory/memory.h"
#include "region/region.h"
#include "transfer/copy_thread.h"
#include "transfer/op.h"
#include "transfer/staging.h"

static const struct nxr_transport *mover_to_range(const struct nxr_segment *segment,
                                                  const struct nxr_range *range)
{
    if (range == NULL) {
        return nxr_staging_is_needed(segment) ? &nxr_transport_staging : segment->transport;
    }
    if (!segment->transport->serves(segment, range)) {
        return &nxr_transport_staging;
    }
    if (segment->net != NULL) {
        return nxr_staging_is_needed(segment) ? &nxr_transport_staging : segment->transport;
    }
    return segment->method == NXR_METHOD_DEVICE ? segment->transport : &nxr_transport_device;
}

const struct nxr_transport *nxr_segment_mover(const struct nxr_segment *segment, const void *local)
{
    return mover_to_range(segment, nxr_range_find(local));
}

/* Is it known that the segment's transport cannot do it at once? */
static bool op_takes_time(const struct nxr_op *op)
{
    const struct nxr_segment *segment = op->segment;
    uint32_t limit = op->kind == NXR_OP_PUT ? segment->put_at_once : segment->get_at_once;

    return op->takes_time || (limit != NXR_ANY_NBYTES && op->nbytes > limit);
}

int nxr_op_move(struct nxr_op *op, const struct nxr_transport *mover)
{
    int status;

    if (mover == op->segment->transport && op_takes_time(op)) {
        return NIXL_E_AGAIN;
    }
    status = op->kind == NXR_OP_PUT ? mover->put(op->segment, op->offset, op->local, op->nbytes)
                                    : mover->get(op->segment, op->offset, op->local, op->nbytes);
    op->takes_time = status == NIXL_E_AGAIN && mover == op->segment->transport;
    return status;
}

int nxr_op_move_list(const struct nxr_transport *mover, struct nxr_segment *segment,
                     enum nxr_op_kind kind, const struct nxr_piece *pieces, size_t n_pieces,
                     uint64_t total_nbytes, size_t *n_done_p)
{
    return mover->move_list(segment, kind, pieces, n_pieces, total_nbytes, n_done_p);
}

static bool op_is_device_copy(const struct nxr_op *op, const struct nxr_transport *mover)
{
    return mover == &nxr_transport_device ||
           (mover == op->segment->transport && op->segment->method == NXR_METHOD_DEVICE);
}

/*
 * Move the bytes if that is short. Device copies are not: they are started, so that others can run
 * in parallel. A list is moved by nxr_op_move_list(), before it becomes an operation.
 */
static int op_move_if_short(struct nxr_op *op, const struct nxr_transport *mover)
{
    if (mover != op->segment->transport || op->pieces != NULL || op_is_device_copy(op, mover) ||
        (nxr_copy_thread_takes(op) && nxr_copy_thread_is_there())) {
        return NIXL_E_AGAIN;
    }
    return nxr_op_move(op, mover);
}

/* NIXL_INPROGRESS: op may have ended and be freed. */
static int op_start_by(struct nxr_op *op, const struct nxr_transport *mover)
{
    struct nxr_stats_post post;
    int status;

    nxr_stats_begin(op, mover);
    post = nxr_stats_post_of(op);
    status = op->pieces != NULL ? mover->start_list(op) : mover->start(op);
    if (status == NIXL_INPROGRESS) {
        nxr_stats_posted(&post);
    } else {
        nxr_stats_end(op, status);
    }
    return status;
}

/*
 * Start it; by staging if the mover cannot move between these two memories. A list that the mover
 * cannot take as a whole may still go piece by piece, unless it is a device copy.
 */
static int op_start(struct nxr_op *op, const struct nxr_transport *mover)
{
    bool may_stage =
        mover != &nxr_transport_staging && (op->pieces == NULL || op_is_device_copy(op, mover));
    int status = op_start_by(op, mover);

    if (status == NIXL_E_UNSUPPORTED && may_stage) {
        nxr_request_hand_to(op, &nxr_transport_staging);
        status = op_start_by(op, &nxr_transport_staging);
    }
    return status;
}

int nxr_op_submit(struct nxr_op *op)
{
    const struct nxr_transport *mover = op->transport;
    struct nxr_segment *segment = op->segment;
    int status;

    if (mover == NULL) {
        if (!nxr_segment_allows(segment, nxr_op_forbidden_by(op->kind))) {
            return NIXL_E_ACCESS;
        }
        if (!nxr_segment_has_range(segment, op->offset, op->nbytes)) {
            return NIXL_E_RANGE;
        }
        mover = mover_to_range(segment, nxr_op_range(op));
        nxr_request_hand_to(op, mover);
    }
    status = op_move_if_short(op, mover);
    if (status == NIXL_E_AGAIN) {
        status = op_start(op, mover);
    }
    status = nxr_op_status(status, segment);
    if (status == NIXL_E_STALE) {
        nxr_region_mark_stale(segment);
    }
    if (status == NIXL_OK) {
        op->nbytes_done = op->nbytes;
    }
    return status;
}

const struct nxr_req_owner nxr_transfer_owner = {
    .has_peer = true, .start = nxr_op_submit, .describe = nxr_op_describe};
