/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks are alive: a pidfd per connected peer in the service thread's epoll, the robust
 * mutex for threads that spin, the launcher's events, and the failure detector ring (detector.h)
 * for ranks that never communicated.
 */
#ifndef NXR_HOST_LIVENESS_H
#define NXR_HOST_LIVENESS_H

#include "core/wireup.h"
#include <stdbool.h>
#include <stdint.h>

struct nxr_peer;

/*
 * Start and stop watching a peer that was just connected; `socket` is the connection to it, -1:
 * there is none. Caller holds job.lock.
 */
void nxr_liveness_watch(struct nxr_peer *peer, int socket);
void nxr_liveness_unwatch(struct nxr_peer *peer);

/*
 * Has the process ended with all its threads, so that it cannot write to memory any more? Caller
 * holds job.lock.
 */
bool nxr_liveness_is_gone(struct nxr_peer *peer);

/*
 * The service thread's timer: peers without a pidfd, and NIXLRUN_ORPHAN_GRACE. Returns when to
 * call again. Caller holds job.lock.
 */
int64_t nxr_liveness_tick(int64_t now);

/*
 * Take news of the launcher, if this rank is joined. Any thread, without job.lock: close() of the
 * subsystems, which holds it, waits for what is taken, and nothing is taken after it.
 */
void nxr_liveness_from_launcher(const struct nxr_wireup_event *event);

/* Release everything; the service thread has ended. */
void nxr_liveness_stop(void);

extern const struct nxr_subsystem nxr_liveness_subsystem;

#endif
