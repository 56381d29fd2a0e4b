/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting connections at sockets that listen, local ones or TCP. The service thread watches them.
 * While the process has no descriptor for one more, listening is paused: a connection that waits
 * would wake the thread for ever. All functions: caller holds job.lock.
 */
#ifndef NXR_HOST_ACCEPTOR_H
#define NXR_HOST_ACCEPTOR_H

#include "core/service.h"
#include "host/local_socket.h"

#include <stdbool.h>
#include <stdint.h>

struct nxr_acceptor;

/* One of its sockets. */
struct nxr_acceptor_end {
    struct nxr_watch watch;
    struct nxr_acceptor *acceptor;
    int fd; /* -1: none */
};

struct nxr_acceptor {
    struct nxr_acceptor_end ends[NXR_LOCAL_ADDRESSES];
    int64_t again_at; /* when to listen again; INT64_MAX: not paused */
    bool is_watching; /* between start and stop, and not paused */

    /*
     * Someone has connected, by a descriptor that does not block. False: it is refused, and the
     * descriptor stays the caller's. May stop the acceptor.
     */
    bool (*take)(struct nxr_acceptor *acceptor, int fd);
};

/*
 * Accept at these sockets (-1: none), which stay the caller's, and outlive the acceptor. NIXL_OK or
 * the failure.
 */
int nxr_acceptor_start(struct nxr_acceptor *acceptor, const int fds[NXR_LOCAL_ADDRESSES],
                       bool (*take)(struct nxr_acceptor *acceptor, int fd));

/*
 * Accept nothing any more. Events of this round may still refer to the acceptor, so its memory is
 * freed at the next tick or later.
 */
void nxr_acceptor_stop(struct nxr_acceptor *acceptor);

/* Listen again where descriptors were short. Returns when to call again. */
int64_t nxr_acceptor_tick(struct nxr_acceptor *acceptor, int64_t now);

#endif
