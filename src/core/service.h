/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service thread. It sleeps in epoll on the rank's socket, its connections, the pidfds of its
 * peers and a kick, and answers peers while the user computes. Its watches and ticks run with
 * job.lock held; none of its work blocks.
 */
#ifndef NXR_CORE_SERVICE_H
#define NXR_CORE_SERVICE_H

#include "core/job.h"

/* Something in the service thread's epoll. Embedded in its owner. */
struct nxr_watch {
    void (*fn)(struct nxr_watch *watch,
               uint32_t events); /* on the service thread, under job.lock */
};

/* Start the thread. Returns once it holds the robust mutex and listens: NIXL_OK or the failure. */
int nxr_service_start(void);

/* End the thread and everything that it serves. The robust mutex is released. */
void nxr_service_stop(void);

/*
 * Has the program closed the descriptors of the service thread? If so, nothing reaches this rank,
 * and it must not wait for others. Any thread.
 */
bool nxr_service_is_broken(void);

/* Make the thread check connections and timers now. Any thread. */
void nxr_service_kick(void);

/*
 * The eventfd that does the same; -1: the thread is not there. It is valid until the last finalize.
 */
int nxr_service_kick_fd(void);

/* Watch a descriptor. NIXL_OK or NIXL_E_LIMIT. Caller holds job.lock. */
int nxr_service_watch(int fd, uint32_t events, struct nxr_watch *watch);
void nxr_service_rewatch(int fd, uint32_t events, struct nxr_watch *watch);
void nxr_service_unwatch(int fd);

/* Is there room to keep `fd`, which only makes things faster? */
bool nxr_service_may_keep_fd(int fd);

/* Make the event fd of a peer readable; NULL: this rank's own. Any thread, without job.lock. */
void nxr_service_signal_event_fd(struct nxr_peer *peer);

#endif
