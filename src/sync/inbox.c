/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving notifications. Rings are checked in turn, starting after the one that was served last,
 * so that no sender starves another. Messages that a call does not want go to the queue, in order.
 *
 * Lock: `inbox.lock` guards the queue, the heads of the rings and the turn. A check whether there
 * is anything does not take it. At NIXL_THREAD_SINGLE it is not used: only the user's thread
 * receives.
 */
#include "config.h"

#include "sync/inbox.h"
#include "core/event.h"
#include "core/life.h"
#include "net/net.h"
#include "sync/notify.h"
#include "sync/peer.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct queued_note {
    struct nxr_list link;
    int64_t since_ns; /* of nxr_coarse_now_ns() */
    int rank;
    uint32_t nbytes;
    uint64_t tag;
    unsigned char payload[];
};

static struct {
    struct nxr_spin lock;
    struct sync_peer *_Atomic peers; /* that may write here, linked by rx_next; only grows */
    struct sync_peer *turn;          /* lock: the peer to check first */
    struct nxr_list queue;           /* lock */
    _Atomic uint64_t queued_nbytes;  /* lock to write */
    _Atomic int n_deaths_told;       /* lock to write */
} inbox = {.queue = {&inbox.queue, &inbox.queue}};

struct receive {
    int rank;
    struct sync_peer *from; /* NULL for NIXL_ANY_RANK */
    uint64_t tag;
    uint64_t mask;
    struct nixl_note *note;
    size_t room; /* of note->payload */
    unsigned n_looks;
    int lost_rank;
    int status;
};

static void lock_inbox(void)
{
    if (nxr_job.is_multithreaded) {
        nxr_spin_lock(&inbox.lock);
    }
}

static void unlock_inbox(void)
{
    if (nxr_job.is_multithreaded) {
        nxr_spin_unlock(&inbox.lock);
    }
}

void nxr_inbox_init(struct nxr_peer *peer)
{
    struct sync_peer *sp = sync_peer_of(peer);

    sp->peer = peer;
    sp->rx = (struct nxr_ring_rx){.slots = nxr_control_own_ring(nxr_job.control, peer->rank),
                                  .credit = &nxr_job.control->credits[peer->rank]};
}

void nxr_inbox_add(struct nxr_peer *peer)
{
    struct sync_peer *sp = sync_peer_of(peer);
    struct sync_peer *first = atomic_load_explicit(&inbox.peers, memory_order_relaxed);

    atomic_store_explicit(&sp->rx_next, first, memory_order_relaxed);
    atomic_store_explicit(&inbox.peers, sp, memory_order_release);
}

static struct sync_peer *first_peer(void)
{
    return atomic_load_explicit(&inbox.peers, memory_order_acquire);
}

static struct sync_peer *next_peer(const struct sync_peer *sp)
{
    return atomic_load_explicit(&sp->rx_next, memory_order_relaxed);
}

static bool queue_has_any(void)
{
    return atomic_load_explicit(&inbox.queued_nbytes, memory_order_acquire) != 0;
}

bool nxr_inbox_has_any(void)
{
    if (queue_has_any()) {
        return true;
    }
    for (struct sync_peer *sp = first_peer(); sp != NULL; sp = next_peer(sp)) {
        if (nxr_ring_has(&sp->rx)) {
            return true;
        }
    }
    return false;
}

/* Slots of its ring were given back: the sender may be waiting for them. */
static void tell_credit(struct nxr_peer *peer)
{
    if (!nxr_peer_is_up(peer)) {
        return;
    }
    if (nxr_peer_is_remote(peer)) {
        nxr_net_send_credit(peer);
    } else {
        nxr_wake_peer(peer);
    }
}

/* ---- the queue: all under the lock ----------------------------------------------------------- */

static size_t note_cost(uint32_t nbytes)
{
    return sizeof(struct queued_note) + nbytes;
}

/* Move the message at the head of a ring to the queue. False: the queue is full. */
static bool inbox_enqueue(struct sync_peer *sp, const struct nxr_ring_message *message)
{
    uint64_t used = atomic_load_explicit(&inbox.queued_nbytes, memory_order_relaxed);
    struct queued_note *note;

    if (used + note_cost(message->nbytes) > nxr_env.note_queue) {
        return false;
    }
    note = malloc(note_cost(message->nbytes));
    if (note == NULL) {
        return false;
    }
    note->since_ns = nxr_coarse_now_ns();
    note->rank = sp->peer->rank;
    note->nbytes = message->nbytes;
    note->tag = message->tag;
    if (nxr_ring_pop(&sp->rx, message, note->payload)) {
        tell_credit(sp->peer);
    }
    nxr_list_append(&inbox.queue, &note->link);
    atomic_store_explicit(&inbox.queued_nbytes, used + note_cost(message->nbytes),
                          memory_order_release);
    return true;
}

void nxr_inbox_drain(void)
{
    struct nxr_ring_message message;
    bool has_room = true;

    lock_inbox();
    for (struct sync_peer *sp = first_peer(); sp != NULL && has_room; sp = next_peer(sp)) {
        while (has_room && nxr_ring_peek(&sp->rx, &message)) {
            has_room = inbox_enqueue(sp, &message);
        }
    }
    unlock_inbox();
}

static bool inbox_is_wanted(const struct receive *receive, int rank, uint64_t tag)
{
    return ((tag ^ receive->tag) & receive->mask) == 0 &&
           (receive->from == NULL || receive->rank == rank);
}

static inline void fill_note(struct receive *receive, int rank, uint64_t tag, uint32_t nbytes)
{
    receive->note->rank = rank;
    receive->note->tag = tag;
    receive->note->nbytes = nbytes;
    receive->status = NIXL_OK;
}

/* ---- looking for a notification that fits: all under the lock; true: receive->status is set -- */

static bool take_queued(struct receive *receive)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &inbox.queue) {
        struct queued_note *note = nxr_list_entry(link, struct queued_note, link);

        if (!inbox_is_wanted(receive, note->rank, note->tag)) {
            continue;
        }
        if (note->nbytes > receive->room) {
            receive->status = NIXL_E_TRUNCATED;
            return true;
        }
        memcpy(receive->note->payload, note->payload, note->nbytes);
        fill_note(receive, note->rank, note->tag, note->nbytes);
        atomic_fetch_sub_explicit(&inbox.queued_nbytes, note_cost(note->nbytes),
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

    while (nxr_ring_peek(&sp->rx, &message)) {
        if (inbox_is_wanted(receive, sp->peer->rank, message.tag)) {
            if (message.nbytes > receive->room) {
                receive->status = NIXL_E_TRUNCATED;
                return true;
            }
            if (nxr_ring_pop(&sp->rx, &message, receive->note->payload)) {
                tell_credit(sp->peer);
            }
            fill_note(receive, sp->peer->rank, message.tag, message.nbytes);
            return true;
        }
        if (!inbox_enqueue(sp, &message)) {
            receive->status = NIXL_E_LIMIT;
            return true;
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

/* Take a death that no wait on NIXL_ANY_RANK has reported yet. */
static bool inbox_take_death(struct receive *receive)
{
    int rank = nxr_event_death(inbox.n_deaths_told);

    if (rank < 0) {
        return false;
    }
    inbox.n_deaths_told++;
    receive->lost_rank = rank;
    receive->status = NIXL_E_PEER_LOST;
    return true;
}

static bool look_locked(struct receive *receive)
{
    struct sync_peer *sp = receive->from;
    int n_deaths = nxr_event_n_deaths();
    bool is_lost;

    if (queue_has_any() && take_queued(receive)) {
        return true;
    }
    if (sp == NULL) {
        /*
         * The deaths were counted before the check: what the dead ranks had sent is delivered
         * first.
         */
        return take_from_any_ring(receive) ||
               (n_deaths > inbox.n_deaths_told && inbox_take_death(receive));
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
    if (queue_has_any()) {
        return true;
    }
    if (receive->from != NULL) {
        return nxr_ring_has(&receive->from->rx) || nxr_peer_is_lost(receive->from->peer);
    }
    if (nxr_event_n_deaths() > inbox.n_deaths_told) {
        return true;
    }
    for (struct sync_peer *sp = first_peer(); sp != NULL; sp = next_peer(sp)) {
        if (nxr_ring_has(&sp->rx)) {
            return true;
        }
    }
    return false;
}

static bool try_receive(void *arg)
{
    struct receive *receive = arg;
    bool is_over;

    if (!may_have(receive)) {
        if (receive->from != NULL && ++receive->n_looks % 16 == 0) {
            nxr_life_check(receive->from->peer);
        }
        return false;
    }
    lock_inbox();
    is_over = look_locked(receive);
    unlock_inbox();
    return is_over;
}

/* ---- the call -------------------------------------------------------------------------------- */

static int check_receive(int rank, int64_t timeout_ns, const struct nixl_note *note_p)
{
    int status = nxr_is_ready() ? NIXL_OK : nxr_check_ready("nixl_notify_recv");

    if (status != NIXL_OK) {
        return status;
    }
    if (rank != NIXL_ANY_RANK && !nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_notify_recv", rank);
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout("nixl_notify_recv", rank, timeout_ns);
    }
    if (note_p == NULL || note_p->struct_nbytes < offsetof(struct nixl_note, payload) ||
        note_p->struct_nbytes > sizeof(*note_p)) {
        return nxr_fail(NIXL_E_INVALID_ARG, "nixl_notify_recv", rank, "", 0, "%s",
                        note_p == NULL ? "note_p is NULL"
                                       : "note_p was not initialized with nixl_note_init()");
    }
    return NIXL_OK;
}

/* Describe what is queued because no call has wanted it: how many, and the oldest. */
static void tell_unmatched(char *text, size_t nbytes)
{
    const struct queued_note *oldest;
    struct nxr_list *link, *after;
    size_t n = 0;

    text[0] = '\0';
    lock_inbox();
    nxr_list_for_each (link, after, &inbox.queue) {
        n++;
    }
    if (n > 0) {
        oldest = nxr_list_entry(inbox.queue.next, struct queued_note, link);
        snprintf(text, nbytes, "; %zu unmatched %s queued: %s%s, tag %llu, %u bytes, for %s", n,
                 n == 1 ? "is" : "are", n == 1 ? "" : "the oldest of ", nxr_rank_name(oldest->rank),
                 (unsigned long long)oldest->tag, oldest->nbytes,
                 nxr_duration(nxr_coarse_now_ns() - oldest->since_ns).text);
    }
    unlock_inbox();
}

/* "no notification from rank 0 with tag 42 within 2 s; 1 unmatched is queued: ..." */
static int fail_timeout(const struct receive *receive, int64_t timeout_ns)
{
    const char *from = receive->from != NULL ? nxr_rank_name(receive->rank) : "any rank";
    char tag[64] = "any tag", unmatched[200];

    if (receive->mask == UINT64_MAX) {
        snprintf(tag, sizeof(tag), "tag %llu", (unsigned long long)receive->tag);
    } else if (receive->mask != 0) {
        snprintf(tag, sizeof(tag), "tag %#llx (mask %#llx)", (unsigned long long)receive->tag,
                 (unsigned long long)receive->mask);
    }
    tell_unmatched(unmatched, sizeof(unmatched));
    return nxr_fail(NIXL_E_TIMEOUT, "nixl_notify_recv", receive->rank, "", 0,
                    "no notification from %s with %s within %s%s", from, tag,
                    nxr_duration(timeout_ns).text, unmatched);
}

static int fail_receive(const struct receive *receive, int status, int64_t timeout_ns)
{
    switch (status) {
    case NIXL_E_PEER_LOST:
        return nxr_peer_fail_lost("nixl_notify_recv", receive->lost_rank, "");
    case NIXL_E_TRUNCATED:
        return nxr_fail(status, "nixl_notify_recv", receive->rank, "", 0,
                        "the payload is larger than the %zu bytes of the note", receive->room);
    case NIXL_E_LIMIT:
        return nxr_fail(status, "nixl_notify_recv", receive->rank, "", 0,
                        "unmatched notifications fill NIXLRUN_NOTE_QUEUE");
    default:
        return fail_timeout(receive, timeout_ns);
    }
}

int nixl_notify_recv(int rank, uint64_t tag, uint64_t tag_mask, int64_t timeout_ns,
                     struct nixl_note *note_p)
{
    struct receive receive = {.rank = rank, .tag = tag, .mask = tag_mask, .note = note_p};
    int status = check_receive(rank, timeout_ns, note_p);

    if (status != NIXL_OK) {
        return status;
    }
    receive.room = note_p->struct_nbytes - offsetof(struct nixl_note, payload);
    if (rank != NIXL_ANY_RANK) {
        struct nxr_peer *peer = nxr_peer_get(rank);

        if (peer == NULL) {
            return nxr_fail(NIXL_E_NO_MEMORY, "nixl_notify_recv", rank, "", 0, "no memory");
        }
        receive.from = sync_peer_of(peer);
        if (timeout_ns != 0 && atomic_load(&peer->connection) == NXR_CONNECTION_NONE) {
            /* Waiting for a rank includes noticing its death. */
            pthread_mutex_lock(&nxr_job.lock);
            nxr_peer_want(peer);
            pthread_mutex_unlock(&nxr_job.lock);
        }
    }
    status = nxr_wait(try_receive, &receive, timeout_ns);
    status = status == NIXL_OK ? receive.status : status;
    return status >= 0 ? status : fail_receive(&receive, status, timeout_ns);
}

void nxr_inbox_reset(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&inbox.queue)) != NULL) {
        free(nxr_list_entry(link, struct queued_note, link));
    }
    atomic_store(&inbox.peers, NULL);
    atomic_store(&inbox.queued_nbytes, 0);
    inbox.turn = NULL;
    inbox.n_deaths_told = 0;
}
