/* SPDX-License-Identifier: Apache-2.0 */
/* The slot of this folder. Lock: see peer.h. */
#include "config.h"

#include "host/peer.h"

struct nxr_peer_slot nxr_host_slot = {.nbytes = sizeof(struct host_peer)};

bool nxr_host_peer_init(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    hp->peer = peer;
    nxr_list_init(&hp->unsent);
    hp->retry_at = INT64_MAX;
    hp->pidfd = -1;
    return true;
}
