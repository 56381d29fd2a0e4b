/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of pieces to ranks on other hosts. Small puts are gathered into messages, each as full as
 * it can be; what does not fit into one, and gets, are moves of their own. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/state.h"

int net_move_list(struct nxr_part *part, enum nxr_op_kind kind, const struct nxr_piece *pieces,
                  size_t n_pieces, size_t *n_done_p)
{
    struct net_peer *np = part->peer->net;
    size_t n_done = 0;
    int status;

    if (kind == NXR_OP_GET || pieces[0].nbytes > np->put_max ||
        net_local_kind(pieces[0].local) != NIXL_MEM_HOST) {
        *n_done_p = 0;
        return NIXL_ERR_AGAIN;
    }
    net_lock();
    status = net_check_part(np, part);
    while (status == NIXL_OK && n_done < n_pieces) {
        const struct nxr_piece *piece = &pieces[n_done];

        status = piece->nbytes > np->put_max || !net_has_room(np)
                     ? NIXL_ERR_AGAIN
                     : net_append_put(np, part, piece->offset, piece->local, piece->nbytes);
        n_done += status == NIXL_OK;
    }
    if (n_done > 0) {
        net_ask_flush_early(np);
        net_push(np, true);
    }
    net_unlock();
    *n_done_p = n_done;
    return status;
}
