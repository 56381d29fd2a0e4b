/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving together. Nobody goes before all living ranks have come to their last nixl_finalize(): a
 * rank that is gone looks dead to whom connects to it just then. The launcher's fence says so while
 * nobody has died and the launcher is still connected. Else the ranks tell each other who has come,
 * along the lines that tell of deaths (neighbour.h): each rank tells the leader of its host, the
 * leaders tell their host and the leaders beside them. Who has come and is not to be found later
 * has left in order, and is not lost.
 */
#ifndef NXR_CONTROL_FAREWELL_H
#define NXR_CONTROL_FAREWELL_H

#include "control/wire.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Wait until all living ranks that can be heard of have come, at most `timeout_ns`. NIXL_OK; else
 * NIXL_INPROGRESS (timeout 0) or NIXL_ERR_TIMEOUT, and the others were told that this rank leaves
 * before them. NIXL_ERR_TRANSPORT: this rank's descriptors are closed, and it waits for nobody. A
 * failure is recorded for nixl_finalize(). Without job.lock.
 */
int nxr_farewell(int64_t timeout_ns);

/* ---- caller holds job.lock ------------------------------------------------------------------- */

/* Has the rank said that it leaves? */
bool nxr_farewell_has_come(int rank);

/* Is this rank in its last nixl_finalize()? */
bool nxr_farewell_is_here(void);

/* A link is up or cannot be made, or a peer is no more: somebody else may have to be told. */
void nxr_farewell_look(void);

/* Tell what is to be told; when to look again. */
int64_t nxr_farewell_tick(int64_t now);

/* The service thread has ended. */
void nxr_farewell_stop(void);

extern const struct nxr_subsystem nxr_farewell_subsystem;

#endif
