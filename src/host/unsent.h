/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that wait to be sent, with descriptors of their own: for the greeting of their
 * connection, for room in its socket, or for the next connection to the peer. Caller holds
 * job.lock.
 */
#ifndef NXR_HOST_UNSENT_H
#define NXR_HOST_UNSENT_H

#include "control/wire.h"
#include "core/job.h"

struct nxr_unsent {
    struct nxr_list link;
    union nxr_wire_message message;
    int fds[NXR_WIRE_MAX_FDS];
    int n_fds;
};

/*
 * Append a copy to a list. Without memory or descriptors for it the message is dropped, with a
 * warning.
 */
void nxr_unsent_keep(struct nxr_list *list, const struct nxr_peer *peer,
                     const union nxr_wire_message *message, const int *fds, int n_fds);

/* Free one that is in no list. */
void nxr_unsent_free(struct nxr_unsent *unsent);

/* Discard what waits for the next connection to that peer. */
void nxr_unsent_drop(struct nxr_peer *peer);

#endif
