/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of work that arrived in a round and needs job.lock, which must not be taken under
 * nxr_net.lock: it is deferred until the round is over (deferred.c). Also dropping what cannot be
 * taken at all. Lock: nxr_net.lock.
 */
#include "config.h"

#include "core/service.h"
#include "net/in.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Make sure that a thread handles the deferred work. */
static void announce(void)
{
    atomic_store_explicit(&nxr_net.has_later, true, memory_order_release);
    if (!nxr_net.is_in_round) {
        nxr_service_kick(); /* no other thread would look */
    }
}

/*
 * There is no memory to defer something from a rank, or to record that it is lost. Mark its process
 * as lost, which needs no memory; it is lost after all work that was deferred before.
 */
static void mark(int rank, const struct nxr_peer *peer)
{
    nxr_net.n_to_lose += !nxr_net.must_lose[rank].is_set;
    nxr_net.must_lose[rank] = (struct net_mark){.peer = peer, .is_set = true};
    announce();
}

/* It lives: errors must not say that it has died. */
static void say_no_memory(struct net_peer *np)
{
    if (np != NULL && np->why_lost[0] == '\0') {
        snprintf(np->why_lost, sizeof(np->why_lost), "this rank had no memory to serve it");
    }
}

void nxr_net_later(enum net_later_what what, int rank, const void *bytes, size_t nbytes)
{
    const struct nxr_peer *peer = nxr_peer_find(rank);
    struct net_later *later;

    if (nbytes == 0) { /* it is about the process itself, which another one may replace meanwhile */
        bytes = &peer;
        nbytes = sizeof(peer);
    }
    later = malloc(sizeof(*later) + nbytes);
    if (later == NULL) {
        nxr_error(NET, "no memory for a message of %s: giving up the peer", nxr_rank_name(rank));
        say_no_memory(net_peer_of(rank));
        mark(rank, peer);
        return;
    }
    later->what = what;
    later->rank = rank;
    later->nbytes = nbytes;
    memcpy(later->bytes, bytes, nbytes);
    nxr_net.n_later_messages += what == NET_LATER_MESSAGE;
    nxr_list_append(&nxr_net.later, &later->link);
    announce();
}

bool nxr_net_is_behind(int rank)
{
    struct nxr_list *link, *after;

    if (nxr_net.n_later_messages == 0) {
        return false;
    }
    nxr_list_for_each (link, after, &nxr_net.later) {
        const struct net_later *later = nxr_list_entry(link, struct net_later, link);

        if (later->what == NET_LATER_MESSAGE && later->rank == rank) {
            return true;
        }
    }
    return nxr_net.taking_rank == rank;
}

struct net_later *nxr_net_later_next(void)
{
    struct net_later *later;
    struct nxr_list *link;

    net_lock();
    link = nxr_list_pop(&nxr_net.later);
    later = link != NULL ? nxr_list_entry(link, struct net_later, link) : NULL;
    if (later == NULL) {
        atomic_store_explicit(&nxr_net.has_later, false, memory_order_relaxed);
    } else if (later->what == NET_LATER_MESSAGE) {
        nxr_net.taking_rank = later->rank;
    }
    net_unlock();
    return later;
}

bool nxr_net_numbers_grow(int n_numbers)
{
    int n_wanted = n_numbers + n_numbers / 2;
    struct net_mark *must_lose;

    if (nxr_net.must_lose == NULL || n_numbers <= nxr_net.n_numbers) {
        return true;
    }
    must_lose = calloc((size_t)n_wanted, sizeof(*must_lose));
    if (must_lose == NULL) {
        return false;
    }
    net_lock();
    memcpy(must_lose, nxr_net.must_lose, (size_t)nxr_net.n_numbers * sizeof(*must_lose));
    free(nxr_net.must_lose);
    nxr_net.must_lose = must_lose;
    nxr_net.n_numbers = n_wanted;
    net_unlock();
    return true;
}

int nxr_net_later_lost(const struct nxr_peer **peer_p)
{
    int found = -1;

    net_lock();
    for (int rank = 0; rank < nxr_net.n_numbers && nxr_net.n_to_lose > 0 && found < 0; rank++) {
        found = nxr_net.must_lose[rank].is_set ? rank : -1;
    }
    if (found >= 0) {
        *peer_p = nxr_net.must_lose[found].peer;
        nxr_net.must_lose[found].is_set = false;
        nxr_net.n_to_lose--;
    }
    net_unlock();
    return found;
}

void nxr_net_later_drop_all(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&nxr_net.later)) != NULL) {
        free(nxr_list_entry(link, struct net_later, link));
    }
}

/* ---- what cannot be taken -------------------------------------------------------------------- */

void nxr_net_drop(int rank, const char *why)
{
    nxr_net.n_dropped++;
    if (rank < 0) {
        nxr_warn(NET, "%s; dropped", why);
    } else {
        nxr_warn(NET, "%s, from %s or in its name; dropped", why, nxr_rank_name(rank));
    }
}

void nxr_net_give_up(struct net_peer *np)
{
    say_no_memory(np);
    nxr_error(NET, "no memory to serve %s: giving up the peer", nxr_identity_name(&np->identity));
    nxr_net_later(NET_LATER_LOST, np->peer->rank, NULL, 0);
}
