/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deferred work of a round, which needs job.lock: greetings, keys, queries for regions,
 * deaths. The thread that ran the round does it, in order. Before this rank has joined all of it
 * waits: peers are made out of the cards of the others, which are not here yet.
 */
#include "config.h"

#include "control/dispatch.h"
#include "core/subsystem.h"
#include "core/life.h"
#include "net/in.h"
#include "net/move.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

/*
 * Is the record the greeting of that process, of the kind that a rank of this job or an attached
 * process sends? If so, its card.
 */
static bool is_greeting(struct nxr_peer *peer, const struct nxr_net_record *record,
                        const struct nxr_identity *from, struct nxr_full_card *card_p)
{
    bool is_attached = nxr_peer_is_attached(peer);
    const struct nxr_net_hello_attached *hello;
    const void *bytes;
    size_t nbytes;

    if (record->type != (is_attached ? NXR_NET_HELLO_ATTACHED : NXR_NET_HELLO)) {
        return false;
    }
    hello = nxr_net_body(record);
    bytes = nxr_net_payload(record, is_attached ? sizeof(*hello) : 0, &nbytes);
    if (nxr_card_parse(bytes, nbytes, from, card_p) != NIXL_OK ||
        !nxr_identity_is(&card_p->head.identity, from)) {
        return false;
    }
    if (is_attached && !nxr_peer_is_up(peer)) {
        peer->place = hello->number;
    }
    return true;
}

/*
 * A message from a process that has not greeted yet: its first record must be its greeting, or it
 * is dropped.
 */
static void greet(const struct net_later *later)
{
    size_t at = sizeof(struct nxr_net_head);
    const char *why;
    const struct nxr_net_record *record =
        nxr_net_next_record(later->bytes, later->nbytes, &at, &why);
    struct nxr_peer *peer = nxr_peer_get_locked(later->rank);
    const struct nxr_identity *from =
        &((const struct nxr_net_head *)(const void *)later->bytes)->from;
    struct nxr_full_card card;

    if (peer == NULL || nxr_peer_is_lost(peer)) {
        return;
    }
    if (record == NULL || later->rank == nxr_job.rank || !is_greeting(peer, record, from, &card)) {
        net_lock();
        nxr_net_drop(later->rank,
                     why != NULL ? why
                                 : "a message before the greeting, or the card of another process");
        net_unlock();
        return;
    }
    nxr_subsystems_remote_greeting(peer, &card);
}

static void net_deferred_take_message(const struct net_later *later)
{
    struct net_peer *np = net_peer_of(later->rank);

    if (np == NULL) {
        greet(later);
        np = net_peer_of(later->rank);
    }
    net_lock();
    if (np != NULL && nxr_net_sender(later->bytes, later->nbytes) >= 0) {
        nxr_net_take_records(np, later->bytes, later->nbytes, sizeof(struct nxr_net_head));
    }
    nxr_net.n_later_messages--;
    nxr_net.taking_rank = -1;
    net_unlock();
}

static void net_deferred_take_control(const struct net_later *later)
{
    struct nxr_peer *peer = nxr_peer_get_locked(later->rank);
    const struct net_peer *sender = peer != NULL ? net_peer_at(peer) : NULL;
    union nxr_wire_message message;

    memset(&message, 0, sizeof(message));
    memcpy(&message, later->bytes, later->nbytes);
    if (sender != NULL && !nxr_peer_is_lost(peer) &&
        nxr_identity_is(&sender->identity, &message.header.from)) { /* it is no former process */
        nxr_control_take(&(struct nxr_control_source){.peer = peer}, &message);
    }
}

/* A rank that leaves reports no deaths, but what it awaits of a peer that is gone must end. */
static void net_deferred_lose(int rank)
{
    if (nxr_job.is_leaving) {
        nxr_life_left_locked(rank);
    } else {
        nxr_life_lost_locked(rank);
    }
}

/* Has no other process taken the place of the one that the entry is about? */
static bool is_about_current(const struct net_later *later)
{
    const struct nxr_peer *peer;

    memcpy(&peer, later->bytes, sizeof(peer));
    return nxr_peer_find(later->rank) == peer;
}

static void do_later(const struct net_later *later)
{
    switch (later->what) {
    case NET_LATER_MESSAGE:
        net_deferred_take_message(later);
        break;
    case NET_LATER_CONTROL:
        net_deferred_take_control(later);
        break;
    case NET_LATER_LOST:
        if (is_about_current(later)) {
            net_deferred_lose(later->rank);
        }
        break;
    case NET_LATER_LEFT:
        if (is_about_current(later)) {
            nxr_life_left_locked(later->rank);
        }
        break;
    }
}

void nxr_net_run_later(void)
{
    const struct nxr_peer *marked;
    struct net_later *later;
    int rank;

    if (!atomic_load_explicit(&nxr_net.has_later, memory_order_acquire) || !nxr_is_joined()) {
        return;
    }
    pthread_mutex_lock(&nxr_job.lock);
    while ((later = nxr_net_later_next()) != NULL) {
        do_later(later);
        free(later);
    }
    while ((rank = nxr_net_later_lost(&marked)) >= 0) {
        if (marked == NULL || nxr_peer_find(rank) == marked) {
            net_deferred_lose(rank);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    /* Deferred messages may have delivered data and ended operations, like any others. */
    nxr_net_tell_ended();
    nxr_wake_self();
}
