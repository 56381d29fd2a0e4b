/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way into a put or get: who moves its bytes, at once or by a start. The calls of
 * transfer.c try the first by themselves where the part is ready.
 */
#ifndef NXR_TRANSFER_OP_H
#define NXR_TRANSFER_OP_H

#include "core/request.h"

/*
 * Who moves bytes between the part and the local side of an operation: the part's transport, device
 * copies where a mapped part and local device memory meet, or staging. NULL: nobody.
 */
const struct nxr_transport *nxr_part_mover(const struct nxr_part *part, const void *local);

/*
 * Move the bytes within the call. NIXL_ERR_AGAIN: nothing happened, it is to be started; the mover
 * is not asked where it is known to say so.
 */
int nxr_op_move(struct nxr_op *op, const struct nxr_transport *mover);

/*
 * Carry out an operation whose part is ready: at once where that does not take long, else it is
 * started. NIXL_INPROGRESS: it was, and may have ended. Other: it is over.
 */
int nxr_op_submit(struct nxr_op *op);

/* Of requests for one put or get. */
extern const struct nxr_req_owner nxr_transfer_owner;

#endif
