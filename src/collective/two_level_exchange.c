/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that moves between several hosts. Data for all members goes to one member of each host, and
 * from there to the others; data for one member goes to it directly. Within a host it moves as in
 * node_exchange.c. No lock.
 */
#include "config.h"

#include "collective/device.h"
#include "collective/phase.h"
#include "collective/two_level.h"

#include <stdlib.h>

/* Bytes that are passed on along a tree of hosts while the next ones arrive. */
#define TREE_NBYTES (1ul << 20)

/* ---- to all ---------------------------------------------------------------------------------- */

/* Along a tree of the hosts, rooted at the root's host; on that host the root speaks. */
static int spread(struct nixl_team *team, int root, char *buf, size_t nbytes)
{
    int n = team->n_nodes, root_node = team->node_of[root], bit = 1, status = NIXL_OK;
    int me = (team->my_node - root_node + n) % n;

    while (bit < n && (me & bit) == 0) {
        bit *= 2;
    }
    if (me != 0) {
        int node = (me - bit + root_node) % n;

        status = nxr_mailbox_receive(team, &team->post,
                                     node == root_node ? root : team->leaders[node], buf, nbytes);
    }
    for (bit /= 2; bit > 0 && status == NIXL_OK; bit /= 2) {
        if (me + bit < n) {
            status = nxr_mailbox_send(team, &team->post, team->leaders[(me + bit + root_node) % n],
                                      buf, nbytes);
        }
    }
    return status;
}

int nxr_two_level_broadcast(struct nixl_team *team, int root, void *buf, size_t nbytes)
{
    int source = team->node_of[root] == team->my_node ? team->local_index[root] : 0;
    size_t most = team->size == 2 ? nbytes : TREE_NBYTES; /* to pass on; of two, none does */
    int status = NIXL_OK;

    for (size_t at = 0; at < nbytes && status == NIXL_OK; at += most) {
        size_t left = nbytes - at, piece = left < most ? left : most;

        if (team->node.me == source) {
            status = spread(team, root, (char *)buf + at, piece);
        }
        if (status == NIXL_OK) {
            status = NXR_ON_HOST(nxr_node_broadcast(team, source, (char *)buf + at, piece));
        }
    }
    return status;
}

struct piece {
    char *at;
    size_t nbytes;
};

/* Where a member's data goes in dst. */
static struct piece piece_from(const struct nxr_exchange *what, int team_rank)
{
    if (what->dst_nbytes == NULL) {
        return (struct piece){(char *)what->dst + (size_t)team_rank * what->nbytes, what->nbytes};
    }
    return (struct piece){(char *)what->dst + what->dst_offsets[team_rank],
                          what->dst_nbytes[team_rank]};
}

/* The next member on a host, from a team rank on; team->size: none. */
static int next_on(const struct nixl_team *team, int node, int team_rank)
{
    while (team_rank < team->size && team->node_of[team_rank] != node) {
        team_rank++;
    }
    return team_rank;
}

/* Send on the data of all members of one host, and receive that of another host. */
static int exchange2_pass_on(struct nixl_team *team, const struct nxr_exchange *what, int out_node,
                             int in_node)
{
    int n = team->n_nodes, out = next_on(team, out_node, 0), in = next_on(team, in_node, 0);
    int status = NIXL_OK;

    while ((out < team->size || in < team->size) && status == NIXL_OK) {
        struct nxr_mailbox_swap swap = {.to = -1, .from = -1};

        if (out < team->size) {
            struct piece piece = piece_from(what, out);

            swap.to = team->leaders[(team->my_node + 1) % n];
            swap.src = piece.at;
            swap.src_nbytes = piece.nbytes;
            out = next_on(team, out_node, out + 1);
        }
        if (in < team->size) {
            struct piece piece = piece_from(what, in);

            swap.from = team->leaders[(team->my_node - 1 + n) % n];
            swap.dst = piece.at;
            swap.dst_nbytes = piece.nbytes;
            in = next_on(team, in_node, in + 1);
        }
        status = nxr_mailbox_swap(team, &team->post, &swap);
    }
    return status;
}

/*
 * First on each host; then around a ring of the hosts; then share on each host what the others
 * sent.
 */
static int allgather(struct nixl_team *team, const struct nxr_exchange *what)
{
    int n = team->n_nodes, me = team->my_node, status = NXR_ON_HOST(nxr_node_exchange(team, what));

    for (int step = 0; step < n - 1 && team->node.me == 0 && status == NIXL_OK; step++) {
        status = exchange2_pass_on(team, what, (me - step + n) % n, (me - step - 1 + n) % n);
    }
    for (int i = 0; i < team->size && status == NIXL_OK; i++) {
        struct piece piece = piece_from(what, i);

        if (team->node_of[i] != me) {
            status = NXR_ON_HOST(nxr_node_broadcast(team, 0, piece.at, piece.nbytes));
        }
    }
    return status;
}

/* ---- to one ---------------------------------------------------------------------------------- */

/* What this member has for another one. */
static struct piece piece_to(const struct nxr_exchange *what, int team_rank)
{
    char *src = (char *)what->src;

    if (!what->is_private) {
        return (struct piece){src, what->nbytes};
    }
    if (what->src_nbytes == NULL) {
        return (struct piece){src + (size_t)team_rank * what->nbytes, what->nbytes};
    }
    return (struct piece){src + what->src_offsets[team_rank], what->src_nbytes[team_rank]};
}

static int exchange2_gather(struct nixl_team *team, const struct nxr_exchange *what)
{
    int status;

    if (team->node_of[what->root] != team->my_node) {
        return nxr_mailbox_send(team, &team->post, what->root, what->src, what->nbytes);
    }
    status = NXR_ON_HOST(nxr_node_exchange(team, what));
    for (int i = 0; i < team->size && team->me == what->root && status == NIXL_OK; i++) {
        struct piece piece = piece_from(what, i);

        if (team->node_of[i] != team->my_node) {
            status = nxr_mailbox_receive(team, &team->post, i, piece.at, piece.nbytes);
        }
    }
    return status;
}

static int scatter(struct nixl_team *team, const struct nxr_exchange *what)
{
    int status = NIXL_OK;

    if (team->node_of[what->root] != team->my_node) {
        return nxr_mailbox_receive(team, &team->post, what->root, what->dst, what->nbytes);
    }
    for (int i = 0; i < team->size && team->me == what->root && status == NIXL_OK; i++) {
        struct piece piece = piece_to(what, i);

        if (team->node_of[i] != team->my_node) {
            status = nxr_mailbox_send(team, &team->post, i, piece.at, piece.nbytes);
        }
    }
    return status == NIXL_OK ? NXR_ON_HOST(nxr_node_exchange(team, what)) : status;
}

/* At most nbytes of a piece, from an offset on; less or nothing at its end. */
static struct piece exchange2_part_of(struct piece piece, size_t at, size_t nbytes)
{
    size_t left = piece.nbytes > at ? piece.nbytes - at : 0;

    return (struct piece){left > 0 ? piece.at + at : NULL, left < nbytes ? left : nbytes};
}

/*
 * Send what fits into a slot, from an offset on, to the k-th member after this one on another host,
 * for each k.
 */
static int send_to_others(struct nixl_team *team, const struct nxr_exchange *what, size_t at)
{
    int n = team->size, status = NIXL_OK;

    for (int k = 1; k < n && status == NIXL_OK; k++) {
        int to = (team->me + k) % n;
        struct piece part = exchange2_part_of(piece_to(what, to), at, team->post.slot_nbytes);

        if (team->node_of[to] != team->my_node && part.nbytes > 0) {
            status = nxr_mailbox_send(team, &team->post, to, part.at, part.nbytes);
        }
    }
    return status;
}

/* Receive the same from the k-th member before. */
static int take_from_others(struct nixl_team *team, const struct nxr_exchange *what, size_t at)
{
    int n = team->size, status = NIXL_OK;

    for (int k = 1; k < n && status == NIXL_OK; k++) {
        int from = (team->me - k + n) % n;
        struct piece part = exchange2_part_of(piece_from(what, from), at, team->post.slot_nbytes);

        if (team->node_of[from] != team->my_node && part.nbytes > 0) {
            status = nxr_mailbox_receive(team, &team->post, from, part.at, part.nbytes);
        }
    }
    return status;
}

/* Make sure that all can send everything. *nbytes_p: the longest piece to or from another host. */
static int expect_others(struct nixl_team *team, const struct nxr_exchange *what, size_t *nbytes_p)
{
    size_t slot = team->post.slot_nbytes;
    int status = NIXL_OK;

    *nbytes_p = 0;
    for (int i = 0; i < team->size && status == NIXL_OK; i++) {
        size_t out = piece_to(what, i).nbytes, in = piece_from(what, i).nbytes;

        if (team->node_of[i] != team->my_node) {
            *nbytes_p = *nbytes_p > out ? *nbytes_p : out;
            *nbytes_p = *nbytes_p > in ? *nbytes_p : in;
            status = nxr_mailbox_expect(team, &team->post, i, (in + slot - 1) / slot);
        }
    }
    return status;
}

/* Two members alone: both ways at once, each message as a whole. */
static int swap_with_one(struct nixl_team *team, const struct nxr_exchange *what)
{
    int other = 1 - team->me;
    struct piece out = piece_to(what, other), in = piece_from(what, other);
    const struct nxr_mailbox_swap swap = {.to = out.nbytes > 0 ? other : -1,
                                          .src = out.at,
                                          .src_nbytes = out.nbytes,
                                          .from = in.nbytes > 0 ? other : -1,
                                          .dst = in.at,
                                          .dst_nbytes = in.nbytes};

    return out.nbytes > 0 || in.nbytes > 0 ? nxr_mailbox_swap(team, &team->post, &swap) : NIXL_OK;
}

/*
 * Swap with each member of the other hosts, slot by slot: the next slot goes to all before the last
 * one is waited for, so that the waits overlap.
 */
static int swap_with_others(struct nixl_team *team, const struct nxr_exchange *what)
{
    size_t slot = team->post.slot_nbytes, nbytes;
    int status = expect_others(team, what, &nbytes);

    for (size_t at = 0; at < nbytes + slot && status == NIXL_OK; at += slot) {
        status = send_to_others(team, what, at);
        if (status == NIXL_OK && at > 0) {
            status = take_from_others(team, what, at - slot);
        }
    }
    return status;
}

static int alltoall(struct nixl_team *team, const struct nxr_exchange *what)
{
    struct nxr_exchange copy = *what;
    size_t nbytes = (size_t)team->size * what->nbytes;
    void *scratch = NULL;
    int status = NIXL_OK;

    if (what->src == what->dst && !what->is_vector && nbytes > 0) {
        scratch = malloc(nbytes);
        if (scratch == NULL) {
            return nxr_team_break(team, NIXL_E_NO_MEMORY, -1);
        }
        status = nxr_team_copy(team, scratch, what->src, nbytes);
        copy.src = scratch;
    }
    if (status == NIXL_OK) {
        status = team->size == 2 ? swap_with_one(team, &copy) : swap_with_others(team, &copy);
    }
    if (status == NIXL_OK) {
        status = NXR_ON_HOST(nxr_node_exchange(team, &copy));
    }
    free(scratch);
    return status;
}

int nxr_two_level_exchange(struct nixl_team *team, const struct nxr_exchange *what)
{
    if (what->all_send && what->all_receive) {
        return what->is_private ? alltoall(team, what) : allgather(team, what);
    }
    if (what->all_send) {
        return exchange2_gather(team, what);
    }
    return what->is_private ? scatter(team, what)
                            : nxr_two_level_broadcast(team, what->root, what->dst, what->nbytes);
}
