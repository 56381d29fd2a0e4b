/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Greetings: the first message each way on a connection, by which two processes learn that they are
 * on one host, and where each writes in the other's memory. Lock: job.lock.
 */
#include "config.h"

#include "host/greeting.h"
#include "control/detector.h"
#include "control/dispatch.h"
#include "core/event.h"
#include "host/conn.h"
#include "host/connect.h"
#include "host/mapping.h"
#include "util/log.h"

#include <string.h>

void nxr_greeting_send(struct nxr_conn *conn, enum nxr_wire_type type)
{
    const struct nxr_peer *peer = conn->peer;
    int fds[NXR_WIRE_MAX_FDS] = {nxr_job.control_fd};
    union nxr_wire_message message;
    int n_fds = 1;

    nxr_wire_init(&message, type);
    message.hello.card = nxr_card_bare(&nxr_job.card);
    message.hello.number = peer->rank;
    if (type == NXR_WIRE_HELLO) {
        memcpy(message.hello.secret, peer->card.secret, NXR_SECRET_NBYTES);
    }
    if (peer->has_rings_page) {
        fds[n_fds++] = peer->rings_fd;
    }
    fds[n_fds++] = nxr_job.event_fd;
    nxr_conn_send_on(conn, &message, fds, n_fds);
}

/* Map what the peer has sent, if it may become a peer of this host. NIXL_OK or the failure. */
static int greeting_map(struct nxr_peer *peer, const struct nxr_greeted *greeted)
{
    if (peer->has_card && memcmp(peer->card.nonce, greeted->card->nonce, NXR_NONCE_NBYTES) != 0) {
        nxr_warn(HOST, "pid %d claims to be %s with another nonce; dropped", (int)greeted->pid,
                 nxr_peer_name(peer));
        return NIXL_E_TRANSPORT;
    }
    if (nxr_peer_is_up(peer)) {
        return nxr_peer_is_local(peer) ? NIXL_OK : NIXL_E_TRANSPORT;
    }
    return nxr_mapping_make(peer, greeted->card, greeted->control_fd, greeted->rings_fd);
}

/*
 * Take the descriptors of a greeting, and answer HELLO. The other end may have given up while this
 * rank was stopped, and use a network now. So the peer is up only once the answer is sent: an end
 * that closes a connection first reads what is in it.
 */
static void greeting_accept(struct nxr_peer *peer, const struct nxr_control_source *source,
                            const struct nxr_wire_hello *hello, const struct nxr_card *card)
{
    int n_pages = peer->has_rings_page ? 2 : 1, none = -1;
    struct nxr_conn *conn = source->conn;
    const struct nxr_greeted greeted = {
        .card = card,
        .control_fd = source->fds[0],
        .rings_fd = n_pages == 2 && source->n_fds > 1 ? source->fds[1] : -1,
        .event_fd = source->n_fds > n_pages ? &source->fds[n_pages] : &none,
        .place = nxr_peer_is_attached(peer) ? hello->number : nxr_job.rank,
        .pid = conn->pid,
        .socket = conn->fd,
    };

    if (greeting_map(peer, &greeted) != NIXL_OK) {
        nxr_conn_close(conn);
        return;
    }
    nxr_conn_greeted(conn, peer);
    if (conn->is_closed) {
        return;
    }
    nxr_connect_adopt(peer, &greeted);
    nxr_connect_ask_again(peer);
    nxr_detector_connected(peer);
}

/* Does the greeting bring the card of the process that sends it? */
static bool greeting_is_card_of(const struct nxr_wire_hello *hello, struct nxr_card *card_p)
{
    struct nxr_full_card card;

    if (nxr_card_parse(&hello->card, sizeof(hello->card), &hello->header.from, &card) != NIXL_OK ||
        !nxr_identity_is(&card.head.identity, &hello->header.from)) {
        return false;
    }
    *card_p = card.head;
    return true;
}

/*
 * Is it a later process of a rank, which the program has not readmitted yet? It tries again, and
 * once it is readmitted this rank greets it. Before this rank has joined it does not know which
 * processes the others are.
 */
static bool greeting_is_early(const struct nxr_identity *from)
{
    int rank = nxr_rank_of(from);
    const struct nxr_peer *peer;

    if (!nxr_job.may_return || !nxr_is_own_rank(rank)) {
        return false;
    }
    if (atomic_load_explicit(&nxr_job.state, memory_order_acquire) == NXR_STATE_NONE) {
        return true;
    }
    peer = nxr_peer_get_locked(rank);
    return peer != NULL && nxr_identity_compare(&peer->identity, from) == NXR_IDENTITY_LATER;
}

/* A peer connected to us. */
static void greeting_take_hello(const struct nxr_control_source *source,
                                const union nxr_wire_message *message)
{
    const struct nxr_wire_hello *hello = &message->hello;
    struct nxr_conn *conn = source->conn;
    char why[NXR_IDENTITY_WHY_NBYTES];
    const char *refusal = NULL;
    struct nxr_card card;
    struct nxr_peer *peer;

    if (conn->is_mine || conn->is_greeted || nxr_rank_of(&hello->header.from) == nxr_job.rank ||
        memcmp(hello->secret, nxr_job.card.head.secret, NXR_SECRET_NBYTES) != 0) {
        refusal = "a greeting without the secret of this rank's card";
    } else if (greeting_is_early(&hello->header.from)) {
        nxr_conn_close(conn);
        return;
    } else if (nxr_peer_why_refused(&hello->header.from, why) != NULL) {
        refusal = why;
    } else if (!greeting_is_card_of(hello, &card)) {
        refusal = "a greeting without the card of its sender";
    }
    if (refusal != NULL) {
        nxr_conn_refuse(conn, refusal);
        return;
    }
    peer = nxr_peer_get_locked(nxr_rank_of(&hello->header.from));
    if (peer == NULL || nxr_peer_is_lost(peer)) {
        nxr_conn_close(conn);
        return;
    }
    greeting_accept(peer, source, hello, &card);
}

/* The peer that we connected to answers. */
static void greeting_take_welcome(const struct nxr_control_source *source,
                                  const union nxr_wire_message *message)
{
    const struct nxr_wire_hello *hello = &message->hello;
    struct nxr_conn *conn = source->conn;
    struct nxr_peer *peer = conn->peer;
    char why[NXR_IDENTITY_WHY_NBYTES];
    const char *refusal = NULL;
    struct nxr_card card;

    if (!conn->is_mine || conn->is_greeted) {
        refusal = "an unsolicited answer";
    } else if (!nxr_identity_is(&peer->identity, &hello->header.from)) {
        refusal = nxr_identity_explain("a message of", &peer->identity, &hello->header.from,
                                       nxr_job.self.job, why);
    } else if (!greeting_is_card_of(hello, &card)) {
        refusal = "an answer without the card of its sender";
    }
    if (refusal != NULL) {
        nxr_conn_refuse(conn, refusal);
        return;
    }
    greeting_accept(peer, source, hello, &card);
}

/* The peer asks us to signal our own event fd, of which it keeps no descriptor. */
static void greeting_take_ring_fd(const struct nxr_control_source *source,
                                  const union nxr_wire_message *message)
{
    (void)source;
    (void)message;
    nxr_event_signal_fd();
}

void nxr_greeting_register(void)
{
    nxr_control_register(NXR_WIRE_HELLO, greeting_take_hello);
    nxr_control_register(NXR_WIRE_WELCOME, greeting_take_welcome);
    nxr_control_register(NXR_WIRE_RING_FD, greeting_take_ring_fd);
}
