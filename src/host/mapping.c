/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping control pages and rings of peers: host_peer.page, and peer->out. Lock: job.lock. */
#include "config.h"

#include "host/mapping.h"
#include "host/peer.h"
#include "util/log.h"

/* Map where this process writes in the peer's memory. NIXL_OK or the failure. */
static int mapping_make_rings(struct nxr_peer *peer, int control_fd, int rings_fd,
                              struct nxr_control *control)
{
    if (peer->has_rings_page) {
        return nxr_rings_page_map(rings_fd, &peer->out);
    }
    peer->out.credit = &control->credits[nxr_job.rank];
    peer->out.ring = nxr_control_map_ring(control_fd, nxr_job.size, nxr_job.rank);
    if (peer->out.ring == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    peer->out.words = nxr_control_words(peer->out.ring);
    return NIXL_OK;
}

int nxr_mapping_make(struct nxr_peer *peer, const struct nxr_card *card, int control_fd,
                     int rings_fd)
{
    struct nxr_control *control;
    int status;

    if (host_peer_of(peer)->page != NULL) {
        return NIXL_OK;
    }
    status = nxr_control_map(control_fd, &card->identity, nxr_peer_job_size(peer), card->nonce,
                             &control);
    if (status != NIXL_OK) {
        return status;
    }
    status = mapping_make_rings(peer, control_fd, rings_fd, control);
    if (status != NIXL_OK) {
        nxr_warn(HOST, "cannot map the notification ring to %s: %s", nxr_peer_name(peer),
                 nixl_strerror(status));
        nxr_control_unmap(control, nxr_peer_job_size(peer));
        return status;
    }
    host_peer_of(peer)->page = control;
    return NIXL_OK;
}

void nxr_mapping_drop(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    if (hp->page == NULL) {
        return;
    }
    if (peer->has_rings_page) {
        nxr_rings_page_unmap(&peer->out);
    } else {
        nxr_control_unmap_ring(peer->out.ring);
    }
    nxr_control_unmap(hp->page, nxr_peer_job_size(peer));
    hp->page = NULL;
}
