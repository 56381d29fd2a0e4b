/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving notifications: the calls. They look into the queue of their context first, then into
 * the rings; what they meet there and do not want goes to the queue. No state; the lock is
 * nxr_inbox_spin (sync/receive.h).
 */
#include "config.h"

#include "sync/inbox.h"
#include "core/event.h"
#include "core/form.h"
#include "core/life.h"
#include "core/trace.h"
#include "core/wait.h"
#include "sync/notify.h"
#include "sync/peer.h"
#include "sync/receive.h"
#include "sync/senders.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>

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
        nxr_inbox_tell(note->rank, note->tag, note->nbytes, note->traced);
        atomic_fetch_sub_explicit(&receive->context->queued_nbytes, nxr_note_cost(note->nbytes),
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
            traced = nxr_inbox_pop(sp, &message, receive->note->payload);
            nxr_inbox_tell(sp->peer->rank, message.tag, message.nbytes, traced);
            fill_note(receive, sp->peer->rank, message.tag, message.nbytes, message.is_late);
            return true;
        }
        if (!nxr_inbox_enqueue(sp, &message)) {
            /* What fills the queue of another context is not this one's failure: it waits. */
            receive->status = NIXL_E_LIMIT;
            return message.context == receive->context->id;
        }
    }
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

/* Has that peer ended, or has the program detached it? */
static inline bool receive_has_ended(const struct sync_peer *sp)
{
    return nxr_peer_is_lost(sp->peer) ||
           atomic_load_explicit(&sp->rx_is_shut, memory_order_acquire);
}

static bool look_locked(struct receive *receive)
{
    struct sync_peer *sp = receive->from;
    bool are_gone = nxr_senders_are_gone();
    int n_deaths = nxr_event_n_deaths();
    bool is_lost;

    if (nxr_inbox_has_queued(receive->context) && take_queued(receive)) {
        return true;
    }
    if (sp == NULL) {
        /*
         * The deaths were counted before the check: what the dead ranks had sent is delivered
         * first.
         */
        return nxr_inbox_each_in_turn(take_from_ring, receive) ||
               ((are_gone || n_deaths > receive->context->n_deaths_told) &&
                inbox_take_death(receive, are_gone));
    }
    is_lost = receive_has_ended(sp);
    if (!atomic_load_explicit(&sp->rx_is_shut, memory_order_relaxed) &&
        take_from_ring(receive, sp)) {
        return true;
    }
    if (is_lost) {
        receive->lost_rank = receive->rank;
        receive->status = NIXL_E_PEER_LOST;
    }
    return is_lost;
}

/* Could there be anything? Called without the lock; the rings first: see nxr_inbox_enqueue(). */
static inline bool may_have(const struct receive *receive)
{
    if (receive->from != NULL) {
        return nxr_ring_has(&receive->from->rx) || nxr_inbox_has_queued(receive->context) ||
               receive_has_ended(receive->from);
    }
    return nxr_inbox_has_arrived() || nxr_inbox_has_queued(receive->context) ||
           nxr_event_n_deaths() > receive->context->n_deaths_told || nxr_senders_are_gone();
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

/*
 * Take the next notification of a rank if it is the wanted one, as most are. NIXL_INPROGRESS:
 * nothing was taken, and nothing was checked that the long way would not check again.
 */
static int take_next(struct nixl_context *context, int rank, uint64_t tag, uint64_t tag_mask,
                     struct nixl_note *note_p)
{
    const struct nxr_peer *peer = nxr_peer_find(rank);
    struct nxr_ring_message message;
    struct sync_peer *sp;
    uint64_t traced;
    int status = NIXL_INPROGRESS;

    if (peer == NULL || nxr_inbox_has_queued(context)) {
        return NIXL_INPROGRESS;
    }
    sp = sync_peer_of(peer);
    if (!nxr_ring_has(&sp->rx)) {
        return NIXL_INPROGRESS;
    }
    nxr_inbox_lock();
    if (!nxr_inbox_has_queued(context) && nxr_ring_peek(&sp->rx, &message) &&
        ((message.tag ^ tag) & tag_mask) == 0 && message.context == context->id &&
        message.nbytes <= note_p->struct_nbytes - offsetof(struct nixl_note, payload) &&
        !message.is_late) {
        traced = nxr_inbox_pop(sp, &message, note_p->payload);
        nxr_inbox_tell(rank, message.tag, message.nbytes, traced);
        note_p->rank = rank;
        note_p->tag = message.tag;
        note_p->nbytes = message.nbytes;
        status = NIXL_OK;
    }
    nxr_inbox_unlock();
    return status;
}

/* Wait for it. Apart, so that what is found at once does not prepare a wait. */
static __attribute__((noinline)) int recv_wait(const char *operation, struct nixl_context *context,
                                               int rank, uint64_t tag, uint64_t tag_mask,
                                               int64_t timeout_ns, struct nixl_note *note_p)
{
    struct receive receive = {.operation = operation,
                              .context = context,
                              .rank = rank,
                              .tag = tag,
                              .mask = tag_mask,
                              .note = note_p,
                              .room = note_p->struct_nbytes - offsetof(struct nixl_note, payload)};
    int status;

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

static int recv_note(const char *operation, struct nixl_context *context, int rank, uint64_t tag,
                     uint64_t tag_mask, int64_t timeout_ns, struct nixl_note *note_p)
{
    int status = check_receive(operation, rank, timeout_ns, note_p);

    if (status != NIXL_OK) {
        return status;
    }
    return nxr_is_own_rank(rank) && take_next(context, rank, tag, tag_mask, note_p) == NIXL_OK
               ? NIXL_OK
               : recv_wait(operation, context, rank, tag, tag_mask, timeout_ns, note_p);
}

int nixl_notify_recv(int rank, uint64_t tag, uint64_t tag_mask, int64_t timeout_ns,
                     struct nixl_note *note_p)
{
    return NXR_TRACED(NXR_TRACE_NOTE, "nixl_notify_recv", rank, 0, tag,
                      recv_note("nixl_notify_recv", &nxr_context_default, rank, tag, tag_mask,
                                timeout_ns, note_p));
}

static int call_notify_recv_x(int rank, uint64_t tag, uint64_t tag_mask, const struct nixl_op *op,
                              struct nixl_note *note_p)
{
    static const char operation[] = "nixl_notify_recv_x";
    struct nxr_form form;
    int status = nxr_form_read(operation, op, 0, NIXL_FOREVER, &form);

    return status == NIXL_OK
               ? recv_note(operation, form.context, rank, tag, tag_mask, form.timeout_ns, note_p)
               : status;
}

int nixl_notify_recv_x(int rank, uint64_t tag, uint64_t tag_mask, const struct nixl_op *op,
                       struct nixl_note *note_p)
{
    return NXR_TRACED(NXR_TRACE_NOTE, "nixl_notify_recv_x", rank, 0, tag,
                      call_notify_recv_x(rank, tag, tag_mask, op, note_p));
}
