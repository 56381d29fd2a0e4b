/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: operations that no transport can do directly go in pieces through memory between the two
 * ends, one slot for each piece. There are three cases, which may come together:
 *   - the local side is device memory that the segment's transport cannot reach: this process
 *   copies
 *     between it and the slot;
 *   - the segment is device memory on another host: its owner copies between it and a window of
 *   host
 *     memory (window.h), which is reached like any region;
 *   - the segment is registered memory on this host, and the kernel forbids process_vm calls: its
 *     owner copies between it and the slot, which both processes map (staging_buffer.h).
 */
#ifndef NXR_TRANSFER_STAGING_H
#define NXR_TRANSFER_STAGING_H

#include "transports/transport.h"

struct nxr_peer;

/* The most bytes of a piece through a window, and how many of a window are under way, at most. */
#define NXR_STAGING_NBYTES ((size_t)512 << 10)
#define NXR_STAGING_SLOTS  8

/* Not in the list of transports: nxr_segment_mover() (op.h) selects it if it is needed. */
extern const struct nxr_transport nxr_transport_staging;

/* Must operations on that segment be staged even if their local side is host memory? */
bool nxr_staging_is_needed(const struct nxr_segment *segment);

/* start() and cancel() of the transport; also in nxr_host_paths (transports/transport.h). */
int nxr_staging_start(struct nxr_op *op);
int nxr_staging_cancel(struct nxr_op *op);

/*
 * The owner has copied between a slot of its window and its device memory. May be called under
 * nxr_net.lock: a later round continues. False: no piece waits for that answer.
 */
bool nxr_staging_answered(struct nxr_peer *peer, uint32_t slot, int status);

/* The owner's side of bounce buffers (bounce_serve.c), which runs on the service thread. */
extern const struct nxr_subsystem nxr_bounce_subsystem;

extern const struct nxr_subsystem nxr_staging_subsystem;

#endif
