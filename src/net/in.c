/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incoming messages: identifying the sender, and the table of the functions that take each type of
 * record. Data, notifications, words and flushes are taken at once; records that concern the names
 * of regions or the life of a peer are deferred (later.c). Higher layers register functions for
 * their own records.
 *
 * Bulk that has been announced but has not landed yet holds back the notifications, words and
 * flushes that were sent after it; puts and gets may overtake it. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/clients.h"
#include "net/connect.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "util/log.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- single records -------------------------------------------------------------------------- */

static void take_note(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_note *note = nxr_net_body(record);
    struct nxr_message message = {
        .context = note->context, .tag = note->tag, .is_late = np->is_late || note->is_late != 0};

    message.bytes = nxr_net_payload(record, sizeof(*note), &message.nbytes);
    if (!nxr_ring_push(&np->ring, &message)) {
        nxr_net_drop(np->peer->rank, "a notification beyond the credit that was given");
        return;
    }
    nxr_net.must_wake = true;
}

static void take_credit(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_stamp *credit = nxr_net_body(record);

    if (credit->value < np->tx_limit || credit->value > np->tx_tail + NXR_RING_WIDE_SLOTS) {
        nxr_net_drop(np->peer->rank, "an impossible credit");
        return;
    }
    np->tx_limit = credit->value;
    np->wants_credit = false;
    nxr_net.must_wake = true;
}

static void take_flush(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_stamp *flush = nxr_net_body(record);
    struct nxr_net_stamp *flushed;

    nxr_net_tell_refusal(np);
    flushed = nxr_net_begin_answer(np, NXR_NET_FLUSHED, sizeof(*flushed));

    if (flushed != NULL) {
        *flushed = *flush;
        nxr_net_push(np, false);
    }
}

static void take_flushed(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_stamp *flushed = nxr_net_body(record);

    if (flushed->value > np->flush_asked || flushed->value < np->flush_heard) {
        nxr_net_drop(np->peer->rank, "an unsolicited answer to a flush");
        return;
    }
    np->flush_heard = flushed->value;
    np->has_late_unheard &= np->flush_heard != np->flush_asked || np->is_dirty;
    nxr_net.must_wake = true;
}

static void take_refused(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_refused *refused = nxr_net_body(record);

    if (refused->status != NIXL_E_STALE) {
        nxr_warn(NET, "%s refused a put or signal to its region %u: %s",
                 nxr_identity_name(&np->identity), refused->id, nixl_strerror(refused->status));
    }
    np->n_refused = refused->n_dropped;
    atomic_store(&np->peer->freed_failure, refused->status);
    atomic_fetch_or(&np->peer->doubts, NXR_DOUBT_REFUSAL);
}

/* The program of the peer knows of the puts that were dropped here, unless more were since then. */
static void take_heard(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_stamp *heard = nxr_net_body(record);

    if (heard->value > np->refusal.n_dropped) {
        nxr_net_drop(np->peer->rank, "an answer to a refusal that was not sent");
        return;
    }
    np->is_late &= heard->value != np->n_dropped;
    nxr_net_tell_refusal(np);
}

/* The peer leaves the job in order. */
static void take_bye(struct net_peer *np, const struct nxr_net_record *record)
{
    (void)record;
    np->has_left = true;
    nxr_net_later(NET_LATER_LEFT, np->peer->rank, NULL, 0);
}

/* Nothing to do: receiving the record was enough, or it was handled before. */
static void take_nothing(struct net_peer *np, const struct nxr_net_record *record)
{
    (void)np;
    (void)record;
}

/* A header of bulk must arrive through nxr_net_incoming(). */
static void refuse_bulk(struct net_peer *np, const struct nxr_net_record *record)
{
    (void)record;
    nxr_net_drop(np->peer->rank, "bulk data without its bytes");
}

/*
 * A control message is handled after the round, since that needs job.lock. A closed region is shut
 * at once, in case a notification tells the user of the close; the rest of the close must follow
 * the key, which arrived before it.
 */
static void take_control(struct net_peer *np, const struct nxr_net_record *record)
{
    bool is_attached = nxr_peer_is_attached(np->peer);
    union nxr_wire_message message;
    const char *why;

    if (nxr_wire_parse(nxr_net_body(record), record->nbytes, NXR_WIRE_REMOTE,
                       is_attached ? INT_MAX : nxr_job.size, &message, &why) != NIXL_OK) {
        nxr_net_drop(np->peer->rank, why);
        return;
    }
    if (is_attached && !nxr_wire_is_for_attached((enum nxr_wire_type)message.header.type)) {
        nxr_net_drop(np->peer->rank, "a message about this job from an attached process");
        return;
    }
    if (!nxr_identity_is(&np->identity, &message.header.from)) {
        nxr_net_drop(-1, nxr_message_why(&np->identity, &message.header.from));
        return;
    }
    if (message.header.type == NXR_WIRE_CLOSED) {
        nxr_net_segment_shut(np, message.closed.id, message.closed.generation);
    }
    nxr_net_later(NET_LATER_CONTROL, np->peer->rank, &message, message.header.nbytes);
}

/* ---- order ----------------------------------------------------------------------------------- */

void nxr_net_take_after_bulk(struct net_peer *np, const struct nxr_net_record *record,
                             net_take_fn *take)
{
    size_t nbytes = sizeof(*record) + record->nbytes;
    struct net_pending *pending;

    if (nxr_list_is_empty(&np->landings) && nxr_list_is_empty(&np->pending) &&
        np->n_busy_words == 0) {
        take(np, record);
        return;
    }
    pending = malloc(sizeof(*pending) + nbytes);
    if (pending == NULL) {
        nxr_net_give_up(np);
        return;
    }
    pending->after = np->landing_seq;
    pending->take = take;
    memcpy(pending->record, record, nbytes);
    nxr_list_append(&np->pending, &pending->link);
}

void nxr_net_run_pending(struct net_peer *np)
{
    while (!nxr_list_is_empty(&np->pending) && np->n_busy_words == 0) {
        struct net_pending *pending = nxr_list_entry(np->pending.next, struct net_pending, link);

        if (!nxr_list_is_empty(&np->landings) &&
            nxr_list_entry(np->landings.next, struct net_landing, link)->seq <= pending->after) {
            return;
        }
        nxr_list_remove(&pending->link);
        pending->take(np, pending->record);
        free(pending);
    }
}

/*
 * A get from device memory must wait for earlier small puts to it, which are still being copied;
 * in host memory puts are complete at once.
 */
static void take_get(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_get *get = nxr_net_body(record);
    const struct net_range range = {get->generation, get->offset, get->nbytes, get->id,
                                    NIXL_ACCESS_NO_GET};

    if (get->is_bulk == 0 && nxr_net_is_device(&range)) {
        nxr_net_take_after_bulk(np, record, nxr_net_device->take_get);
    } else {
        nxr_net_take_get(np, get);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/*
 * The function that takes a type of record, and whether bulk that was sent before a record holds
 * it back.
 */
struct net_taker {
    net_take_fn *take;
    bool is_after_bulk;
};

/* Entries of higher layers are NULL until they are registered. */
static struct net_taker takers[NXR_NET_N_TYPES] = {
    [NXR_NET_HELLO] = {take_nothing, false}, /* the peer is up already */
    [NXR_NET_CONTROL] = {take_control, false},
    [NXR_NET_CLOSED_ACK] = {nxr_net_take_closed_ack, false},
    [NXR_NET_PUT] = {nxr_net_take_put, false},
    [NXR_NET_BULK_PUT] = {refuse_bulk, false},
    [NXR_NET_REFUSED] = {take_refused, false},
    [NXR_NET_GET] = {take_get, false},
    [NXR_NET_GOT] = {nxr_net_take_got, false},
    [NXR_NET_BULK_GOT] = {refuse_bulk, false},
    [NXR_NET_NOTE] = {take_note, true},
    [NXR_NET_CREDIT] = {take_credit, false},
    [NXR_NET_ATOMIC] = {nxr_net_take_atomic, true},
    [NXR_NET_ATOMIC_DONE] = {nxr_net_take_atomic_done, false},
    [NXR_NET_FLUSH] = {take_flush, true},
    [NXR_NET_FLUSHED] = {take_flushed, false},
    [NXR_NET_HEARD] = {take_heard, true},
    [NXR_NET_PING] = {nxr_net_take_ping, false},
    [NXR_NET_PONG] = {take_nothing, false},
    [NXR_NET_BYE] = {take_bye, false},
    [NXR_NET_TAKES] = {nxr_net_take_takes, false},
    [NXR_NET_HELLO_ATTACHED] = {take_nothing, false},
};

void nxr_net_register(enum nxr_net_type type, net_take_fn *take, bool is_after_bulk)
{
    takers[type] = (struct net_taker){take, is_after_bulk};
}

static void net_in_take_record(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct net_taker *taker = &takers[record->type];

    if (taker->take == NULL) {
        nxr_net_drop(np->peer->rank, "a record without a handler here");
    } else if (taker->is_after_bulk) {
        nxr_net_take_after_bulk(np, record, taker->take);
    } else {
        taker->take(np, record);
    }
}

/* ---- whole messages -------------------------------------------------------------------------- */

void nxr_net_take_records(struct net_peer *np, const unsigned char *bytes, size_t nbytes, size_t at)
{
    const struct nxr_net_record *record;
    const char *why;

    nxr_net_lives(np, nbytes);
    while (!np->is_dead && (record = nxr_net_next_record(bytes, nbytes, &at, &why)) != NULL) {
        net_in_take_record(np, record);
    }
    if (!np->is_dead && why != NULL) {
        nxr_net_drop(np->peer->rank, why);
    }
}

uint64_t nxr_net_own_token(void)
{
    uint64_t token;

    memcpy(&token, nxr_job.card.head.secret, sizeof(token));
    return token;
}

/*
 * A network hands over bytes at any address in its buffers, but records must be aligned to 8
 * bytes. NULL: no memory.
 */
static const unsigned char *align(const void *bytes, size_t nbytes)
{
    if ((uintptr_t)bytes % 8 == 0) {
        return bytes;
    }
    if (nbytes > nxr_net.aligned_nbytes) {
        free(nxr_net.aligned);
        nxr_net.aligned = malloc(nbytes);
        nxr_net.aligned_nbytes = nxr_net.aligned != NULL ? nbytes : 0;
    }
    return nxr_net.aligned != NULL ? memcpy(nxr_net.aligned, bytes, nbytes) : NULL;
}

static void net_in_take_message(struct net_peer *np, const void *bytes, size_t nbytes)
{
    const unsigned char *aligned = align(bytes, nbytes);

    if (aligned == NULL) {
        nxr_net_give_up(np);
        return;
    }
    nxr_net_take_records(np, aligned, nbytes, sizeof(struct nxr_net_head));
}

/*
 * Drop a message of a process that is neither of this job nor attached, or not the one that is
 * known as the rank.
 */
static void net_in_drop_stranger(const struct nxr_identity *from)
{
    const struct nxr_identity here = {nxr_job.self.job, from->rank, from->incarnation};
    const struct net_peer *np = nxr_is_own_rank(from->rank) ? net_peer_of(from->rank) : NULL;

    if (np == NULL && nxr_identity_is(&here, from)) {
        nxr_net_drop(-1, "a message of a rank that is not in the job");
    } else {
        nxr_net_drop(-1, nxr_message_why(np != NULL ? &np->identity : &here, from));
    }
}

int nxr_net_sender(const void *bytes, size_t nbytes)
{
    struct nxr_net_head head;
    const char *why = nxr_net_check_head(bytes, nbytes, nxr_net_own_token(), &head);
    const struct net_peer *np;
    int rank;

    NXR_ASSERT(nxr_spin_is_mine(&nxr_net.lock));
    if (why != NULL) {
        nxr_net_drop(-1, why);
        return -1;
    }
    rank = nxr_rank_of(&head.from);
    np = rank >= 0 ? net_peer_of(rank) : NULL;
    if (rank < 0 || (np != NULL && !nxr_identity_is(&np->identity, &head.from))) {
        net_in_drop_stranger(&head.from);
        return -1;
    }
    return rank;
}

void nxr_net_received(const void *bytes, size_t nbytes)
{
    int rank = nxr_net_sender(bytes, nbytes);
    struct net_peer *np = rank >= 0 ? net_peer_of(rank) : NULL;

    if (rank < 0) {
        return;
    }
    /*
     * Messages are deferred until the sender's greeting was taken and all messages deferred before
     * are done, which keeps them in order.
     */
    if (np == NULL || nxr_net_is_behind(rank)) {
        nxr_net_later(NET_LATER_MESSAGE, rank, bytes, nbytes);
    } else {
        net_in_take_message(np, bytes, nbytes);
    }
}
