/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on own device memory for peers on other hosts: their puts, gets and changes of words, and
 * copies for windows. Lock: nxr_net.lock.
 */
#ifndef NXR_TRANSFER_WORK_H
#define NXR_TRANSFER_WORK_H

#include "net/clients.h"
#include "core/peer_slot.h"
#include "util/symbol.h"

/* A copy of own device memory for a peer. */
struct net_work {
    struct nxr_list link;
    struct nxr_device_copy copy;
    void (*prepare)(struct net_work *work); /* before the copy begins, without the lock; or NULL */
    void (*done)(struct net_work *work, int status); /* under the lock */
    bool is_stop; /* it is none, but ends the copy of copy.owner early (nxr_work_stop) */
};

/* What this folder's owners keep of each peer. Lock: nxr_net.lock. */
struct work_peer {
    struct nxr_list put_batches; /* struct net_put_batch: the first is being copied */
    struct window *window;       /* for this peer (window.c); NULL: none yet */
};
extern NXR_HIDDEN struct nxr_peer_slot nxr_work_slot; /* of nxr_windows_subsystem */

static inline struct work_peer *work_peer_of(const struct nxr_peer *peer)
{
    return nxr_peer_slot_of(peer, &nxr_work_slot);
}

/* Begin it: nxr_windows_subsystem's peer_init. */
bool nxr_work_peer_init(struct nxr_peer *peer);

/* Register the handlers of records for own device memory. Before the networks are started. */
void nxr_works_register(void);

/* Is any copy or word for a peer under way? */
bool nxr_works_are_under_way(void);

/* Queue a copy. It begins after the round, without the lock. */
void nxr_work_add(struct net_work *work);

/* After those: end the copy of that owner (copy.owner) early, if that can be done. */
void nxr_work_stop(const void *owner);

#endif
