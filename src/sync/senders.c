/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for living peers; senders.h says what for. Lock: job.lock to write. */
#include "config.h"

#include "sync/senders.h"
#include "core/job.h"
#include "util/env.h"

atomic_bool nxr_senders_gone;

static bool senders_has_rank(void)
{
    for (int rank = 0; rank < nxr_job.size; rank++) {
        const struct nxr_peer *peer = nxr_peer_find(rank);

        if (rank != nxr_job.rank && (peer == NULL || !nxr_peer_is_lost(peer))) {
            return true;
        }
    }
    return false;
}

static bool senders_has_attached(void)
{
    const struct nxr_peer *peer = atomic_load(&nxr_job.attached);

    while (peer != NULL && nxr_peer_is_lost(peer)) {
        peer = atomic_load(&peer->next);
    }
    return peer != NULL;
}

void nxr_senders_look(void)
{
    atomic_store_explicit(&nxr_senders_gone,
                          nxr_env.elastic && !senders_has_rank() && !senders_has_attached(),
                          memory_order_release);
}

void nxr_senders_reset(void)
{
    atomic_store(&nxr_senders_gone, false);
}
