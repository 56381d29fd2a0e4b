/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came in a round and needs job.lock, which may not be taken under nxr_net.lock: greetings,
 * keys, questions for regions, deaths. Done by whoever ran the round, in order.
 */
#include "config.h"

#include "core/event.h"
#include "control/dispatch.h"
#include "host/link.h"
#include "core/life.h"
#include "core/service.h"
#include "net/state.h"
#include "region/region.h"
#include "util/log.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

/* Somebody looks at what is put off. */
static void announce(void)
{
    atomic_store_explicit(&nxr_net.has_later, true, memory_order_release);
    if (!nxr_net.is_in_round) {
        nxr_service_kick(); /* nobody else would come by */
    }
}

/*
 * There is no memory for what a rank has said, or to say that it is lost: lost it is, behind all
 * that was put off before. That takes none.
 */
static void mark(int rank)
{
    nxr_net.n_to_lose += !nxr_net.must_lose[rank];
    nxr_net.must_lose[rank] = true;
    announce();
}

void nxr_net_later(enum net_later_what what, int rank, const void *bytes, size_t nbytes)
{
    struct net_later *later = malloc(sizeof(*later) + nbytes);

    if (later == NULL) {
        nxr_error(NET, "no memory for a message of rank %d: the peer is given up", rank);
        mark(rank);
        return;
    }
    later->what = what;
    later->rank = rank;
    later->nbytes = nbytes;
    if (nbytes > 0) {
        memcpy(later->bytes, bytes, nbytes);
    }
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

/* A rank that has not greeted yet: its first record is HELLO, or the message is dropped. */
static void greet(const struct net_later *later)
{
    size_t at = sizeof(struct nxr_net_head);
    const char *why;
    const struct nxr_net_record *record =
        nxr_net_next_record(later->bytes, later->nbytes, &at, &why);
    struct nxr_peer *peer = nxr_peer_get_locked(later->rank);
    struct nxr_full_card card;

    if (peer == NULL || nxr_peer_is_lost(peer)) {
        return;
    }
    if (record == NULL || record->type != NXR_NET_HELLO || later->rank == nxr_job.rank ||
        nxr_card_parse(nxr_net_body(record), record->nbytes, later->rank, &card) != NIXL_OK) {
        net_lock();
        nxr_net_drop(later->rank, why != NULL ? why : "a message before the greeting");
        net_unlock();
        return;
    }
    nxr_link_adopt_remote(peer, &card);
}

static void net_deferred_take_message(const struct net_later *later)
{
    struct net_peer *np = net_peer_of(later->rank);

    if (np == NULL) {
        greet(later);
        np = net_peer_of(later->rank);
    }
    net_lock();
    if (np != NULL) {
        nxr_net_take_records(np, later->bytes, later->nbytes, sizeof(struct nxr_net_head));
    }
    nxr_net.n_later_messages--;
    nxr_net.taking_rank = -1;
    net_unlock();
}

static void net_deferred_take_control(struct nxr_peer *peer, const void *body, size_t nbytes)
{
    union nxr_wire_message message;
    const char *why;

    if (nxr_wire_parse(body, nbytes, 0, nxr_job.size, &message, &why) != NIXL_OK ||
        message.header.rank != peer->rank) {
        net_lock();
        nxr_net_drop(peer->rank, why != NULL ? why : "a control message in another rank's name");
        net_unlock();
        return;
    }
    nxr_dispatch_remote(peer, &message);
}

static void net_deferred_take_record(const struct net_later *later)
{
    const struct nxr_net_record *record = (const void *)later->bytes;
    struct nxr_peer *peer = nxr_peer_get_locked(later->rank);
    const void *body = nxr_net_body(record);
    size_t nbytes;

    if (peer == NULL || peer->net == NULL || nxr_peer_is_lost(peer)) {
        return;
    }
    switch (record->type) {
    case NXR_NET_KEY: {
        const void *blob = nxr_net_payload(record, sizeof(struct nxr_net_key_record), &nbytes);

        nxr_net_take_key(peer, body, blob, nbytes);
        break;
    }
    case NXR_NET_CLOSED: {
        const struct nxr_net_region *closed = body;

        net_lock();
        nxr_net_take_closed(peer->net, closed);
        net_unlock();
        nxr_region_peer_closed(peer, closed->id, closed->generation);
        break;
    }
    default:
        net_deferred_take_control(peer, body, record->nbytes);
    }
}

static void net_deferred_lose(int rank)
{
    if (!nxr_job.is_leaving) {
        nxr_life_lost_locked(rank);
    }
}

static void do_later(const struct net_later *later)
{
    switch (later->what) {
    case NET_LATER_MESSAGE:
        net_deferred_take_message(later);
        break;
    case NET_LATER_RECORD:
        net_deferred_take_record(later);
        break;
    case NET_LATER_LOST:
        net_deferred_lose(later->rank);
        break;
    case NET_LATER_LEFT:
        nxr_life_left_locked(later->rank);
        break;
    }
}

static struct net_later *next_later(void)
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

/* A rank that is marked, and no more; -1: none is. */
static int next_marked(void)
{
    int found = -1;

    net_lock();
    for (int rank = 0; rank < nxr_job.size && nxr_net.n_to_lose > 0 && found < 0; rank++) {
        found = nxr_net.must_lose[rank] ? rank : -1;
    }
    if (found >= 0) {
        nxr_net.must_lose[found] = false;
        nxr_net.n_to_lose--;
    }
    net_unlock();
    return found;
}

void nxr_net_run_later(void)
{
    struct net_later *later;
    int rank;

    if (!atomic_load_explicit(&nxr_net.has_later, memory_order_acquire)) {
        return;
    }
    pthread_mutex_lock(&nxr_job.lock);
    while ((later = next_later()) != NULL) {
        do_later(later);
        free(later);
    }
    while ((rank = next_marked()) >= 0) {
        net_deferred_lose(rank);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    /* Messages that were put off deliver and end things as others do. */
    nxr_net_tell_ended();
    nxr_wake_self();
}

void nxr_net_later_drop_all(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&nxr_net.later)) != NULL) {
        free(nxr_list_entry(link, struct net_later, link));
    }
}
