/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing messages. Records to one peer are gathered in a batch. A batch is sent as soon as its
 * records are complete, unless the sender is ahead: after a few pushes in quick succession,
 * further records gather until the message is full or a thread of this process polls the networks.
 * A waiting thread does so at once, and the service thread is kicked to do so. So a lone message
 * is never held back, and a thousand in a row cost few system calls. Messages that the module has
 * no room for wait in a queue, in order. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/connect.h"
#include "net/in.h"
#include "net/out.h"
#include "core/service.h"
#include "util/clock.h"
#include "util/log.h"

#include <stdlib.h>
#include <string.h>

#define BURST_GAP_NS (2 * NXR_US) /* pushes at shorter intervals than this are a burst */
#define BURST_PUSHES 3            /* ... whose first ones are sent at once */
#define MAX_FREE     64           /* messages of a network kept for reuse */
#define MAX_QUEUED   (1u << 20)   /* bytes beyond which puts wait */
#define MAX_KEPT     (16u << 20)  /* the longest bulk that is copied while it leaves */

/* ---- messages -------------------------------------------------------------------------------- */

static void out_ended(struct net_op *op, int status);

static struct net_out *out_get(struct net_peer *np)
{
    struct net *net = np->messages;
    struct nxr_list *link = nxr_list_pop(&net->free_outs);
    struct net_out *out = link != NULL ? nxr_list_entry(link, struct net_out, link)
                                       : malloc(sizeof(*out) + net->attr->message_nbytes);
    struct nxr_net_head head = {
        .magic = NXR_NET_MAGIC,
        .version = NXR_NET_VERSION,
        .from = nxr_job.self,
    };

    if (out == NULL) {
        return NULL;
    }
    net->n_free_outs -= link != NULL;
    memset(out, 0, sizeof(*out));
    out->op.ended = out_ended;
    nxr_list_init(&out->link);
    out->net = net;
    out->np = np;
    memcpy(&head.token, np->card.head.secret, sizeof(head.token));
    memcpy(out->bytes, &head, sizeof(head));
    out->nbytes = sizeof(head);
    return out;
}

/* The module is done with a message, or never got it. */
static void out_put(struct net_out *out, int status)
{
    if (out->bulk_left != NULL) {
        out->bulk_left(out->bulk_arg, status);
    }
    free(out->kept);
    if (out->net->n_free_outs < MAX_FREE) {
        nxr_list_prepend(&out->net->free_outs, &out->link); /* still in the cache */
        out->net->n_free_outs++;
    } else {
        free(out);
    }
}

static void out_ended(struct net_op *op, int status)
{
    struct net_out *out = nxr_list_entry(op, struct net_out, op);

    out_put(out, status);
}

struct nxr_net_ep *nxr_net_ep_to(struct net_peer *np, struct net *net)
{
    struct nxr_net_offer offer;
    const void *address;
    size_t nbytes;

    if (np->eps[net->index] == NULL && !np->is_dead) {
        address = nxr_net_offer_find(&np->card, net->module->name, &offer, &nbytes);
        if (address == NULL ||
            net_module(net)->ep_open(address, nbytes, np, &np->eps[net->index]) != NIXL_OK) {
            np->eps[net->index] = NULL;
        }
    }
    return np->eps[net->index];
}

/* Hand a message to the module. NIXL_E_AGAIN: no room; else the message is no longer ours. */
static int net_out_hand_over(struct net_out *out)
{
    struct nxr_net_ep *ep = nxr_net_ep_to(out->np, out->net);
    int status = NIXL_E_TRANSPORT;

    if (ep != NULL) {
        status = net_module(out->net)->send(ep, out->bytes, out->nbytes, out->bulk,
                                            out->bulk_nbytes, &out->op.op);
    }
    if (status == NIXL_E_AGAIN || status == NIXL_INPROGRESS) {
        return status;
    }
    if (status != NIXL_OK) {
        nxr_net_later(NET_LATER_LOST, out->np->peer->rank, NULL, 0);
    }
    out_put(out, status);
    return NIXL_OK;
}

static void net_out_enqueue(struct net_out *out)
{
    out->np->queued_nbytes += out->nbytes + out->bulk_nbytes;
    nxr_list_append(&out->np->queue, &out->link);
    net_is_busy(out->np);
}

static void send_in_order(struct net_out *out)
{
    struct net_peer *np = out->np;

    if (!np->is_reached || np->is_held) {
        net_out_enqueue(out);
        nxr_net_pump(np);
    } else if (!nxr_list_is_empty(&np->queue) || net_out_hand_over(out) == NIXL_E_AGAIN) {
        net_out_enqueue(out);
    }
}

static void send_batch(struct net_peer *np)
{
    struct net_out *out = np->batch;

    nxr_list_remove(&np->corked_link);
    np->batch = NULL;
    if (out != NULL) {
        send_in_order(out);
    }
}

/* ---- records --------------------------------------------------------------------------------- */

static void *net_out_append(struct net_out *out, enum nxr_net_type type, size_t body_nbytes)
{
    struct nxr_net_record record = {.type = (uint16_t)type, .nbytes = (uint32_t)body_nbytes};
    unsigned char *at = out->bytes + out->nbytes;
    size_t padded = nxr_net_padded(body_nbytes);

    memcpy(at, &record, sizeof(record));
    if (padded != body_nbytes) {
        memset(at + sizeof(record) + padded - 8, 0, 8);
    }
    out->nbytes += sizeof(record) + padded;
    return at + sizeof(record);
}

/* The greeting of this process, with its card. */
static void append_hello(struct net_peer *np, struct net_out *out)
{
    size_t card_nbytes = nxr_job.card.head.nbytes;
    struct nxr_net_hello_attached *hello;

    if (!nxr_peer_is_attached(np->peer)) {
        memcpy(net_out_append(out, NXR_NET_HELLO, card_nbytes), &nxr_job.card, card_nbytes);
        return;
    }
    hello = net_out_append(out, NXR_NET_HELLO_ATTACHED, sizeof(*hello) + card_nbytes);
    *hello = (struct nxr_net_hello_attached){.number = np->peer->rank};
    memcpy(hello + 1, &nxr_job.card, card_nbytes);
}

/* A new message; its first record is a greeting if none was sent to the peer yet. */
static struct net_out *new_message(struct net_peer *np)
{
    struct net_out *out = np->is_dead ? NULL : out_get(np);

    if (out != NULL && !np->is_greeted) {
        np->is_greeted = true;
        append_hello(np, out);
    }
    return out;
}

static bool has_room_for(const struct net_peer *np, size_t needed)
{
    const struct net_out *out = np->batch;
    size_t max = out->bulk_nbytes > 0 ? NXR_NET_HEADER_NBYTES : np->messages->attr->message_nbytes;

    return out->nbytes + needed <= max;
}

void *nxr_net_begin(struct net_peer *np, enum nxr_net_type type, size_t body_nbytes)
{
    size_t needed = sizeof(struct nxr_net_record) + nxr_net_padded(body_nbytes);

    if (np->batch != NULL && !has_room_for(np, needed)) {
        send_batch(np);
    }
    if (np->batch == NULL) {
        np->batch = new_message(np);
        if (np->batch != NULL && !has_room_for(np, needed)) {
            send_batch(np); /* the greeting by itself */
            np->batch = new_message(np);
        }
        if (np->batch == NULL) {
            return NULL;
        }
    }
    return net_out_append(np->batch, type, body_nbytes);
}

void *nxr_net_begin_answer(struct net_peer *np, enum nxr_net_type type, size_t body_nbytes)
{
    void *body = nxr_net_begin(np, type, body_nbytes);

    if (body == NULL && !np->is_dead) {
        nxr_net_give_up(np);
    }
    return body;
}

bool nxr_net_has_room(const struct net_peer *np)
{
    return np->queued_nbytes < MAX_QUEUED;
}

/*
 * Is this push part of a burst whose first pushes were sent? A sender that polled the networks
 * since the last push, such as one that waits for answers, is not ahead. To save time, the clock
 * is not read for its pushes; the push after one always counts as part of a burst.
 */
static bool is_ahead(struct net_peer *np)
{
    bool is_answer = np->pushed_round != nxr_net.n_user_rounds;

    np->pushed_round = nxr_net.n_user_rounds;
    if (is_answer || (np->n_burst > 0 && nxr_now_ns() - np->pushed_at >= BURST_GAP_NS)) {
        np->n_burst = 0;
    } else {
        np->n_burst++;
    }
    return np->n_burst >= BURST_PUSHES;
}

void nxr_net_cork(struct net_peer *np)
{
    if (nxr_list_is_empty(&np->corked_link)) {
        nxr_list_append(&nxr_net.corked, &np->corked_link);
    }
}

void nxr_net_push(struct net_peer *np, bool may_wait)
{
    if (np->batch == NULL || !nxr_list_is_empty(&np->queue)) {
        return; /* sent after the queue */
    }
    may_wait = may_wait && np->batch->bulk_nbytes == 0;
    if (may_wait && nxr_net.is_receiving) {
        nxr_net_cork(np);
        return;
    }
    if (may_wait && is_ahead(np)) {
        nxr_net_cork(np);
        if (!atomic_load_explicit(&nxr_net.is_kicked, memory_order_relaxed)) {
            atomic_store_explicit(&nxr_net.is_kicked, true, memory_order_release);
            nxr_service_kick();
        }
    } else {
        send_batch(np);
    }
    if (np->n_burst > 0) {
        np->pushed_at = nxr_now_ns();
    }
}

void nxr_net_uncork_all(void)
{
    struct nxr_list *link;

    atomic_store_explicit(&nxr_net.is_kicked, false, memory_order_relaxed);
    while ((link = nxr_list_pop(&nxr_net.corked)) != NULL) {
        send_batch(nxr_list_entry(link, struct net_peer, corked_link));
    }
}

int nxr_net_send_bulk(struct net_peer *np, enum nxr_net_type type, const void *body,
                      size_t body_nbytes, const struct net_bulk *bulk)
{
    const struct nxr_net_stamp flush = {bulk->flush};
    struct net_out *out;

    send_batch(np);
    if (!np->is_greeted) { /* the header of bulk is short: send the greeting first */
        out = new_message(np);
        if (out == NULL) {
            return NIXL_E_NO_MEMORY;
        }
        send_in_order(out);
    }
    out = np->is_dead ? NULL : out_get(np);
    if (out == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    memcpy(net_out_append(out, type, body_nbytes), body, body_nbytes);
    if (bulk->flush != 0) {
        memcpy(net_out_append(out, NXR_NET_FLUSH, sizeof(flush)), &flush, sizeof(flush));
    }
    out->bulk = bulk->bytes;
    out->bulk_nbytes = bulk->nbytes;
    out->bulk_left = bulk->left;
    out->bulk_arg = bulk->arg;
    if (bulk->out_p != NULL) {
        *bulk->out_p = out;
    }
    np->batch = out;
    if (bulk->may_wait) {
        nxr_net_cork(np);
    } else {
        send_batch(np);
    }
    return NIXL_OK;
}

bool nxr_net_bulk_keep(struct net_out *out)
{
    const struct net_peer *np = out->np;
    bool is_here = out == np->batch || !nxr_list_is_empty(&out->link);
    const struct nxr_network *module = net_module(out->net);
    struct nxr_net_ep *ep = np->eps[out->net->index];

    if (out->bulk_nbytes > MAX_KEPT || (!is_here && (module->rebase == NULL || ep == NULL))) {
        return false; /* not possible; without an endpoint the module ends it soon */
    }
    out->kept = malloc(out->bulk_nbytes);
    if (out->kept == NULL) {
        return false;
    }
    memcpy(out->kept, out->bulk, out->bulk_nbytes);
    if (!is_here && !module->rebase(ep, &out->op.op, out->kept)) {
        free(out->kept);
        out->kept = NULL;
        return false;
    }
    out->bulk = out->kept;
    out->bulk_left = NULL;
    return true;
}

/* ---- waiting for room ------------------------------------------------------------------------ */

bool nxr_net_pump(struct net_peer *np)
{
    bool has_moved = false;

    if (!nxr_list_is_empty(&np->queue) && !nxr_net_connect(np)) {
        return false;
    }
    while (!nxr_list_is_empty(&np->queue)) {
        struct net_out *out = nxr_list_entry(np->queue.next, struct net_out, link);
        size_t nbytes = out->nbytes + out->bulk_nbytes;

        nxr_list_remove(&out->link);
        if (net_out_hand_over(out) == NIXL_E_AGAIN) {
            nxr_list_prepend(&np->queue, &out->link);
            return has_moved;
        }
        np->queued_nbytes -= nbytes;
        has_moved = true;
    }
    if (has_moved) {
        send_batch(np);
    }
    return has_moved;
}

/* Copy the records of a message into new messages for the network that is now in use. */
static void rewrite(struct net_peer *np, const struct net_out *out)
{
    size_t at = sizeof(struct nxr_net_head);

    while (at < out->nbytes) {
        const struct nxr_net_record *record = (const void *)(out->bytes + at);
        void *body = nxr_net_begin_answer(np, (enum nxr_net_type)record->type, record->nbytes);

        if (body == NULL) {
            return;
        }
        memcpy(body, record + 1, record->nbytes);
        at += sizeof(*record) + nxr_net_padded(record->nbytes);
    }
}

void nxr_net_out_rewrite(struct net_peer *np)
{
    struct nxr_list outs, *link;

    nxr_list_init(&outs);
    nxr_list_splice(&outs, &np->queue);
    np->queued_nbytes = 0;
    if (np->batch != NULL) {
        nxr_list_remove(&np->corked_link);
        nxr_list_append(&outs, &np->batch->link);
        np->batch = NULL;
    }
    while ((link = nxr_list_pop(&outs)) != NULL) {
        struct net_out *out = nxr_list_entry(link, struct net_out, link);

        rewrite(np, out);
        out_put(out, NIXL_OK);
    }
    send_batch(np);
}

void nxr_net_out_drop_all(struct net_peer *np)
{
    struct nxr_list *link;

    nxr_list_remove(&np->corked_link);
    if (np->batch != NULL) {
        out_put(np->batch, NIXL_E_PEER_LOST);
        np->batch = NULL;
    }
    while ((link = nxr_list_pop(&np->queue)) != NULL) {
        out_put(nxr_list_entry(link, struct net_out, link), NIXL_E_PEER_LOST);
    }
    np->queued_nbytes = 0;
}

void nxr_net_control(struct nxr_peer *peer, const union nxr_wire_message *message)
{
    void *body;

    net_lock();
    body = nxr_net_begin_answer(net_peer_at(peer), NXR_NET_CONTROL, message->header.nbytes);
    if (body != NULL) {
        memcpy(body, message, message->header.nbytes);
        nxr_net_push(net_peer_at(peer), false);
    }
    net_unlock();
}
