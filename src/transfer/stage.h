/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: operations that no transport can do directly go through host memory in pieces. Either
 * their local side is device memory that the segment's transport cannot reach, or the segment is
 * device memory on another host, whose owner copies between it and a window of host memory
 * (transfer/window.c).
 */
#ifndef NXR_TRANSFER_STAGE_H
#define NXR_TRANSFER_STAGE_H

#include "transports/transport.h"

struct nxr_peer;

/* The size of a piece, at most, and how many are under way between two ranks, at most. */
#define NXR_STAGE_NBYTES ((size_t)512 << 10)
#define NXR_STAGE_PIECES 8

/* Not in the list of transports: nxr_segment_mover() (op.h) selects it if it is needed. */
extern const struct nxr_transport nxr_transport_stage;

/* Must operations on that segment be staged even if their local side is host memory? */
bool nxr_stage_is_needed(const struct nxr_segment *segment);

/*
 * The owner has copied between a slot of its window and its device memory. May be called under
 * nxr_net.lock: nxr_stage_run() continues later. False: no piece waits for that answer.
 */
bool nxr_stage_answered(struct nxr_peer *peer, uint32_t slot, int status);

/* Continue the lanes for which something has arrived. Any thread, without a lock. */
void nxr_stage_run(void);

/* The last finalize: cancel what is left, wait for copies of device memory, and free the lanes. */
void nxr_stage_stop(void);

extern const struct nxr_subsystem nxr_stage_subsystem;

#endif
