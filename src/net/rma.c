/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves by the network's own reads and writes. They go in pieces, so many bytes of them at a time:
 * what this rank has to answer stands behind them, and over a slow link one large write would keep
 * it from showing that it lives. A move ends with its last piece, and its part of a region is in
 * use until then. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/state.h"

#include <stdlib.h>

/* The largest piece, and bytes under way to a peer. */
#define PIECE_NBYTES  (8u << 20)
#define WINDOW_NBYTES (16u << 20)

/* A piece of a move that the module has. */
struct net_piece {
    struct net_op op;
    struct net_move *move;
    size_t nbytes;
};

void net_rma_stop(struct net_move *move, int status)
{
    if (move->n_pieces == 0) {
        net_move_end(move, status);
    } else if (move->status == NIXL_OK) {
        move->status = status;
    }
}

/* All that was handed over has ended, and nothing more will be. */
static bool is_over(const struct net_move *move)
{
    return move->n_pieces == 0 && (move->status != NIXL_OK || move->issued == move->user->nbytes);
}

static void piece_ended(struct net_op *op, int status)
{
    struct net_piece *piece = nxr_list_entry(op, struct net_piece, op);
    struct net_move *move = piece->move;
    struct net_peer *np = move->np;

    move->n_pieces--;
    move->is_at_module = move->n_pieces > 0;
    move->part->n_at_module--;
    np->bulk_nbytes -= piece->nbytes;
    np->rma_nbytes -= piece->nbytes;
    np->n_writes -= move->user->kind == NXR_OP_PUT;
    if (status == NIXL_OK) {
        move->user->nbytes_done += piece->nbytes;
    } else if (move->status == NIXL_OK) {
        move->status = net_outcome(np, status);
    }
    free(piece);
    net_part_left(np, move->part);
    if (is_over(move)) {
        net_move_end(move, move->status);
    }
}

/* Hand the next piece to the module; as write() and read(). */
static int issue(struct net_move *move, size_t nbytes)
{
    struct nxr_op *user = move->user;
    struct net_peer *np = move->np;
    const struct nxr_network *module = np->bulk->module;
    struct nxr_net_ep *ep = net_ep(np, np->bulk);
    struct net_piece *piece = malloc(sizeof(*piece));
    char *local = (char *)user->local + move->issued;
    uint64_t offset = user->offset + move->issued;
    bool is_put = user->kind == NXR_OP_PUT;
    int status = NIXL_ERR_TRANSPORT;

    if (piece == NULL) {
        return NIXL_ERR_NO_MEMORY;
    }
    *piece = (struct net_piece){.op.ended = piece_ended, .move = move, .nbytes = nbytes};
    if (ep != NULL) {
        status = is_put ? module->write(ep, move->part->key, offset, local, nbytes, &piece->op.op)
                        : module->read(ep, move->part->key, offset, local, nbytes, &piece->op.op);
    }
    if (status == NIXL_INPROGRESS) {
        move->n_pieces++;
        move->is_at_module = true;
        move->part->n_at_module++;
        np->n_writes += is_put;
        np->bulk_nbytes += nbytes;
        np->rma_nbytes += nbytes;
    } else {
        free(piece);
    }
    return status;
}

bool net_rma_go(struct net_move *move)
{
    struct nxr_op *user = move->user;

    while (move->issued < user->nbytes) {
        size_t left = user->nbytes - move->issued;
        size_t nbytes = left < PIECE_NBYTES ? left : PIECE_NBYTES;
        int status = NIXL_ERR_AGAIN;

        if (move->np->rma_nbytes < WINDOW_NBYTES) {
            status = issue(move, nbytes);
        }
        if (status == NIXL_ERR_AGAIN) {
            return false;
        }
        if (status != NIXL_OK && status != NIXL_INPROGRESS) {
            net_rma_stop(move, net_outcome(move->np, status));
            return true;
        }
        move->issued += nbytes;
        user->nbytes_done += status == NIXL_OK ? nbytes : 0;
    }
    if (is_over(move)) {
        net_move_end(move, NIXL_OK);
    }
    return true;
}
