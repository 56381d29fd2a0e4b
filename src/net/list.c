/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of pieces to and from ranks on other hosts. Small puts are gathered into messages that are
 * as full as possible. Small gets are one move: the owner is asked for many at a time and answers
 * in order, also in full messages. A piece that does not fit into a message is a move of its own.
 * Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/connect.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "util/copy.h"

/*
 * The most bytes that a list may have asked for but not received: the owner buffers this much for
 * it, and it is enough to keep a network busy.
 */
#define WINDOW_NBYTES (1u << 20)

/* ---- puts ------------------------------------------------------------------------------------ */

int nxr_net_move_list(struct nxr_segment *segment, enum nxr_op_kind kind,
                      const struct nxr_piece *pieces, size_t n_pieces, uint64_t total_nbytes,
                      size_t *n_done_p)
{
    struct net_peer *np = net_peer_at(segment->peer);
    size_t n_done = 0;
    int status;

    (void)total_nbytes;
    NXR_ASSERT(nxr_list_may_move(segment, kind, pieces, n_pieces));
    if (kind == NXR_OP_GET || pieces[0].nbytes > np->put_max ||
        nxr_net_local_kind(pieces[0].local) != NIXL_MEM_HOST) {
        *n_done_p = 0;
        return NIXL_E_AGAIN;
    }
    net_lock();
    status = nxr_net_check_segment(np, segment);
    while (status == NIXL_OK && n_done < n_pieces) {
        const struct nxr_piece *piece = &pieces[n_done];

        status = piece->nbytes > np->put_max || !nxr_net_has_room(np)
                     ? NIXL_E_AGAIN
                     : nxr_net_append_put(np, segment, piece->offset, piece->local, piece->nbytes);
        n_done += status == NIXL_OK;
    }
    if (n_done > 0) {
        nxr_stats_moved(segment, kind, nxr_pieces_nbytes(pieces, n_done));
        nxr_net_ask_flush_early(np);
        nxr_net_push(np, true);
    }
    net_unlock();
    *n_done_p = n_done;
    return status;
}

/* ---- gets ------------------------------------------------------------------------------------ */

/* Only gets of host memory: its owner answers at once and therefore in order. */
static bool can_be_list(const struct nxr_op *op)
{
    size_t max_nbytes = net_peer_at(op->segment->peer)->list_get_max;

    if (op->kind != NXR_OP_GET || op->segment->key.kind != NIXL_MEM_HOST ||
        nxr_net_local_kind(op->local) != NIXL_MEM_HOST) {
        return false;
    }
    for (size_t i = 0; i < op->n_pieces; i++) {
        if (op->pieces[i].nbytes > max_nbytes) {
            return false;
        }
    }
    return true;
}

int nxr_net_start_list(struct nxr_op *op)
{
    NXR_ASSERT(nxr_op_may_start(op));
    return can_be_list(op) ? nxr_net_op_start(op) : NIXL_E_UNSUPPORTED;
}

bool nxr_net_list_go(struct net_move *move)
{
    const struct nxr_op *user = move->user;

    while (move->n_asked < user->n_pieces && move->issued - user->nbytes_done < WINDOW_NBYTES) {
        const struct nxr_piece *piece = &user->pieces[move->n_asked];
        struct nxr_net_get *get = nxr_net_begin(move->np, NXR_NET_GET, sizeof(*get));

        if (get == NULL) {
            nxr_net_move_end(move, NIXL_E_NO_MEMORY);
            return true;
        }
        *get = (struct nxr_net_get){
            .move = move->id + move->n_asked,
            .generation = user->segment->key.generation,
            .offset = piece->offset,
            .nbytes = piece->nbytes,
            .id = user->segment->id,
        };
        move->n_asked++;
        move->issued += piece->nbytes;
    }
    nxr_net_push(move->np, true);
    return true;
}

void nxr_net_list_take_got(struct net_move *move, const struct nxr_net_got *got,
                           const void *payload, size_t nbytes)
{
    struct nxr_op *user = move->user;
    const struct nxr_piece *piece = &user->pieces[move->n_got];

    if (got->move != move->id + move->n_got || move->n_got == move->n_asked ||
        nbytes != piece->nbytes) {
        nxr_net_drop(move->np->peer->rank, "an answer to a get of a list that does not fit");
        nxr_net_move_end(move, NIXL_E_TRANSPORT);
        return;
    }
    nxr_copy(piece->local, payload, nbytes);
    user->nbytes_done += nbytes;
    move->n_got++;
    if (move->n_got == user->n_pieces) {
        nxr_net_move_end(move, NIXL_OK);
    } else if (move->n_asked < user->n_pieces &&
               move->issued - user->nbytes_done <= WINDOW_NBYTES / 2) {
        nxr_net_move_go(move);
    }
}
