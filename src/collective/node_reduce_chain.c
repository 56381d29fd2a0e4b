/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large reductions in a crowd, with private buffers. Members that share cores run one after the
 * other anyway, so each adds its operands to what those before it have combined. The first member's
 * slot has the sums, which stay in the caches while every operand is read once. Slots with operands
 * for all would be written, read, and exceed any cache. A piece goes from member to member and the
 * next one follows, so that as many members as there are pieces can work at once. Then all copy the
 * sums.
 *
 * One slot of sums is one round; the rounds use the slots of the first two members in turn. A phase
 * is published for each piece of a round, and one when the sums were copied. The order of the
 * operands is that of the members, as in slots.
 */
#include "config.h"

#include "collective/node_collective.h"
#include "collective/phase.h"
#include "util/coll_table.h"

struct round {
    const struct nxr_reduction *what;
    char *sums;
    size_t at;     /* in the operands */
    size_t nbytes; /* of the sums */
    size_t piece_nbytes;
    uint64_t begun; /* the last phase before it */
};

static size_t bytes_at(const struct round *round, size_t at)
{
    size_t left = round->nbytes - at;

    return left < round->piece_nbytes ? left : round->piece_nbytes;
}

/* Add this member's operands to the sums of those before it. */
static int add_own(struct nixl_team *team, const struct round *round)
{
    struct nxr_node *node = &team->node;
    const char *src = (const char *)round->what->src + round->at;
    int status = NIXL_OK;

    for (size_t at = 0; at < round->nbytes; at += round->piece_nbytes) {
        char *sums = round->sums + at;
        size_t nbytes = bytes_at(round, at);

        if (node->me == 0) {
            nxr_copy(sums, src + at, nbytes);
        } else {
            status = nxr_node_wait(team, node->me - 1, node->phase + 1);
            if (status != NIXL_OK) {
                return status;
            }
            nxr_combine_two(&round->what->combine, sums, sums, src + at, nbytes);
        }
        nxr_node_publish(node, node->phase + 1);
    }
    return status;
}

/*
 * The part of the result that goes to a member's dst: *at_p is its offset in the operands. Returns
 * its bytes.
 */
static size_t chain_part_of(const struct nixl_team *team, const struct nxr_reduction *what,
                            size_t *at_p)
{
    const struct nxr_node *node = &team->node;
    size_t part = what->nbytes;

    *at_p = 0;
    if (what->kind == NXR_REDUCE_SCATTER) {
        part /= (size_t)node->size;
        *at_p = part * (size_t)node->me;
    }
    return what->kind != NXR_REDUCE || node->me == what->root ? part : 0;
}

/*
 * Copy what this member wants of the sums, once the last member, and so all before it, have added
 * to them.
 */
static int copy_sums(struct nixl_team *team, const struct round *round)
{
    struct nxr_node *node = &team->node;
    size_t begin, part_end = chain_part_of(team, round->what, &begin);
    uint64_t phase = round->begun;
    int status = NIXL_OK;

    part_end += begin;
    for (size_t at = 0; at < round->nbytes && status == NIXL_OK; at += round->piece_nbytes) {
        size_t from = round->at + at, to = from + bytes_at(round, at);

        from = from > begin ? from : begin;
        to = to < part_end ? to : part_end;
        phase++;
        if (from >= to) {
            continue;
        }
        status = nxr_node_wait(team, node->size - 1, phase);
        if (status == NIXL_OK) {
            node->known = phase > node->known ? phase : node->known;
            nxr_copy((char *)round->what->dst + (from - begin), round->sums + (from - round->at),
                     to - from);
        }
    }
    return status;
}

int nxr_node_reduce_chain(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_node *node = &team->node;
    size_t element = what->combine.element_nbytes;
    size_t piece = nxr_coll_table.reduce_piece / element * element;
    size_t room = NXR_NODE_SLOT_NBYTES / piece * piece;
    uint64_t left[2] = {node->phase, node->phase}; /* a slot is free when all have left */
    int status = NIXL_OK;

    for (size_t at = 0, i = 0; at < what->nbytes && status == NIXL_OK; at += room, i = 1 - i) {
        size_t nbytes = what->nbytes - at;
        struct round round = {.what = what,
                              .sums = nxr_node_slot(node, (int)i),
                              .at = at,
                              .nbytes = nbytes < room ? nbytes : room,
                              .piece_nbytes = piece,
                              .begun = node->phase};

        status = node->me == 0 ? nxr_node_wait_all(team, left[i]) : NIXL_OK;
        if (status == NIXL_OK) {
            status = add_own(team, &round);
        }
        if (status == NIXL_OK) {
            status = copy_sums(team, &round);
        }
        if (status == NIXL_OK) {
            nxr_node_publish(node, node->phase + 1);
            left[i] = node->phase;
        }
    }
    nxr_node_lend_slot(node, -1);
    return status;
}
