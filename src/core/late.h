/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freeing peers that no call finds any more: not before LATE_NS have passed, so that a call in
 * another thread which still has the peer finds that it has ended. Caller holds job.lock.
 */
#ifndef NXR_CORE_LATE_H
#define NXR_CORE_LATE_H

#include "util/clock.h"

#include <stdint.h>

struct nxr_peer;

#define NXR_LATE_NS       (1 * NXR_S)
#define NXR_LATE_CHECK_NS (100 * NXR_MS) /* while something has ended that cannot be freed yet */

/* Free the peer later. Nothing but threads that have found it before may use it. */
void nxr_late_free(struct nxr_peer *peer, int64_t now);

/* Free what is due; INT64_MAX: all. Returns when to call again. */
int64_t nxr_late_tick(int64_t now);

#endif
