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
 * Has the process ended with all its threads, so that it writes nothing any more? Takes job.lock.
 */
bool nxr_liveness_is_gone(struct nxr_peer *peer);

/*
 * The service thread's timer: peers that have no pidfd, and the orphan's grace. Caller holds
 * job.lock.
 */
int64_t nxr_liveness_tick(int64_t now);

/* The launcher told of a death, or (rank -1) is gone itself. Any thread. */
void nxr_liveness_from_launcher(int rank);

/* Forget everything; the service thread has ended. */
void nxr_liveness_stop(void);

extern const struct nxr_subsystem nxr_liveness_subsystem;

#endif
