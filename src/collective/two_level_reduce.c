/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier and reductions over several hosts: first within each host, then among one member of each,
 * its leader, then within each host again. Among the leaders, small data uses recursive doubling,
 * large data a ring, in blocks. Operands are combined in an order that depends only on the team and
 * the size. No lock.
 */
#include "config.h"

#include "collective/phase.h"
#include "collective/two_level.h"
#include "util/coll_table.h"

#include <stdlib.h>

/* Bytes that are passed on along a chain of members while the next ones arrive. */
#define CHAIN_NBYTES (256ul << 10)

/*
 * Between two hosts, a ring moves as many bytes as a full swap, in twice the steps: up to this size
 * they swap; beyond it, a swap would take too much memory.
 */
#define SWAP_NBYTES (4ul << 20)

/* The first member speaks for its host. */
static bool is_leader_of_host(const struct nixl_team *team)
{
    return team->node.me == 0;
}

int nxr_two_level_barrier(struct nixl_team *team)
{
    int n = team->n_nodes, status = NXR_ON_HOST(nxr_node_barrier(team));

    for (int k = 1; k < n && is_leader_of_host(team) && status == NIXL_OK; k *= 2) {
        const struct nxr_mailbox_swap swap = {.to = team->leaders[(team->my_node + k) % n],
                                              .from = team->leaders[(team->my_node - k + n) % n]};

        status = nxr_mailbox_swap(team, &team->post, &swap);
    }
    return status == NIXL_OK ? NXR_ON_HOST(nxr_node_barrier(team)) : status;
}

/* ---- allreduce among the leaders ------------------------------------------------------------ */

/*
 * Swap this host's data, in src or dst, with another host; both combine it into dst, with the lower
 * host number on the left.
 */
static int swap_all(struct nixl_team *team, int node, const struct nxr_reduction *what,
                    const void *mine, void *scratch)
{
    struct nxr_mailbox_swap swap = {.to = team->leaders[node],
                                    .src = mine,
                                    .src_nbytes = what->nbytes,
                                    .from = team->leaders[node],
                                    .dst = what->dst,
                                    .dst_nbytes = what->nbytes,
                                    .combine = &what->combine,
                                    .operand = mine,
                                    .is_right = node > team->my_node};

    if (mine == what->dst) { /* it changes while it is sent */
        swap.src = scratch;
        nxr_copy(scratch, mine, what->nbytes);
    }
    return nxr_mailbox_swap(team, &team->post, &swap);
}

/* Receive and combine all of another host's data. */
static int take_all(struct nixl_team *team, int node, const struct nxr_reduction *what,
                    const void *mine)
{
    const struct nxr_mailbox_swap swap = {.to = -1,
                                          .from = team->leaders[node],
                                          .dst = what->dst,
                                          .dst_nbytes = what->nbytes,
                                          .combine = &what->combine,
                                          .operand = mine,
                                          .is_right = true};

    return nxr_mailbox_swap(team, &team->post, &swap);
}

/*
 * Recursive doubling among the largest power of two of hosts; each of the other hosts sends its
 * data to one of these first, and gets the result at the end.
 */
static int double_up(struct nixl_team *team, const struct nxr_reduction *what, void *scratch)
{
    int n = 1, me = team->my_node, status = NIXL_OK;
    const void *mine = what->src; /* dst, once anything was combined */

    while (2 * n <= team->n_nodes) {
        n *= 2;
    }
    if (me >= n) {
        status = nxr_mailbox_send_operands(team, &team->post, team->leaders[me - n], &what->combine,
                                           mine, what->nbytes);
        return status == NIXL_OK ? nxr_mailbox_receive(team, &team->post, team->leaders[me - n],
                                                       what->dst, what->nbytes)
                                 : status;
    }
    if (me + n < team->n_nodes) {
        status = take_all(team, me + n, what, mine);
        mine = what->dst;
    }
    for (int k = 1; k < n && status == NIXL_OK; k *= 2) {
        status = swap_all(team, me ^ k, what, mine, scratch);
        mine = what->dst;
    }
    if (me + n < team->n_nodes && status == NIXL_OK) {
        status =
            nxr_mailbox_send(team, &team->post, team->leaders[me + n], what->dst, what->nbytes);
    }
    return status;
}

/* A block of the data for each host; the last ones may have less, or nothing. */
struct block {
    size_t at;
    size_t nbytes;
};

static struct block block_of(const struct nixl_team *team, const struct nxr_reduction *what,
                             int node)
{
    size_t n = (size_t)team->n_nodes, element = what->combine.element_nbytes;
    size_t count = what->nbytes / element, each = (count + n - 1) / n * element;
    size_t begin = (size_t)node * each, left;

    begin = begin < what->nbytes ? begin : what->nbytes;
    left = what->nbytes - begin;
    return (struct block){begin, left < each ? left : each};
}

/*
 * Twice around: each block is combined host by host, then its result goes to all. This member's
 * operands are used in place.
 */
static int go_round(struct nixl_team *team, const struct nxr_reduction *what)
{
    int n = team->n_nodes, me = team->my_node, status = NIXL_OK;
    const char *src = what->src;
    char *dst = what->dst;

    for (int step = 0; step < 2 * (n - 1) && status == NIXL_OK; step++) {
        struct block out = block_of(team, what, ((me - step) % n + n) % n);
        struct block in = block_of(team, what, ((me - step - 1) % n + n) % n);
        const struct nxr_mailbox_swap swap = {.to = team->leaders[(me + 1) % n],
                                              .src = (step == 0 ? src : dst) + out.at,
                                              .src_nbytes = out.nbytes,
                                              .from = team->leaders[(me - 1 + n) % n],
                                              .dst = dst + in.at,
                                              .dst_nbytes = in.nbytes,
                                              .combine = step < n - 1 ? &what->combine : NULL,
                                              .operand = src + in.at};

        status = nxr_mailbox_swap(team, &team->post, &swap);
    }
    return status;
}

/* All leaders have operands in src, which may be dst; all get the result in dst. */
static int reduce_leaders(struct nixl_team *team, const struct nxr_reduction *what)
{
    size_t ring_from = nxr_coll_table.ring_from;
    void *scratch;
    int status;

    if (team->n_nodes == 2 && ring_from < SWAP_NBYTES) {
        ring_from = SWAP_NBYTES;
    }
    if (what->nbytes > ring_from) {
        return go_round(team, what);
    }
    scratch = malloc(what->nbytes);
    if (scratch == NULL) {
        return nxr_team_break(team, NIXL_E_NO_MEMORY, -1);
    }
    status = double_up(team, what, scratch);
    free(scratch);
    return status;
}

/* ---- the kinds ------------------------------------------------------------------------------- */

static int allreduce(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_reduction on_host = *what, of_hosts = *what;
    int status = NIXL_OK;

    if (team->node.size > 1) { /* otherwise the operands are sent from where they lie */
        on_host.kind = NXR_REDUCE;
        on_host.root = 0;
        of_hosts.src = what->dst;
        status = NXR_ON_HOST(nxr_node_reduce(team, &on_host));
    }
    if (status == NIXL_OK && is_leader_of_host(team)) {
        status = reduce_leaders(team, &of_hosts);
    }
    return status == NIXL_OK ? NXR_ON_HOST(nxr_node_broadcast(team, 0, what->dst, what->nbytes))
                             : status;
}

/* Along a tree of the hosts, rooted at the root's host; on that host the root speaks. */
static int reduce_to_root(struct nixl_team *team, const struct nxr_reduction *what, int root)
{
    int n = team->n_nodes, root_node = team->node_of[root];
    int me = (team->my_node - root_node + n) % n, status = NIXL_OK;

    for (int k = 1; k < n && status == NIXL_OK; k *= 2) {
        if ((me & k) != 0) {
            int node = (me - k + root_node) % n, to = team->leaders[node];

            return nxr_mailbox_send_operands(team, &team->post, node == root_node ? root : to,
                                             &what->combine, what->dst, what->nbytes);
        }
        if (me + k < n) {
            status = take_all(team, (me + k + root_node) % n, what, what->dst);
        }
    }
    return status;
}

static int reduce2_reduce(struct nixl_team *team, const struct nxr_reduction *what)
{
    bool is_at_root = team->node_of[what->root] == team->my_node;
    struct nxr_reduction on_host = *what;
    void *scratch = NULL;
    int status;

    on_host.root = is_at_root ? team->local_index[what->root] : 0;
    if (team->node.me == on_host.root && team->me != what->root) {
        scratch = malloc(what->nbytes);
        on_host.dst = scratch;
        if (scratch == NULL) {
            return nxr_team_break(team, NIXL_E_NO_MEMORY, -1);
        }
    }
    status = NXR_ON_HOST(nxr_node_reduce(team, &on_host));
    if (status == NIXL_OK && team->node.me == on_host.root) {
        status = reduce_to_root(team, &on_host, what->root);
    }
    free(scratch);
    return status;
}

/*
 * Few bytes are reduced as a whole, in fewer steps than there are hosts. Two members alone need
 * only one step either way.
 */
static int reduce_scatter(struct nixl_team *team, const struct nxr_reduction *what)
{
    size_t part = what->nbytes / (size_t)team->size;
    struct nxr_reduction all = *what;
    int status;

    if (what->nbytes > nxr_coll_table.ring_from || team->size == 2) {
        return nxr_two_level_reduce_scatter(team, what);
    }
    all.kind = NXR_ALLREDUCE;
    all.dst = malloc(what->nbytes);
    if (all.dst == NULL) {
        return nxr_team_break(team, NIXL_E_NO_MEMORY, -1);
    }
    status = allreduce(team, &all);
    if (status == NIXL_OK) {
        nxr_copy(what->dst, (char *)all.dst + (size_t)team->me * part, part);
    }
    free(all.dst);
    return status;
}

/*
 * A piece of the prefix: what the member before has sent, and the same with this member's operands.
 */
struct prefix {
    char *before;
    char *with_own;
};

/* Receive what the members before have, add this member's operands, and pass it on. */
static int pass_prefix(struct nixl_team *team, const struct nxr_reduction *what,
                       const struct prefix *prefix, const char *src, size_t nbytes)
{
    int status = NIXL_OK;

    if (team->me > 0) {
        status = nxr_mailbox_receive(team, &team->post, team->me - 1, prefix->before, nbytes);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (team->me > 0) {
        nxr_combine_two(&what->combine, prefix->with_own, prefix->before, src, nbytes);
    } else {
        nxr_copy(prefix->with_own, src, nbytes);
    }
    return team->me + 1 < team->size
               ? nxr_mailbox_send(team, &team->post, team->me + 1, prefix->with_own, nbytes)
               : NIXL_OK;
}

/* In the order of team ranks: the members of a host need not have adjacent team ranks. */
static int scan(struct nixl_team *team, const struct nxr_reduction *what)
{
    size_t piece = CHAIN_NBYTES - CHAIN_NBYTES % what->combine.element_nbytes;
    char *memory = malloc(2 * piece);
    struct prefix prefix;
    int status = NIXL_OK;

    if (memory == NULL) {
        return nxr_team_break(team, NIXL_E_NO_MEMORY, -1);
    }
    prefix = (struct prefix){memory, memory + piece};
    for (size_t at = 0; at < what->nbytes && status == NIXL_OK; at += piece) {
        size_t left = what->nbytes - at, nbytes = left < piece ? left : piece;

        status = pass_prefix(team, what, &prefix, (const char *)what->src + at, nbytes);
        if (status == NIXL_OK && !what->is_exclusive) {
            nxr_copy((char *)what->dst + at, prefix.with_own, nbytes);
        } else if (status == NIXL_OK && team->me > 0) {
            nxr_copy((char *)what->dst + at, prefix.before, nbytes);
        }
    }
    free(memory);
    return status;
}

int nxr_two_level_reduce(struct nixl_team *team, const struct nxr_reduction *what)
{
    if (what->nbytes == 0) {
        return NIXL_OK;
    }
    switch (what->kind) {
    case NXR_ALLREDUCE:
        return allreduce(team, what);
    case NXR_REDUCE:
        return reduce2_reduce(team, what);
    case NXR_REDUCE_SCATTER:
        return reduce_scatter(team, what);
    default:
        return scan(team, what);
    }
}
