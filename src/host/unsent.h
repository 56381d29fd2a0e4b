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

/* Does a message outlive its connection? A greeting belongs to it; the asker repeats a question. */
bool nxr_unsent_is_lasting(const union nxr_wire_message *message);

/*
 * Append a copy to a list, with duplicates of its descriptors. False: there is no memory or no
 * descriptor for it, and the message is not kept. If it is a lasting one, the peer would wait for
 * it, or this rank for what it asks for, without an end: the next tick gives the peer up.
 */
bool nxr_unsent_keep(struct nxr_list *list, const struct nxr_peer *peer,
                     const union nxr_wire_message *message, const int *fds, int n_fds);

/*
 * The same for a message whose descriptor belongs to it from now on, so that none is needed.
 * False: there is no memory; the descriptor is closed.
 */
bool nxr_unsent_give(struct nxr_list *list, const struct nxr_peer *peer,
                     const union nxr_wire_message *message, int fd);

/* End the peers that cannot be told what they must be told. */
void nxr_unsent_tick(void);

/* Errors say that this rank has given the peer up, which lives. */
void nxr_unsent_peer_ending(struct nxr_peer *peer);

/* Free one that is in no list. */
void nxr_unsent_free(struct nxr_unsent *unsent);

/* Discard what waits for the next connection to that peer. */
void nxr_unsent_drop(struct nxr_peer *peer);

#endif
