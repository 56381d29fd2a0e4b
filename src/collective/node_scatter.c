/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of one member for each of the others on its host, through its slot. The root copies them
 * in one after the other and raises a flag for each, and each member copies its own out as soon as
 * it is there. Pieces that do not fit into the slot go in rounds, a window of each in a round; the
 * slot has places for the windows of one or more rounds. The member behind the root comes first: if
 * the root goes round from call to call, the next one can begin while this one works.
 *
 * Each round is a phase, and so is the end. If there are more members than flags, several share
 * one. A member that has copied a window out publishes the phase of its round if the place is used
 * again.
 */
#include "config.h"

#include "collective/device.h"
#include "collective/node_piece.h"

struct scatter {
    const struct nxr_exchange *what;
    int root;             /* on this host */
    size_t n_others;      /* members that receive through the slot */
    size_t window_nbytes; /* of each piece, in one round */
    size_t n_rounds;
    size_t n_places; /* for the windows of a round */
    uint64_t begun;  /* the last phase before */
};

static void scatter_cut(const struct nxr_node *node, struct scatter *scatter, size_t largest)
{
    size_t n = scatter->n_others, whole = nxr_node_lines_down(largest + NXR_LINE_NBYTES - 1);
    size_t half = NXR_NODE_SLOT_NBYTES / 2 / n, copy_piece = nxr_coll_table.copy_piece;

    scatter->n_places = 1;
    scatter->window_nbytes = whole;
    if (n == 1 && !node->is_crowded) {
        scatter->n_places = NXR_NODE_STREAM_PLACES;
        scatter->window_nbytes =
            nxr_node_lines_down(nxr_node_stream_part(largest, NXR_NODE_STREAM_NBYTES));
    } else if (n * whole > NXR_NODE_SLOT_NBYTES) {
        scatter->n_places = 2;
        scatter->window_nbytes =
            nxr_node_lines_down(half < copy_piece || node->is_crowded ? half : copy_piece);
    }
    scatter->n_rounds = (largest + scatter->window_nbytes - 1) / scatter->window_nbytes;
}

/* The root's flag for the k-th member behind it. */
static size_t flag_of(const struct scatter *scatter, size_t k)
{
    return scatter->n_others <= NXR_NODE_FLAGS ? k - 1
                                               : (k - 1) * NXR_NODE_FLAGS / scatter->n_others;
}

/* Is the k-th member the last one that waits for its flag? */
static bool is_last_of_flag(const struct scatter *scatter, size_t k)
{
    return k == scatter->n_others || flag_of(scatter, k) != flag_of(scatter, k + 1);
}

static uint64_t scatter_phase_of(const struct scatter *scatter, size_t round)
{
    return scatter->begun + round + 1;
}

static char *scatter_place_of(const struct nxr_node *node, const struct scatter *scatter,
                              size_t round, size_t k)
{
    size_t place = round % scatter->n_places * scatter->n_others + k - 1;

    return nxr_node_slot(node, scatter->root) + place * scatter->window_nbytes;
}

/* Copy a window in, once its member has left the one that was there before. */
static int scatter_copy_in(struct nixl_team *team, const struct scatter *scatter, size_t round,
                           size_t k)
{
    const struct nxr_node *node = &team->node;
    int member = (scatter->root + (int)k) % node->size, status = NIXL_OK;
    struct nxr_node_piece piece = nxr_node_piece_to(team, scatter->what, member);
    size_t at = round * scatter->window_nbytes;
    size_t nbytes = nxr_node_piece_in(piece.nbytes, at, scatter->window_nbytes);

    if (round >= scatter->n_places) {
        status = nxr_node_wait(team, member, scatter_phase_of(scatter, round - scatter->n_places));
    }
    return status == NIXL_OK && nbytes > 0
               ? nxr_team_copy(team, scatter_place_of(node, scatter, round, k), piece.src + at,
                               nbytes)
               : status;
}

/* In a crowd, members that wake up in the middle of a round would only take the root's core. */
static int scatter_send(struct nixl_team *team, const struct scatter *scatter)
{
    struct nxr_node *node = &team->node;
    int status = nxr_node_reuse_slot(team);

    for (size_t round = 0; round < scatter->n_rounds; round++) {
        for (size_t k = 1; k <= scatter->n_others; k++) {
            if (status == NIXL_OK) {
                status = scatter_copy_in(team, scatter, round, k);
            }
            if (status != NIXL_OK) {
                return status;
            }
            if (!node->is_crowded && is_last_of_flag(scatter, k)) {
                nxr_node_raise_flag(node, flag_of(scatter, k), scatter_phase_of(scatter, round));
            }
        }
        nxr_node_publish(node, scatter_phase_of(scatter, round));
    }
    return nxr_node_copy_own(team, scatter->what);
}

static int scatter_await(struct nixl_team *team, const struct scatter *scatter, size_t round,
                         size_t k)
{
    uint64_t phase = scatter_phase_of(scatter, round);

    return team->node.is_crowded
               ? nxr_node_wait(team, scatter->root, phase)
               : nxr_node_wait_flag(team, scatter->root, flag_of(scatter, k), phase);
}

static int scatter_receive(struct nixl_team *team, const struct scatter *scatter)
{
    struct nxr_node *node = &team->node;
    struct nxr_node_piece piece = nxr_node_piece_from(team, scatter->what, scatter->root);
    size_t k = (size_t)((node->me - scatter->root + node->size) % node->size);
    int status = NIXL_OK;

    for (size_t round = 0; round < scatter->n_rounds && status == NIXL_OK; round++) {
        size_t at = round * scatter->window_nbytes;
        size_t nbytes = nxr_node_piece_in(piece.nbytes, at, scatter->window_nbytes);

        status = scatter_await(team, scatter, round, k);
        if (status == NIXL_OK && nbytes > 0) {
            status = nxr_team_copy(team, piece.dst + at, scatter_place_of(node, scatter, round, k),
                                   nbytes);
        }
        if (status == NIXL_OK && round + scatter->n_places < scatter->n_rounds) {
            nxr_node_publish(node, scatter_phase_of(scatter, round));
        }
    }
    return status;
}

int nxr_node_scatter_slots(struct nixl_team *team, const struct nxr_exchange *what, size_t largest)
{
    struct nxr_node *node = &team->node;
    struct scatter scatter = {.what = what,
                              .root = team->local_index[what->root],
                              .n_others = (size_t)node->size - 1,
                              .begun = node->phase};
    bool is_root = node->me == scatter.root;
    int status;

    scatter_cut(node, &scatter, largest);
    status = is_root ? scatter_send(team, &scatter) : scatter_receive(team, &scatter);
    if (status != NIXL_OK) {
        return status;
    }
    nxr_node_publish(node, scatter_phase_of(&scatter, scatter.n_rounds));
    if (is_root) {
        nxr_node_lend_slot(node, -1);
    }
    return NIXL_OK;
}
