/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attached peers: processes of other jobs. Each has a number of its own from nixl_size() on, which
 * is never given to another, so that no call reaches another process than the program means.
 *
 * An attachment ends for this process when the other one dies, leaves or ends it, or when this one
 * does. What it had is freed late: after the program has ended the attachment, when nothing refers
 * to the peer any more, when the other process uses nothing of this one, and not before NXR_LATE_NS
 * (core/late.h) have passed, so that a call in another thread which still has the peer finds that
 * it has ended.
 *
 * Lock: job.lock, except for nxr_attached_find() and nxr_attached_number().
 */
#ifndef NXR_CORE_ATTACHED_H
#define NXR_CORE_ATTACHED_H

#include "core/identity.h"

#include <stdbool.h>

struct nxr_full_card;
struct nxr_peer;

/* The attached peer of that number; NULL: there is none, or not any more. Any thread. */
struct nxr_peer *nxr_attached_find(int number);

/*
 * The number of the attached process of that identity, the latest if it was attached several
 * times; -1: there is none. Any thread.
 */
int nxr_attached_number(const struct nxr_identity *identity);

/* Was that number an attached process that has been detached since? Any thread. */
bool nxr_attached_was(int number);

/*
 * Give a number to the process of that card, which has proved itself, and make its peer. NIXL_OK,
 * NIXL_E_NO_MEMORY, NIXL_E_LIMIT (no descriptor).
 */
int nxr_attached_add(const struct nxr_full_card *card, struct nxr_peer **peer_p);

/*
 * End an attachment on behalf of the program, or of an attempt that failed: what waits for the peer
 * ends, and no event is made. What had been freed already stays so.
 */
void nxr_attached_end(struct nxr_peer *peer);

/* Forget all numbers (last finalize). */
void nxr_attached_reset(void);

extern const struct nxr_subsystem nxr_attached_subsystem;

#endif
