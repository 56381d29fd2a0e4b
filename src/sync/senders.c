/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for living peers; senders.h says what for. Lock: job.lock to write. */
#include "config.h"

#include "sync/senders.h"
#include "core/job.h"
#include "core/stats.h"
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

bool nxr_senders_never_come(struct nxr_leaving_all *leaving)
{
    bool may_come;

    if (!nxr_leaving_none_comes(leaving)) {
        return false;
    }
    pthread_mutex_lock(&nxr_job.lock);
    may_come = senders_has_attached() || nxr_job.n_published > 0;
    pthread_mutex_unlock(&nxr_job.lock);
    return !may_come && !nxr_stats_has_moved(nxr_job.rank);
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
