/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls about other ranks: where they are and whether they live. No state, no lock. */
#include "config.h"

#include "core/job.h"
#include "core/life.h"
#include "util/status.h"

int nixl_scope(int rank)
{
    int status;
    const struct nxr_peer *peer = nxr_peer_connected("nixl_scope", rank, &status);

    if (peer == NULL) {
        return status;
    }
    if (rank == nxr_job.rank) {
        return NIXL_SCOPE_SELF;
    }
    return nxr_peer_is_local(peer) ? NIXL_SCOPE_LOCAL : NIXL_SCOPE_REMOTE;
}

const char *nixl_host(int rank)
{
    int status;
    const struct nxr_peer *peer = nxr_peer_connected("nixl_host", rank, &status);

    if (peer == NULL) {
        return NULL;
    }
    if (!peer->has_card) {
        nxr_fail(NIXL_E_NOT_FOUND, "nixl_host", rank, "", 0, "the card of %s is not known",
                 nxr_peer_name(peer));
        return NULL;
    }
    return peer->card.host;
}

int nixl_peer_state(int rank)
{
    int status = nxr_check_ready("nixl_peer_state");
    struct nxr_peer *peer;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_peer_state", rank);
    }
    peer = nxr_peer_find(rank);
    if (peer != NULL) {
        nxr_life_check(peer);
    }
    return peer != NULL ? atomic_load(&peer->state) : NIXL_PEER_ALIVE;
}
