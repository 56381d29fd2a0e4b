/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications to ranks on other hosts. The receiver's core pushes them into the ring that its
 * control page has for the sender, as if the sender had written there itself, or into a wide one.
 * The sender counts the slots that it uses: it knows of NXR_RING_SLOTS, and then of what CREDIT
 * tells it. A small put with its notification goes in the same message. Lock: nxr_net.lock; callers
 * of nxr_net_notify() and nxr_net_put_notify() hold the peer's send_lock.
 */
#include "config.h"

#include "core/stats.h"
#include "net/move.h"
#include "net/out.h"

#include <string.h>

/*
 * Reserve room in the peer's ring for a payload. False: there is none; the batch is then sent, so
 * that the peer can make room.
 */
static bool take_slots(struct net_peer *np, size_t nbytes)
{
    uint64_t n_slots = nxr_ring_slots_of(nbytes);

    if (np->tx_tail + n_slots > np->tx_limit) {
        np->wants_credit = true;
        nxr_net_push(np, false);
        return false;
    }
    np->tx_tail += n_slots;
    return true;
}

static int append_note(struct net_peer *np, const struct nxr_message *message)
{
    size_t nbytes = message->nbytes;
    struct nxr_net_note *note;

    if (!take_slots(np, nbytes)) {
        return NIXL_E_AGAIN;
    }
    note = nxr_net_begin(np, NXR_NET_NOTE, sizeof(*note) + nbytes);
    if (note == NULL) {
        np->tx_tail -= nxr_ring_slots_of(nbytes);
        return NIXL_E_NO_MEMORY;
    }
    note->context = message->context;
    note->tag = message->tag;
    note->is_late = message->is_late;
    if (nbytes > 0) {
        memcpy(note + 1, message->bytes, nbytes);
    }
    return NIXL_OK;
}

int nxr_net_notify(struct nxr_peer *peer, const struct nxr_message *message)
{
    struct net_peer *np = net_peer_at(peer);
    int status = NIXL_E_PEER_LOST;

    net_lock();
    if (!np->is_dead) {
        status = append_note(np, message);
        if (status == NIXL_OK) {
            nxr_net_push(np, true);
        }
    }
    net_unlock();
    return status;
}

int nxr_net_put_notify(struct nxr_segment *segment, const struct nxr_put_notify *what)
{
    struct net_peer *np = net_peer_at(segment->peer);
    int status = NIXL_E_AGAIN;

    if (what->nbytes > np->put_max) {
        return status;
    }
    net_lock();
    if (nxr_net_check_segment(np, segment) == NIXL_OK && nxr_net_has_room(np) &&
        np->tx_tail + nxr_ring_slots_of(what->message.nbytes) <= np->tx_limit) {
        status = nxr_net_append_put(np, segment, what->offset, what->src, what->nbytes);
        if (status == NIXL_OK) {
            nxr_stats_moved(segment, NXR_OP_PUT, what->nbytes);
            np->is_dirty = true;
            status = append_note(np, &what->message);
            nxr_net_push(np, true);
        }
    }
    net_unlock();
    return status;
}

/*
 * Does the sender need to know its limit at once? Until that has grown by half of the ring since
 * the last credit that went out, and while it knows of room for any notification, it may wait for
 * another message or for the next round.
 */
static bool is_urgent(const struct net_peer *np, uint64_t limit)
{
    return limit - np->rx_sent >= np->ring.n_slots / 2 ||
           np->ring.tail + nxr_ring_slots_of(NXR_RING_MAX_NBYTES) > np->rx_sent;
}

/* A credit that waits has gone out if no message waits any more. */
void nxr_net_send_credit(struct nxr_peer *peer)
{
    struct net_peer *np = net_peer_at(peer);
    struct nxr_net_stamp *credit;

    net_lock();
    if (np->batch == NULL) {
        np->rx_sent = np->rx_told;
    }
    credit = nxr_net_begin_answer(np, NXR_NET_CREDIT, sizeof(*credit));
    if (credit != NULL) {
        credit->value =
            atomic_load_explicit(&peer->in.credit->taken, memory_order_acquire) + np->ring.n_slots;
        np->rx_told = credit->value;
        if (is_urgent(np, credit->value)) {
            np->rx_sent = credit->value;
            nxr_net_push(np, false);
        } else {
            nxr_net_cork(np);
        }
    }
    net_unlock();
}
