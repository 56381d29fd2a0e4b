/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that come back: the launcher has started a rank again whose process had ended, and tells
 * the others, with the card of the new process (NIXL_EVENT_PEER_JOINED). For them the rank stays
 * lost until the program readmits it. Then the new process gets a peer of its own under the same
 * number, with its own page of rings, and whatever refers to the former peer, such as requests and
 * prepared transfers, keeps that one, which stays lost and is freed when nothing refers to it.
 *
 * The launcher starts a process when the former one has ended with all its threads, so nothing of
 * the former one writes here any more. Until it is readmitted the new process cannot connect to
 * this one; it tries again and again.
 *
 * Lock: job.lock.
 */
#ifndef NXR_CORE_RETURNED_H
#define NXR_CORE_RETURNED_H

struct nxr_full_card;
struct nxr_peer;

/* The launcher reports that process of a rank. Caller holds job.lock. */
void nxr_returned_hear(const struct nxr_full_card *card);

/* The launcher reports the end of that rank's latest process. Caller holds job.lock. */
void nxr_returned_has_ended(int rank);

/*
 * The peers that were replaced and are not freed yet, one after the other. `former` NULL: the
 * first; returns NULL after the last. Caller holds job.lock.
 */
struct nxr_peer *nxr_returned_next(const struct nxr_peer *former);

/* Free all former peers, and forget who has come back (last finalize). */
void nxr_returned_reset(void);

extern const struct nxr_subsystem nxr_returned_subsystem;

#endif
