/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the death or the leaving of a rank: sets its final state and calls the subsystems. Called
 * by whatever notices it first: the host's watches, a network, the detector ring, the launcher.
 * Lock: job.lock.
 */
#include "config.h"

#include "core/life.h"
#include "core/control.h"
#include "core/event.h"
#include "core/job.h"
#include "core/subsystem.h"
#include "core/wait.h"
#include "util/clock.h"
#include "util/log.h"

/* The rank has died or left, as `state` says. Everything that waits for it ends. */
static void life_end(struct nxr_peer *peer, enum nixl_peer_liveness state)
{
    if (nxr_peer_is_lost(peer)) {
        return;
    }
    peer->why_not[0] = '\0';
    nxr_subsystems_peer_ending(peer); /* why_not may be read once the state is set */
    peer->ended_at = nxr_now_ns();
    atomic_store_explicit(&peer->state, state, memory_order_release);
    nxr_subsystems_peer_ended(peer);
    if (nxr_peer_is_attached(peer) && (peer->is_detached || !peer->is_joined)) {
        nxr_info(HOST, "rank %d, which is %s, has been %s", peer->rank, nxr_peer_name(peer),
                 peer->is_joined ? "detached" : "given up before it was attached");
        nxr_wake_self();
        return;
    }
    if (state == NIXL_PEER_LOST) {
        nxr_info(HOST, "%s has died", nxr_peer_name(peer));
        nxr_event_push(NULL, NIXL_EVENT_PEER_LOST, peer->rank, "");
    } else {
        nxr_info(HOST, "%s has left", nxr_peer_name(peer));
        nxr_event_push(NULL, NIXL_EVENT_PEER_LEFT, peer->rank, "");
    }
    nxr_subsystems_death_known(peer);
    nxr_wake_self();
}

void nxr_life_lost_locked(int rank)
{
    struct nxr_peer *peer = nxr_peer_get_locked(rank);

    if (peer == NULL || rank == nxr_job.rank) {
        return;
    }
    if (nxr_subsystems_has_left(rank) ||
        (nxr_peer_is_local(peer) &&
         atomic_load_explicit(&peer->control->life, memory_order_acquire) == NXR_LIFE_FINISHED)) {
        life_end(peer, NIXL_PEER_FINISHED);
    } else {
        life_end(peer, NIXL_PEER_LOST);
    }
}

void nxr_life_left_locked(int rank)
{
    struct nxr_peer *peer = nxr_peer_get_locked(rank);

    if (peer != NULL && rank != nxr_job.rank) {
        life_end(peer, NIXL_PEER_FINISHED);
    }
}

void nxr_life_detached_locked(struct nxr_peer *peer)
{
    life_end(peer, NIXL_PEER_FINISHED);
}

void nxr_life_lost(struct nxr_peer *peer)
{
    pthread_mutex_lock(&nxr_job.lock);
    if (nxr_peer_find(peer->rank) == peer) {
        nxr_life_lost_locked(peer->rank);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

bool nxr_life_check(struct nxr_peer *peer)
{
    if (nxr_peer_is_lost(peer)) {
        return true;
    }
    if (!nxr_peer_is_local(peer) || !nxr_control_is_dead(peer->control)) {
        return false;
    }
    nxr_life_lost(peer);
    return true;
}

static void life_quiesce(void)
{
    atomic_store_explicit(&nxr_job.control->life, NXR_LIFE_FINISHED, memory_order_release);
    atomic_store_explicit(&nxr_job.state, NXR_STATE_NONE, memory_order_release);
}

/* After its quiesce this rank is gone for its peers. Regions are closed by then. */
const struct nxr_subsystem nxr_life_subsystem = {
    .name = "life",
    .quiesce = life_quiesce,
};
