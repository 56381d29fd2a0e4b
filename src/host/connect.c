/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to peers: a small state machine for each, run by the service thread.
 *     NONE -> CARD (asked PMIx) -> CONNECTING (announced itself, or said HELLO) -> UP.
 * Without proof that it is on this host, the peer is UP over a network, or REMOTE if no network
 * reaches it. A peer that greets first, by socket or network, makes the connection UP from any
 * state. Lock: job.lock.
 */
#include "config.h"

#include "host/connect.h"
#include "core/event.h"
#include "core/subsystem.h"
#include "host/announce.h"
#include "host/card_queue.h"
#include "host/conn.h"
#include "host/greeting.h"
#include "control/dispatch.h"
#include "control/finalize_barrier.h"
#include "host/liveness.h"
#include "host/mapping.h"
#include "host/peer.h"
#include "host/unsent.h"
#include "core/life.h"
#include "control/detector.h"
#include "host/atomic_ask.h"
#include "host/atomic_serve.h"
#include "core/carrier.h"
#include "core/node.h"
#include "core/wireup.h"
#include "region/region.h"
#include "core/route.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "core/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_NS   (2 * NXR_MS)
#define READMIT_NS (20 * NXR_MS)
#define NEWS_NS    (500 * NXR_MS) /* how long the report of a death may take */

static int n_retrying;  /* peers that wait to connect again */
static bool is_ticking; /* the service thread looks for those that are due */

static void set_connection(struct nxr_peer *peer, enum nxr_connection connection)
{
    atomic_store_explicit(&peer->connection, connection, memory_order_release);
    nxr_wake_self();
}

static void keep_card(struct nxr_peer *peer, const struct nxr_full_card *card)
{
    if (peer->full_card == NULL) {
        peer->full_card = malloc(sizeof(*card));
        if (peer->full_card != NULL) {
            *peer->full_card = *card;
        }
    }
}

/* Treat the peer as on another host; `why` is the reason. */
static void go_remote(struct nxr_peer *peer, const struct nxr_full_card *card, const char *why)
{
    char no_network[400];

    if (nxr_carrier_far()->add_peer(peer, card, no_network, sizeof(no_network)) == NIXL_OK) {
        set_connection(peer, NXR_CONNECTION_UP);
        nxr_connect_ask_again(peer);
        nxr_detector_connected(peer);
        return;
    }
    if (nxr_finalize_barrier_has_come(peer->rank)) {
        nxr_life_left_locked(peer->rank);
        return;
    }
    keep_card(peer, card); /* for queries of the reason */
    snprintf(peer->why_not, sizeof(peer->why_not), "%.90s; %.290s", why, no_network);
    nxr_info(HOST, "%s cannot be reached: %s", nxr_peer_name(peer), peer->why_not);
    set_connection(peer, NXR_CONNECTION_REMOTE);
    nxr_region_end_asks(peer, NIXL_E_UNSUPPORTED);
    nxr_finalize_barrier_look();
}

/* There is no proof that the peer is on this host. */
static void connect_give_up(struct nxr_peer *peer, const char *why)
{
    struct nxr_full_card card = {.head = peer->card};

    nxr_info(HOST, "%s counts as remote: %s", nxr_peer_name(peer), why);
    snprintf(peer->why_not, sizeof(peer->why_not), "%s", why);
    if (peer->full_card == NULL && !nxr_peer_is_attached(peer)) {
        (void)nxr_wireup()->kept_card(peer->rank, &card);
    }
    go_remote(peer, peer->full_card != NULL ? peer->full_card : &card, why);
    if (nxr_peer_is_attached(peer) && nxr_peer_is_up(peer)) {
        nxr_warn(HOST,
                 "%s seems to be on this host, but is attached by %s: %s. Shared memory is faster: "
                 "it needs one user, and one network namespace or, for containers, a folder that "
                 "both have as NIXLRUN_SHARED_DIR",
                 nxr_peer_name(peer), peer->transport->name, why);
    }
}

/* Try again at that time. The service thread may be asleep for longer, so wake it. */
static void retry_at(struct nxr_peer *peer, int64_t when_ns)
{
    struct host_peer *hp = host_peer_of(peer);

    n_retrying += hp->retry_at == INT64_MAX;
    hp->retry_at = when_ns;
    if (!is_ticking) {
        nxr_service_kick();
    }
}

/* A peer that has announced itself is on this host and may write here, so never give it up. */
static void retry_within(struct nxr_peer *peer, int64_t delay_ns, const char *why)
{
    int64_t now = nxr_now_ns();

    if (now >= host_peer_of(peer)->give_up_at && !nxr_announce_came_from(peer)) {
        connect_give_up(peer, why);
        return;
    }
    retry_at(peer, now + delay_ns);
}

static void retry_later(struct nxr_peer *peer, const char *why)
{
    retry_within(peer, RETRY_NS, why);
}

/* It may know a former process of this rank, and greets this one when it has readmitted it. */
static void retry_when_readmitted(struct nxr_peer *peer)
{
    char why[160];

    snprintf(why, sizeof(why),
             "it has not readmitted this process, which is %s, within NIXLRUN_RESOLVE_TIMEOUT "
             "(nixl_peer_readmit)",
             nxr_identity_name(&nxr_job.self));
    retry_within(peer, READMIT_NS, why);
}

/*
 * Nobody listens on its socket, which existed before its card was published: the peer has ended.
 * Wait a while for the report of its death, then report it as lost.
 */
static void connect_has_ended(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);
    int64_t now = nxr_now_ns();

    if (hp->refused_until == 0) {
        hp->refused_until = now + NEWS_NS;
    }
    if (now < hp->refused_until && !nxr_finalize_barrier_is_here()) {
        retry_later(peer, "no process listens on its socket");
    } else {
        nxr_life_lost_locked(peer->rank);
    }
}

/* Might a network reach it? One that was opened later than the cards were made does not. */
static bool connect_may_be_far(const struct nxr_peer *peer)
{
    return atomic_load(&nxr_net_is_open) && peer->card.nbytes > sizeof(peer->card);
}

/*
 * Nobody listens on its socket. If the socket would be visible from here and no network is open,
 * the peer has ended: a report of its death is on its way, or nobody is left to report it.
 * Otherwise the peer counts as remote, and a network may reach it or detect its death.
 */
static void refused(struct nxr_peer *peer)
{
    if (nxr_card_shares_sockets(&nxr_job.card.head, &peer->card) &&
        (nxr_peer_is_attached(peer) ||
         (nxr_node_of(peer->rank) == nxr_node_of(nxr_job.rank) && !connect_may_be_far(peer)))) {
        connect_has_ended(peer);
    } else {
        connect_give_up(peer, "no process listens on its socket here: it ended, or is in another "
                              "network namespace and has no NIXLRUN_SHARED_DIR in common");
    }
}

/* A peer of another user counts as remote: the kernel would refuse calls on its memory as well. */
static void give_up_user(struct nxr_peer *peer, uid_t user)
{
    char why[96];

    snprintf(why, sizeof(why),
             "it runs as user %u, this rank as user %u: start all ranks as one user", user,
             geteuid());
    connect_give_up(peer, why);
}

static void connect_announced(struct nxr_peer *peer);

static void connect_now(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);
    uid_t user;

    n_retrying -= hp->retry_at != INT64_MAX;
    hp->retry_at = INT64_MAX;
    if (nxr_peer_is_lost(peer) || nxr_peer_is_up(peer) || hp->conn != NULL) {
        return;
    }
    if (nxr_announce(peer)) {
        connect_announced(peer);
        return;
    }
    switch (nxr_conn_open(peer, &user)) {
    case NIXL_OK:
        nxr_service_kick(); /* it closes a connection that is not greeted in time */
        return;
    case NIXL_E_AGAIN:
        retry_later(peer, "its service thread does not accept connections");
        return;
    case NIXL_E_LIMIT:
        retry_later(peer, "this rank has no descriptor left to connect (raise ulimit -n)");
        return;
    case NIXL_E_UNSUPPORTED:
        give_up_user(peer, user);
        return;
    default:
        refused(peer);
    }
}

/* ---- cards ----------------------------------------------------------------------------------- */

/*
 * The card of the peer is known: begin to connect, unless it is on another host. Keeps its
 * addresses, if boot does not: they are needed if the proof that it is on this host fails.
 */
static void connect_begin(struct nxr_peer *peer, const struct nxr_full_card *card, bool is_kept)
{
    char why[96];

    if (!nxr_card_may_be_local(&nxr_job.card.head, &peer->card)) {
        go_remote(peer, card,
                  ((nxr_job.card.head.flags | peer->card.flags) & NXR_CARD_NOT_LOCAL) != 0
                      ? "NIXLRUN_TRANSPORTS of one of the two excludes shm"
                      : "it is on another host");
        return;
    }
    if (!is_kept) {
        keep_card(peer, card);
    }
    if (!nxr_wire_is_common(&peer->card, why, sizeof(why))) {
        nxr_warn(HOST, "%s on this host is not reached by shared memory: %s", nxr_peer_name(peer),
                 why);
        connect_give_up(peer, why);
        return;
    }
    set_connection(peer, NXR_CONNECTION_CONNECTING);
    connect_now(peer);
}

static void use_card(struct nxr_arrived_card *arrived)
{
    struct nxr_peer *peer = nxr_peer_get_locked(arrived->rank);

    if (peer == NULL || peer->has_card) {
        return;
    }
    if (!arrived->is_good && !nxr_announce_read_card(peer, &arrived->card)) {
        connect_give_up(peer,
                        "the launcher has no card of it, or it runs another version of nixlrun");
        return;
    }
    nxr_peer_set_card(peer, &arrived->card.head);
    if (nxr_peer_is_up(peer) || nxr_peer_is_lost(peer)) {
        return; /* it greeted first */
    }
    connect_begin(peer, &arrived->card, false);
}

static void connect_want(struct nxr_peer *peer)
{
    struct nxr_full_card card;
    bool is_kept;

    if (atomic_load(&peer->connection) != NXR_CONNECTION_NONE || nxr_peer_is_lost(peer)) {
        return;
    }
    host_peer_of(peer)->give_up_at = nxr_deadline(nxr_env.resolve_timeout);
    if (peer->has_card) { /* it has come with it: it is attached, or has returned */
        card = (struct nxr_full_card){.head = peer->card};
        connect_begin(peer, peer->full_card != NULL ? peer->full_card : &card, false);
        return;
    }
    is_kept = nxr_wireup()->kept_card(peer->rank, &card) && nxr_announce_may(peer, &card.head) &&
              nxr_card_may_be_local(&nxr_job.card.head, &card.head);
    if (is_kept || nxr_announce_read_card(peer, &card)) {
        nxr_peer_set_card(peer, &card.head);
        connect_begin(peer, &card, is_kept);
        return;
    }
    set_connection(peer, NXR_CONNECTION_CARD);
    nxr_wireup()->get_card(peer->rank, nxr_card_queue_put);
}

/* ---- mapping --------------------------------------------------------------------------------- */

static void connect_up(struct nxr_peer *peer, struct nxr_control *control)
{
    peer->control = control;
    peer->full_fence = nxr_barrier_is_full() || control->needs_full_fence != 0;
    peer->inflight_index = nxr_job.n_inflight_indices++;
    peer->transport =
        nxr_route_choose(peer->rank == nxr_job.rank ? NIXL_SCOPE_SELF : NIXL_SCOPE_LOCAL,
                         peer->why_not, sizeof(peer->why_not));
    nxr_subsystems_peer_connected(peer);
    set_connection(peer, NXR_CONNECTION_UP);
    if (peer->in.credit != NULL && atomic_load(&peer->in.credit->has_asked)) {
        atomic_fetch_or(&nxr_job.control->atomics_asked, nxr_control_bit(peer->rank));
        nxr_service_kick(); /* they were skipped when they came */
    }
}

void nxr_connect_self(struct nxr_peer *self)
{
    const struct nxr_card card = nxr_card_bare(&nxr_job.card);

    nxr_card_queue_open();
    nxr_peer_set_card(self, &card);
    self->pid = getpid();
    self->event_fd = nxr_job.event_fd;
    self->out = self->in;
    connect_up(self, nxr_job.control);
}

/* This rank has mapped the peer's page and announced itself there. */
static void connect_announced(struct nxr_peer *peer)
{
    peer->pid = peer->card.pid;
    peer->place = nxr_job.rank;
    connect_up(peer, host_peer_of(peer)->page);
    nxr_liveness_watch(peer, -1);
    nxr_debug(HOST, "%s is local: pid %d, control page mapped through /proc", nxr_peer_name(peer),
              (int)peer->pid);
    nxr_connect_ask_again(peer);
    nxr_detector_connected(peer);
}

bool nxr_connect_serve_asked(void)
{
    bool has_come = nxr_announce_has_come();

    if (has_come) { /* before words: those of a rank that is not connected are skipped */
        pthread_mutex_lock(&nxr_job.lock);
        nxr_announce_take(connect_want);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    return (atomic_load(&nxr_job.control->atomics_asked) != 0 && nxr_atomics_serve_asked()) ||
           has_come;
}

/* Keep the descriptor that wakes the peer, if there is room. */
static void connect_keep_event_fd(struct nxr_peer *peer, int *fd)
{
    if (peer->event_fd < 0 && *fd >= 0 && nxr_service_may_keep_fd(*fd)) {
        peer->event_fd = *fd;
        *fd = -1;
    }
}

void nxr_connect_adopt(struct nxr_peer *peer, const struct nxr_greeted *greeted)
{
    connect_keep_event_fd(peer, greeted->event_fd);
    if (nxr_peer_is_up(peer)) {
        return;
    }
    nxr_peer_set_card(peer, greeted->card);
    peer->pid = greeted->pid;
    peer->place = greeted->place;
    connect_up(peer, host_peer_of(peer)->page);
    nxr_liveness_watch(peer, greeted->socket);
    nxr_debug(HOST, "%s is local: pid %d, control page mapped", nxr_peer_name(peer),
              (int)peer->pid);
}

void nxr_connect_unmap(struct nxr_peer *peer)
{
    free(peer->full_card);
    peer->full_card = NULL;
    nxr_unsent_drop(peer);
    nxr_liveness_unwatch(peer);
    nxr_atomic_forget(peer);
    nxr_mapping_drop(peer);
    if (peer->rank != nxr_job.rank && peer->event_fd >= 0) {
        close(peer->event_fd);
    }
}

/* A peer on another host has greeted us over a network. */
static void connect_adopt_remote(struct nxr_peer *peer, const struct nxr_full_card *card)
{
    struct host_peer *hp = host_peer_of(peer);
    char why[NXR_IDENTITY_WHY_NBYTES];

    if (nxr_peer_why_refused(&card->head.identity, why) != NULL) {
        nxr_warn(HOST, "%s, over a network; dropped", why);
        return;
    }
    if (peer->has_card && memcmp(peer->card.nonce, card->head.nonce, NXR_NONCE_NBYTES) != 0) {
        nxr_warn(HOST, "a sender claims over a network to be %s with another nonce; dropped",
                 nxr_peer_name(peer));
        return;
    }
    nxr_peer_set_card(peer, &card->head);
    if (!nxr_peer_is_up(peer) && hp->conn != NULL) {
        nxr_conn_close(hp->conn);
    }
    if (!nxr_peer_is_up(peer)) {
        go_remote(peer, card, "it says so");
    }
}

/* ---- keeping connections --------------------------------------------------------------------- */

void nxr_connect_conn_closed(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    if (nxr_peer_is_lost(peer) || !nxr_is_joined()) {
        return;
    }
    if (!nxr_peer_is_up(peer) && nxr_job.self.incarnation > 0) {
        retry_when_readmitted(peer);
    } else if (!nxr_peer_is_up(peer)) {
        retry_later(peer, "its service thread closed the connection before it answered");
    } else if (!nxr_list_is_empty(nxr_region_asks(peer)) || !nxr_list_is_empty(&hp->unsent)) {
        retry_at(peer, nxr_now_ns() + RETRY_NS);
    }
}

void nxr_connect_ask_again(struct nxr_peer *peer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, nxr_region_asks(peer)) {
        nxr_region_send_ask(link);
        if (host_peer_of(peer)->conn == NULL && !nxr_peer_is_remote(peer)) {
            return; /* it broke again: nxr_connect_conn_closed() handles that */
        }
    }
}

static void connect_retry(struct nxr_peer *peer, int64_t now)
{
    struct host_peer *hp = host_peer_of(peer);

    if (nxr_peer_is_up(peer)) {
        n_retrying--;
        hp->retry_at = INT64_MAX;
        nxr_conn_send_unsent(peer);
        nxr_connect_ask_again(peer);
    } else if (hp->retry_at <= now) {
        connect_now(peer);
    }
}

static void connect_use_cards(void)
{
    struct nxr_list came, *link;

    nxr_list_init(&came);
    nxr_card_queue_take(&came);
    while ((link = nxr_list_pop(&came)) != NULL) {
        struct nxr_arrived_card *arrived = nxr_list_entry(link, struct nxr_arrived_card, link);

        use_card(arrived);
        free(arrived);
    }
}

int64_t nxr_connect_tick(int64_t now)
{
    int64_t due = INT64_MAX;

    is_ticking = true;
    connect_use_cards();
    for (struct nxr_peer *peer = nxr_peers_next(NULL); n_retrying > 0 && peer != NULL;
         peer = nxr_peers_next(peer)) {
        const struct host_peer *hp = host_peer_of(peer);

        if (hp->retry_at == INT64_MAX) {
            continue;
        }
        connect_retry(peer, now);
        due = hp->retry_at < due ? hp->retry_at : due;
    }
    is_ticking = false;
    return due;
}

void nxr_connect_stop(void)
{
    nxr_card_queue_close();
    n_retrying = 0;
    nxr_announce_stop();
}

/* ---- the subsystem --------------------------------------------------------------------------- */

/* Threads may still look at the mappings, but descriptors are scarce. */
static void connect_unlink(struct nxr_peer *peer)
{
    nxr_atomic_unlink(peer);
    nxr_liveness_unwatch(peer);
    if (peer->event_fd >= 0) {
        close(peer->event_fd);
        peer->event_fd = -1;
    }
}

/* Nothing connects to that process any more. */
static void connect_peer_replaced(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    n_retrying -= hp->retry_at != INT64_MAX;
    hp->retry_at = INT64_MAX;
    nxr_liveness_unwatch(peer);
}

static bool connect_peer_is_used(struct nxr_peer *peer)
{
    const struct host_peer *hp = host_peer_of(peer);

    return hp->retry_at != INT64_MAX || nxr_atomic_is_asked_by(peer) ||
           atomic_load_explicit(&hp->n_words_served, memory_order_acquire) > 0;
}

const struct nxr_subsystem nxr_connect_subsystem = {
    .name = "connect",
    .peer_slot = &nxr_host_slot,
    .peer_init = nxr_host_peer_init,
    .peer_fini = nxr_connect_unmap,
    .peer_ending = nxr_announce_hear_out,
    .peer_replaced = connect_peer_replaced,
    .peer_is_used = connect_peer_is_used,
    .peer_unlink = connect_unlink,
    .register_handlers = nxr_greeting_register,
    .listen = nxr_announce_listen,
    .remote_greeting = connect_adopt_remote,
    .tick = nxr_connect_tick,
    .close = nxr_connect_stop,
};

/* ---- the carrier ----------------------------------------------------------------------------- */

static void connect_send_key(struct nxr_peer *peer, struct nxr_conn *conn,
                             union nxr_wire_message *key, struct nxr_published *published)
{
    (void)peer;
    key->key.export = published->export;
    nxr_conn_send_on(conn, key, &published->fd, published->fd >= 0);
}

static void connect_ring(struct nxr_peer *peer)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_RING_FD);
    nxr_conn_send(peer, &message);
}

const struct nxr_carrier nxr_host_carrier = {
    .name = "host",
    .want = connect_want,
    .send = nxr_conn_send,
    .send_key = connect_send_key,
    .ring = connect_ring,
    .is_gone = nxr_liveness_is_gone,
};
