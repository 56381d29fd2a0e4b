/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who lives: a pidfd per connected peer in the service thread's epoll, the robust mutex for those
 * who spin, the launcher's events, and the neighbour watch (neighbour.h) for ranks that never
 * talked.
 */
#ifndef NXR_HOST_LIVENESS_H
#define NXR_HOST_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

struct nxr_peer;

/* Begin to watch a peer that has just been connected. Caller holds job.lock. */
void nxr_liveness_watch(struct nxr_peer *peer);
void nxr_liveness_unwatch(struct nxr_peer *peer);

/*
 * Mark a rank as dead: ends its requests, queues the event, wakes all waiters. Does nothing if the
 * rank was known to be dead or finished. Any thread; takes job.lock.
 */
void nxr_liveness_lost(int rank);
void nxr_liveness_lost_locked(int rank);

/*
 * A rank has left the job in order, and this one has not: ends its requests and queues the event,
 * as a death does. Caller holds job.lock.
 */
void nxr_liveness_left_locked(int rank);

/*
 * Look at the robust mutex of a connected peer: one load unless it died, when it does as
 * nxr_liveness_lost(). For threads that spin on the peer. True: lost or finished.
 */
bool nxr_liveness_check(struct nxr_peer *peer);

/*
 * Has the process ended with all its threads, so that it writes nothing any more? Takes job.lock.
 */
bool nxr_liveness_is_gone(int rank);

/*
 * The service thread's timer: peers that have no pidfd, and the orphan's grace. Caller holds
 * job.lock.
 */
int64_t nxr_liveness_tick(int64_t now);

/* The launcher told of a death, or (rank -1) is gone itself. Any thread. */
void nxr_liveness_from_launcher(int rank);

/* Forget everything; the service thread has ended. */
void nxr_liveness_stop(void);

#endif
