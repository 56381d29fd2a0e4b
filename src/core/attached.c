/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of attached peers, their list, and freeing what has ended. attached.h describes the life
 * of an attachment. Lock: job.lock; a table of peers that was outgrown stays until the last
 * finalize, since other threads may still read it.
 */
#include "config.h"

#include "core/attached.h"
#include "core/control.h"
#include "core/event.h"
#include "core/job.h"
#include "core/late.h"
#include "core/life.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "core/wait.h"
#include "util/clock.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS    (1 * NXR_S)    /* for the end of an attachment of which the message was lost */
#define MESSAGE_NS (100 * NXR_MS) /* what the message may take from the time that its end is seen */

/* A table that was outgrown. */
struct old_table {
    struct old_table *next;
    struct nxr_peer **peers;
};

static struct old_table *old_tables;
static int
    attached_room; /* numbers for which the table has room; 0: it has room for the ranks alone */

/* ---- adding ---------------------------------------------------------------------------------- */

/* Make room for one more number in the table of peers. */
static bool attached_grow(int n_numbers)
{
    int n_wanted = n_numbers + n_numbers / 2 + 64;
    struct old_table *old;
    struct nxr_peer **peers;

    if (n_numbers < attached_room) {
        return true;
    }
    old = malloc(sizeof(*old));
    peers = calloc((size_t)n_wanted, sizeof(struct nxr_peer *));
    if (old == NULL || peers == NULL) {
        free(old);
        free(peers);
        return false;
    }
    memcpy(peers, nxr_job.peers, (size_t)n_numbers * sizeof(struct nxr_peer *));
    *old = (struct old_table){old_tables, nxr_job.peers};
    old_tables = old;
    attached_room = n_wanted;
    atomic_store_explicit(&nxr_job.peers, peers, memory_order_release);
    return true;
}

int nxr_attached_add(const struct nxr_full_card *card, struct nxr_peer **peer_p)
{
    int number = atomic_load(&nxr_job.n_numbers);
    struct nxr_peer *peer;
    int status;

    if (number == INT_MAX) {
        return NIXL_E_LIMIT;
    }
    if (!attached_grow(number) || !nxr_subsystems_numbers_grow(number + 1)) {
        return NIXL_E_NO_MEMORY;
    }
    status = nxr_peer_new_attached(number, &peer);
    if (status != NIXL_OK) {
        return status;
    }
    peer->full_card = malloc(sizeof(*card));
    if (peer->full_card == NULL) {
        nxr_peer_free(peer);
        return NIXL_E_NO_MEMORY;
    }
    *peer->full_card = *card;
    nxr_peer_set_card(peer, &card->head);
    atomic_store_explicit(&peer->next, atomic_load(&nxr_job.attached), memory_order_relaxed);
    atomic_store_explicit((struct nxr_peer * _Atomic *)&nxr_job.peers[number], peer,
                          memory_order_release);
    atomic_store_explicit(&nxr_job.attached, peer, memory_order_release);
    atomic_store_explicit(&nxr_job.n_numbers, number + 1, memory_order_release);
    *peer_p = peer;
    return NIXL_OK;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void nxr_attached_end(struct nxr_peer *peer)
{
    if (nxr_peer_is_local(peer)) {
        atomic_store_explicit(&peer->out.credit->has_detached, true, memory_order_release);
    }
    peer->is_detached = true;
    nxr_event_settle_death(peer->rank);
    nxr_life_detached_locked(peer);
    nxr_service_kick();
}

/* Has it left the job, although its process may live on? */
static bool attached_has_left(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->control->life, memory_order_acquire) == NXR_LIFE_FINISHED;
}

/* Does the peer's process use nothing of this one any more? On another host it never does. */
static bool attached_is_out(struct nxr_peer *peer)
{
    return !nxr_peer_is_local(peer) || attached_has_left(peer) ||
           atomic_load_explicit(&peer->in.credit->is_out, memory_order_acquire) ||
           nxr_peer_is_gone_locked(peer);
}

/* No call finds the peer any more; threads that have found it may use it until it is freed. */
static void attached_unlink(struct nxr_peer *peer, int64_t now)
{
    struct nxr_peer *_Atomic *link = &nxr_job.attached;

    while (atomic_load(link) != peer) {
        link = &atomic_load(link)->next;
    }
    atomic_store_explicit(link, atomic_load(&peer->next), memory_order_release);
    atomic_store_explicit((struct nxr_peer * _Atomic *)&nxr_job.peers[peer->rank], NULL,
                          memory_order_release);
    nxr_subsystems_peer_unlink(peer);
    nxr_inflight_free_of(peer);
    nxr_late_free(peer, now);
    nxr_wake_self(); /* nixl_detach() may wait for this: the peer's answer may have been lost */
}

/* Tell the peer that no thread here uses its memory any more, once that is so. */
static void attached_release(struct nxr_peer *peer)
{
    if (!nxr_peer_is_local(peer)) {
        peer->is_released = true;
    } else if (nxr_inflight_leave_peer(peer)) {
        atomic_store_explicit(&peer->out.credit->is_out, true, memory_order_release);
        peer->is_released = true;
    }
}

/* A step of an attachment that has ended. Returns when to take the next one. */
static int64_t attached_wind_up(struct nxr_peer *peer, int64_t now)
{
    if (peer->rings_fd >= 0) { /* no greeting follows */
        close(peer->rings_fd);
        peer->rings_fd = -1;
    }
    if (now < peer->ended_at + NXR_LATE_NS) {
        return peer->ended_at + NXR_LATE_NS;
    }
    if (!peer->is_released) {
        attached_release(peer);
    }
    if (!peer->is_detached && peer->is_released) {
        return INT64_MAX; /* the program has not ended it */
    }
    if (!peer->is_released || !attached_is_out(peer) || nxr_subsystems_peer_is_used(peer)) {
        return now + NXR_LATE_CHECK_NS;
    }
    attached_unlink(peer, now);
    return now + NXR_LATE_NS;
}

/*
 * The message that ends the attachment may have been lost. If it is still on its way, it has to be
 * received first, because the peer waits for the answer to it.
 */
static int64_t attached_look(struct nxr_peer *peer, int64_t now)
{
    if (!nxr_peer_is_local(peer)) {
        return now + LOOK_NS;
    }
    if (attached_has_left(peer)) { /* it waits for no answer */
        nxr_life_left_locked(peer->rank);
        return now;
    }
    if (!atomic_load_explicit(&peer->in.credit->has_detached, memory_order_acquire)) {
        return now + LOOK_NS;
    }
    if (peer->missed_at == 0) {
        peer->missed_at = now + MESSAGE_NS;
    }
    if (peer->missed_at > now) {
        return peer->missed_at;
    }
    nxr_life_left_locked(peer->rank);
    return now;
}

static int64_t attached_tick(int64_t now)
{
    int64_t due = nxr_late_tick(now);
    struct nxr_peer *peer, *next;

    for (peer = atomic_load(&nxr_job.attached); peer != NULL; peer = next) {
        int64_t step;

        next = atomic_load(&peer->next);
        step = nxr_peer_is_lost(peer) ? attached_wind_up(peer, now) : attached_look(peer, now);
        due = step < due ? step : due;
    }
    return due;
}

static void free_all(struct nxr_peer *peer)
{
    while (peer != NULL) {
        struct nxr_peer *next = atomic_load(&peer->next);

        nxr_peer_free(peer);
        peer = next;
    }
}

void nxr_attached_reset(void)
{
    free_all(atomic_exchange(&nxr_job.attached, NULL));
    (void)nxr_late_tick(INT64_MAX);
    while (old_tables != NULL) {
        struct old_table *old = old_tables;

        old_tables = old->next;
        free(old->peers);
        free(old);
    }
    attached_room = 0;
}

const struct nxr_subsystem nxr_attached_subsystem = {
    .name = "attached",
    .tick = attached_tick,
};
