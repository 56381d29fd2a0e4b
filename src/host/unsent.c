/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of messages that wait to be sent. Lock: job.lock. */
#include "config.h"

#include "host/unsent.h"
#include "host/packet.h"
#include "host/peer.h"
#include "util/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Copy a message that must wait, without its descriptors; NULL, with a warning: no memory. */
static struct nxr_unsent *unsent_new(const struct nxr_peer *peer,
                                     const union nxr_wire_message *message)
{
    struct nxr_unsent *out = calloc(1, sizeof(*out));

    if (out == NULL) {
        nxr_warn(HOST, "no memory to queue a message to %s", nxr_peer_name(peer));
        return NULL;
    }
    out->message = *message;
    return out;
}

bool nxr_unsent_keep(struct nxr_list *list, const struct nxr_peer *peer,
                     const union nxr_wire_message *message, const int *fds, int n_fds)
{
    struct nxr_unsent *out = unsent_new(peer, message);

    if (out == NULL) {
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
