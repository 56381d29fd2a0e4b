/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a peer: it has died, or has left the job. Each peer ends once; whoever notices it
 * first ends it for all parts of the library (subsystem.h: peer_ending, peer_ended, death_known).
 */
#ifndef NXR_CORE_LIFE_H
#define NXR_CORE_LIFE_H

#include <stdbool.h>

struct nxr_peer;

/*
 * Mark a rank as dead: ends its requests, queues the event, wakes all waiters. Does nothing if the
 * rank is already known to be dead or finished. Caller holds job.lock.
 */
void nxr_life_lost_locked(int rank);

/*
 * The same for that process of its rank: does nothing either if another one has taken its place.
 * Any thread, without locks.
 */
void nxr_life_lost(struct nxr_peer *peer);

/*
 * A rank has left the job normally while this one stays: ends its requests and queues the event,
 * like a death. Caller holds job.lock.
 */
void nxr_life_left_locked(int rank);

/*
 * This process has ended the attachment of that peer (is_detached is set): ends its requests, and
 * reports nothing. Caller holds job.lock.
 */
void nxr_life_detached_locked(struct nxr_peer *peer);

/*
 * Check the robust mutex of a connected peer: one load while it lives; calls nxr_life_lost() if it
 * has died. For threads that spin on the peer. True: lost or finished.
 */
bool nxr_life_check(struct nxr_peer *peer);

extern const struct nxr_subsystem nxr_life_subsystem;

#endif
