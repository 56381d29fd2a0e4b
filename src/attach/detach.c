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
#include "core/trace.h"
#include "core/wait.h"
#include "util/status.h"

#include <stdio.h>
#include <string.h>

/* What this folder keeps of a peer. */
struct attach_peer {
    char name[NIXL_PUBLISH_NAME_MAX + 1]; /* under which the two have met */
    bool is_asking;           /* this process attaches to it, and has not heard from it yet */
    bool is_awaited;          /* a call waits until it knows that this process has detached it */
    atomic_bool has_answered; /* it knows that this process has detached it */
    atomic_bool is_given_up;  /* nobody waits for that any more */
};
static struct nxr_peer_slot attach_slot = {.nbytes = sizeof(struct attach_peer)};

static struct attach_peer *attach_peer_of(const struct nxr_peer *peer)
{
    return nxr_peer_slot_of(peer, &attach_slot);
}

struct nxr_peer *nxr_attach_known(const struct nxr_identity *identity)
{
    struct nxr_peer *known = nxr_attached_find(nxr_attached_number(identity));

    return known != NULL && !nxr_peer_is_lost(known) && !known->is_detached ? known : NULL;
}

/*
 * Does the process that was met prove that this peer has ended, though no end was reported? A rank
 * that joined its job again has the same identity, and its numbers start again, but its nonce is
 * new.
 */
static bool attach_is_former(const struct nxr_peer *known, const struct nxr_met *met)
{
    return memcmp(known->card.nonce, met->card->head.nonce, NXR_NONCE_NBYTES) != 0 ||
           (nxr_peer_is_up(known) && known->place < met->number);
}

int nxr_attach_peer(const struct nxr_met *met, struct nxr_peer **peer_p, bool *is_new_p)
{
    const struct nxr_identity *identity = &met->card->head.identity;
    struct nxr_peer *latest = nxr_attached_find(nxr_attached_number(identity));
    struct nxr_peer *known = nxr_attach_known(identity);
    int status;

    if (known == NULL && latest != NULL && !nxr_peer_is_lost(latest)) {
        nxr_attached_end(latest); /* its detaching waits no longer: both have one connection */
    }
    if (known != NULL && attach_is_former(known, met)) {
        nxr_life_left_locked(known->rank); /* the news of that may be lost, or still on its way */
        known = NULL;
    }
    *is_new_p = known == NULL;
    if (!*is_new_p) {
        *peer_p = known;
        return NIXL_OK;
    }
    status = nxr_attached_add(met->card, peer_p);
    if (status == NIXL_OK) {
        struct attach_peer *ap = attach_peer_of(*peer_p);

        (*peer_p)->job_size = met->job_size;
        snprintf(ap->name, sizeof(ap->name), "%s", met->name);
    }
    return status;
}

const char *nxr_attach_name(const struct nxr_peer *peer)
{
    return attach_peer_of(peer)->name;
}

bool nxr_attach_is_asking(const struct nxr_peer *peer)
{
    return attach_peer_of(peer)->is_asking;
}

void nxr_attach_join(struct nxr_peer *peer)
{
    if (!peer->is_joined && !nxr_peer_is_lost(peer)) {
        peer->is_joined = true;
        nxr_attach_observe(peer);
        nxr_event_push(NULL, NIXL_EVENT_PEER_JOINED, peer->rank, attach_peer_of(peer)->name);
    }
}

void nxr_attach_begin(struct nxr_peer *peer, int32_t number)
{
    if (!nxr_peer_is_up(peer)) {
        attach_peer_of(peer)->is_asking = true;
        peer->place = number;
    }
}

/* On another host it is the one who attaches that looks whether a network reaches the other one. */
static void detach_peer_connected(struct nxr_peer *peer)
{
    if (nxr_peer_is_attached(peer) && (peer->control != NULL || !attach_peer_of(peer)->is_asking)) {
        nxr_attach_join(peer);
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
    if (!nxr_peer_is_lost(peer) && !peer->is_detached) {
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

/*
 * Tell the other process, if it can be told, that the attachment ends; from now on no event is made
 * of it. A peer of another host goes on until it has answered, since its connection ends with it.
 * Caller holds job.lock.
 */
static void detach_begin(struct nxr_peer *peer, bool may_wait, bool *is_known_p)
{
    union nxr_wire_message message;

    *is_known_p = nxr_peer_is_lost(peer) || !nxr_peer_is_up(peer);
    if (!*is_known_p) {
        nxr_wire_init(&message, NXR_WIRE_DETACH);
        nxr_peer_tell(peer, &message);
    }
    if (*is_known_p || !may_wait || !nxr_peer_is_remote(peer)) {
        nxr_attached_end(peer);
    }
    peer->is_detached = true;
    nxr_subsystems_peer_detached(peer);
}

/*
 * Another thread's call has begun to detach the peer: end its wait. False: none waits. Caller holds
 * job.lock.
 */
static bool detach_give_up(struct nxr_peer *peer)
{
    struct attach_peer *ap = attach_peer_of(peer);

    if (!ap->is_awaited) {
        return false;
    }
    atomic_store(&ap->is_given_up, true);
    nxr_wake_self();
    return true;
}

/* A wait for a process to learn that it was detached. */
struct detaching {
    struct nxr_identity identity;
    bool is_given_up; /* by another thread's call */
};

/* Has the other process learned of the end, or does it learn nothing any more? */
static bool detach_is_known(void *arg)
{
    struct detaching *detaching = arg;
    struct nxr_peer *peer;
    bool is_known;

    pthread_mutex_lock(&nxr_job.lock);
    peer = nxr_attached_find(nxr_attached_number(&detaching->identity));
    is_known = peer == NULL || !peer->is_detached ||
               atomic_load(&attach_peer_of(peer)->has_answered) || nxr_peer_is_gone_locked(peer) ||
               (nxr_peer_is_remote(peer) && nxr_peer_is_lost(peer));
    detaching->is_given_up = !is_known && attach_peer_of(peer)->is_given_up;
    pthread_mutex_unlock(&nxr_job.lock);
    return is_known || detaching->is_given_up;
}

/* End what detach_begin() has left, if it has. */
static void detach_end(int rank)
{
    struct nxr_peer *peer;

    pthread_mutex_lock(&nxr_job.lock);
    peer = nxr_attached_find(rank);
    if (peer != NULL) {
        attach_peer_of(peer)->is_awaited = false;
    }
    if (peer != NULL && !nxr_peer_is_lost(peer)) {
        nxr_attached_end(peer);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

static int detach_wait(int rank, struct detaching *detaching, int64_t timeout_ns)
{
    static const char operation[] = "nixl_detach";
    int status = nxr_wait_as(
        detach_is_known, detaching, timeout_ns, nxr_describe_reason,
        &(const struct nxr_reason){.kind = NXR_WAIT_ATTACH, .peer = rank, .call = operation});

    detach_end(rank);
    if (status == NIXL_E_TIMEOUT) {
        return nxr_fail(status, operation, rank, "", 0,
                        "%s did not answer within %s; the attachment is ended nevertheless",
                        nxr_identity_name(&detaching->identity), nxr_duration(timeout_ns).text);
    }
    return !detaching->is_given_up
               ? status
               : nxr_fail(NIXL_E_CANCELED, operation, rank, "", 0,
                          "another call has ended the wait for %s; the attachment is ended "
                          "nevertheless",
                          nxr_identity_name(&detaching->identity));
}

static int call_detach(int rank, int64_t timeout_ns)
{
    static const char operation[] = "nixl_detach";
    int status = nxr_check_ready(operation);
    struct detaching detaching = {.is_given_up = false};
    struct nxr_peer *peer;
    bool is_known = false, was_detached = true, is_over = false;

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
        detaching.identity = peer->identity;
        detach_begin(peer, timeout_ns > 0, &is_known);
        attach_peer_of(peer)->is_awaited = !is_known;
    } else if (peer != NULL && timeout_ns == 0) {
        is_over = detach_give_up(peer);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (is_over) {
        return NIXL_INPROGRESS;
    }
    if (was_detached) {
        return peer == NULL ? nxr_fail_rank(operation, rank)
                            : nxr_peer_fail_lost(operation, rank, "");
    }
    return is_known ? NIXL_OK : detach_wait(rank, &detaching, timeout_ns);
}

int nixl_detach(int rank, int64_t timeout_ns)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_detach", rank, 0, 0, call_detach(rank, timeout_ns));
}

const struct nxr_subsystem nxr_detach_subsystem = {
    .name = "detach",
    .register_handlers = detach_register,
    .peer_slot = &attach_slot,
    .peer_connected = detach_peer_connected,
    .peer_ended = nxr_attach_observe_end,
    .close = nxr_attach_observe_stop,
};
