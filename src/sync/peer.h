/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this folder keeps of each peer: both ends of its notification rings. A sending thread and a
 * receiving thread touch no common cache line.
 */
#ifndef NXR_SYNC_PEER_H
#define NXR_SYNC_PEER_H

#include "core/job.h"
#include "core/peer_slot.h"
#include "core/stats.h"
#include "core/trace.h"
#include "util/symbol.h"

struct sync_peer {
    /* Notifications to the peer. */
    struct nxr_spin send_lock; /* guards tx and held; a spin lock, inside nxr_inbox_spin */
    struct nxr_ring_tx tx;
    struct nxr_list held;         /* struct held_note, which wait for earlier puts */
    _Atomic uint32_t n_queued;    /* these; peer->n_held counts those that follow a get, too */
    struct nxr_stats_entry *sent; /* counts them; NULL: none was sent */
    uint64_t n_traced_sent;       /* while they are traced: the number of the last one */

    /* Notifications from the peer: nxr_inbox_spin. */
    _Alignas(NXR_LINE_NBYTES) struct nxr_ring_rx rx;
    struct sync_peer *_Atomic rx_next; /* in the list of inbox.peers; stays when it is taken out */
    struct nxr_peer *peer;
    atomic_bool rx_is_shut;           /* nothing is taken from it any more */
    struct nxr_stats_entry *received; /* counts them; NULL: none has arrived */
    uint64_t n_traced_taken;          /* while they are traced: the number of the last one */
};

extern NXR_HIDDEN struct nxr_peer_slot nxr_sync_slot; /* of nxr_notify_subsystem */

static inline struct sync_peer *sync_peer_of(const struct nxr_peer *peer)
{
    return nxr_peer_slot_of(peer, &nxr_sync_slot);
}

/*
 * The event that a notification was sent to the peer, or received from it, at that tick: before
 * anybody could see it, or after it was seen. Arrows are drawn by its number, among ranks of the
 * own job; the object is the process. (receive.c)
 */
void nxr_sync_trace(const struct nxr_peer *peer, const struct nxr_traced *note)
    __attribute__((cold, noinline));

/* A notification was taken from the peer. Caller holds inbox.lock. */
static inline void sync_count_received(struct sync_peer *sp, size_t nbytes)
{
    if (__builtin_expect(sp->received == NULL, 0)) {
        sp->received = nxr_stats_entry_of(sp->peer, NXR_STATS_RECEIVE,
                                          nxr_peer_transport_name(sp->peer), NXR_METHOD_NONE);
    }
    nxr_stats_count_alone(sp->received, nbytes);
}

#endif
