/* SPDX-License-Identifier: Apache-2.0 */
/* Finding peers, by number, by identity, one after the other. No lock; calls nothing. */
#include "config.h"

#include "core/job.h"

struct nxr_peer *nxr_attached_find(int number)
{
    return number >= nxr_job.size &&
                   number < atomic_load_explicit(&nxr_job.n_numbers, memory_order_acquire)
               ? nxr_peer_find(number)
               : NULL;
}

bool nxr_attached_was(int number)
{
    return number >= nxr_job.size && number < atomic_load(&nxr_job.n_numbers) &&
           nxr_peer_find(number) == NULL;
}

/* The latest is the first in the list. */
int nxr_attached_number(const struct nxr_identity *identity)
{
    struct nxr_peer *peer = atomic_load_explicit(&nxr_job.attached, memory_order_acquire);

    while (peer != NULL && !nxr_identity_is(&peer->identity, identity)) {
        peer = atomic_load_explicit(&peer->next, memory_order_acquire);
    }
    return peer != NULL ? peer->rank : -1;
}

struct nxr_peer *nxr_peers_next(const struct nxr_peer *peer)
{
    if (peer != NULL && nxr_peer_is_attached(peer)) {
        return atomic_load_explicit(&peer->next, memory_order_acquire);
    }
    for (int rank = peer != NULL ? peer->rank + 1 : 0; rank < nxr_job.size; rank++) {
        struct nxr_peer *next = nxr_peer_find(rank);

        if (next != NULL) {
            return next;
        }
    }
    return atomic_load_explicit(&nxr_job.attached, memory_order_acquire);
}
