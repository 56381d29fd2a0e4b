/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flush and fence. Messages to a peer arrive in order, so a flush is a FLUSH record after
 * everything else that was sent, which the target answers when all of that is visible. If a
 * process flushes after every put, FLUSH is sent along with the put. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/move.h"
#include "net/out.h"

static uint64_t next_flush(struct net_peer *np)
{
    np->is_dirty = false;
    return ++np->flush_asked;
}

static void net_order_ask(struct net_peer *np)
{
    struct nxr_net_stamp *flush = nxr_net_begin(np, NXR_NET_FLUSH, sizeof(*flush));

    if (flush != NULL) {
        flush->value = next_flush(np);
    }
}

/* A put is being sent: will a flush follow, as it did after the last put? */
static bool expects_flush(struct net_peer *np)
{
    np->is_dirty = true;
    np->expects_flush = np->expects_flush && np->is_flush_used;
    np->is_flush_used = false;
    return np->expects_flush;
}

void nxr_net_ask_flush_early(struct net_peer *np)
{
    if (expects_flush(np)) {
        net_order_ask(np);
    }
}

uint64_t nxr_net_flush_of_bulk(struct net_peer *np)
{
    return expects_flush(np) ? next_flush(np) : 0;
}

void nxr_net_flush_lost(struct net_peer *np)
{
    np->is_dirty = true;
}

/*
 * Is everything that was sent visible at the peer? Asks for a flush if need be. Caller holds the
 * lock.
 */
static int net_order_advance(struct net_peer *np)
{
    if (np->is_dead) {
        return NIXL_E_PEER_LOST;
    }
    if (np->is_dirty) {
        net_order_ask(np);
    }
    nxr_net_push(np, false);
    return np->is_dirty || np->flush_heard != np->flush_asked || np->n_writes > 0 ? NIXL_INPROGRESS
                                                                                  : NIXL_OK;
}

int nxr_net_flush(struct nxr_peer *peer)
{
    struct net_peer *np = net_peer_at(peer);
    int status;

    net_lock();
    np->expects_flush = true;
    np->is_flush_used = true;
    status = net_order_advance(np);
    net_unlock();
    return status;
}

void nxr_net_refusal_heard(struct nxr_peer *peer)
{
    struct net_peer *np = net_peer_at(peer);
    struct nxr_net_stamp *heard;

    net_lock();
    atomic_fetch_and(&peer->doubts, ~NXR_DOUBT_REFUSAL);
    heard = np->is_dead ? NULL : nxr_net_begin_answer(np, NXR_NET_HEARD, sizeof(*heard));
    if (heard != NULL) {
        heard->value = np->n_refused;
        nxr_net_push(np, false);
    }
    net_unlock();
}

/*
 * Messages arrive in order. Bytes that move beside them do not; nor do those that the target's
 * device or storage writes land before the next message is taken, or in order among each other; and
 * RMA reads access memory while earlier messages may still wait for the target's core.
 */
int nxr_net_fence(struct nxr_peer *peer)
{
    struct net_peer *np = net_peer_at(peer);
    int status;

    net_lock();
    if (np->has_late_unheard || np->n_writes > 0 || net_uses_rma(np->bulk)) {
        status = net_order_advance(np);
    } else {
        status = np->is_dead ? NIXL_E_PEER_LOST : NIXL_OK;
    }
    net_unlock();
    return status;
}
