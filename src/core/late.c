/* SPDX-License-Identifier: Apache-2.0 */
/* The list of peers that are freed late. Lock: job.lock. */
#include "config.h"

#include "core/late.h"
#include "core/job.h"

static struct nxr_list late_peers = {&late_peers, &late_peers}; /* by age */

void nxr_late_free(struct nxr_peer *peer, int64_t now)
{
    peer->ended_at = now;
    nxr_list_append(&late_peers, &peer->late_link);
}

int64_t nxr_late_tick(int64_t now)
{
    while (!nxr_list_is_empty(&late_peers)) {
        struct nxr_peer *oldest = nxr_list_entry(late_peers.next, struct nxr_peer, late_link);

        if (now < oldest->ended_at + NXR_LATE_NS) {
            return oldest->ended_at + NXR_LATE_NS;
        }
        nxr_list_remove(&oldest->late_link);
        nxr_peer_free(oldest);
    }
    return INT64_MAX;
}
