/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The building blocks of collectives on one host: waiting for phases, and small data in cells. The
 * usual case is a few loads; everything else is in node.c. If a function that returns int does not
 * return NIXL_OK, the call ends.
 */
#ifndef NXR_COLLECTIVE_PHASE_H
#define NXR_COLLECTIVE_PHASE_H

#include "collective/team.h"
#include "util/copy.h"
#include "util/lock.h"

static inline int nxr_node_wait(struct nixl_team *team, int member, uint64_t phase)
{
    int n_looks = team->node.is_crowded ? 1 : NXR_CLOSE_LOOKS;

    for (int i = 0; i < n_looks; i++) {
        if (nxr_node_has_reached(&team->node, member, phase)) {
            return NIXL_OK;
        }
        nxr_look_again();
    }
    return nxr_node_wait_slow(team, &(struct nxr_node_awaited){member, phase, NULL});
}

/* Wait until one word has the awaited phase: a flag, or that of a cell. */
static inline int nxr_node_wait_word(struct nixl_team *team, const _Atomic uint64_t *word,
                                     struct nxr_node_awaited awaited)
{
    int n_looks = team->node.is_crowded ? 1 : NXR_CLOSE_LOOKS;

    for (int i = 0; i < n_looks; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) >= awaited.phase) {
            return NIXL_OK;
        }
        nxr_look_again();
    }
    return nxr_node_wait_slow(team, &awaited);
}

/* Wait until a member raises a flag for a phase. */
static inline int nxr_node_wait_flag(struct nixl_team *team, int member, size_t number,
                                     uint64_t phase)
{
    const struct nxr_node_flag *flag = nxr_node_flag(&team->node, member, number);

    return nxr_node_wait_word(team, &flag->phase, (struct nxr_node_awaited){member, phase, flag});
}

static inline bool nxr_node_have_all_reached(const struct nxr_node *node, uint64_t phase)
{
    for (int i = 0; i < node->size; i++) {
        if (i != node->me && !nxr_node_has_reached(node, i, phase)) {
            return false;
        }
    }
    return true;
}

/* Wait until all have reached a phase. */
static inline int nxr_node_wait_all(struct nixl_team *team, uint64_t phase)
{
    struct nxr_node *node = &team->node;

    if (node->known >= phase || nxr_node_is_told(node, phase)) {
        return NIXL_OK;
    }
    if (!nxr_node_have_all_reached(node, phase)) {
        return nxr_node_wait_each(team, phase);
    }
    nxr_node_tell_known(node, phase);
    return NIXL_OK;
}

/*
 * Is what this call has read from others valid? A member whose call has failed does not wait, and
 * may have changed its buffers meanwhile.
 */
static inline int nxr_node_check(struct nixl_team *team)
{
    const struct nxr_node_head *head = team->node.head;

    return __builtin_expect(atomic_load(&head->broken) != NIXL_OK, 0) ? nxr_team_look(team, -1)
                                                                      : NIXL_OK;
}

/*
 * Make sure that this member's cell for a phase may be written: nobody reads its old contents. In a
 * crowd, a member that gets its core back often finds the others several phases ahead.
 */
static inline int nxr_node_reuse_cell(struct nixl_team *team, uint64_t phase)
{
    struct nxr_node *node = &team->node;
    uint64_t due = phase - NXR_NODE_CELLS + 1, ahead = due + NXR_NODE_CELLS / 2;

    if (phase < NXR_NODE_CELLS || node->known >= due) {
        return NIXL_OK;
    }
    if (node->is_crowded && nxr_node_have_all_reached(node, ahead)) {
        node->known = ahead;
        return NIXL_OK;
    }
    return nxr_node_wait_all(team, due);
}

/* Make sure that this member's slot may be written. */
static inline int nxr_node_reuse_slot(struct nixl_team *team)
{
    const struct nxr_node *node = &team->node;

    return node->slot_reader < 0 ? nxr_node_wait_all(team, node->slot_due)
                                 : nxr_node_wait(team, node->slot_reader, node->slot_due);
}

/* Write this member's cell for the next phase, and publish that phase. */
NXR_HOT static inline int nxr_node_put_cell(struct nixl_team *team, const void *src, size_t nbytes)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    int status = nxr_node_reuse_cell(team, phase);

    if (status == NIXL_OK) {
        if (nbytes > 0) {
            nxr_copy(nxr_node_cell_bytes(node, node->me, phase, nbytes), src, nbytes);
        }
        nxr_node_publish_cell(node, phase);
    }
    return status;
}

/* Wait for what a member writes into its cell for a phase. */
static inline int nxr_node_wait_cell(struct nixl_team *team, int member, uint64_t phase)
{
    const struct nxr_node_cell *cell = nxr_node_cell(&team->node, member, phase);

    return nxr_node_wait_word(team, &cell->phase, (struct nxr_node_awaited){member, phase, NULL});
}

/* The same for all members. */
static inline int nxr_node_wait_cells(struct nixl_team *team, uint64_t phase)
{
    struct nxr_node *node = &team->node;

    for (int i = 0; i < node->size; i++) {
        const struct nxr_node_cell *cell = nxr_node_cell(node, i, phase);

        if (i != node->me && atomic_load_explicit(&cell->phase, memory_order_acquire) < phase) {
            int status = nxr_node_wait_cell(team, i, phase);

            if (status != NIXL_OK) {
                return status;
            }
        }
    }
    node->known = phase;
    return NIXL_OK;
}

#endif
