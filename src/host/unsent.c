/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of messages that wait to be sent. Lock: job.lock. */
#include "config.h"

#include "host/unsent.h"
#include "host/packet.h"
#include "host/peer.h"
#include "util/log.h"

#include <fcntl.h>
#include <stdlib.h>

void nxr_unsent_free(struct nxr_unsent *out)
{
    nxr_packet_close_fds(out->fds, out->n_fds);
    free(out);
}

/*
 * Copy a message that must wait, with duplicated descriptors; NULL, with a warning: no memory or
 * no descriptor.
 */
static struct nxr_unsent *unsent_new(const struct nxr_peer *peer,
                                     const union nxr_wire_message *message, const int *fds,
                                     int n_fds)
{
    struct nxr_unsent *out = calloc(1, sizeof(*out));

    if (out == NULL) {
        nxr_warn(HOST, "no memory to queue a message to %s", nxr_peer_name(peer));
        return NULL;
    }
    out->message = *message;
    for (out->n_fds = 0; out->n_fds < n_fds; out->n_fds++) {
        out->fds[out->n_fds] = fcntl(fds[out->n_fds], F_DUPFD_CLOEXEC, 0);
        if (out->fds[out->n_fds] < 0) {
            nxr_warn(HOST, "no descriptor to queue a message to %s: %m", nxr_peer_name(peer));
            nxr_unsent_free(out);
            return NULL;
        }
    }
    return out;
}

void nxr_unsent_keep(struct nxr_list *list, const struct nxr_peer *peer,
                     const union nxr_wire_message *message, const int *fds, int n_fds)
{
    struct nxr_unsent *out = unsent_new(peer, message, fds, n_fds);

    if (out != NULL) {
        nxr_list_append(list, &out->link);
    }
}

void nxr_unsent_drop(struct nxr_peer *peer)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&host_peer_of(peer)->unsent)) != NULL) {
        nxr_unsent_free(nxr_list_entry(link, struct nxr_unsent, link));
    }
}
