/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves by the network's own reads and writes. They go in pieces, and no more bytes are under way
 * at a time than move within WINDOW_NS: the answers of this rank queue behind them, and over a
 * slow link a large write would keep this rank from showing that it is alive. The end of a piece
 * shows that the peer is alive. A move ends with its last piece, and its segment of a region is in
 * use until then. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/connect.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "util/clock.h"

#include <stdlib.h>

/*
 * The most bytes under way to a peer; a piece is half of that. WINDOW_FIRST until it is known how
 * fast they move, later between WINDOW_LEAST and WINDOW_MOST.
 */
#define WINDOW_FIRST (512u << 10)
#define WINDOW_LEAST (256u << 10)
#define WINDOW_MOST  (128u << 20)
#define WINDOW_NS    (500 * NXR_MS)

/* A piece of a move, at the module. */
struct net_piece {
    struct net_op op;
    struct net_move *move;
    size_t nbytes;
    int64_t began;      /* when it was handed over */
    uint64_t under_way; /* bytes under way at that time, including its own */
};

void nxr_net_rma_stop(struct net_move *move, int status)
{
    if (move->n_pieces == 0) {
        nxr_net_move_end(move, status);
    } else if (move->status == NIXL_OK) {
        move->status = status;
    }
}

/* Have all pieces ended, and will no more be handed over? */
static bool net_rma_is_over(const struct net_move *move)
{
    return move->n_pieces == 0 && (move->status != NIXL_OK || move->issued == move->user->nbytes);
}

static uint64_t net_rma_window_of(const struct net_peer *np)
{
    return np->rma_window != 0 ? np->rma_window : WINDOW_FIRST;
}

/*
 * Measure the speed by a piece that has ended: all bytes that were under way before it have moved
 * as well.
 */
static void set_window(struct net_peer *np, const struct net_piece *piece)
{
    int64_t took = nxr_net.now - piece->began;
    uint64_t window = piece->under_way * WINDOW_NS / (uint64_t)(took > NXR_US ? took : NXR_US);

    np->rma_window = window < WINDOW_LEAST  ? WINDOW_LEAST
                     : window > WINDOW_MOST ? WINDOW_MOST
                                            : window;
}

static void piece_ended(struct net_op *op, int status)
{
    struct net_piece *piece = nxr_list_entry(op, struct net_piece, op);
    struct net_move *move = piece->move;
    struct net_peer *np = move->np;

    move->n_pieces--;
    move->is_at_module = move->n_pieces > 0;
    move->segment->n_at_module--;
    np->rma_nbytes -= piece->nbytes;
    np->n_writes -= move->user->kind == NXR_OP_PUT;
    if (status == NIXL_OK) {
        set_window(np, piece);
        nxr_net_lives(np, 0);
        move->user->nbytes_done += piece->nbytes;
    } else if (move->status == NIXL_OK) {
        move->status = nxr_net_outcome(np, status);
    }
    free(piece);
    nxr_net_segment_left(np, move->segment);
    if (net_rma_is_over(move)) {
        nxr_net_move_end(move, move->status);
    }
}

/* Hand the next piece to the module. Returns like its write() and read(). */
static int issue(struct net_move *move, size_t nbytes)
{
    struct nxr_op *user = move->user;
    struct net_peer *np = move->np;
    const struct nxr_network *module = net_module(np->bulk);
    struct nxr_net_ep *ep = nxr_net_ep_to(np, np->bulk);
    struct net_piece *piece = malloc(sizeof(*piece));
    char *local = (char *)user->local + move->issued;
    uint64_t offset = user->offset + move->issued;
    bool is_put = user->kind == NXR_OP_PUT;
    int status = NIXL_E_TRANSPORT;

    if (piece == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    *piece = (struct net_piece){.op = {.op = nxr_net_local_op(local), .ended = piece_ended},
                                .move = move,
                                .nbytes = nbytes,
                                .began = nxr_now_ns(),
                                .under_way = np->rma_nbytes + nbytes};
    if (ep != NULL) {
        status = is_put
                     ? module->write(ep, move->segment->key, offset, local, nbytes, &piece->op.op)
                     : module->read(ep, move->segment->key, offset, local, nbytes, &piece->op.op);
    }
    if (status == NIXL_INPROGRESS) {
        move->n_pieces++;
        move->is_at_module = true;
        move->segment->n_at_module++;
        np->n_writes += is_put;
        np->rma_nbytes += nbytes;
    } else {
        free(piece);
    }
    return status;
}

bool nxr_net_rma_go(struct net_move *move)
{
    struct nxr_op *user = move->user;

    while (move->issued < user->nbytes) {
        size_t left = user->nbytes - move->issued;
        uint64_t window = net_rma_window_of(move->np);
        size_t nbytes = left < window / 2 ? left : window / 2;
        int status = NIXL_E_AGAIN;

        if (move->np->rma_nbytes == 0 || move->np->rma_nbytes + nbytes <= window) {
            status = issue(move, nbytes);
        }
        if (status == NIXL_E_AGAIN) {
            return false;
        }
        if (status != NIXL_OK && status != NIXL_INPROGRESS) {
            nxr_net_rma_stop(move, nxr_net_outcome(move->np, status));
            return true;
        }
        move->issued += nbytes;
        user->nbytes_done += status == NIXL_OK ? nbytes : 0;
    }
    if (net_rma_is_over(move)) {
        nxr_net_move_end(move, NIXL_OK);
    }
    return true;
}
