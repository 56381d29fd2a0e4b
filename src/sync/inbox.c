/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inbox: the rings into which peers write notifications, and a queue in each context of those
 * that no call has wanted, in their order. Rings are checked in turn, starting after the one that
 * was served last, so that no sender starves another. The calls that receive are in notify_recv.c.
 *
 * Lock: nxr_inbox_spin (sync/receive.h) guards the queues, the heads of the rings and the turn. A
 * check whether there is anything does not take it. At NIXL_THREAD_SINGLE it is not used: only the
 * user's thread receives.
 */
#include "config.h"

#include "sync/inbox.h"
#include "core/cq.h"
#include "core/event.h"
#include "core/form.h"
#include "core/life.h"
#include "core/trace.h"
#include "net/net.h"
#include "sync/notify.h"
#include "sync/peer.h"
#include "sync/receive.h"
#include "sync/senders.h"
#include "util/barrier.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/probe.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nxr_spin nxr_inbox_spin;

static struct {
    struct sync_peer *_Atomic peers; /* that may write here, linked by rx_next; lock to change */
    struct sync_peer *turn;          /* lock: the peer to check first */
} inbox;

void nxr_inbox_init(struct nxr_peer *peer)
{
    struct sync_peer *sp = sync_peer_of(peer);

    sp->peer = peer;
    sp->rx = (struct nxr_ring_rx){
        .slots = peer->in.ring,
        .n_slots = NXR_RING_SLOTS,
        .credit = peer->in.credit,
    };
}

static struct sync_peer *first_peer(void)
{
    return atomic_load_explicit(&inbox.peers, memory_order_acquire);
}

static struct sync_peer *next_peer(const struct sync_peer *sp)
{
    return atomic_load_explicit(&sp->rx_next, memory_order_acquire);
}

void nxr_inbox_add(struct nxr_peer *peer)
{
    struct sync_peer *sp = sync_peer_of(peer);
    struct sync_peer *first;

    nxr_spin_lock(&nxr_inbox_spin);
    if (peer->wide_ring != NULL) {
        nxr_ring_widen(&sp->rx, peer->wide_ring);
    }
    first = atomic_load_explicit(&inbox.peers, memory_order_relaxed);
    atomic_store_explicit(&sp->rx_next, first, memory_order_relaxed);
    atomic_store_explicit(&inbox.peers, sp, memory_order_release);
    nxr_spin_unlock(&nxr_inbox_spin);
}

/* Caller holds the lock. */
static void inbox_remove(struct sync_peer *sp)
{
    struct sync_peer *_Atomic *link = &inbox.peers;
    struct sync_peer *other;

    while ((other = atomic_load_explicit(link, memory_order_relaxed)) != NULL && other != sp) {
        link = &other->rx_next;
    }
    if (other == sp) {
        atomic_store_explicit(link, next_peer(sp), memory_order_release);
    }
    inbox.turn = inbox.turn == sp ? NULL : inbox.turn;
}

/* Drop the notifications of a rank that a context has queued. Caller holds the lock. */
static void inbox_drop_in(struct nixl_context *context, int rank)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &context->notes) {
        struct nxr_note *note = nxr_list_entry(link, struct nxr_note, link);

        if (note->rank == rank) {
            atomic_fetch_sub_explicit(&context->queued_nbytes, nxr_note_cost(note->nbytes),
                                      memory_order_relaxed);
            nxr_list_remove(link);
            free(note);
        }
    }
}

/* At NIXL_THREAD_SINGLE the caller is the only thread that receives. */
void nxr_inbox_shut(struct nxr_peer *peer)
{
    struct sync_peer *sp = sync_peer_of(peer);

    nxr_spin_lock(&nxr_inbox_spin);
    inbox_remove(sp);
    atomic_store_explicit(&sp->rx_is_shut, true, memory_order_release);
    for (struct nixl_context *context = &nxr_context_default; context != NULL;
         context = nxr_context_next(context)) {
        inbox_drop_in(context, peer->rank);
    }
    nxr_spin_unlock(&nxr_inbox_spin);
}

void nxr_inbox_forget(struct nxr_peer *peer)
{
    nxr_inbox_shut(peer);
    nxr_senders_reset(); /* the new process could send */
}

bool nxr_inbox_has_arrived(void)
{
    for (struct sync_peer *sp = first_peer(); sp != NULL; sp = next_peer(sp)) {
        if (nxr_ring_has(&sp->rx)) {
            return true;
        }
    }
    return false;
}

/*
 * Is a notification for that context waiting? Rings do not tell for which context a message is, so
 * with several contexts they are emptied first. The rings come before the queue: see
 * nxr_inbox_enqueue().
 */
static bool inbox_has(struct nixl_context *context)
{
    bool has_arrived = nxr_inbox_has_arrived();

    if (has_arrived && !nxr_context_is_alone()) {
        nxr_inbox_drain();
        has_arrived = false;
    }
    return has_arrived || nxr_inbox_has_queued(context);
}

bool nxr_inbox_has_any(void)
{
    return inbox_has(&nxr_context_default);
}

/* ---- the queue: all under the lock ----------------------------------------------------------- */

/*
 * Count the notification in the queue before it leaves the ring. A thread that is about to sleep
 * checks the rings and then the queue, without the lock: it always sees it in one of them.
 */
bool nxr_inbox_enqueue(struct sync_peer *sp, const struct nxr_ring_message *message)
{
    struct nixl_context *context = nxr_context_of(message->context);
    struct nxr_note *note;
    uint64_t used;

    if (context == NULL) {
        return false;
    }
    used = atomic_load_explicit(&context->queued_nbytes, memory_order_relaxed);
    if (used + nxr_note_cost(message->nbytes) > nxr_env.note_queue) {
        return false;
    }
    note = malloc(nxr_note_cost(message->nbytes));
    if (note == NULL) {
        return false;
    }
    note->since_ns = nxr_coarse_now_ns();
    note->rank = sp->peer->rank;
    note->is_late = message->is_late;
    note->nbytes = message->nbytes;
    note->tag = message->tag;
    atomic_store_explicit(&context->queued_nbytes, used + nxr_note_cost(message->nbytes),
                          memory_order_relaxed);
    nxr_fence_release();
    note->traced = nxr_inbox_pop(sp, message, note->payload);
    nxr_list_append(&context->notes, &note->link);
    return true;
}

void nxr_inbox_drain(void)
{
    struct nxr_ring_message message;
    bool has_room = true;

    nxr_inbox_lock();
    for (struct sync_peer *sp = first_peer(); sp != NULL && has_room; sp = next_peer(sp)) {
        while (has_room && nxr_ring_peek(&sp->rx, &message)) {
            has_room = nxr_inbox_enqueue(sp, &message);
        }
    }
    nxr_inbox_unlock();
}

bool nxr_inbox_each_in_turn(bool (*take)(struct receive *receive, struct sync_peer *sp),
                            struct receive *receive)
{
    struct sync_peer *start = inbox.turn != NULL ? inbox.turn : first_peer();
    struct sync_peer *sp = start;

    if (sp == NULL) {
        return false;
    }
    do {
        struct sync_peer *after = next_peer(sp);

        after = after != NULL ? after : first_peer();
        if (nxr_ring_has(&sp->rx) && take(receive, sp)) {
            inbox.turn = after;
            return true;
        }
        sp = after;
    } while (sp != start);
    return false;
}

/* ---- for observers --------------------------------------------------------------------------- */

void nxr_inbox_walk_rings(size_t most, void (*each)(void *arg, const struct nxr_note *note),
                          void *arg)
{
    for (const struct sync_peer *sp = first_peer(); sp != NULL; sp = next_peer(sp)) {
        struct nxr_ring_rx at = {
            .slots = sp->rx.slots, .n_slots = sp->rx.n_slots, .head = atomic_load(&sp->rx.head)};
        struct nxr_ring_message message;

        for (size_t n = 0; n < most && nxr_ring_peek(&at, &message); n++) {
            const struct nxr_note note = {.since_ns = nxr_coarse_now_ns(),
                                          .rank = sp->peer->rank,
                                          .nbytes = message.nbytes,
                                          .tag = message.tag};

            each(arg, &note);
            at.head += nxr_ring_slots_of(message.nbytes);
        }
    }
}

/* ---- for completion queues ------------------------------------------------------------------- */

static struct nxr_note *inbox_take(struct nixl_context *context)
{
    struct nxr_list *link;
    struct nxr_note *note = NULL;

    nxr_inbox_drain();
    nxr_inbox_lock();
    link = nxr_list_pop(&context->notes);
    if (link != NULL) {
        note = nxr_list_entry(link, struct nxr_note, link);
        atomic_fetch_sub_explicit(&context->queued_nbytes, nxr_note_cost(note->nbytes),
                                  memory_order_relaxed);
        nxr_inbox_tell(note->rank, note->tag, note->nbytes, note->traced);
    }
    nxr_inbox_unlock();
    return note;
}

const struct nxr_note_source nxr_inbox_note_source = {.has = inbox_has, .take = inbox_take};

/* ---- the end --------------------------------------------------------------------------------- */

void nxr_inbox_open(struct nixl_context *context)
{
    atomic_store(&context->n_deaths_told, nxr_event_n_deaths());
}

void nxr_inbox_drop(struct nixl_context *context)
{
    struct nxr_note *note;

    while ((note = inbox_take(context)) != NULL) {
        free(note);
    }
}

/* Rings are gone, and so are all other threads. */
void nxr_inbox_reset(void)
{
    struct nixl_context *context = &nxr_context_default;

    for (; context != NULL; context = nxr_context_next(context)) {
        struct nxr_list *link;

        while ((link = nxr_list_pop(&context->notes)) != NULL) {
            free(nxr_list_entry(link, struct nxr_note, link));
        }
        atomic_store(&context->queued_nbytes, 0);
        atomic_store(&context->n_deaths_told, 0);
    }
    atomic_store(&inbox.peers, NULL);
    inbox.turn = NULL;
    nxr_senders_reset();
}
