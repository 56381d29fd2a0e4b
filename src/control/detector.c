/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank watches which; detector.h describes the rules. Lock: job.lock. */
#include "config.h"

#include "control/detector.h"
#include "core/subsystem.h"
#include "core/node.h"
#include "core/event.h"
#include "control/dispatch.h"
#include "control/finalize_barrier.h"
#include "core/life.h"
#include "core/service.h"
#include "control/wire.h"
#include "util/clock.h"
#include "util/log.h"

#include <stdio.h>

/* The watch begins this long after init, so that a short job never makes these connections. */
#define DELAY_NS (200 * NXR_MS)

static int64_t begin_at = -1; /* -1: not decided */
static bool must_mend;        /* a peer has ended: choose again which ranks to watch */
static int neighbour = -1;    /* the next rank of this host */
static bool is_cast_out;      /* the others have declared this rank lost */

/* What this file keeps of a peer. */
struct detector_peer {
    bool is_watched;          /* this rank watches it on behalf of all */
    bool must_hear_of_deaths; /* report deaths to it once it is connected */
    bool is_death_told;       /* this rank has reported its death to the ranks of this host */
    bool is_reported;         /* another rank has found its end, which `by` names */
    struct nxr_identity by;
    uint32_t silent_ms; /* it is lost because it was silent for so long; 0: its end is certain */
};
static struct nxr_peer_slot detector_slot = {.nbytes = sizeof(struct detector_peer)};

static struct detector_peer *detector_peer_of(const struct nxr_peer *peer)
{
    return nxr_peer_slot_of(peer, &detector_slot);
}

static bool is_living(int rank)
{
    const struct nxr_peer *peer = nxr_job.peers[rank];

    return peer == NULL || !nxr_peer_is_lost(peer);
}

/* ---- the rings ------------------------------------------------------------------------------- */

/* The lowest living rank of a host; -1: none. */
static int leader_of(int node)
{
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (nxr_node_of(rank) == node && is_living(rank)) {
            return rank;
        }
    }
    return -1;
}

int nxr_detector_leader(void)
{
    return leader_of(nxr_node_of(nxr_job.rank));
}

static bool is_leader(void)
{
    return nxr_detector_leader() == nxr_job.rank;
}

int nxr_detector_leader_beside(int direction)
{
    int n_nodes = nxr_n_nodes(), mine = nxr_node_of(nxr_job.rank);

    for (int i = 1; i < n_nodes; i++) {
        int leader = leader_of((mine + direction * i + n_nodes) % n_nodes);

        if (leader >= 0) {
            return leader;
        }
    }
    return -1;
}

/* The next living rank of this host that can be reached; -1: none. */
static int next_neighbour(void)
{
    for (int i = 1; i < nxr_job.size; i++) {
        int rank = (nxr_job.rank + i) % nxr_job.size;

        if (nxr_node_of(rank) == nxr_node_of(nxr_job.rank) && is_living(rank) &&
            (nxr_job.peers[rank] == NULL ||
             atomic_load(&nxr_job.peers[rank]->connection) != NXR_CONNECTION_REMOTE)) {
            return rank;
        }
    }
    return -1;
}

static void detector_watch(int rank)
{
    struct nxr_peer *peer = rank >= 0 ? nxr_peer_get_locked(rank) : NULL;

    if (peer != NULL) {
        detector_peer_of(peer)->is_watched = true;
        nxr_peer_want(peer);
    }
}

bool nxr_detector_is_watched(const struct nxr_peer *peer)
{
    return detector_peer_of(peer)->is_watched;
}

static void unwatch_all(void)
{
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (nxr_job.peers[rank] != NULL) {
            detector_peer_of(nxr_job.peers[rank])->is_watched = false;
        }
    }
}

void nxr_detector_suspect(int rank)
{
    int node = nxr_node_of(rank);

    for (int other = 0; other < nxr_job.size; other++) {
        if (nxr_node_of(other) == node && is_living(other)) {
            detector_watch(other);
        }
    }
}

void nxr_detector_stop(void)
{
    begin_at = -1;
    must_mend = is_cast_out = false;
    neighbour = -1;
}

/* ---- passing on ------------------------------------------------------------------------------ */

static void send_own_leaving(struct nxr_peer *peer)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_DEATH);
    message.death.dead = message.death.by = nxr_job.self;
    message.death.has_left = 1;
    nxr_peer_tell(peer, &message);
}

static void send_end(struct nxr_peer *peer, const struct nxr_peer *dead)
{
    const struct detector_peer *dp = detector_peer_of(dead);
    bool has_left = atomic_load(&dead->state) == NIXL_PEER_FINISHED;
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_DEATH);
    message.death.dead = dead->identity;
    message.death.by = dp->is_reported ? dp->by : nxr_job.self;
    message.death.has_left = has_left;
    message.death.silent_ms = has_left ? 0 : dp->silent_ms;
    nxr_peer_tell(peer, &message);
}

void nxr_detector_connected(struct nxr_peer *peer)
{
    struct detector_peer *dp = detector_peer_of(peer);

    for (int i = 0; dp->must_hear_of_deaths && i < nxr_event_n_deaths(); i++) {
        if (nxr_is_own_rank(nxr_event_death(i))) {
            send_end(peer, nxr_job.peers[nxr_event_death(i)]);
        }
    }
    dp->must_hear_of_deaths = false;
    nxr_finalize_barrier_look();
}

static void detector_tell(int rank, int dead_rank)
{
    struct nxr_peer *peer = rank >= 0 ? nxr_peer_get_locked(rank) : NULL;

    if (peer == NULL || rank == nxr_job.rank || nxr_peer_is_lost(peer)) {
        return;
    }
    if (nxr_peer_is_up(peer)) {
        send_end(peer, nxr_job.peers[dead_rank]);
    } else {
        detector_peer_of(peer)->must_hear_of_deaths = true;
        nxr_peer_want(peer);
    }
}

static void detector_tell_host(int dead_rank)
{
    detector_peer_of(nxr_job.peers[dead_rank])->is_death_told = true;
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (nxr_node_of(rank) == nxr_node_of(nxr_job.rank)) {
            detector_tell(rank, dead_rank);
        }
    }
}

/* Tell the leaders of the hosts beside this one. */
static void tell_beside(int dead_rank)
{
    detector_tell(nxr_detector_leader_beside(1), dead_rank);
    detector_tell(nxr_detector_leader_beside(-1), dead_rank);
}

/* ---- mending the rings ----------------------------------------------------------------------- */

/*
 * The ranks between this one and its neighbour have ended, and it is this rank that reports their
 * deaths to the host. It may have heard of a death from elsewhere before it watched that rank.
 */
static void report_skipped(void)
{
    for (int i = 1; i < nxr_job.size; i++) {
        int rank = (nxr_job.rank + i) % nxr_job.size;
        const struct nxr_peer *peer = nxr_job.peers[rank];

        if (rank == neighbour) {
            return;
        }
        if (peer != NULL && nxr_node_of(rank) == nxr_node_of(nxr_job.rank) &&
            atomic_load(&peer->state) == NIXL_PEER_LOST && !detector_peer_of(peer)->is_death_told) {
            detector_tell_host(rank);
        }
    }
}

/* Watch exactly the ranks that the known deaths imply. */
static void mend(void)
{
    unwatch_all();
    neighbour = next_neighbour();
    detector_watch(neighbour);
    report_skipped();
    if (is_leader()) {
        detector_watch(nxr_detector_leader_beside(1));
        detector_watch(nxr_detector_leader_beside(-1));
    }
}

int64_t nxr_detector_tick(int64_t now)
{
    const struct nxr_peer *peer = neighbour >= 0 ? nxr_job.peers[neighbour] : NULL;

    if (nxr_job.size == 1 || !nxr_is_joined()) {
        return INT64_MAX;
    }
    if (begin_at < 0) {
        begin_at = now + DELAY_NS;
        must_mend = true;
    }
    if (now < begin_at) {
        return begin_at;
    }
    if (must_mend || (peer != NULL && atomic_load(&peer->connection) == NXR_CONNECTION_REMOTE)) {
        must_mend = false;
        mend();
    }
    return INT64_MAX;
}

/* ---- leaving, and the end of a peer ---------------------------------------------------------- */

/*
 * The rank that tells the others when this rank leaves: one of this host, else the leader beside;
 * -1: none.
 */
static int heir(void)
{
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (rank != nxr_job.rank && is_living(rank) &&
            nxr_node_of(rank) == nxr_node_of(nxr_job.rank)) {
            return rank;
        }
    }
    return nxr_detector_leader_beside(1);
}

bool nxr_detector_tell_left(void)
{
    int first = heir();
    struct nxr_peer *peer = first >= 0 ? nxr_peer_get_locked(first) : NULL;

    if (peer != NULL && !nxr_peer_is_up(peer) && !nxr_peer_is_lost(peer) &&
        atomic_load(&peer->connection) != NXR_CONNECTION_REMOTE) {
        nxr_peer_want(peer);
        return false;
    }
    for (int rank = 0; rank < nxr_job.size; rank++) {
        peer = nxr_job.peers[rank];
        if (peer != NULL && rank != nxr_job.rank && nxr_peer_is_up(peer) &&
            !nxr_peer_is_lost(peer)) {
            send_own_leaving(peer);
        }
    }
    return true;
}

void nxr_detector_heard_left(int rank)
{
    const struct nxr_peer *peer = nxr_peer_get_locked(rank);

    if (peer == NULL || rank == nxr_job.rank || nxr_peer_is_lost(peer)) {
        return;
    }
    nxr_life_left_locked(rank);
    if (is_leader()) {
        detector_tell_host(rank);
        tell_beside(rank);
    }
}

/* Do ranks of this host see that process end, so that its predecessor in the ring reports it? */
static bool detector_is_seen_here(const struct nxr_peer *peer)
{
    return nxr_node_of(peer->rank) == nxr_node_of(nxr_job.rank) &&
           (!nxr_peer_is_up(peer) || !nxr_peer_is_remote(peer)) &&
           detector_peer_of(peer)->silent_ms == 0;
}

void nxr_detector_peer_ended(const struct nxr_peer *peer)
{
    bool is_death = atomic_load(&peer->state) == NIXL_PEER_LOST;

    if (nxr_peer_is_attached(peer)) {
        return; /* ranks of this job that are attached to it watch it themselves */
    }
    if (begin_at >= 0) {
        must_mend = true;
        nxr_service_kick();
    }
    nxr_finalize_barrier_look();
    if (!is_death || nxr_job.is_leaving || is_cast_out) {
        return;
    }
    if (peer->rank == neighbour || (!detector_is_seen_here(peer) && is_leader())) {
        detector_tell_host(peer->rank);
    }
    if (is_leader()) {
        tell_beside(peer->rank);
    } else if (detector_peer_of(peer)->silent_ms != 0) {
        detector_tell(nxr_detector_leader(), peer->rank);
    }
}

/* ---- silence --------------------------------------------------------------------------------- */

void nxr_detector_found_silent(const struct nxr_peer *peer, int64_t silent_ns)
{
    int64_t silent_ms = silent_ns / NXR_MS;

    detector_peer_of(peer)->silent_ms = silent_ms < 1            ? 1
                                        : silent_ms < UINT32_MAX ? (uint32_t)silent_ms
                                                                 : UINT32_MAX;
}

/*
 * A rank that is lost because it was silent learns it before this one closes the connection to it,
 * so that it does not take that for the death of this rank.
 */
static void detector_peer_ending(struct nxr_peer *peer)
{
    const struct detector_peer *dp = detector_peer_of(peer);

    if (nxr_peer_is_attached(peer)) {
        return;
    }
    if (is_cast_out) {
        dp = detector_peer_of(nxr_job.peers[nxr_job.rank]);
        snprintf(peer->why_not, sizeof(peer->why_not),
                 "%s declared this rank lost, because it was silent for %.1f s",
                 nxr_identity_name(&dp->by), dp->silent_ms / 1e3);
    } else if (dp->silent_ms != 0) {
        if (dp->is_reported) {
            snprintf(peer->why_not, sizeof(peer->why_not), "%s found that it was silent for %.1f s",
                     nxr_identity_name(&dp->by), dp->silent_ms / 1e3);
        }
        if (nxr_peer_is_up(peer)) {
            send_end(peer, peer);
        }
    }
}

/* The others continue without this rank, which lives: for it they are lost, all of them. */
static void detector_be_cast_out(const struct nxr_wire_death *death)
{
    struct nxr_peer *self = nxr_peer_get_locked(nxr_job.rank);

    if (self == NULL || nxr_job.is_leaving || is_cast_out) {
        return;
    }
    detector_peer_of(self)->by = death->by;
    detector_peer_of(self)->silent_ms = death->silent_ms;
    is_cast_out = true;
    nxr_error(HOST,
              "%s declared this rank lost, because it was silent for %.1f s "
              "(NIXLRUN_PEER_TIMEOUT); the others continue without it, and all calls on them fail",
              nxr_identity_name(&death->by), death->silent_ms / 1e3);
    for (int rank = 0; rank < nxr_job.size; rank++) {
        nxr_life_lost_locked(rank);
    }
}

/* ---- the report of an end -------------------------------------------------------------------- */

static void detector_hear_lost(int rank, const struct nxr_wire_death *death)
{
    struct nxr_peer *peer = nxr_peer_get_locked(rank);

    if (peer == NULL || nxr_peer_is_lost(peer)) {
        return;
    }
    detector_peer_of(peer)->is_reported = true;
    detector_peer_of(peer)->by = death->by;
    detector_peer_of(peer)->silent_ms = death->silent_ms;
    nxr_life_lost_locked(rank);
}

/*
 * Has another process taken the place of that one, as the same rank? Then its end is no news. If a
 * later process than the known one has ended, so has the known one; but this one lives.
 */
static bool detector_is_succeeded(int rank, const struct nxr_identity *dead)
{
    const struct nxr_peer *peer = nxr_job.peers[rank];

    return rank == nxr_job.rank ? !nxr_identity_is(dead, &nxr_job.self)
                                : peer != NULL && dead->incarnation < peer->identity.incarnation;
}

static void detector_take_death(const struct nxr_control_source *source,
                                const union nxr_wire_message *message)
{
    const struct nxr_wire_death *death = &message->death;
    int rank = nxr_rank_of(&death->dead);

    if (nxr_job.may_return && rank >= 0 && detector_is_succeeded(rank, &death->dead)) {
        return; /* it has been told before */
    }
    if (rank < 0 || nxr_rank_of(&death->by) < 0 || detector_is_succeeded(rank, &death->dead)) {
        nxr_warn(HOST, "%s reports the end of %s, which is not in this job now; ignored",
                 nxr_peer_name(source->peer), nxr_identity_name(&death->dead));
    } else if (death->has_left != 0) {
        nxr_detector_heard_left(rank);
    } else if (rank != nxr_job.rank) {
        detector_hear_lost(rank, death);
    } else if (death->silent_ms != 0) {
        detector_be_cast_out(death);
    }
}

/* The rank takes its place in the rings again. */
static void detector_peer_replaced(struct nxr_peer *peer)
{
    (void)peer;
    must_mend = true;
}

static void detector_register(void)
{
    nxr_control_register(NXR_WIRE_DEATH, detector_take_death);
}

const struct nxr_subsystem nxr_detector_subsystem = {
    .name = "detector",
    .peer_slot = &detector_slot,
    .register_handlers = detector_register,
    .tick = nxr_detector_tick,
    .peer_ending = detector_peer_ending,
    .death_known = nxr_detector_peer_ended,
    .peer_replaced = detector_peer_replaced,
    .close = nxr_detector_stop,
};
