/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that moves on one host. A member that has data for others copies it into its cell if all of
 * it fits there; otherwise into its slot, all at once or piece by piece into a few places in turn.
 * The receivers copy it out, following the sender. Large data need not go through slots
 * (node_direct.c). Data may be device memory, except for what is put into cells directly.
 */
#include "config.h"

#include "collective/device.h"
#include "collective/node_piece.h"
#include "collective/phase.h"
#include "collective/plan.h"
#include "util/coll_table.h"
#include "util/symbol.h"

/* ---- broadcast of what fits into a cell ------------------------------------------------------ */

/* nxr_node_put_cell() for data in device memory. */
static int put_far_cell(struct nixl_team *team, const void *src, size_t nbytes)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    int status = nxr_node_reuse_cell(team, phase);

    if (status == NIXL_OK) {
        status =
            nxr_team_copy(team, nxr_node_cell_bytes(node, node->me, phase, nbytes), src, nbytes);
    }
    if (status == NIXL_OK) {
        nxr_node_publish_cell(node, phase);
    }
    return status;
}

NXR_HOT int nxr_node_broadcast_cell(struct nixl_team *team, int root, void *buf, size_t nbytes)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    int status;

    if (node->me == root) {
        return !team->is_plain && nxr_range_is_device(buf) ? put_far_cell(team, buf, nbytes)
                                                           : nxr_node_put_cell(team, buf, nbytes);
    }
    status = nxr_node_wait_cell(team, root, phase);
    if (status == NIXL_OK) {
        status = nxr_team_copy(team, buf, nxr_node_cell_bytes(node, root, phase, nbytes), nbytes);
        nxr_node_publish_cell(node, phase);
    }
    return status;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* In a crowd, members that copy more than this do not publish soon. */
#define SOON_NBYTES 256

/* Copy at most nbytes, from `at` on, of what a member has for itself. */
static int copy_own_part(struct nixl_team *team, const struct nxr_exchange *what, size_t at,
                         size_t nbytes)
{
    int me = team->node.me;
    struct nxr_node_piece from, to;
    size_t left;

    if (!nxr_node_sends(team, what, me) || !nxr_node_receives(team, what, me)) {
        return NIXL_OK;
    }
    from = nxr_node_piece_to(team, what, me);
    to = nxr_node_piece_from(team, what, me);
    left = to.nbytes > at ? to.nbytes - at : 0;
    return from.src != to.dst && left > 0
               ? nxr_team_copy(team, to.dst + at, from.src + at, left < nbytes ? left : nbytes)
               : NIXL_OK;
}

int nxr_node_copy_own(struct nixl_team *team, const struct nxr_exchange *what)
{
    return copy_own_part(team, what, 0, SIZE_MAX);
}

/* Part of what a sender has: where it is in transit, and which bytes of each piece it covers. */
struct window {
    size_t at;          /* in every piece */
    size_t nbytes;      /* of a piece, at most */
    size_t cell_nbytes; /* of all pieces, if they are in a cell; 0: they are in the slot */
    size_t slot_at;
};

static char *node_exchange_window_of(const struct nixl_team *team, const struct window *window,
                                     int sender, uint64_t phase)
{
    return window->cell_nbytes != 0
               ? (char *)nxr_node_cell_bytes(&team->node, sender, phase, window->cell_nbytes)
               : nxr_node_slot(&team->node, sender) + window->slot_at;
}

static size_t in_window(const struct window *window, size_t nbytes)
{
    return nxr_node_piece_in(nbytes, window->at, window->nbytes);
}

/* The number of that member's piece in a sender's window: the sender's own is not there. */
static size_t piece_number(int sender, int member)
{
    return (size_t)(member < sender ? member : member - 1);
}

static int node_exchange_copy_in(struct nixl_team *team, const struct nxr_exchange *what,
                                 const struct window *window, uint64_t phase)
{
    char *to = node_exchange_window_of(team, window, team->node.me, phase);
    int n_pieces = what->is_private ? team->node.size : 1, status = NIXL_OK;

    for (int i = 0; i < n_pieces && status == NIXL_OK; i++) {
        struct nxr_node_piece piece = nxr_node_piece_to(team, what, i);
        size_t nbytes = in_window(window, piece.nbytes);

        if (nbytes > 0 && !(what->is_private && i == team->node.me)) {
            size_t number = what->is_private ? piece_number(team->node.me, i) : 0;

            status =
                nxr_team_copy(team, to + number * window->nbytes, piece.src + window->at, nbytes);
        }
    }
    return status;
}

static int node_exchange_copy_out(struct nixl_team *team, const struct nxr_exchange *what,
                                  const struct window *window, uint64_t phase)
{
    const struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    /* Each starts with another member, so that not all read the same memory at once. */
    for (int k = 1; k < node->size && status == NIXL_OK; k++) {
        int i = (node->me + k) % node->size;
        struct nxr_node_piece piece = nxr_node_piece_from(team, what, i);
        size_t nbytes = in_window(window, piece.nbytes);
        size_t mine = what->is_private ? piece_number(i, node->me) * window->nbytes : 0;

        if (!nxr_node_sends(team, what, i)) {
            continue;
        }
        status = window->cell_nbytes != 0 ? nxr_node_wait_cell(team, i, phase)
                                          : nxr_node_wait(team, i, phase);
        if (status == NIXL_OK && nbytes > 0) {
            status = nxr_team_copy(team, piece.dst + window->at,
                                   node_exchange_window_of(team, window, i, phase) + mine, nbytes);
        }
    }
    return status;
}

/* All of it fits into the cells. */
NXR_HOT static int exchange_cells(struct nixl_team *team, const struct nxr_exchange *what,
                                  size_t largest)
{
    struct nxr_node *node = &team->node;
    const struct window window = {.nbytes = largest,
                                  .cell_nbytes = largest * nxr_node_pieces_of(team, what)};
    uint64_t phase = node->phase + 1;
    int status = NIXL_OK;

    if (nxr_node_has_readers(team, what)) {
        status = nxr_node_reuse_cell(team, phase);
        if (status == NIXL_OK) {
            status = node_exchange_copy_in(team, what, &window, phase);
        }
    }
    if (status == NIXL_OK) {
        status = nxr_node_copy_own(team, what);
    }
    if (status == NIXL_OK) {
        nxr_node_publish_cell(node, phase);
    }
    return status == NIXL_OK && nxr_node_receives(team, what, node->me)
               ? node_exchange_copy_out(team, what, &window, phase)
               : status;
}

/* How a slot is used: places of so many bytes, in turn. */
struct rounds {
    size_t nbytes;
    int n_places;
};

/*
 * How many bytes of a slot one round uses. If all send and receive, all proceed in step: few rounds
 * with much data are best, and one round may use the whole slot. But if members share a core, what
 * one has copied in should still be in its cache when the others read it. In all other exchanges,
 * receivers copy out while the next part is copied in.
 */
static struct rounds node_exchange_rounds(const struct nixl_team *team,
                                          const struct nxr_exchange *what, size_t largest)
{
    size_t half = NXR_NODE_SLOT_NBYTES / 2;

    if (what->all_send && what->all_receive) {
        return (struct rounds){team->node.is_crowded             ? NXR_NODE_CROWD_NBYTES
                               : largest <= NXR_NODE_SLOT_NBYTES ? NXR_NODE_SLOT_NBYTES
                                                                 : half,
                               2};
    }
    if (team->node.is_crowded) {
        return (struct rounds){half, 2};
    }
    return (struct rounds){nxr_node_stream_part(largest, what->all_send ? NXR_NODE_GATHER_NBYTES
                                                                        : NXR_NODE_STREAM_NBYTES),
                           NXR_NODE_STREAM_PLACES};
}

/* A piece for all, part by part through the slots: a phase for each round, and one at the end. */
int nxr_node_exchange_slots(struct nixl_team *team, const struct nxr_exchange *what, size_t largest)
{
    struct nxr_node *node = &team->node;
    struct rounds rounds = node_exchange_rounds(team, what, largest);
    size_t place_nbytes = NXR_NODE_SLOT_NBYTES / (size_t)rounds.n_places;
    struct window window = {.nbytes = nxr_node_lines_down(rounds.nbytes)};
    /* Of a gather the root, too: its core keeps the slot's lines for when it sends (4 KiB: 0.7). */
    bool is_sender = nxr_node_sends(team, what, node->me);
    int status;

    if (what->is_private) {
        return what->all_send ? nxr_node_alltoall_slots(team, what, largest)
                              : nxr_node_scatter_slots(team, what, largest);
    }
    place_nbytes = nxr_node_lines_down(rounds.nbytes < place_nbytes ? rounds.nbytes : place_nbytes);
    status = is_sender ? nxr_node_reuse_slot(team) : NIXL_OK;

    for (int round = 0; window.at < largest && status == NIXL_OK; round++) {
        if (is_sender) {
            /* A member that has started a round will not read what it read in the round before. */
            status = round >= rounds.n_places
                         ? nxr_node_wait_receivers(team, what,
                                                   node->phase - (uint64_t)rounds.n_places + 2)
                         : NIXL_OK;
            if (status == NIXL_OK) {
                status = node_exchange_copy_in(team, what, &window, 0);
            }
            if (status != NIXL_OK) {
                return status;
            }
        }
        nxr_node_publish(node, node->phase + 1);
        status = copy_own_part(team, what, window.at, window.nbytes);
        if (status == NIXL_OK && nxr_node_receives(team, what, node->me)) {
            status = node_exchange_copy_out(team, what, &window, node->phase);
        }
        window.at += window.nbytes;
        window.slot_at = (size_t)((round + 1) % rounds.n_places) * place_nbytes;
    }
    nxr_node_publish(node, node->phase + 1);
    if (is_sender) {
        nxr_node_lend_slot(node, what->all_receive ? -1 : team->local_index[what->root]);
    }
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* If all send one piece to all, each member knows the size of every piece. */
static bool knows_all_sizes(const struct nxr_exchange *what)
{
    return what->all_send && what->all_receive && !what->is_private;
}

static size_t largest_known(const struct nixl_team *team, const struct nxr_exchange *what)
{
    size_t largest = 0;

    for (int i = 0; i < team->node.size; i++) {
        size_t nbytes = nxr_node_piece_from(team, what, i).nbytes;

        largest = nbytes > largest ? nbytes : largest;
    }
    return largest;
}

/* The largest piece of all members; each publishes the largest that it knows of. */
static int find_largest(struct nixl_team *team, const struct nxr_exchange *what, size_t *largest_p)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    size_t largest = 0, told;
    int status;

    for (int i = 0; i < node->size; i++) {
        size_t to =
            nxr_node_sends(team, what, node->me) ? nxr_node_piece_to(team, what, i).nbytes : 0;

        largest = to > largest ? to : largest;
    }
    status = nxr_node_put_cell(team, &largest, sizeof(largest));
    if (status == NIXL_OK) {
        status = nxr_node_wait_cells(team, phase);
    }
    for (int i = 0; i < node->size && status == NIXL_OK; i++) {
        if (i != node->me) { /* its own cell is on the way to others */
            __builtin_memcpy(&told, nxr_node_cell_bytes(node, i, phase, sizeof(told)),
                             sizeof(told));
            largest = told > largest ? told : largest;
        }
    }
    *largest_p = largest;
    return status;
}

/* The same; a plan keeps the answer. */
static int recall_largest(struct nixl_team *team, const struct nxr_exchange *what,
                          size_t *largest_p)
{
    struct nxr_plan *plan = team->plan;
    int status;

    if (plan != NULL && plan->knows_largest) {
        *largest_p = plan->largest;
        return NIXL_OK;
    }
    status = find_largest(team, what, largest_p);
    if (plan != NULL) {
        plan->knows_largest = status == NIXL_OK;
        plan->largest = *largest_p;
    }
    return status;
}

/*
 * A gather of such sizes takes longer through cells, if its members have cores of their own: its
 * senders run ahead of the root, which then finds less of what they wrote in their first caches.
 */
#define GATHER_SLOTS_FROM  1025
#define GATHER_SLOTS_UP_TO 16384

static inline int exchange_small(struct nixl_team *team, const struct nxr_exchange *what,
                                 size_t largest)
{
    bool takes_slots = largest >= GATHER_SLOTS_FROM && largest <= GATHER_SLOTS_UP_TO &&
                       what->all_send && !what->all_receive && !team->node.is_crowded;

    return takes_slots ? nxr_node_exchange_slots(team, what, largest)
                       : exchange_cells(team, what, largest);
}

int nxr_node_exchange_copies(struct nixl_team *team, const struct nxr_exchange *what,
                             size_t largest, bool is_small)
{
    return is_small ? exchange_small(team, what, largest)
                    : nxr_node_exchange_slots(team, what, largest);
}

/* Do the members know without asking each other that data that fits into cells goes there? */
static inline bool goes_into_cells(struct nixl_team *team, enum nxr_trial_operation of,
                                   size_t nbytes)
{
    return nbytes < nxr_coll_table.direct_from || nxr_trial_needs_no_offer(team, of, nbytes);
}

NXR_HOT static int exchange_here(struct nixl_team *team, const struct nxr_exchange *what)
{
    size_t largest = what->nbytes;
    int status = NIXL_OK;

    if (team->node.size == 1) {
        return nxr_node_copy_own(team, what);
    }
    if (what->is_vector && knows_all_sizes(what)) {
        largest = largest_known(team, what);
    } else if (what->is_vector) {
        status = recall_largest(team, what, &largest);
    }
    if (status != NIXL_OK || largest == 0) {
        return status;
    }
    if (!nxr_node_is_small(team, what, largest) ||
        !goes_into_cells(team, nxr_node_exchange_operation(what), largest)) {
        return nxr_node_exchange_large(team, what, largest);
    }
    return nxr_plan_is_making(team) ? NXR_PLANNED : exchange_small(team, what, largest);
}

NXR_HOT int nxr_node_exchange(struct nixl_team *team, const struct nxr_exchange *what)
{
    int status;

    team->node.yields_at_once =
        !(what->all_send && what->all_receive) || what->nbytes > SOON_NBYTES;
    status = exchange_here(team, what);
    team->node.yields_at_once = false;
    return status;
}

NXR_HOT int nxr_node_broadcast(struct nixl_team *team, int root, void *buf, size_t nbytes)
{
    if (nbytes == 0 || team->node.size == 1) {
        return NIXL_OK;
    }
    if (nbytes > nxr_node_cell_up_to(&team->node, false) ||
        !goes_into_cells(team, NXR_TRIAL_BROADCAST, nbytes)) {
        return nxr_node_broadcast_large(team, root, buf, nbytes);
    }
    return nxr_plan_is_making(team) ? NXR_PLANNED
                                    : nxr_node_broadcast_cell(team, root, buf, nbytes);
}
