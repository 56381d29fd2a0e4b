/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of messages that wait to be sent. Lock: job.lock. */
#include "config.h"

#include "host/unsent.h"
#include "core/life.h"
#include "core/service.h"
#include "host/packet.h"
#include "host/peer.h"
#include "util/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>

static bool has_given_up; /* a peer, which the next tick ends */

bool nxr_unsent_is_lasting(const union nxr_wire_message *message)
{
    switch ((enum nxr_wire_type)message->header.type) {
    case NXR_WIRE_HELLO:
    case NXR_WIRE_WELCOME:
    case NXR_WIRE_RESOLVE:
    case NXR_WIRE_KEY:
        return false;
    default:
        return true;
    }
}

void nxr_unsent_free(struct nxr_unsent *out)
{
    nxr_packet_close_fds(out->fds, out->n_fds);
    free(out);
}

/* Copy a message that must wait, without its descriptors; NULL: no memory. */
static struct nxr_unsent *unsent_new(const struct nxr_peer *peer,
                                     const union nxr_wire_message *message)
{
    struct nxr_unsent *out = calloc(1, sizeof(*out));

    if (out != NULL) {
        out->message = *message;
    } else {
        nxr_warn(HOST, "no memory to queue a message to %s", nxr_peer_name(peer));
    }
    return out;
}

/* Only mark the peer: the service thread ends it, since the sender may be in mid-change. */
static void unsent_give_up(const struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    if (!hp->is_given_up) {
        nxr_error(HOST, "a message to %s is lost: giving up the peer", nxr_peer_name(peer));
        hp->is_given_up = true;
        has_given_up = true;
        nxr_service_kick();
    }
}

void nxr_unsent_peer_ending(struct nxr_peer *peer)
{
    if (host_peer_of(peer)->is_given_up) {
        snprintf(peer->why_not, sizeof(peer->why_not), "this rank had no memory to serve it");
    }
}

void nxr_unsent_tick(void)
{
    struct nxr_peer *after;

    if (!has_given_up) {
        return;
    }
    has_given_up = false;
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = after) {
        after = nxr_peers_next(peer);
        if (host_peer_of(peer)->is_given_up) {
            nxr_life_lost_locked(peer->rank);
        }
    }
}

bool nxr_unsent_keep(struct nxr_list *list, const struct nxr_peer *peer,
                     const union nxr_wire_message *message, const int *fds, int n_fds)
{
    struct nxr_unsent *out = unsent_new(peer, message);

    if (out == NULL) {
        if (nxr_unsent_is_lasting(message)) {
            unsent_give_up(peer);
        }
        return false;
    }
    for (out->n_fds = 0; out->n_fds < n_fds; out->n_fds++) {
        out->fds[out->n_fds] = fcntl(fds[out->n_fds], F_DUPFD_CLOEXEC, 0);
        if (out->fds[out->n_fds] < 0) {
            nxr_info(HOST, "no descriptor is left to queue a message to %s (raise ulimit -n)",
                     nxr_peer_name(peer));
            nxr_unsent_free(out);
            return false;
        }
    }
    nxr_list_append(list, &out->link);
    return true;
}

bool nxr_unsent_give(struct nxr_list *list, const struct nxr_peer *peer,
                     const union nxr_wire_message *message, int fd)
{
    struct nxr_unsent *out = unsent_new(peer, message);

    if (out == NULL) {
        close(fd);
        return false;
    }
    out->fds[out->n_fds++] = fd;
    nxr_list_append(list, &out->link);
    return true;
}

void nxr_unsent_drop(struct nxr_peer *peer)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&host_peer_of(peer)->unsent)) != NULL) {
        nxr_unsent_free(nxr_list_entry(link, struct nxr_unsent, link));
    }
}
