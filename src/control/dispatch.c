/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each message does. Everything here was checked for its shape by nxr_wire_parse(); here it is
 * checked against what we know. A message that makes no sense ends its connection. Lock: job.lock.
 */
#include "config.h"

#include "control/dispatch.h"
#include "collective/agreement.h"
#include "core/event.h"
#include "transfer/bounce.h"
#include "host/conn.h"
#include "control/farewell.h"
#include "host/link.h"
#include "core/life.h"
#include "control/neighbour.h"
#include "region/publish.h"
#include "control/question.h"
#include "region/region.h"
#include "util/log.h"

#include <string.h>

static void dispatch_refuse(struct nxr_conn *conn, const char *why)
{
    nxr_warn(HOST, "%s from pid %d; the connection is dropped", why, (int)conn->pid);
    nxr_conn_close(conn);
}

static bool is_card_of(const struct nxr_wire_hello *hello, struct nxr_card *card_p)
{
    struct nxr_full_card card;

    if (nxr_card_parse(&hello->card, sizeof(hello->card), hello->header.rank, &card) != NIXL_OK) {
        return false;
    }
    *card_p = card.head;
    return true;
}

/* Somebody connected to us. */
static void dispatch_take_hello(struct nxr_conn *conn, const struct nxr_wire_hello *hello, int *fds,
                                int n_fds)
{
    int my_fds[] = {nxr_job.control_fd, nxr_job.event_fd};
    int no_fd = -1;
    union nxr_wire_message answer;
    struct nxr_card card;
    struct nxr_peer *peer;

    if (conn->is_mine || conn->is_greeted || hello->header.rank == nxr_job.rank ||
        memcmp(hello->secret, nxr_job.card.head.secret, NXR_SECRET_NBYTES) != 0 ||
        !is_card_of(hello, &card)) {
        dispatch_refuse(conn, "a greeting without the secret of this rank's card");
        return;
    }
    peer = nxr_peer_get_locked(hello->header.rank);
    if (peer == NULL || nxr_peer_is_lost(peer) ||
        nxr_link_adopt(peer, &card, fds[0], n_fds > 1 ? &fds[1] : &no_fd, conn->pid) != NIXL_OK) {
        nxr_conn_close(conn);
        return;
    }
    nxr_conn_greeted(conn, peer);
    nxr_wire_init(&answer, NXR_WIRE_WELCOME);
    answer.hello.card = nxr_card_bare(&nxr_job.card);
    nxr_conn_send_on(conn, &answer, my_fds, 2);
    nxr_link_ask_again(peer);
    nxr_neighbour_linked(peer);
}

/* Who we connected to answers. */
static void take_welcome(struct nxr_conn *conn, const struct nxr_wire_hello *hello, int *fds,
                         int n_fds)
{
    struct nxr_peer *peer = conn->peer;
    int no_fd = -1;
    struct nxr_card card;

    if (!conn->is_mine || conn->is_greeted || hello->header.rank != peer->rank ||
        !is_card_of(hello, &card)) {
        dispatch_refuse(conn, "an answer that was not asked for");
        return;
    }
    if (nxr_link_adopt(peer, &card, fds[0], n_fds > 1 ? &fds[1] : &no_fd, conn->pid) != NIXL_OK) {
        nxr_conn_close(conn);
        return;
    }
    nxr_conn_greeted(conn, peer);
    nxr_link_ask_again(peer);
    nxr_neighbour_linked(peer);
}

static void hear_of_end(const struct nxr_wire_death *death)
{
    if (death->has_left != 0) {
        nxr_neighbour_heard_left(death->dead_rank);
    } else {
        nxr_life_lost_locked(death->dead_rank);
    }
}

/* What ranks of one host and ranks of two send alike. Returns false if it is another message. */
static bool take_common(struct nxr_peer *peer, const union nxr_wire_message *message)
{
    switch ((enum nxr_wire_type)message->header.type) {
    case NXR_WIRE_DEATH:
        hear_of_end(&message->death);
        return true;
    case NXR_WIRE_LEAVING:
        nxr_farewell_heard(&message->leaving);
        return true;
    case NXR_WIRE_PROBE:
        nxr_publish_probe(peer, message->resolve.ask, message->resolve.name);
        return true;
    case NXR_WIRE_PROPOSE:
        nxr_agreement_asked(peer, &message->verdict);
        return true;
    case NXR_WIRE_PROBED:
    case NXR_WIRE_DECIDED:
        nxr_question_answered(peer, message);
        return true;
    default:
        return false;
    }
}

void nxr_dispatch(struct nxr_conn *conn, const union nxr_wire_message *message, int *fds, int n_fds)
{
    enum nxr_wire_type type = message->header.type;

    if (type == NXR_WIRE_HELLO) {
        dispatch_take_hello(conn, &message->hello, fds, n_fds);
        return;
    }
    if (type == NXR_WIRE_WELCOME) {
        take_welcome(conn, &message->hello, fds, n_fds);
        return;
    }
    if (!conn->is_greeted || message->header.rank != conn->peer->rank) {
        dispatch_refuse(conn, "a message before the greeting, or in another rank's name");
        return;
    }
    switch (type) {
    case NXR_WIRE_RESOLVE:
        nxr_publish_ask(conn->peer, conn, message->resolve.ask, message->resolve.name);
        break;
    case NXR_WIRE_KEY:
        nxr_region_key_came(conn->peer, &message->key, n_fds > 0 ? fds[0] : -1);
        break;
    case NXR_WIRE_CLOSED:
        nxr_region_peer_closed(conn->peer, message->closed.id, message->closed.generation);
        break;
    case NXR_WIRE_RING_FD:
        nxr_event_signal_fd();
        break;
    case NXR_WIRE_BOUNCE:
        nxr_bounce_offered(conn, message->bounce.nbytes, &fds[0]);
        break;
    case NXR_WIRE_WORK:
        nxr_bounce_work(conn);
        break;
    default:
        (void)take_common(conn->peer, message);
        break;
    }
}

void nxr_dispatch_remote(struct nxr_peer *peer, const union nxr_wire_message *message)
{
    if (message->header.type == NXR_WIRE_RESOLVE) {
        nxr_publish_ask(peer, NULL, message->resolve.ask, message->resolve.name);
    } else if (!take_common(peer, message)) {
        nxr_warn(HOST,
                 "a message of type %u, which only same-host ranks send, from rank %d; dropped",
                 message->header.type, peer->rank);
    }
}
