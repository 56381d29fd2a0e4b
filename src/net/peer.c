/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The remote half of a peer: creating it with the networks that net/offer.c has chosen, and ending
 * it.
 * Lock: job.lock, and nxr_net.lock inside.
 */
#include "config.h"

#include "core/service.h"
#include "net/connect.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "core/subsystem.h"
#include "core/carrier.h"
#include "core/route.h"
#include "core/wireup.h"
#include "net/net.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making and ending ----------------------------------------------------------------------- */

static struct net_peer *net_peer_new(struct nxr_peer *peer, const struct nxr_full_card *card)
{
    struct net_peer *np = calloc(1, sizeof(*np));

    if (np == NULL) {
        return NULL;
    }
    np->peer = peer;
    np->identity = peer->identity;
    np->card = *card;
    np->tx_limit = np->rx_told = np->rx_sent = NXR_RING_SLOTS;
    nxr_peer_widen(peer);
    np->ring = (struct nxr_ring_tx){
        .slots = peer->in.ring,
        .n_slots = NXR_RING_SLOTS,
        .credit = peer->in.credit,
    };
    if (peer->wide_ring != NULL) {
        np->ring.slots = peer->wide_ring;
        np->ring.n_slots = NXR_RING_WIDE_SLOTS;
    }
    np->ring.limit = np->ring.n_slots;
    nxr_list_init(&np->queue);
    nxr_list_init(&np->corked_link);
    nxr_list_init(&np->busy_link);
    nxr_list_init(&np->landings);
    nxr_list_init(&np->pending);
    nxr_list_init(&np->moves);
    nxr_list_init(&np->waiting);
    nxr_list_init(&np->words);
    nxr_list_init(&np->segments);
    return np;
}

/* No network is open: explain why, for each. */
static void explain_none(char *why, size_t why_nbytes)
{
    size_t used = 0;

    why[0] = '\0';
    if (nxr_net.n_nets == 0) {
        snprintf(why, why_nbytes,
                 "no network was opened: the launcher reports only one host, or none is needed "
                 "(NIXLRUN_OPEN_NETWORKS=1 opens them)");
    }
    for (size_t i = 0; i < nxr_net.n_nets && used < why_nbytes; i++) {
        used += (size_t)snprintf(why + used, why_nbytes - used, "%s%s: %s", used > 0 ? "; " : "",
                                 nxr_net.nets[i].name, nxr_net.nets[i].why);
    }
}

/* Do both speak the same version? If not, each would drop every message of the other. */
static bool speaks_as_we(const struct nxr_full_card *card, char *why, size_t why_nbytes)
{
    unsigned theirs = nxr_card_version_at(&card->head, NXR_CARD_NET_SHIFT);

    if (theirs == 0 || theirs == NXR_NET_VERSION) {
        return true;
    }
    snprintf(
        why, why_nbytes,
        "it runs another version of nixlrun, which speaks version %u between hosts, here it is %u",
        theirs, NXR_NET_VERSION);
    return false;
}

/*
 * Was this process in the job when this one joined? If this one has come back, it takes nothing
 * from here before its program has readmitted the rank; then it greets.
 */
static bool was_met(const struct nxr_peer *peer)
{
    return !nxr_peer_is_attached(peer) &&
           nxr_wireup()->incarnation_of(peer->rank) == peer->identity.incarnation;
}

int nxr_net_add_peer(struct nxr_peer *peer, const struct nxr_full_card *card, char *why,
                     size_t why_nbytes)
{
    struct net_slot *slot = nxr_peer_slot_of(peer, &nxr_net_slot);
    struct nxr_net_choice choice;
    struct net_peer *np;

    if (!atomic_load(&nxr_net_is_open)) {
        explain_none(why, why_nbytes);
        return NIXL_E_UNSUPPORTED;
    }
    if (!speaks_as_we(card, why, why_nbytes) || !nxr_net_choose(card, &choice, why, why_nbytes)) {
        return NIXL_E_UNSUPPORTED;
    }
    np = net_peer_new(peer, card);
    if (np == NULL) {
        snprintf(why, why_nbytes, "no memory");
        return NIXL_E_NO_MEMORY;
    }
    memcpy(np->choices, choice.networks, sizeof(np->choices));
    np->n_choices = choice.n_networks;
    np->messages = choice.networks[0];
    np->bulk = choice.bulk;
    nxr_net_set_limits(np);
    net_lock();
    np->messages->n_peers++;
    np->bulk->n_peers++;
    net_unlock();
    peer->carrier = &nxr_net_carrier;
    peer->transport = &np->messages->transport;
    nxr_subsystems_peer_connected(peer);
    np->is_held = nxr_job.self.incarnation > 0 && was_met(peer);
    atomic_store_explicit(&slot->np, np, memory_order_release);
    if (nxr_job.may_return && !nxr_peer_is_attached(peer) && !was_met(peer)) {
        nxr_net_hail(peer); /* it waits to be greeted */
    }
    nxr_info(NET, "%s on %s will be reached by %s%s%s", nxr_peer_name(peer), np->card.head.host,
             np->messages->module->name, np->bulk != np->messages ? ", bulk by " : "",
             np->bulk != np->messages ? np->bulk->module->name : "");
    return NIXL_OK;
}

static void drop_pending(struct net_peer *np)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&np->pending)) != NULL) {
        free(nxr_list_entry(link, struct net_pending, link));
    }
}

static void close_eps(struct net_peer *np, bool is_orderly)
{
    NXR_ASSERT(!nxr_net.is_receiving);
    for (size_t i = 0; i < nxr_net.n_nets; i++) {
        if (np->eps[i] != NULL) {
            net_module(&nxr_net.nets[i])->ep_close(np->eps[i], is_orderly);
            np->eps[i] = NULL;
        }
    }
}

/* End everything this process still has under way to a peer, except what the module must end. */
static void cut_off(struct net_peer *np)
{
    np->is_dead = true;
    nxr_net_out_drop_all(np);
    nxr_net_moves_drop(np);
    nxr_net_atomics_end(np, NIXL_E_PEER_LOST);
    drop_pending(np);
    nxr_list_remove(&np->busy_link);
}

static void net_peer_ending(struct nxr_peer *peer)
{
    struct net_peer *np = net_peer_at(peer);

    if (np != NULL && !np->is_dead) {
        nxr_net_hear_out(np);
    }
    if (np != NULL) {
        net_lock();
        snprintf(peer->why_not, sizeof(peer->why_not), "%s", np->why_lost);
        net_unlock();
    }
}

/* The last message. Caller holds the lock. */
static void say_bye(struct net_peer *np)
{
    nxr_net_begin(np, NXR_NET_BYE, 0);
    nxr_net_push(np, false);
    nxr_net_pump(np);
}

static void net_peer_lost(struct nxr_peer *peer)
{
    struct net_peer *np = net_peer_at(peer);
    bool is_orderly;

    if (np == NULL || np->is_dead) {
        return;
    }
    is_orderly = np->has_left || atomic_load(&peer->state) == NIXL_PEER_FINISHED;
    net_lock();
    if (is_orderly && !np->has_left && np->is_greeted && !nxr_peer_is_attached(peer)) {
        say_bye(np); /* it leaves alone: end its waits for answers from here */
    }
    cut_off(np);
    nxr_net_closings_end(peer->rank);
    close_eps(np, is_orderly);
    net_unlock();
    nxr_service_kick(); /* its round completes the requests of the ended moves */
}

void nxr_net_leave(void)
{
    if (!atomic_load(&nxr_net_is_open)) {
        return;
    }
    pthread_mutex_lock(&nxr_job.lock); /* attached peers may end meanwhile */
    net_lock();
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        struct net_peer *np = net_peer_at(peer);

        if (np != NULL && !np->is_dead && np->is_greeted) {
            say_bye(np);
            np->is_dead = true;
            close_eps(np, true);
        }
    }
    net_unlock();
    pthread_mutex_unlock(&nxr_job.lock);
}

void nxr_net_peers_close(void)
{
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        struct net_peer *np = net_peer_at(peer);

        if (np != NULL) {
            cut_off(np);
            close_eps(np, false);
        }
    }
}

/* Do modules, segments or works still refer to a peer that has ended? */
static bool net_peer_is_used(struct nxr_peer *peer)
{
    const struct net_peer *np = net_peer_at(peer);
    bool is_used;

    if (np == NULL) {
        return false;
    }
    net_lock();
    is_used = !np->is_dead || !nxr_list_is_empty(&np->moves) || !nxr_list_is_empty(&np->landings) ||
              !nxr_list_is_empty(&np->segments) || np->n_busy_words > 0 || np->n_keepers > 0;
    net_unlock();
    return is_used;
}

/*
 * The modules have no operations of the peer any more: they are closed, or net_peer_is_used() has
 * said so.
 */
static void net_peer_fini(struct nxr_peer *peer)
{
    free(net_peer_at(peer));
}

struct nxr_peer_slot nxr_net_slot = {.nbytes = sizeof(struct net_slot)};

const struct nxr_subsystem nxr_net_subsystem = {
    .name = "net",
    .peer_slot = &nxr_net_slot,
    .peer_fini = net_peer_fini,
    .numbers_grow = nxr_net_numbers_grow,
    .peer_is_used = net_peer_is_used,
    .listen = nxr_net_watch_start,
    .tick = nxr_net_tick,
    .serve = nxr_net_serve,
    .hand_over = nxr_net_hand_over,
    .long_wait_ended = nxr_net_long_wait_ended,
    .peer_ending = net_peer_ending,
    .peer_ended = net_peer_lost,
    .quiesce = nxr_net_leave,
    .close = nxr_net_watch_stop,
};

const struct nxr_carrier nxr_net_carrier = {
    .name = "net",
    .add_peer = nxr_net_add_peer,
    .send = nxr_net_control,
    .send_key = nxr_net_send_key,
    .revoking = nxr_net_revoking,
    .revoked = nxr_net_revoked,
    .quiesce = nxr_net_quiesce,
    .own_local = nxr_net_own_local,
    .forget = nxr_net_forget,
    .is_unconnected = nxr_net_is_unconnected,
};
