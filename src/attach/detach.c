/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attached peers from their first moment to the end of their attachment: what this folder keeps of
 * them, the event that they have joined, and the message by which either side ends it. Lock:
 * job.lock.
 */
#include "config.h"

#include "attach/attach.h"
#include "control/dispatch.h"
#include "control/wire.h"
#include "core/attached.h"
#include "core/event.h"
#include "core/life.h"
#include "core/subsystem.h"
#include "core/wait.h"
#include "util/status.h"

#include <stdio.h>

/* What this folder keeps of a peer. */
struct attach_peer {
    char name[NIXL_PUBLISH_NAME_MAX + 1]; /* under which the two have met */
    atomic_bool has_answered;             /* it knows that this process has detached it */
};
static struct nxr_peer_slot attach_slot = {.nbytes = sizeof(struct attach_peer)};

static struct attach_peer *attach_peer_of(const struct nxr_peer *peer)
{
    return nxr_peer_slot_of(peer, &attach_slot);
}

int nxr_attach_peer(const struct nxr_card *card, const char *name, struct nxr_peer **peer_p,
                    bool *is_new_p)
{
    struct nxr_peer *known = nxr_attached_find(nxr_attached_number(&card->identity));
    int status;

    *is_new_p = known == NULL || nxr_peer_is_lost(known);
    if (!*is_new_p) {
        *peer_p = known;
        return NIXL_OK;
    }
    status = nxr_attached_add(card, peer_p);
    if (status == NIXL_OK) {
        snprintf(attach_peer_of(*peer_p)->name, sizeof(attach_peer_of(*peer_p)->name), "%s", name);
    }
    return status;
}

static void detach_peer_connected(struct nxr_peer *peer)
{
    if (nxr_peer_is_attached(peer)) {
        nxr_event_push(NULL, NIXL_EVENT_PEER_JOINED, peer->rank, attach_peer_of(peer)->name);
    }
}

/* ---- the message ----------------------------------------------------------------------------- */

/* The peer ends the attachment, or answers that it knows of its end. */
static void detach_take(const struct nxr_control_source *source,
                        const union nxr_wire_message *message)
{
    struct nxr_peer *peer = source->peer;
    union nxr_wire_message answer;

    (void)message;
    if (!nxr_peer_is_attached(peer)) {
        return;
    }
    if (!nxr_peer_is_lost(peer)) {
        nxr_wire_init(&answer, NXR_WIRE_DETACH);
        nxr_peer_tell(peer, &answer);
        nxr_life_left_locked(peer->rank);
    }
    atomic_store_explicit(&attach_peer_of(peer)->has_answered, true, memory_order_release);
    nxr_wake_self();
}

static void detach_register(void)
{
    nxr_control_register(NXR_WIRE_DETACH, detach_take);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* End the attachment. Caller holds job.lock. */
static void detach_end(struct nxr_peer *peer, bool *is_known_p)
{
    union nxr_wire_message message;

    *is_known_p = nxr_peer_is_lost(peer) || !nxr_peer_is_up(peer);
    if (!*is_known_p) {
        nxr_wire_init(&message, NXR_WIRE_DETACH);
        nxr_peer_tell(peer, &message);
    }
    nxr_attached_end(peer);
}

/* Has the other process learned of the end, or does it learn nothing any more? */
static bool detach_is_known(void *arg)
{
    const struct nxr_identity *identity = arg;
    struct nxr_peer *peer;
    bool is_known;

    pthread_mutex_lock(&nxr_job.lock);
    peer = nxr_attached_find(nxr_attached_number(identity));
    is_known = peer == NULL || !peer->is_detached ||
               atomic_load(&attach_peer_of(peer)->has_answered) || nxr_peer_is_gone_locked(peer);
    pthread_mutex_unlock(&nxr_job.lock);
    return is_known;
}

static int detach_wait(int rank, struct nxr_identity *identity, int64_t timeout_ns)
{
    int status = nxr_wait(detach_is_known, identity, timeout_ns);

    return status != NIXL_E_TIMEOUT
               ? status
               : nxr_fail(status, "nixl_detach", rank, "", 0,
                          "%s did not answer within %s; the attachment is ended nevertheless",
                          nxr_identity_name(identity), nxr_duration(timeout_ns).text);
}

int nixl_detach(int rank, int64_t timeout_ns)
{
    static const char operation[] = "nixl_detach";
    int status = nxr_check_ready(operation);
    struct nxr_identity identity;
    struct nxr_peer *peer;
    bool is_known = false, was_detached = true;

    if (status != NIXL_OK) {
        return status;
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, rank, timeout_ns);
    }
    if (nxr_is_own_rank(rank)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "%s is of this job; allowed: the number of an attached process",
                        nxr_rank_name(rank));
    }
    pthread_mutex_lock(&nxr_job.lock);
    peer = nxr_attached_find(rank);
    if (peer != NULL && !peer->is_detached) {
        was_detached = false;
        identity = peer->identity;
        detach_end(peer, &is_known);
        nxr_subsystems_peer_detached(peer);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (was_detached) {
        return peer == NULL ? nxr_fail_rank(operation, rank)
                            : nxr_peer_fail_lost(operation, rank, "");
    }
    return is_known ? NIXL_OK : detach_wait(rank, &identity, timeout_ns);
}

const struct nxr_subsystem nxr_detach_subsystem = {
    .name = "detach",
    .register_handlers = detach_register,
    .peer_slot = &attach_slot,
    .peer_connected = detach_peer_connected,
};
