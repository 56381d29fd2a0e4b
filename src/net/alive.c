/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Silence. A peer that is expected to send something but is silent for a while gets a PING. If it
 * does not answer within NIXLRUN_PEER_TIMEOUT it counts as lost, whatever its network reports: a
 * host that is cut off sends no reset. The service thread answers, even while the user computes. A
 * process that was itself stopped does not hold against its peers the time during which it could
 * not receive.
 *
 * A slow link is not silence, although a PING may queue behind much data on it. So arriving data
 * is a sign of life, as is the end of a read or write, and a rank that receives much data sends
 * its sender an unsolicited PONG at every tick. Data that the local kernel accepts for sending
 * says nothing about the peer. If the network can check, apart from a stalled connection, that the
 * peer's process runs, such a peer has twice the time.
 * Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/connect.h"
#include "net/in.h"
#include "net/out.h"
#include "control/detector.h"
#include "core/service.h"
#include "region/region.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"

/*
 * The timeout is divided into ticks. Silence is noticed within two of them, and an unanswered PING
 * makes the host suspect after one more, so the other ranks of that host are given the same
 * PATIENCE_TICKS to answer before the timeout is over.
 */
#define TICKS_PER_TIMEOUT 20
#define PATIENCE_TICKS    14

/*
 * A peer whose process is known to run from another source (ep_runs()) has this many times the
 * timeout: TCP retransmits lost packets at growing intervals, and a connection that lost its first
 * ones waits for 6 s and then 12 s. The peer must have shown that it runs within this part of the
 * timeout, so that one that dies meanwhile is detected as fast as others.
 */
#define TIMEOUTS_IF_IT_RUNS 2
#define RAN_WITHIN(timeout) ((timeout) / 2)

/*
 * A rank that received more than this since the last tick says so: far less than a slow link moves
 * in that time.
 */
#define MUCH_NBYTES (16u << 10)

#define RETRY_NS (1 * NXR_MS) /* a tick that has found the lock taken */

/* Is anything expected of the peer? */
static bool is_expecting(const struct net_peer *np)
{
    const struct nxr_peer *peer = np->peer;

    return !nxr_list_is_empty(&np->moves) || !nxr_list_is_empty(&np->words) ||
           !nxr_list_is_empty(&np->queue) || !nxr_list_is_empty(&np->landings) ||
           np->flush_asked != np->flush_heard || np->wants_credit ||
           !nxr_list_is_empty(nxr_region_asks(peer)) || atomic_load(&peer->n_held) != 0 ||
           atomic_load(&peer->n_pending) != 0 || nxr_detector_is_watched(peer) ||
           nxr_peer_is_attached(peer); /* nobody else would find that its host is down */
}

static void net_alive_ping(struct net_peer *np, int64_t now)
{
    struct nxr_net_stamp *stamp = nxr_net_begin(np, NXR_NET_PING, sizeof(*stamp));

    np->pinged_at = now;
    if (stamp != NULL) {
        stamp->value = (uint64_t)now;
        nxr_net_push(np, false);
    }
}

void nxr_net_hail(const struct nxr_peer *peer)
{
    struct net_peer *np = net_peer_at(peer);

    net_lock();
    if (!np->is_dead && !np->is_held) {
        net_alive_ping(np, nxr_now_ns());
    }
    net_unlock();
}

bool nxr_net_has_heard(const struct nxr_peer *peer)
{
    const struct net_peer *np = net_peer_at(peer);
    bool has;

    net_lock();
    has = np->heard_at != 0;
    net_unlock();
    return has;
}

static void net_alive_answer(struct net_peer *np, uint64_t value)
{
    struct nxr_net_stamp *pong = nxr_net_begin(np, NXR_NET_PONG, sizeof(*pong));

    if (pong != NULL) {
        pong->value = value;
        nxr_net_push(np, false);
    }
}

void nxr_net_take_ping(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_stamp *stamp = nxr_net_body(record);

    net_alive_answer(np, stamp->value);
}

void nxr_net_lives(struct net_peer *np, size_t nbytes)
{
    nxr_net.must_wake |= np->heard_at == 0; /* who attaches waits for that */
    if (np->is_held) {
        np->is_held = false;
        nxr_net.is_trying = true; /* the timer sends what was held */
        nxr_service_kick();
    }
    np->heard_at = nxr_net.now;
    np->pinged_at = 0;
    np->heard_nbytes += nbytes;
}

/* What the network knows about the connection to a silent peer. False: there has never been one. */
static bool ask_network(struct net_peer *np, char *known, size_t known_nbytes)
{
    struct nxr_net_ep *ep = np->eps[np->messages->index];

    known[0] = '\0';
    return np->n_tried == 0 ||
           (np->is_reached &&
            (ep == NULL || net_module(np->messages)->ep_state(ep, known, known_nbytes)));
}

/* `within` names the timeout that has expired. */
static void say_unconnected(struct net_peer *np, const char *within, char *why, size_t why_nbytes)
{
    char names[24], known[300];

    nxr_net_tell_tried(np, names, sizeof(names), known, sizeof(known));
    snprintf(why, why_nbytes,
             "no connection to it could be made by %s within %.30s (%.240s): see NO CONNECTION in "
             "nixlrun-transports(7)",
             names, within, known);
}

/* Has its process shown recently that it runs, although nothing arrives from it? */
static bool net_alive_runs(const struct net_peer *np)
{
    struct nxr_net_ep *ep = np->eps[np->messages->index];
    bool (*ep_runs)(struct nxr_net_ep * ep, int64_t within_ns) = net_module(np->messages)->ep_runs;

    return ep != NULL && ep_runs != NULL && ep_runs(ep, RAN_WITHIN(nxr_env.peer_timeout));
}

static void say_why_lost(struct net_peer *np)
{
    char known[300];

    if (!ask_network(np, known, sizeof(known))) {
        say_unconnected(np, "NIXLRUN_PEER_TIMEOUT", np->why_lost, sizeof(np->why_lost));
    } else {
        snprintf(np->why_lost, sizeof(np->why_lost), "it was silent for %sNIXLRUN_PEER_TIMEOUT%s%s",
                 net_alive_runs(np) ? "twice " : "", known[0] != '\0' ? "; " : "", known);
    }
}

bool nxr_net_is_unconnected(const struct nxr_peer *peer, const char *within, char *why,
                            size_t why_nbytes)
{
    struct net_peer *np = atomic_load(&nxr_net_is_open) ? net_peer_of(peer->rank) : NULL;
    char known[300];
    bool is_connected = true;

    if (np != NULL) {
        net_lock();
        is_connected = np->is_dead || ask_network(np, known, sizeof(known));
        if (!is_connected) {
            say_unconnected(np, within, why, why_nbytes);
        }
        net_unlock();
    }
    return !is_connected;
}

/* Has a PING been unanswered for too long? */
static bool net_alive_is_over(const struct net_peer *np, int64_t unanswered_ns, int64_t interval)
{
    return unanswered_ns > PATIENCE_TICKS * interval &&
           (unanswered_ns > TIMEOUTS_IF_IT_RUNS * TICKS_PER_TIMEOUT * interval ||
            !net_alive_runs(np));
}

/* Is its host suspect now? */
static bool net_alive_look_at(struct net_peer *np, int64_t now, int64_t interval)
{
    int64_t unanswered_ns = np->pinged_at != 0 ? now - np->pinged_at : 0;

    if (np->heard_nbytes > MUCH_NBYTES) {
        net_alive_answer(np, (uint64_t)now); /* a PING of its own may still be on its way */
    }
    np->heard_nbytes = 0;
    if (net_alive_is_over(np, unanswered_ns, interval)) {
        say_why_lost(np);
        nxr_detector_found_silent(np->peer, unanswered_ns);
        nxr_warn(NET, "%s on %s counts as lost: %s", nxr_identity_name(&np->identity),
                 np->card.head.host, np->why_lost);
        nxr_net_later(NET_LATER_LOST, np->peer->rank, NULL, 0);
    } else if (np->pinged_at == 0 && now - np->heard_at > interval && is_expecting(np)) {
        net_alive_ping(np, now);
    }
    return nxr_detector_is_watched(np->peer) && unanswered_ns >= interval;
}

/*
 * This process did not run for away_ns. Silence before that still counts, so that even a process
 * that is stopped again and again detects a dead host. But at least TICKS_AFTER_STOP ticks are
 * left, so that whatever arrived meanwhile is read first.
 */
#define TICKS_AFTER_STOP 4
static void forgive(struct net_peer *np, int64_t now, int64_t away_ns, int64_t interval)
{
    int64_t earliest = now - (PATIENCE_TICKS - TICKS_AFTER_STOP) * interval;

    if (np->pinged_at != 0) {
        np->pinged_at += away_ns;
        np->pinged_at = np->pinged_at > earliest ? np->pinged_at : earliest;
    }
    if (np->heard_at != 0) { /* a peer that was never heard stays so */
        np->heard_at = np->heard_at + away_ns < now ? np->heard_at + away_ns : now;
    }
}

/* Check all peers for silence. Returns when to check again. */
static int64_t look_for_silence(int64_t now)
{
    int64_t interval = nxr_env.peer_timeout / TICKS_PER_TIMEOUT;
    int64_t away_ns = nxr_net.tick_at != 0 ? now - nxr_net.tick_at : 0;

    if (nxr_env.peer_timeout == INT64_MAX) {
        return INT64_MAX;
    }
    if (nxr_net.tick_at != 0 && now < nxr_net.tick_at) {
        return nxr_net.tick_at;
    }
    if (!nxr_spin_try(&nxr_net.lock)) {
        return now + RETRY_NS; /* a thread that sends large pieces holds it nearly always */
    }
    nxr_net.tick_at = now + interval;
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        struct net_peer *np = net_peer_at(peer);

        if (np == NULL || np->is_dead || np->is_held) {
            continue;
        }
        if (away_ns > 2 * interval) {
            forgive(np, now, away_ns, interval);
        }
        np->is_suspect = net_alive_look_at(np, now, interval);
    }
    net_unlock();
    for (int rank = 0; rank < nxr_job.size; rank++) {
        const struct net_peer *np = net_peer_of(rank);

        if (np != NULL && !np->is_dead && np->is_suspect) {
            nxr_detector_suspect(rank);
        }
    }
    return nxr_net.tick_at;
}

int64_t nxr_net_tick(int64_t now)
{
    int64_t silence_at, try_at;

    if (!atomic_load(&nxr_net_is_open)) {
        return INT64_MAX;
    }
    silence_at = look_for_silence(now);
    try_at = nxr_net_connect_tick(now);
    return try_at < silence_at ? try_at : silence_at;
}
