/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaching a peer. From the cards both ends know which networks they have in common, best first,
 * but not which of them carry data: a firewall or a broken switch drops packets silently. So no
 * data goes to a network before the peer has answered there (ep_reach()); until then messages wait
 * in np->queue. The best network is tried first. If it fails, or does not reach the peer within
 * TRY_NS, the next one is tried as well, and so on. The first network that reaches the peer
 * carries everything to it from then on. If a network was too slow for one peer, other peers are
 * tried over it and the next network at the same time, until the slow one has reached a peer.
 *
 * Each end decides for its own messages. It uses only one network, so they stay in order. The
 * other end receives on all networks, answers probes on each, and keeps the endpoints open. So the
 * two ends need not agree, neither waits for the other's decision, and they cannot deadlock. An
 * end that does not take the best network says so in its first messages (NXR_NET_TAKES), and an
 * end that is not reached over any network yet tries that one as well. So both end up with the
 * same network, unless a network comes up just after one of them has passed to the next.
 *
 * Only short records wait for a network: bulk, puts and gets need the key of a region, which only
 * the peer can send. Keys for a network that is not used are ignored: the bytes go inside messages
 * or as bulk. Lock: nxr_net.lock.
 */
#include "config.h"

#include "core/service.h"
#include "net/connect.h"
#include "net/in.h"
#include "net/out.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <string.h>

#define TRY_NS            (1 * NXR_S)
#define TRIES_PER_TIMEOUT 10 /* ... or this part of NIXLRUN_PEER_TIMEOUT, if that is shorter */
#define LOOK_NS           (100 * NXR_MS)

/* ---- the limits of messages ------------------------------------------------------------------ */

/* The longest answer that the peer can send, whichever network it uses. */
static size_t answer_max(const struct net_peer *np)
{
    size_t max_nbytes = SIZE_MAX;

    for (unsigned i = 0; i < np->n_choices; i++) {
        size_t nbytes = np->choices[i]->attr->message_nbytes;

        max_nbytes = nbytes < max_nbytes ? nbytes : max_nbytes;
    }
    return max_nbytes - NET_MESSAGE_OVERHEAD;
}

void nxr_net_set_limits(struct net_peer *np)
{
    const struct nxr_net_attr *attr = np->messages->attr;
    size_t list_get_max = answer_max(np);

    np->piece_max = attr->message_nbytes - NET_MESSAGE_OVERHEAD;
    np->put_max =
        attr->put_message_nbytes < np->piece_max ? attr->put_message_nbytes : np->piece_max;
    np->get_max =
        attr->get_message_nbytes < np->piece_max ? attr->get_message_nbytes : np->piece_max;
    np->list_get_max = attr->list_get_nbytes < list_get_max ? attr->list_get_nbytes : list_get_max;
}

/* ---- trying ---------------------------------------------------------------------------------- */

static int64_t try_ns(void)
{
    int64_t part = nxr_env.peer_timeout / TRIES_PER_TIMEOUT;

    return part < TRY_NS ? part : TRY_NS;
}

static void try_next(struct net_peer *np, int64_t now)
{
    np->choices[np->n_tried++]->n_peers++;
    np->next_try_at = now + try_ns();
}

/* Have all networks that were tried failed? */
static bool have_failed(const struct net_peer *np)
{
    return np->failed == (1u << np->n_tried) - 1;
}

/* Try one more network if it is time. */
static void try_more(struct net_peer *np, int64_t now)
{
    if (np->n_tried == 0) {
        nxr_net.is_trying = true;
        nxr_service_kick(); /* its timer drives the tries */
        try_next(np, now);
    } else if (np->n_tried < np->n_choices && (now >= np->next_try_at || have_failed(np) ||
                                               np->choices[np->n_tried - 1]->is_doubted)) {
        try_next(np, now);
    }
}

static int net_connect_reach(struct net_peer *np, struct net *net)
{
    struct nxr_net_ep *ep = nxr_net_ep_to(np, net);

    return ep != NULL ? net_module(net)->ep_reach(ep) : NIXL_E_TRANSPORT;
}

static void say_taken(struct net_peer *np, struct net *net)
{
    struct net *best = np->choices[0];
    char why[300];

    if (!nxr_net_was_tried(np, best, why, sizeof(why))) {
        return;
    }
    if (best->is_doubt_told) {
        nxr_info(NET, "%s on %s is reached by %s; %s: %s", nxr_identity_name(&np->identity),
                 np->card.head.host, net->module->name, best->module->name, why);
        return;
    }
    best->is_doubt_told = true;
    nxr_warn(NET, "%s on %s is reached by %s; %s: %s; further ones at log level info",
             nxr_identity_name(&np->identity), np->card.head.host, net->module->name,
             best->module->name, why);
}

/* The networks before that choice have not reached the peer in time. */
static void doubt(struct net_peer *np, unsigned index)
{
    for (unsigned i = 0; i < index; i++) {
        np->choices[i]->is_doubted = true;
    }
}

/* From now on everything to the peer goes over np->choices[index]. */
static void net_connect_take(struct net_peer *np, unsigned index)
{
    struct net *net = np->choices[index];
    struct nxr_net_takes *takes;

    np->is_reached = true;
    net->is_doubted = false;
    if (index == 0) {
        nxr_info(NET, "%s on %s is reached by %s", nxr_identity_name(&np->identity),
                 np->card.head.host, net->module->name);
        return;
    }
    doubt(np, index);
    np->messages = np->bulk = net;
    nxr_net_set_limits(np);
    np->peer->transport = &net->transport;
    say_taken(np, net);
    nxr_net_out_rewrite(np);
    takes = nxr_net_begin(np, NXR_NET_TAKES, sizeof(*takes));
    if (takes != NULL) {
        memset(takes, 0, sizeof(*takes));
        memcpy(takes->network, net->module->name, strlen(net->module->name) + 1);
        nxr_net_push(np, false);
    }
}

static bool net_connect_has_failed(const struct net_peer *np, unsigned index)
{
    return (np->failed & (1u << index)) != 0;
}

bool nxr_net_connect(struct net_peer *np)
{
    int64_t now;

    if (np->is_reached) {
        return !np->is_held;
    }
    now = nxr_now_ns();
    try_more(np, now);
    for (unsigned i = 0; i < np->n_tried; i++) {
        int status = net_connect_has_failed(np, i) ? NIXL_E_TRANSPORT
                                                   : net_connect_reach(np, np->choices[i]);

        if (status == NIXL_OK) {
            net_connect_take(np, i);
            return !np->is_held; /* if it is: the connection tells if the peer ends */
        }
        np->failed |= status != NIXL_E_AGAIN ? 1u << i : 0;
        if (i + 1 == np->n_tried) {
            try_more(np, now);
        }
    }
    if (have_failed(np) && np->next_try_at != INT64_MAX) {
        np->next_try_at = INT64_MAX; /* only once */
        nxr_net_later(NET_LATER_LOST, np->peer->rank, NULL, 0);
    }
    return false;
}

int64_t nxr_net_connect_tick(int64_t now)
{
    bool is_trying = false;

    if (!atomic_load(&nxr_net.is_trying)) {
        return INT64_MAX; /* without the lock, which a thread that sends much holds nearly always */
    }
    net_lock();
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL && nxr_net.is_trying;
         peer = nxr_peers_next(peer)) {
        struct net_peer *np = net_peer_at(peer);

        if (np != NULL && !np->is_dead && !nxr_list_is_empty(&np->queue)) {
            nxr_net_pump(np);
            is_trying |= !np->is_reached;
        }
    }
    nxr_net.is_trying = is_trying;
    net_unlock();
    return is_trying ? now + LOOK_NS : INT64_MAX;
}

void nxr_net_take_takes(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_takes *takes = nxr_net_body(record);
    unsigned i = 0;

    while (i < np->n_choices && strcmp(np->choices[i]->module->name, takes->network) != 0) {
        i++;
    }
    if (i == np->n_choices || np->is_reached) {
        return;
    }
    doubt(np, i);
    while (np->n_tried <= i) {
        try_next(np, nxr_net.now);
    }
}

bool nxr_net_is_bulk_reached(struct net_peer *np)
{
    np->is_bulk_reached = np->is_bulk_reached || np->bulk == np->messages ||
                          net_connect_reach(np, np->bulk) == NIXL_OK;
    return np->is_bulk_reached;
}

/* ---- failing --------------------------------------------------------------------------------- */

/* Is that network in use for the peer? */
static bool net_connect_is_used(const struct net_peer *np, const struct net *net)
{
    return np->is_reached && (net == np->messages || (net == np->bulk && np->is_bulk_reached));
}

void nxr_net_ep_failed(void *peer, struct nxr_net_ep *ep, const char *why)
{
    struct net_peer *np = peer;
    size_t index = 0;

    NXR_ASSERT(nxr_spin_is_mine(&nxr_net.lock));
    while (index + 1 < nxr_net.n_nets && np->eps[index] != ep) {
        index++;
    }
    nxr_info(NET, "%s cannot be reached %sby %s: %s", nxr_identity_name(&np->identity),
             np->is_reached ? "any more " : "", nxr_net.nets[index].name, why);
    if (net_connect_is_used(np, &nxr_net.nets[index])) {
        nxr_net_later(NET_LATER_LOST, np->peer->rank, NULL, 0);
    }
    if (net_connect_is_used(np, &nxr_net.nets[index]) || !np->is_reached) {
        snprintf(np->why_lost, sizeof(np->why_lost), "%s", why);
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

/* What a network knows about its connection to the peer. */
static void ask_state(struct net_peer *np, const struct net *net, char *known, size_t known_nbytes)
{
    struct nxr_net_ep *ep = np->eps[net->index];

    known[0] = '\0';
    if (ep != NULL) {
        net_module(net)->ep_state(ep, known, known_nbytes);
    }
}

void nxr_net_tell_tried(struct net_peer *np, char *names, size_t names_nbytes, char *known,
                        size_t known_nbytes)
{
    size_t n_names = 0, n_known = 0;

    names[0] = known[0] = '\0';
    for (unsigned i = 0; i < np->n_tried; i++) {
        const char *name = np->choices[i]->module->name;
        char text[300];

        ask_state(np, np->choices[i], text, sizeof(text));
        n_names += (size_t)snprintf(names + n_names, names_nbytes - n_names, "%s%s",
                                    i == 0 ? "" : ", ", name);
        if (n_known < known_nbytes) {
            n_known += (size_t)snprintf(known + n_known, known_nbytes - n_known, "%s%s%s%s",
                                        i == 0 ? "" : "; ", np->n_tried > 1 ? name : "",
                                        np->n_tried > 1 ? ": " : "", text);
        }
    }
}

bool nxr_net_was_tried(struct net_peer *np, const struct net *net, char *why, size_t why_nbytes)
{
    char known[300];

    for (unsigned i = 0; i < np->n_tried && np->is_reached && np->choices[i] != np->messages; i++) {
        if (np->choices[i] == net) {
            ask_state(np, net, known, sizeof(known));
            snprintf(why, why_nbytes, "no connection to it could be made in time (%s)", known);
            return true;
        }
    }
    return false;
}
