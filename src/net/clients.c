/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers above, as seen by this folder: what they do after a round and at the end, and what
 * they may know of a remote peer. The list is constant once the networks are started.
 */
#include "config.h"

#include "net/in.h"
#include "net/move.h"
#include "net/out.h"

#include <string.h>

#define MAX_CLIENTS 4

const struct net_device *nxr_net_device;

static const struct net_client *clients[MAX_CLIENTS];
static unsigned n_clients;

void nxr_net_add_client(const struct net_client *client)
{
    for (unsigned i = 0; i < n_clients; i++) {
        if (clients[i] == client) {
            return;
        }
    }
    if (n_clients < MAX_CLIENTS) {
        clients[n_clients++] = client;
    }
}

int nxr_net_ask_owner(const struct nxr_segment *segment, enum nxr_net_type type, const void *body,
                      size_t body_nbytes)
{
    struct net_peer *np = net_peer_at(segment->peer);
    void *room;
    int status;

    net_lock();
    status = nxr_net_check_segment(np, segment);
    if (status == NIXL_OK) {
        room = nxr_net_begin(np, type, body_nbytes);
        status = room != NULL ? NIXL_OK : NIXL_E_NO_MEMORY;
        if (room != NULL) {
            memcpy(room, body, body_nbytes);
            nxr_net_push(np, false);
        }
    }
    net_unlock();
    return status;
}

void nxr_net_answer(struct net_peer *np, enum nxr_net_type type, const void *body,
                    size_t body_nbytes)
{
    void *room = nxr_net_begin_answer(np, type, body_nbytes);

    if (room != NULL) {
        memcpy(room, body, body_nbytes);
        nxr_net_push(np, false);
    }
}

void nxr_net_wake_after_round(void)
{
    nxr_net.must_wake = true;
}

void nxr_net_lock(void)
{
    net_lock();
}

void nxr_net_unlock(void)
{
    net_unlock();
}

struct net_peer *nxr_net_remote(const struct nxr_peer *peer)
{
    return net_peer_at(peer);
}

struct nxr_peer *nxr_net_peer(const struct net_peer *np)
{
    return np->peer;
}

size_t nxr_net_inside_nbytes(const struct nxr_peer *peer, enum nxr_op_kind kind)
{
    const struct net_peer *np = net_peer_at(peer);

    return kind == NXR_OP_PUT ? np->put_max : np->get_max;
}

void nxr_net_word_begin(struct net_peer *np)
{
    np->n_busy_words++;
}

void nxr_net_word_end(struct net_peer *np)
{
    np->n_busy_words--;
    if (!np->is_dead) {
        nxr_net_run_pending(np);
    }
}

void nxr_net_keep(struct net_peer *np)
{
    np->n_keepers++;
}

void nxr_net_unkeep(struct net_peer *np)
{
    np->n_keepers--;
}

void nxr_net_clients_run(void)
{
    for (unsigned i = 0; i < n_clients; i++) {
        if (clients[i]->run != NULL) {
            clients[i]->run();
        }
    }
}

void nxr_net_clients_stop(void)
{
    for (unsigned i = 0; i < n_clients; i++) {
        if (clients[i]->stop != NULL) {
            clients[i]->stop();
        }
    }
}
