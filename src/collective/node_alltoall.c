/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of all members for all others on one host, through their slots. In a round, each member
 * swaps pieces with a few others: those for which the sum of the two numbers has one of a few
 * values. So pieces stay long, no matter how many members there are; short ones, each from another
 * buffer, would make poor use of caches, page tables and prefetchers. Data for a member is copied
 * in before data from it is copied out, so in place works. The halves of a slot are used in turn,
 * and a member waits only for those it swaps with.
 */
#include "config.h"

#include "collective/device.h"
#include "collective/node_piece.h"
#include "collective/phase.h"

/*
 * In a crowd, members swap pieces of NXR_NODE_CROWD_NBYTES, with one member at a time. Otherwise,
 * longer pieces than these gain nothing, and rounds with fewer members mean more waits.
 */
#define PIECE_NBYTES (128ul << 10)

/*
 * A window of the pieces between members whose numbers add up to one of a few sums, modulo the
 * size.
 */
struct round {
    int first;  /* sum */
    int n_sums; /* 0: there was no such round */
    size_t at;  /* in every piece */
    size_t nbytes;
    size_t slot_at;
};

/*
 * The first round. One round is enough if everything fits and no members share a core. With all
 * sums, each member is its own partner in one of them, which takes no room.
 */
static struct round first_round(const struct nixl_team *team, size_t largest)
{
    size_t size = (size_t)team->node.size, n_sums;
    size_t whole = nxr_node_lines_down(NXR_NODE_SLOT_NBYTES / (size - 1));
    size_t room = team->node.is_crowded ? NXR_NODE_CROWD_NBYTES : NXR_NODE_SLOT_NBYTES / 2;
    size_t wanted = team->node.is_crowded ? NXR_NODE_CROWD_NBYTES : PIECE_NBYTES;

    if (!team->node.is_crowded && largest <= whole) {
        return (struct round){.n_sums = (int)size, .nbytes = whole};
    }
    wanted = largest < wanted ? largest : wanted;
    n_sums = room / (wanted < NXR_LINE_NBYTES ? NXR_LINE_NBYTES : wanted);
    if (n_sums + 1 >= size) {
        return (struct round){.n_sums = (int)size,
                              .nbytes = nxr_node_lines_down(room / (size - 1))};
    }
    return (struct round){.n_sums = (int)n_sums, .nbytes = nxr_node_lines_down(room / n_sums)};
}

/* The next window with the same members, or the first with the next ones; false: that was all. */
static bool next_round(const struct nixl_team *team, size_t largest, struct round *round)
{
    round->slot_at = NXR_NODE_SLOT_NBYTES / 2 - round->slot_at;
    round->at += round->nbytes;
    if (round->at >= largest) {
        int n_left = team->node.size - round->first - round->n_sums;

        round->at = 0;
        round->first += round->n_sums;
        round->n_sums = n_left < round->n_sums ? n_left : round->n_sums;
    }
    return round->n_sums > 0;
}

/* The member that `member` swaps with at the k-th sum of a round; may be itself. */
static int node_alltoall_partner(const struct nxr_node *node, const struct round *round, int member,
                                 int k)
{
    return (round->first + k + node->size - member) % node->size;
}

/* Where the k-th piece of a round is in its owner's slot; the owner's own piece takes no room. */
static char *node_alltoall_place_of(const struct nxr_node *node, const struct round *round,
                                    int owner, int k)
{
    int own = (2 * owner + node->size - round->first) % node->size;
    size_t place = (size_t)(own < k ? k - 1 : k);

    return nxr_node_slot(node, owner) + round->slot_at + place * round->nbytes;
}

/* A member that has started the next round will not read this round's half again. */
static int wait_readers(struct nixl_team *team, const struct round *round)
{
    struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    for (int k = 0; k < round->n_sums && status == NIXL_OK; k++) {
        int i = node_alltoall_partner(node, round, node->me, k);

        status = i != node->me ? nxr_node_wait(team, i, node->phase) : NIXL_OK;
    }
    return status;
}

static int node_alltoall_copy_in(struct nixl_team *team, const struct nxr_exchange *what,
                                 const struct round *round)
{
    const struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    for (int k = 0; k < round->n_sums && status == NIXL_OK; k++) {
        int i = node_alltoall_partner(node, round, node->me, k);
        struct nxr_node_piece piece = nxr_node_piece_to(team, what, i);
        size_t nbytes = nxr_node_piece_in(piece.nbytes, round->at, round->nbytes);

        if (i != node->me && nbytes > 0) {
            status = nxr_team_copy(team, node_alltoall_place_of(node, round, node->me, k),
                                   piece.src + round->at, nbytes);
        }
    }
    return status;
}

/* Copy what a member has for itself. */
static int node_alltoall_copy_own(struct nixl_team *team, const struct nxr_exchange *what,
                                  size_t at, size_t nbytes)
{
    struct nxr_node_piece from = nxr_node_piece_to(team, what, team->node.me);
    struct nxr_node_piece to = nxr_node_piece_from(team, what, team->node.me);

    return from.src != to.dst && nbytes > 0
               ? nxr_team_copy(team, to.dst + at, from.src + at, nbytes)
               : NIXL_OK;
}

static int node_alltoall_copy_out(struct nixl_team *team, const struct nxr_exchange *what,
                                  const struct round *round)
{
    const struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    for (int k = 0; k < round->n_sums && status == NIXL_OK; k++) {
        int i = node_alltoall_partner(node, round, node->me, k);
        struct nxr_node_piece piece = nxr_node_piece_from(team, what, i);
        size_t nbytes = nxr_node_piece_in(piece.nbytes, round->at, round->nbytes);

        if (i == node->me) {
            status = node_alltoall_copy_own(team, what, round->at, nbytes);
            continue;
        }
        status = nxr_node_wait(team, i, node->phase);
        if (status == NIXL_OK && nbytes > 0) {
            status = nxr_team_copy(team, piece.dst + round->at,
                                   node_alltoall_place_of(node, round, i, k), nbytes);
        }
    }
    return status;
}

int nxr_node_alltoall_slots(struct nixl_team *team, const struct nxr_exchange *what, size_t largest)
{
    struct nxr_node *node = &team->node;
    struct round round = first_round(team, largest), before[2] = {{0}, {0}};
    int status = nxr_node_reuse_slot(team);

    for (bool is_left = true; is_left && status == NIXL_OK;
         is_left = next_round(team, largest, &round)) {
        status = wait_readers(team, &before[1]);
        if (status == NIXL_OK) {
            status = node_alltoall_copy_in(team, what, &round);
        }
        if (status != NIXL_OK) {
            return status;
        }
        nxr_node_publish(node, node->phase + 1);
        status = node_alltoall_copy_out(team, what, &round);
        before[1] = before[0];
        before[0] = round;
    }
    nxr_node_publish(node, node->phase + 1);
    nxr_node_lend_slot(node, -1);
    return status;
}
