/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving together. No rank leaves before all living ranks have reached their last nixl_finalize():
 * a rank that is gone looks dead to a peer that connects at that moment. While no rank has died and
 * the launcher is still connected, the launcher's fence establishes this. Otherwise the ranks tell
 * each other which have arrived, along the paths that report deaths (detector.h): each rank tells
 * the leader of its host, and the leaders tell their host and the leaders beside them. A rank that
 * has arrived and cannot be found later has left normally, and is not lost.
 */
#ifndef NXR_CONTROL_FINALIZE_BARRIER_H
#define NXR_CONTROL_FINALIZE_BARRIER_H

#include "control/wire.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Wait until all living ranks that can be reached have arrived, at most `timeout_ns`. NIXL_OK;
 * otherwise NIXL_INPROGRESS (timeout 0) or NIXL_E_TIMEOUT, after telling the others that this
 * rank leaves before them. NIXL_E_TRANSPORT: this rank's descriptors are closed, and it does not
 * wait. A failure is recorded for nixl_finalize(). Without job.lock.
 */
int nxr_finalize_barrier(int64_t timeout_ns);

/* ---- caller holds job.lock ------------------------------------------------------------------- */

/* Has the rank announced that it has reached its last nixl_finalize()? */
bool nxr_finalize_barrier_has_come(int rank);

/* Is this rank in its last nixl_finalize()? */
bool nxr_finalize_barrier_is_here(void);

/* A connection is up or cannot be made, or a peer has ended: other ranks may now need a report. */
void nxr_finalize_barrier_look(void);

/* Send what is due. Returns when to call again. */
int64_t nxr_finalize_barrier_tick(int64_t now);

/* The service thread has ended. */
void nxr_finalize_barrier_stop(void);

extern const struct nxr_subsystem nxr_finalize_barrier_subsystem;

#endif
