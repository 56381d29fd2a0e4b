/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The puts and gets of this process that are under way to ranks on other hosts: each is a move,
 * found by the id in its answers, until it ends and its request is completed. start.c starts and
 * continues them. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "core/progress.h"
#include "util/copy.h"

#include <stdlib.h>

int nxr_net_check_segment(const struct net_peer *np, const struct nxr_segment *segment)
{
    uint64_t generation = atomic_load_explicit(&segment->generation, memory_order_acquire);

    if (np->is_dead) {
        return NIXL_E_PEER_LOST;
    }
    return generation != 0 && generation == atomic_load(&segment->generation_there) ? NIXL_OK
                                                                                    : NIXL_E_STALE;
}

int nxr_net_append_put(struct net_peer *np, const struct nxr_segment *segment, uint64_t offset,
                       const void *src, size_t nbytes)
{
    struct nxr_net_put *put = nxr_net_begin(np, NXR_NET_PUT, sizeof(*put) + nbytes);

    if (put == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    *put = (struct nxr_net_put){
        .generation = segment->key.generation,
        .offset = offset,
        .id = segment->id,
        .is_own = (segment->key.marks & NXR_KEY_OWN) != 0,
    };
    nxr_copy(put + 1, src, nbytes);
    np->has_late_unheard |= segment->key.kind != NIXL_MEM_HOST; /* a copy of its owner's writes */
    return NIXL_OK;
}

/* ---- the life of a move ---------------------------------------------------------------------- */

int nxr_net_outcome(const struct net_peer *np, int status)
{
    if (status != NIXL_E_TRANSPORT) {
        return status;
    }
    if (!np->is_dead) {
        nxr_net_later(NET_LATER_LOST, np->peer->rank, NULL, 0);
    }
    return NIXL_E_PEER_LOST;
}

void nxr_net_bulk_left(void *arg, int status)
{
    struct net_move *move = arg;

    move->is_at_module = false;
    nxr_net_move_end(move, nxr_net_outcome(move->np, status));
}

void nxr_net_move_end(struct net_move *move, int status)
{
    if (status == NIXL_OK) {
        move->user->nbytes_done = move->user->nbytes;
    } else if (move->np->is_dead) {
        status = NIXL_E_PEER_LOST;
    }
    move->status = status;
    nxr_list_remove(&move->link);
    nxr_list_remove(&move->wait_link);
    nxr_list_append(&nxr_net.ended, &move->link);
    atomic_store_explicit(&nxr_net.has_ended, true, memory_order_release);
}

void nxr_net_tell_ended(void)
{
    struct nxr_list told, *link;

    if (!atomic_load_explicit(&nxr_net.has_ended, memory_order_acquire)) {
        return;
    }
    nxr_list_init(&told);
    net_lock();
    nxr_list_splice(&told, &nxr_net.ended);
    atomic_store_explicit(&nxr_net.has_ended, false, memory_order_relaxed);
    net_unlock();
    while ((link = nxr_list_pop(&told)) != NULL) {
        struct net_move *move = nxr_list_entry(link, struct net_move, link);

        nxr_op_done(move->user, move->status);
        atomic_fetch_sub(&nxr_n_at_networks, 1);
        free(move);
    }
}

void nxr_net_moves_drop(struct net_peer *np)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &np->moves) {
        struct net_move *move = nxr_list_entry(link, struct net_move, link);

        if (!move->is_at_module) { /* else the module ends it: it may still touch the buffer */
            nxr_net_move_end(move, NIXL_E_PEER_LOST);
        }
    }
}

bool nxr_net_moves_use(const struct net_peer *np, const struct net_segment *segment)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &np->moves) {
        if (nxr_list_entry(link, struct net_move, link)->segment == segment) {
            return true;
        }
    }
    return false;
}

struct net_move *nxr_net_move_find(struct net_peer *np, uint64_t id)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &np->moves) {
        struct net_move *move = nxr_list_entry(link, struct net_move, link);

        if (id - move->id < move->n_ids) {
            return move;
        }
    }
    return NULL;
}
