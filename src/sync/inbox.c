/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving notifications. Rings are checked in turn, starting after the one that was served last,
 * so that no sender starves another. Messages that a call does not want go to the queue, in order.
 *
 * Lock: nxr_inbox_spin (sync/receive.h) guards the queue, the heads of the rings and the turn. A
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
    sp->rx = (struct nxr_ring_rx){.slots = peer->in.ring, .credit = peer->in.credit};
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
    first = atomic_load_explicit(&inbox.peers, memory_order_relaxed);
    atomic_store_explicit(&sp->rx_next, first, memory_order_relaxed);
    atomic_store_explicit(&inbox.peers, sp, memory_order_release);
    nxr_spin_unlock(&nxr_inbox_spin);
}

/* At NIXL_THREAD_SINGLE the caller is the only thread that receives. */
void nxr_inbox_remove(struct nxr_peer *peer)
{
    struct sync_peer *sp = sync_peer_of(peer), *other;
    struct sync_peer *_Atomic *link = &inbox.peers;

    nxr_spin_lock(&nxr_inbox_spin);
    while ((other = atomic_load_explicit(link, memory_order_relaxed)) != NULL && other != sp) {
        link = &other->rx_next;
    }
    if (other == sp) {
        atomic_store_explicit(link, next_peer(sp), memory_order_release);
    }
    inbox.turn = inbox.turn == sp ? NULL : inbox.turn;
    nxr_spin_unlock(&nxr_inbox_spin);
}

static size_t note_cost(uint32_t nbytes)
{
    return sizeof(struct nxr_note) + nbytes;
}

/* Drop the queued notifications of a rank. Caller holds the lock. */
static void inbox_drop_of(struct nixl_context *context, int rank)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &context->notes) {
        struct nxr_note *note = nxr_list_entry(link, struct nxr_note, link);

        if (note->rank == rank) {
            atomic_fetch_sub_explicit(&context->queued_nbytes, note_cost(note->nbytes),
                                      memory_order_relaxed);
            nxr_list_remove(link);
            free(note);
        }
    }
}

void nxr_inbox_forget(struct nxr_peer *peer)
{
    nxr_inbox_remove(peer);
    nxr_senders_reset(); /* the new process could send */
    nxr_spin_lock(&nxr_inbox_spin);
    for (struct nixl_context *context = &nxr_context_default; context != NULL;
         context = nxr_context_next(context)) {
        inbox_drop_of(context, peer->rank);
    }
    nxr_spin_unlock(&nxr_inbox_spin);
}

static inline bool queue_has_any(const struct nixl_context *context)
{
    return atomic_load_explicit(&context->queued_nbytes, memory_order_acquire) != 0;
}

static bool rings_have_any(void)
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
 * with several contexts they are emptied first.
 */
static bool inbox_has(struct nixl_context *context)
{
    if (!queue_has_any(context) && !nxr_context_is_alone() && rings_have_any()) {
        nxr_inbox_drain();
    }
    return queue_has_any(context) || (nxr_context_is_alone() && rings_have_any());
}

bool nxr_inbox_has_any(void)
{
    return inbox_has(&nxr_context_default);
}

/*
 * Take the message at the head of a ring. Its sender may wait for slots. Returns its number if it
 * is traced. Caller holds the lock.
 */
static inline uint64_t inbox_pop(struct sync_peer *sp, const struct nxr_ring_message *message,
                                 void *payload)
{
    bool is_credit = nxr_ring_pop(&sp->rx, message, payload) && nxr_peer_is_up(sp->peer);

    sync_count_received(sp, message->nbytes);
    if (is_credit && nxr_peer_is_remote(sp->peer)) {
        nxr_net_send_credit(sp->peer);
    } else if (is_credit) {
        nxr_wake_peer(sp->peer);
    }
    return nxr_trace_has(NXR_TRACE_NOTE) ? ++sp->n_traced_taken : 0;
}

/* A call gets a notification. Caller holds the lock. */
static inline void inbox_tell(int rank, uint64_t tag, uint32_t nbytes, uint64_t traced)
{
    NXR_PROBE3(note_received, rank, tag, nbytes);
    if (__builtin_expect(traced != 0, 0)) {
        const struct nxr_peer *peer = nxr_peer_find(rank);

        if (peer != NULL) {
            nxr_sync_trace(peer, &(const struct nxr_traced){.form = NXR_TRACE_TAKEN,
                                                            .begin = nxr_ticks_after(),
                                                            .flow = traced,
                                                            .tag = tag,
                                                            .nbytes = nbytes});
        }
    }
}

/* ---- the queue: all under the lock ----------------------------------------------------------- */

/* Move the message at the head of a ring to its context's queue. False: the queue is full. */
static bool inbox_enqueue(struct sync_peer *sp, const struct nxr_ring_message *message)
{
    struct nixl_context *context = nxr_context_of(message->context);
    struct nxr_note *note;
    uint64_t used;

    if (context == NULL) {
        return false;
    }
    used = atomic_load_explicit(&context->queued_nbytes, memory_order_relaxed);
    if (used + note_cost(message->nbytes) > nxr_env.note_queue) {
        return false;
    }
    note = malloc(note_cost(message->nbytes));
    if (note == NULL) {
        return false;
    }
    note->since_ns = nxr_coarse_now_ns();
    note->rank = sp->peer->rank;
    note->is_late = message->is_late;
    note->nbytes = message->nbytes;
    note->tag = message->tag;
    note->traced = inbox_pop(sp, message, note->payload);
    nxr_list_append(&context->notes, &note->link);
    atomic_store_explicit(&context->queued_nbytes, used + note_cost(message->nbytes),
                          memory_order_release);
    return true;
}

void nxr_inbox_drain(void)
{
    struct nxr_ring_message message;
    bool has_room = true;

    nxr_inbox_lock();
    for (struct sync_peer *sp = first_peer(); sp != NULL && has_room; sp = next_peer(sp)) {
        while (has_room && nxr_ring_peek(&sp->rx, &message)) {
            has_room = inbox_enqueue(sp, &message);
        }
    }
    nxr_inbox_unlock();
}

static inline bool inbox_is_wanted(const struct receive *receive, uint64_t context, int rank,
                                   uint64_t tag)
{
    return ((tag ^ receive->tag) & receive->mask) == 0 && context == receive->context->id &&
           (receive->from == NULL || receive->rank == rank);
}

static inline void fill_note(struct receive *receive, int rank, uint64_t tag, uint32_t nbytes,
                             bool is_late)
{
    receive->note->rank = rank;
    receive->note->tag = tag;
    receive->note->nbytes = nbytes;
    receive->status = is_late ? NIXL_E_STALE : NIXL_OK;
}

/* ---- looking for a notification that fits: all under the lock; true: receive->status is set -- */

static bool take_queued(struct receive *receive)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &receive->context->notes) {
        struct nxr_note *note = nxr_list_entry(link, struct nxr_note, link);

        if (!inbox_is_wanted(receive, receive->context->id, note->rank, note->tag)) {
            continue;
        }
        if (note->nbytes > receive->room) {
            receive->status = NIXL_E_TRUNCATED;
            return true;
        }
        memcpy(receive->note->payload, note->payload, note->nbytes);
        fill_note(receive, note->rank, note->tag, note->nbytes, note->is_late);
        inbox_tell(note->rank, note->tag, note->nbytes, note->traced);
        atomic_fetch_sub_explicit(&receive->context->queued_nbytes, note_cost(note->nbytes),
                                  memory_order_relaxed);
        nxr_list_remove(&note->link);
        free(note);
        return true;
    }
    return false;
}

static bool take_from_ring(struct receive *receive, struct sync_peer *sp)
{
    struct nxr_ring_message message;
    uint64_t traced;

    while (nxr_ring_peek(&sp->rx, &message)) {
        if (inbox_is_wanted(receive, message.context, sp->peer->rank, message.tag)) {
            if (message.nbytes > receive->room) {
                receive->status = NIXL_E_TRUNCATED;
                return true;
            }
            traced = inbox_pop(sp, &message, receive->note->payload);
            inbox_tell(sp->peer->rank, message.tag, message.nbytes, traced);
            fill_note(receive, sp->peer->rank, message.tag, message.nbytes, message.is_late);
            return true;
        }
        if (!inbox_enqueue(sp, &message)) {
            /* What fills the queue of another context is not this one's failure: it waits. */
            receive->status = NIXL_E_LIMIT;
            return message.context == receive->context->id;
        }
    }
    return false;
}

static bool take_from_any_ring(struct receive *receive)
{
    struct sync_peer *start = inbox.turn != NULL ? inbox.turn : first_peer();
    struct sync_peer *sp = start;

    if (sp == NULL) {
        return false;
    }
    do {
        struct sync_peer *after = next_peer(sp);

        after = after != NULL ? after : first_peer();
        if (nxr_ring_has(&sp->rx) && take_from_ring(receive, sp)) {
            inbox.turn = after;
            return true;
        }
        sp = after;
    } while (sp != start);
    return false;
}

/* Take a death that no wait on NIXL_ANY_RANK has reported yet; at last, that all are gone. */
static bool inbox_take_death(struct receive *receive, bool are_gone)
{
    int n_told = nxr_event_next_death(receive->context->n_deaths_told);
    int rank = nxr_event_death(n_told);

    receive->context->n_deaths_told = n_told;
    if (rank < 0 && !are_gone) {
        return false;
    }
    receive->context->n_deaths_told += rank >= 0;
    receive->lost_rank = rank;
    receive->status = NIXL_E_PEER_LOST;
    return true;
}

static bool look_locked(struct receive *receive)
{
    struct sync_peer *sp = receive->from;
    bool are_gone = nxr_senders_are_gone();
    int n_deaths = nxr_event_n_deaths();
    bool is_lost;

    if (queue_has_any(receive->context) && take_queued(receive)) {
        return true;
    }
    if (sp == NULL) {
        /*
         * The deaths were counted before the check: what the dead ranks had sent is delivered
         * first.
         */
        return take_from_any_ring(receive) ||
               ((are_gone || n_deaths > receive->context->n_deaths_told) &&
                inbox_take_death(receive, are_gone));
    }
    is_lost = nxr_peer_is_lost(sp->peer);
    if (take_from_ring(receive, sp)) {
        return true;
    }
    if (is_lost) {
        receive->lost_rank = receive->rank;
        receive->status = NIXL_E_PEER_LOST;
    }
    return is_lost;
}

/* Could there be anything? Called without the lock. */
static inline bool may_have(const struct receive *receive)
{
    if (queue_has_any(receive->context)) {
        return true;
    }
    if (receive->from != NULL) {
        return nxr_ring_has(&receive->from->rx) || nxr_peer_is_lost(receive->from->peer);
    }
    return nxr_event_n_deaths() > receive->context->n_deaths_told || rings_have_any() ||
           nxr_senders_are_gone();
}

static bool look(struct receive *receive)
{
    bool is_over;

    nxr_inbox_lock();
    is_over = look_locked(receive);
    nxr_inbox_unlock();
    return is_over;
}

/*
 * There is nothing. Will there never be? What the sender had sent before it began to leave was
 * there when it was seen to.
 */
static bool receive_is_in_vain(struct receive *receive)
{
    if (++receive->n_looks % 16 == 0) {
        nxr_life_check(receive->from->peer);
    }
    if (!nxr_leaving_is_in_vain(&receive->leaving, receive->rank)) {
        return false;
    }
    receive->lost_rank = receive->rank;
    receive->lost_leaves = true;
    receive->status = NIXL_E_PEER_LOST;
    return true;
}

/* There is nothing from any rank. Will there never be? What has come meanwhile is taken. */
static bool receive_from_any_is_in_vain(struct receive *receive)
{
    if (!nxr_leaving_is_time(&receive->leaving_all.n_calls) ||
        !nxr_senders_never_come(&receive->leaving_all)) {
        return false;
    }
    if (!look(receive)) {
        receive->lost_rank = -1;
        receive->lost_leaves = true;
        receive->status = NIXL_E_PEER_LOST;
    }
    return true;
}

static bool try_receive(void *arg)
{
    struct receive *receive = arg;

    if (may_have(receive) && look(receive)) {
        return true;
    }
    return receive->from != NULL ? receive_is_in_vain(receive)
                                 : receive_from_any_is_in_vain(receive);
}

/* ---- the call -------------------------------------------------------------------------------- */

static int check_receive(const char *operation, int rank, int64_t timeout_ns,
                         const struct nixl_note *note_p)
{
    int status = nxr_is_ready() ? NIXL_OK : nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (rank != NIXL_ANY_RANK && !nxr_is_rank(rank)) {
        return nxr_fail_rank(operation, rank);
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, rank, timeout_ns);
    }
    if (note_p == NULL || note_p->struct_nbytes < offsetof(struct nixl_note, payload) ||
        note_p->struct_nbytes > sizeof(*note_p)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "%s",
                        note_p == NULL ? "note_p is NULL"
                                       : "note_p was not initialized with nixl_note_init()");
    }
    return NIXL_OK;
}

static int inbox_recv(const char *operation, struct nixl_context *context, int rank, uint64_t tag,
                      uint64_t tag_mask, int64_t timeout_ns, struct nixl_note *note_p)
{
    struct receive receive = {.operation = operation,
                              .context = context,
                              .rank = rank,
                              .tag = tag,
                              .mask = tag_mask,
                              .note = note_p};
    int status = check_receive(operation, rank, timeout_ns, note_p);

    if (status != NIXL_OK) {
        return status;
    }
    receive.room = note_p->struct_nbytes - offsetof(struct nixl_note, payload);
    if (rank != NIXL_ANY_RANK) {
        struct nxr_peer *peer = nxr_peer_get(rank);

        if (peer == NULL) {
            return nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0, "no memory");
        }
        receive.from = sync_peer_of(peer);
        if (timeout_ns != 0 && atomic_load(&peer->connection) == NXR_CONNECTION_NONE) {
            /* Waiting for a rank includes noticing its death. */
            pthread_mutex_lock(&nxr_job.lock);
            nxr_peer_want(peer);
            pthread_mutex_unlock(&nxr_job.lock);
        }
    }
    status = nxr_wait_as(try_receive, &receive, timeout_ns, nxr_receive_describe, &receive);
    status = status == NIXL_OK ? receive.status : status;
    return status >= 0 ? status : nxr_receive_fail(&receive, status, timeout_ns);
}

int nixl_notify_recv(int rank, uint64_t tag, uint64_t tag_mask, int64_t timeout_ns,
                     struct nixl_note *note_p)
{
    return NXR_TRACED(NXR_TRACE_NOTE, "nixl_notify_recv", rank, 0, tag,
                      inbox_recv("nixl_notify_recv", &nxr_context_default, rank, tag, tag_mask,
                                 timeout_ns, note_p));
}

static int call_notify_recv_x(int rank, uint64_t tag, uint64_t tag_mask, const struct nixl_op *op,
                              struct nixl_note *note_p)
{
    static const char operation[] = "nixl_notify_recv_x";
    struct nxr_form form;
    int status = nxr_form_read(operation, op, 0, NIXL_FOREVER, &form);

    return status == NIXL_OK
               ? inbox_recv(operation, form.context, rank, tag, tag_mask, form.timeout_ns, note_p)
               : status;
}

int nixl_notify_recv_x(int rank, uint64_t tag, uint64_t tag_mask, const struct nixl_op *op,
                       struct nixl_note *note_p)
{
    return NXR_TRACED(NXR_TRACE_NOTE, "nixl_notify_recv_x", rank, 0, tag,
                      call_notify_recv_x(rank, tag, tag_mask, op, note_p));
}

/* ---- for observers --------------------------------------------------------------------------- */

void nxr_inbox_walk_rings(size_t most, void (*each)(void *arg, const struct nxr_note *note),
                          void *arg)
{
    for (const struct sync_peer *sp = first_peer(); sp != NULL; sp = next_peer(sp)) {
        struct nxr_ring_rx at = {.slots = sp->rx.slots, .head = atomic_load(&sp->rx.head)};
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
        atomic_fetch_sub_explicit(&context->queued_nbytes, note_cost(note->nbytes),
                                  memory_order_relaxed);
        inbox_tell(note->rank, note->tag, note->nbytes, note->traced);
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
