/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and continuing puts and gets to ranks on other hosts. A small put goes inside a message
 * and is complete once it is copied into that. Everything else is a move: in several messages, as
 * bulk behind a message, or by the network's own reads and writes (rma.c). A move that finds no
 * room waits in np->waiting, in order. Lock: nxr_net.lock.
 */
#include "config.h"

#include "core/stats.h"
#include "net/connect.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "core/progress.h"
#include "util/copy.h"

#include <stdlib.h>

int nxr_net_segment_put(struct nxr_segment *segment, uint64_t offset, const void *src,
                        size_t nbytes)
{
    struct net_peer *np = net_peer_at(segment->peer);
    int status;

    NXR_ASSERT(nxr_segment_may_move(segment, offset, src, nbytes));
    if (nbytes > np->put_max || nxr_net_local_kind(src) != NIXL_MEM_HOST) {
        return NIXL_E_AGAIN;
    }
    net_lock();
    status = nxr_net_check_segment(np, segment);
    if (status == NIXL_OK && !nxr_net_has_room(np)) {
        status = NIXL_E_AGAIN;
    }
    if (status == NIXL_OK) {
        status = nxr_net_append_put(np, segment, offset, src, nbytes);
    }
    if (status == NIXL_OK) {
        nxr_stats_moved(segment, NXR_OP_PUT, nbytes);
        nxr_net_ask_flush_early(np);
        nxr_net_push(np, true);
    }
    net_unlock();
    return status;
}

int nxr_net_segment_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes)
{
    (void)segment;
    (void)offset;
    (void)dst;
    (void)nbytes;
    return NIXL_E_AGAIN;
}

/* ---- the methods of a move ------------------------------------------------------------------- */

static bool go_put_pieces(struct net_move *move)
{
    struct nxr_op *user = move->user;
    struct net_peer *np = move->np;

    while (user->nbytes_done < user->nbytes) {
        size_t left = user->nbytes - user->nbytes_done;
        size_t nbytes = left < np->piece_max ? left : np->piece_max;

        if (!nxr_net_has_room(np)) {
            return false;
        }
        if (nxr_net_append_put(np, user->segment, user->offset + user->nbytes_done,
                               (const char *)user->local + user->nbytes_done, nbytes) != NIXL_OK) {
            nxr_net_move_end(move, NIXL_E_NO_MEMORY);
            return true;
        }
        np->is_dirty = true;
        user->nbytes_done += nbytes;
        nxr_net_push(np, false);
    }
    nxr_net_move_end(move, NIXL_OK);
    return true;
}

/* Ask for the next piece, or for all as bulk. */
static bool go_get(struct net_move *move)
{
    struct nxr_op *user = move->user;
    struct net_peer *np = move->np;
    size_t left = user->nbytes - user->nbytes_done;
    bool is_bulk = move->how == NET_BULK;
    struct nxr_net_get *get = nxr_net_begin(np, NXR_NET_GET, sizeof(*get));

    if (get == NULL) {
        nxr_net_move_end(move, NIXL_E_NO_MEMORY);
        return true;
    }
    *get = (struct nxr_net_get){
        .move = move->id,
        .generation = user->segment->key.generation,
        .offset = user->offset + user->nbytes_done,
        .nbytes = is_bulk || left < np->piece_max ? left : np->piece_max,
        .id = user->segment->id,
        .is_bulk = is_bulk,
    };
    nxr_net_push(np, true);
    return true;
}

static bool go_put_bulk(struct net_move *move)
{
    struct nxr_op *user = move->user;
    struct net_peer *np = move->np;
    struct nxr_net_put put = {
        .generation = user->segment->key.generation,
        .offset = user->offset,
        .nbytes = user->nbytes,
        .id = user->segment->id,
        .is_own = (user->segment->key.marks & NXR_KEY_OWN) != 0,
    };
    struct net_bulk bulk = {.bytes = user->local,
                            .nbytes = user->nbytes,
                            .left = nxr_net_bulk_left,
                            .arg = move,
                            .out_p = &move->out,
                            .flush = nxr_net_flush_of_bulk(np),
                            .may_wait = user->is_followed};

    np->has_late_unheard = true;
    move->is_at_module = true;
    if (nxr_net_send_bulk(np, NXR_NET_BULK_PUT, &put, sizeof(put), &bulk) != NIXL_OK) {
        nxr_net_flush_lost(np);
        move->is_at_module = false;
        nxr_net_move_end(move, NIXL_E_NO_MEMORY);
    }
    return true;
}

bool nxr_net_move_go(struct net_move *move)
{
    bool is_put = move->user->kind == NXR_OP_PUT;
    int status = nxr_net_check_segment(move->np, move->user->segment);

    if (move->status != NIXL_OK) {
        return true; /* it ends with its last piece at the module */
    }
    if (status != NIXL_OK) {
        nxr_net_rma_stop(move, status);
        return true;
    }
    if (move->how == NET_RMA) {
        return nxr_net_rma_go(move);
    }
    if (move->how == NET_LIST) {
        return nxr_net_list_go(move);
    }
    if (move->how == NET_ATOMIC) {
        return nxr_net_atomic_go(move);
    }
    if (!is_put) {
        return go_get(move);
    }
    return move->how == NET_BULK ? go_put_bulk(move) : go_put_pieces(move);
}

/* ---- starting and continuing ----------------------------------------------------------------- */

static enum net_how how_to(const struct nxr_op *user)
{
    struct net_peer *np = net_peer_at(user->segment->peer);
    const struct net_segment *segment = user->segment->net;
    bool is_small = user->nbytes <= (user->kind == NXR_OP_PUT ? np->put_max : np->get_max);

    if (user->pieces != NULL) {
        return NET_LIST;
    }
    if (user->kind == NXR_OP_ATOMIC) {
        return NET_ATOMIC;
    }
    if (nxr_net_local_kind(user->local) != NIXL_MEM_HOST) {
        return segment->how;
    }
    if (is_small) {
        return NET_PIECES;
    }
    return segment->how == NET_RMA && !nxr_net_is_bulk_reached(np) ? segment->how_else
                                                                   : segment->how;
}

static struct net_move *net_move_move_new(struct nxr_op *user)
{
    struct net_peer *np = net_peer_at(user->segment->peer);
    struct net_move *move = malloc(sizeof(*move));

    if (move != NULL) {
        *move = (struct net_move){
            .user = user,
            .np = np,
            .segment = user->segment->net,
            .how = how_to(user),
            .id = np->last_id + 1,
            .n_ids = user->pieces != NULL ? user->n_pieces : 1,
        };
        np->last_id += move->n_ids;
        nxr_list_init(&move->wait_link);
        nxr_list_append(&np->moves, &move->link);
        atomic_fetch_add(&nxr_n_at_networks, 1);
    }
    return move;
}

/*
 * Does everything that is sent from now on arrive after this put? If so, notifications need not be
 * held back.
 */
static bool net_move_is_in_order(const struct net_move *move)
{
    const struct net_peer *np = move->np;

    if (!nxr_list_is_empty(&move->wait_link) || move->status != NIXL_OK) {
        return false; /* some of it has yet to be sent, or never will be */
    }
    return move->how == NET_BULK ||
           (move->how == NET_RMA && np->bulk == np->messages && np->bulk->attr->orders_writes);
}

int nxr_net_op_start(struct nxr_op *op)
{
    struct net_peer *np = net_peer_at(op->segment->peer);
    struct net_move *move;
    int status;

    NXR_ASSERT(nxr_op_may_start(op));
    net_lock();
    status = nxr_net_check_segment(np, op->segment);
    move = status == NIXL_OK ? net_move_move_new(op) : NULL;
    if (move == NULL) {
        net_unlock();
        return status == NIXL_OK ? NIXL_E_NO_MEMORY : status;
    }
    nxr_net_peer_expect(np, op->nbytes);
    if (!nxr_list_is_empty(&np->waiting) || !nxr_net_move_go(move)) {
        nxr_list_append(&np->waiting, &move->wait_link);
        net_is_busy(np);
    }
    /*
     * The move may have ended in this call; its request is completed and it is freed after the
     * lock is released.
     */
    if (op->kind == NXR_OP_PUT && net_move_is_in_order(move)) {
        nxr_op_ordered(op);
    }
    net_unlock();
    nxr_net_tell_ended();
    return NIXL_INPROGRESS;
}

/* The module has the caller's bytes: is what may still arrive of them sent from a copy now? */
static bool net_move_trails(const struct net_move *move)
{
    const struct nxr_op *user = move->user;

    return user->may_trail && user->kind == NXR_OP_PUT && move->how == NET_BULK &&
           move->is_at_module && nxr_net_bulk_keep(move->out);
}

int nxr_net_cancel(struct nxr_op *op)
{
    struct net_peer *np = net_peer_at(op->segment->peer);
    struct nxr_list *link, *after;
    struct net_move *found = NULL;

    net_lock();
    nxr_list_for_each (link, after, &np->moves) {
        struct net_move *move = nxr_list_entry(link, struct net_move, link);

        /*
         * An answer that arrives later finds no get and is dropped. A word that was sent may have
         * been changed already.
         */
        if (move->user == op && !move->is_at_module &&
            (move->how != NET_ATOMIC || !nxr_list_is_empty(&move->wait_link))) {
            found = move;
        } else if (move->user == op && net_move_trails(move)) {
            found = move;
        } else if (move->user == op && move->how == NET_RMA && move->issued < op->nbytes) {
            nxr_net_rma_stop(move, NIXL_E_CANCELED); /* no further piece */
        }
    }
    if (found != NULL) {
        nxr_net_move_end(found, NIXL_E_CANCELED);
    }
    net_unlock();
    nxr_net_tell_ended();
    return found != NULL ? NIXL_OK : NIXL_INPROGRESS;
}

bool nxr_net_moves_pump(struct net_peer *np)
{
    bool has_moved = false;

    while (!nxr_list_is_empty(&np->waiting)) {
        struct net_move *move = nxr_list_entry(np->waiting.next, struct net_move, wait_link);

        nxr_list_remove(&move->wait_link);
        if (!nxr_net_move_go(move)) {
            nxr_list_prepend(&np->waiting, &move->wait_link);
            return has_moved;
        }
        has_moved = true;
    }
    return has_moved;
}

/* ---- answers --------------------------------------------------------------------------------- */

void nxr_net_take_got(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_got *got = nxr_net_body(record);
    size_t nbytes;
    const void *payload = nxr_net_payload(record, sizeof(*got), &nbytes);
    struct net_move *move = nxr_net_move_find(np, got->move);
    struct nxr_op *user = move != NULL ? move->user : NULL;

    if (user == NULL || user->kind != NXR_OP_GET || move->is_at_module) {
        return; /* it was canceled */
    }
    nxr_net.must_wake = true;
    if (got->status != NIXL_OK) {
        nxr_net_move_end(move, got->status);
        return;
    }
    if (move->how == NET_LIST) {
        nxr_net_list_take_got(move, got, payload, nbytes);
        return;
    }
    if (move->how == NET_BULK) {
        move->how = NET_PIECES; /* the peer sends over a network that has no bulk */
    }
    if (move->how != NET_PIECES || nbytes == 0 || nbytes > user->nbytes - user->nbytes_done) {
        nxr_net_drop(np->peer->rank, "an answer to a get that does not fit");
        nxr_net_move_end(move, NIXL_E_TRANSPORT);
        return;
    }
    nxr_copy((char *)user->local + user->nbytes_done, payload, nbytes);
    user->nbytes_done += nbytes;
    if (user->nbytes_done < user->nbytes) {
        nxr_net_move_go(move);
    } else {
        nxr_net_move_end(move, NIXL_OK);
    }
}
