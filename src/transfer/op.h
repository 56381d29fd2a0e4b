/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common path of every put and get: choose what moves its bytes, and whether they move at
 * once or are started. The calls of transfer.c try to move them at once themselves if the segment
 * is ready.
 */
#ifndef NXR_TRANSFER_OP_H
#define NXR_TRANSFER_OP_H

#include "core/request.h"

/*
 * The mover of bytes between the segment and the local side of an operation: the segment's
 * transport, device copies (a mapped segment and local device memory), or staging.
 */
const struct nxr_transport *nxr_segment_mover(const struct nxr_segment *segment, const void *local);

/*
 * Move the bytes within the call. NIXL_E_AGAIN: nothing has moved, and the operation must be
 * started; the mover is not called if it is known to return this.
 */
int nxr_op_move(struct nxr_op *op, const struct nxr_transport *mover);

/*
 * Move the first pieces of a list within the call, as many as possible: *n_done_p. `mover` is that
 * of the first piece; total_nbytes is what the transfer moves in all. NIXL_OK: all. NIXL_E_AGAIN:
 * the next piece must be started.
 */
int nxr_op_move_list(const struct nxr_transport *mover, struct nxr_segment *segment,
                     enum nxr_op_kind kind, const struct nxr_piece *pieces, size_t n_pieces,
                     uint64_t total_nbytes, size_t *n_done_p);

/*
 * Carry out an operation whose segment is ready: at once if that does not take long, else start it.
 * op->transport: its mover, if the caller has asked for it and checked the range; else NULL.
 * NIXL_INPROGRESS: it was started, and may have ended already; what was started is staging if
 * op->transport has changed. NIXL_E_UNSUPPORTED of a list: nothing began, and its pieces may be
 * submitted one by one. Other: it is over.
 */
int nxr_op_submit(struct nxr_op *op);

/* The owner of requests for one put or get. */
extern const struct nxr_req_owner nxr_transfer_owner;

/*
 * A rank that dies or leaves makes its segments stale, after its state is set: an operation that
 * finds one stale then has lost its peer, and says so.
 */
static inline int nxr_op_status(int status, const struct nxr_segment *segment)
{
    return status == NIXL_E_STALE && nxr_peer_is_lost(segment->peer) ? NIXL_E_PEER_LOST : status;
}

#endif
