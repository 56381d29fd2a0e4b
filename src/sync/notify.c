/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending notifications: directly into the peer's ring; held back while earlier puts of this
 * process to the peer are under way; waiting for credit if the ring is full. Lock: send_lock of
 * the peer (peer.h). At NIXL_THREAD_SINGLE it is not taken on the direct path: there, only the
 * user's one thread sends while n_held is 0, and it takes the lock while it is not. That counts
 * what follows a get from before the get begins, since the thread that ends the get sends it.
 */
#include "config.h"

#include "sync/notify.h"
#include "core/subsystem.h"
#include "core/life.h"
#include "core/service.h"
#include "core/trace.h"
#include "memory/device.h"
#include "sync/inbox.h"
#include "sync/peer.h"
#include "sync/receive.h"
#include "sync/senders.h"
#include "transfer/transfer.h"
#include "util/clock.h"
#include "util/probe.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

/* What becomes of a notification that is held. send_lock. */
enum note_fate {
    NOTE_DUE,     /* sent as soon as no earlier put is under way */
    NOTE_FOLLOWS, /* what it follows is under way */
    NOTE_DROPPED, /* what it follows has failed */
};

/* A notification that waits for earlier puts to become visible, or for what it follows. */
struct held_note {
    struct nxr_follower follower;
    struct nxr_list link; /* in `held` of the peer; in no list if it does not keep its place */
    struct nxr_peer *peer;
    enum note_fate fate;
    uint32_t n_failed_puts;     /* of the peer, when it was held: it is late if there are more */
    struct nxr_message message; /* its bytes are `payload` */
    unsigned char payload[];
};

static _Atomic uint32_t n_held_in_all;

#define RETRY_NS (1 * NXR_MS)

/* nixl_notify() waits while so many are held for a peer. Requests may hold any number more. */
#define MAX_HELD 1024

struct send {
    const char *operation;
    struct nxr_peer *peer;
    const struct nxr_message *message;
    int status; /* NIXL_E_AGAIN while there is no room */
    struct nxr_leaving leaving;
};

static inline bool notify_is_valid(int rank, const void *msg, size_t nbytes, int64_t timeout_ns)
{
    return nxr_is_ready() && nxr_is_rank(rank) && nbytes <= NIXL_NOTE_MAX &&
           (nbytes == 0 || (msg != NULL && !nxr_range_is_device(msg))) && timeout_ns >= 0;
}

int nxr_notify_check(const char *operation, int rank, const void *msg, size_t nbytes,
                     int64_t timeout_ns)
{
    return __builtin_expect(notify_is_valid(rank, msg, nbytes, timeout_ns), 1)
               ? NIXL_OK
               : nxr_notify_fail_invalid(operation, rank, msg, nbytes, timeout_ns);
}

/* ---- sending at once ------------------------------------------------------------------------- */

/* Caller holds send_lock. */
static inline bool must_hold(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->n_pending, memory_order_acquire) != 0 ||
           atomic_load_explicit(&sync_peer_of(peer)->n_queued, memory_order_acquire) != 0;
}

/* May another thread send to the peer now? */
static inline bool must_lock(const struct nxr_peer *peer)
{
    return nxr_job.is_multithreaded ||
           atomic_load_explicit(&peer->n_held, memory_order_acquire) != 0;
}

/* The tick at which one is about to be sent; 0: it is not traced. */
static inline uint64_t notify_began(void)
{
    return nxr_trace_has(NXR_TRACE_NOTE) ? nxr_ticks() : 0;
}

/* One was sent. Caller holds send_lock, or is the only thread. */
static inline __attribute__((always_inline)) void
notify_count(struct nxr_peer *peer, const struct nxr_transport *transport,
             const struct nxr_message *message, uint64_t began)
{
    struct sync_peer *sp = sync_peer_of(peer);

    if (__builtin_expect(sp->sent == NULL, 0)) {
        sp->sent = nxr_stats_entry_of(peer, NXR_STATS_NOTIFY, transport->name, NXR_METHOD_NONE);
    }
    nxr_stats_count_alone(sp->sent, message->nbytes);
    NXR_PROBE3(note_sent, peer->rank, message->tag, message->nbytes);
    if (__builtin_expect(began != 0, 0)) {
        nxr_sync_trace(peer, &(const struct nxr_traced){.form = NXR_TRACE_SENT,
                                                        .begin = began,
                                                        .flow = ++sp->n_traced_sent,
                                                        .tag = message->tag,
                                                        .nbytes = message->nbytes});
    }
}

/* Put it into the ring. Caller holds send_lock, which a program with one thread does not need. */
static inline __attribute__((always_inline)) int notify_write(struct nxr_peer *peer,
                                                              const struct nxr_message *message)
{
    const struct nxr_transport *transport = peer->transport;
    const uint64_t began = notify_began();
    int status = NIXL_E_AGAIN;

    NXR_ASSERT(nxr_spin_is_mine(&sync_peer_of(peer)->send_lock) || !must_lock(peer));
    if (transport->notify != NULL) {
        status = transport->notify(peer, message);
    } else if (nxr_ring_push(&sync_peer_of(peer)->tx, message)) {
        status = NIXL_OK;
    }
    if (__builtin_expect(status == NIXL_OK, 1)) {
        notify_count(peer, transport, message, began);
    }
    return status;
}

/* The same, marked if an earlier put has failed. Caller holds send_lock. */
static int notify_send_now(struct nxr_peer *peer, const struct nxr_message *message)
{
    struct nxr_message marked = *message;

    marked.is_late |= nxr_peer_has_failed_put(peer);
    return notify_write(peer, &marked);
}

/*
 * When it is sent, the failure of an earlier put may have been reported here, so that no doubt is
 * left: it must say so nevertheless. n_failed_puts was read before n_pending.
 */
static struct held_note *notify_copy(struct nxr_peer *peer, const struct nxr_message *message,
                                     uint32_t n_failed_puts, enum note_fate fate)
{
    struct held_note *note = malloc(sizeof(*note) + message->nbytes);

    if (note == NULL) {
        return NULL;
    }
    nxr_list_init(&note->link);
    note->peer = peer;
    note->fate = fate;
    note->n_failed_puts = n_failed_puts;
    note->message = *message;
    note->message.is_late |= nxr_peer_has_failed_put(peer);
    note->message.bytes = note->payload;
    if (message->nbytes > 0) {
        memcpy(note->payload, message->bytes, message->nbytes);
    }
    return note;
}

/* n_held counts it. Caller holds send_lock. */
static void notify_append(struct held_note *note)
{
    struct sync_peer *sp = sync_peer_of(note->peer);

    nxr_list_append(&sp->held, &note->link);
    atomic_fetch_add(&sp->n_queued, 1);
    atomic_fetch_add(&n_held_in_all, 1);
}

/* It was sent, or nobody is to get it. Caller holds send_lock. */
static void notify_forget(struct held_note *note)
{
    atomic_fetch_sub_explicit(&note->peer->n_held, 1, memory_order_release);
    free(note);
}

/* Keep a copy until the earlier puts are visible. Caller holds send_lock. */
static int notify_hold(struct nxr_peer *peer, const struct nxr_message *message,
                       uint32_t n_failed_puts)
{
    struct held_note *note = notify_copy(peer, message, n_failed_puts, NOTE_DUE);

    if (note == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    atomic_fetch_add(&peer->n_held, 1);
    notify_append(note);
    return NIXL_OK;
}

static int send_or_hold(struct send *send)
{
    struct nxr_peer *peer = send->peer;
    struct sync_peer *sp = sync_peer_of(peer);
    uint32_t n_failed_puts;
    int status;

    nxr_spin_lock(&sp->send_lock);
    n_failed_puts = atomic_load(&peer->n_failed_puts);
    if (!must_hold(peer)) {
        status = notify_send_now(peer, send->message);
    } else {
        status = atomic_load(&sp->n_queued) < MAX_HELD
                     ? notify_hold(peer, send->message, n_failed_puts)
                     : NIXL_E_AGAIN;
    }
    nxr_spin_unlock(&sp->send_lock);
    if (status == NIXL_OK) {
        nxr_wake_peer(peer);
        nxr_device_arm(); /* held ones are sent when the copies before them have ended */
        /* The last put may have ended between the check and the hold. */
        nxr_notify_send_held(peer);
    }
    return status;
}

/* Send the first held one, unless nobody is to get it. False: not yet. Caller holds send_lock. */
static bool held_can_go(struct held_note *note)
{
    struct nxr_peer *peer = note->peer;

    if (note->fate == NOTE_DROPPED || nxr_peer_is_lost(peer)) {
        return true;
    }
    note->message.is_late |= note->n_failed_puts != atomic_load(&peer->n_failed_puts);
    return nxr_peer_is_up(peer) && peer->transport != NULL &&
           notify_send_now(peer, &note->message) != NIXL_E_AGAIN;
}

void nxr_notify_send_held(struct nxr_peer *peer)
{
    struct sync_peer *sp = sync_peer_of(peer);
    bool has_sent = false;

    if (atomic_load_explicit(&sp->n_queued, memory_order_acquire) == 0) {
        return;
    }
    nxr_spin_lock(&sp->send_lock);
    while (!nxr_list_is_empty(&sp->held) && atomic_load(&peer->n_pending) == 0) {
        struct held_note *note = nxr_list_entry(sp->held.next, struct held_note, link);

        if (note->fate == NOTE_FOLLOWS || !held_can_go(note)) {
            break; /* the service thread tries again */
        }
        nxr_list_remove(&note->link);
        atomic_fetch_sub(&sp->n_queued, 1);
        atomic_fetch_sub(&n_held_in_all, 1);
        notify_forget(note);
        has_sent = true;
    }
    nxr_spin_unlock(&sp->send_lock);
    if (has_sent && nxr_peer_is_up(peer)) {
        nxr_wake_peer(peer);
    }
}

void nxr_notify_retry(void)
{
    if (atomic_load_explicit(&n_held_in_all, memory_order_relaxed) == 0) {
        return;
    }
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        nxr_notify_send_held(peer);
    }
}

bool nxr_notify_has_held(void)
{
    return atomic_load(&n_held_in_all) != 0;
}

int64_t nxr_notify_tick(int64_t now)
{
    if (nxr_notify_has_held()) {
        return now + RETRY_NS;
    }
    nxr_leaving_look();
    return INT64_MAX;
}

/* ---- waiting for room ------------------------------------------------------------------------ */

/* Try once more. Meanwhile receive what peers send here: they may be waiting for room, too. */
static bool try_send(void *arg)
{
    struct send *send = arg;

    if (nxr_life_check(send->peer) ||
        nxr_leaving_is_in_vain(&send->leaving, send->peer->rank)) { /* it takes none any more */
        send->status = NIXL_E_PEER_LOST;
        return true;
    }
    send->status = send_or_hold(send);
    if (send->status == NIXL_E_AGAIN) {
        nxr_inbox_drain();
        return false;
    }
    return true;
}

static void describe_send(const void *about, struct nxr_wait_record *record)
{
    const struct send *send = about;

    nxr_describe(record, NXR_WAIT_NOTE_ROOM, send->operation, send->peer->rank);
    record->values[0] = send->message->tag;
}

/* Connect the peer, and wait for room. */
static int send_slow(struct nxr_peer *peer, struct send *send, int64_t timeout_ns)
{
    const char *operation = send->operation;
    int64_t deadline = nxr_deadline(timeout_ns);
    int status = nxr_peer_connect(peer, timeout_ns);

    if (status == NIXL_INPROGRESS) {
        return nxr_notify_fail_unsent(operation, NIXL_E_AGAIN, peer, timeout_ns);
    }
    if (status != NIXL_OK) {
        return nxr_notify_fail_unsent(operation, status, peer, timeout_ns);
    }
    if (nxr_peer_is_lost(peer)) {
        return nxr_notify_fail_unsent(operation, NIXL_E_PEER_LOST, peer, timeout_ns);
    }
    if (!nxr_peer_is_up(peer) || peer->transport == NULL) {
        return nxr_notify_fail_unsent(operation, NIXL_E_UNSUPPORTED, peer, timeout_ns);
    }
    nxr_stats_add_shared(
        &nxr_stats_entry_of(peer, NXR_STATS_NOTIFY, nxr_peer_transport_name(peer), NXR_METHOD_NONE)
             ->row->n[NXR_STATS_RETRIES],
        1);
    status = nxr_wait_as(try_send, send, nxr_left(timeout_ns, deadline), describe_send, send);
    if (status == NIXL_OK) {
        status = send->status;
    } else if (status == NIXL_INPROGRESS) {
        status = NIXL_E_AGAIN;
    }
    return status == NIXL_OK ? status : nxr_notify_fail_unsent(operation, status, peer, timeout_ns);
}

/* What could not be sent at once. Apart, so that what can does not prepare for it. */
static __attribute__((noinline)) int notify_send_later(const char *operation, int rank,
                                                       const struct nxr_message *message,
                                                       int64_t timeout_ns)
{
    struct nxr_peer *peer = nxr_peer_get(rank);
    struct send send = {.operation = operation, .peer = peer, .message = message};
    int status;

    if (peer == NULL) {
        return nxr_fail_no_peer(operation, rank);
    }
    status = nxr_transfer_report_refusal(operation, peer);
    return status == NIXL_OK ? send_slow(peer, &send, timeout_ns) : status;
}

/* Is the peer connected, and nothing to be waited for or reported? */
static inline bool notify_is_clear(const struct nxr_peer *peer)
{
    return peer != NULL && nxr_peer_is_up(peer) && !nxr_peer_is_lost(peer) &&
           peer->transport != NULL &&
           atomic_load_explicit(&peer->n_pending, memory_order_acquire) == 0 &&
           !nxr_peer_is_doubtful(peer);
}

int nxr_notify_send(const char *operation, int rank, const struct nxr_message *message,
                    int64_t timeout_ns)
{
    struct nxr_peer *peer = nxr_peer_find(rank);
    int status = NIXL_E_AGAIN;

    if (__builtin_expect(notify_is_clear(peer), 1)) {
        if (must_lock(peer)) {
            struct sync_peer *sp = sync_peer_of(peer);

            nxr_spin_lock(&sp->send_lock);
            status = must_hold(peer) ? NIXL_E_AGAIN : notify_write(peer, message);
            nxr_spin_unlock(&sp->send_lock);
        } else {
            status = notify_write(peer, message);
        }
        if (__builtin_expect(status == NIXL_OK, 1)) {
            nxr_wake_peer(peer);
            return NIXL_OK;
        }
    }
    return notify_send_later(operation, rank, message, timeout_ns);
}

int nxr_notify_hand_over(struct nxr_peer *peer, const struct nxr_message *message)
{
    struct sync_peer *sp = sync_peer_of(peer);
    int status = NIXL_E_AGAIN;
    uint32_t n_failed_puts;
    bool is_held = false;

    if (nxr_peer_is_lost(peer)) {
        return NIXL_E_PEER_LOST;
    }
    nxr_spin_lock(&sp->send_lock);
    n_failed_puts = atomic_load(&peer->n_failed_puts);
    if (!must_hold(peer) && nxr_peer_is_up(peer) && peer->transport != NULL) {
        status = notify_send_now(peer, message);
    }
    if (status == NIXL_E_AGAIN) {
        status = notify_hold(peer, message, n_failed_puts);
        is_held = status == NIXL_OK;
    }
    nxr_spin_unlock(&sp->send_lock);
    if (is_held) {
        nxr_notify_send_held(peer);
        nxr_service_kick(); /* it retries those that found no room */
    } else if (status == NIXL_OK) {
        nxr_wake_peer(peer);
    }
    return status;
}

/* What the notification follows has succeeded or failed. */
static void notify_go(struct nxr_follower *follower, int status)
{
    struct held_note *note = (struct held_note *)follower; /* its first member */
    struct nxr_peer *peer = note->peer;
    struct sync_peer *sp = sync_peer_of(peer);
    bool has_place;

    nxr_spin_lock(&sp->send_lock);
    has_place = !nxr_list_is_empty(&note->link);
    note->fate = status == NIXL_OK ? NOTE_DUE : NOTE_DROPPED;
    if (!has_place && status == NIXL_OK) {
        notify_append(note);
    } else if (!has_place) {
        notify_forget(note);
    }
    nxr_spin_unlock(&sp->send_lock);
    nxr_notify_send_held(peer);
    nxr_service_kick(); /* it retries those that found no room */
}

struct nxr_follower *nxr_notify_reserve(struct nxr_peer *peer, const struct nxr_message *message,
                                        bool keeps_place)
{
    struct held_note *note =
        notify_copy(peer, message, atomic_load(&peer->n_failed_puts), NOTE_FOLLOWS);

    if (note == NULL) {
        return NULL;
    }
    note->follower.go = notify_go;
    atomic_fetch_add(&peer->n_held, 1);
    if (keeps_place) {
        nxr_spin_lock(&sync_peer_of(peer)->send_lock);
        notify_append(note);
        nxr_spin_unlock(&sync_peer_of(peer)->send_lock);
    }
    return &note->follower;
}

int nxr_notify_put(struct nxr_segment *segment, const struct nxr_put_notify *what)
{
    struct nxr_peer *peer = segment->peer;
    struct sync_peer *sp = sync_peer_of(peer);
    const uint64_t began = notify_began();
    int status = NIXL_E_AGAIN;

    nxr_spin_lock(&sp->send_lock);
    if (!must_hold(peer) && !nxr_peer_is_doubtful(peer)) {
        status = segment->transport->put_notify(segment, what);
    }
    if (status == NIXL_OK) {
        notify_count(peer, segment->transport, &what->message, began);
    }
    nxr_spin_unlock(&sp->send_lock);
    return status;
}

static int call_notify(int rank, uint64_t tag, const void *msg, size_t nbytes, int64_t timeout_ns)
{
    const struct nxr_message message = {.tag = tag, .bytes = msg, .nbytes = nbytes};

    return __builtin_expect(notify_is_valid(rank, msg, nbytes, timeout_ns), 1)
               ? nxr_notify_send("nixl_notify", rank, &message, timeout_ns)
               : nxr_notify_fail_invalid("nixl_notify", rank, msg, nbytes, timeout_ns);
}

int nixl_notify(int rank, uint64_t tag, const void *msg, size_t nbytes, int64_t timeout_ns)
{
    return NXR_TRACED(NXR_TRACE_NOTE, "nixl_notify", rank, nbytes, tag,
                      call_notify(rank, tag, msg, nbytes, timeout_ns));
}

/* ---- peers ----------------------------------------------------------------------------------- */

struct nxr_peer_slot nxr_sync_slot = {.nbytes = sizeof(struct sync_peer)};

static bool notify_peer_init(struct nxr_peer *peer)
{
    nxr_list_init(&sync_peer_of(peer)->held);
    nxr_inbox_init(peer);
    return true;
}

/* Free what is held for a peer that is gone, unless a request still refers to it. */
static void notify_peer_fini(struct nxr_peer *peer)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&sync_peer_of(peer)->held)) != NULL) {
        struct held_note *note = nxr_list_entry(link, struct held_note, link);

        atomic_fetch_sub(&n_held_in_all, 1);
        if (note->fate != NOTE_FOLLOWS) {
            free(note);
        }
    }
}

static void notify_peer_connected(struct nxr_peer *peer)
{
    if (peer->out.ring != NULL) {
        sync_peer_of(peer)->tx = (struct nxr_ring_tx){
            .slots = peer->out.ring,
            .n_slots = NXR_RING_SLOTS,
            .credit = peer->out.credit,
            .limit = NXR_RING_SLOTS,
        };
    }
    nxr_inbox_add(peer);
    nxr_senders_look();
    if (atomic_load(&sync_peer_of(peer)->n_queued) != 0) {
        nxr_service_kick(); /* it sends what was handed over before */
    }
}

static void notify_death_known(const struct nxr_peer *peer)
{
    (void)peer;
    nxr_senders_look();
}

static bool notify_peer_is_used(struct nxr_peer *peer)
{
    return atomic_load(&peer->n_held) != 0;
}

const struct nxr_subsystem nxr_notify_subsystem = {
    .name = "notify",
    .peer_slot = &nxr_sync_slot,
    .peer_init = notify_peer_init,
    .peer_fini = notify_peer_fini,
    .tick = nxr_notify_tick,
    .serve = nxr_notify_retry,
    .peer_connected = notify_peer_connected,
    .puts_ended = nxr_notify_send_held,
    .has_news = nxr_inbox_has_any,
    .observe = nxr_receive_observe,
    .context_opened = nxr_inbox_open,
    .context_closed = nxr_inbox_drop,
    .peer_ended = nxr_notify_send_held,
    .death_known = notify_death_known,
    .peer_replaced = nxr_inbox_forget,
    .peer_detached = nxr_inbox_shut,
    .peer_is_used = notify_peer_is_used,
    .stop = nxr_inbox_reset,
};
