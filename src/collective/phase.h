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

/* Wait until all have reached a phase. */
static inline int nxr_node_wait_all(struct nixl_team *team, uint64_t phase)
{
    struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    if (node->known >= phase) {
        return NIXL_OK;
    }
    for (int i = 0; i < node->size && status == NIXL_OK; i++) {
        if (i != node->me) {
            status = nxr_node_wait(team, i, phase);
        }
    }
    if (status == NIXL_OK) {
        node->known = phase;
    }
    return status;
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

/* Make sure that this member's cell for a phase may be written: nobody reads its old contents. */
static inline int nxr_node_reuse_cell(struct nixl_team *team, uint64_t phase)
{
    return phase < NXR_NODE_CELLS ? NIXL_OK : nxr_node_wait_all(team, phase - NXR_NODE_CELLS + 1);
}

/* Make sure that this member's slot may be written. */
static inline int nxr_node_reuse_slot(struct nixl_team *team)
{
    const struct nxr_node *node = &team->node;

    return node->slot_reader < 0 ? nxr_node_wait_all(team, node->slot_due)
                                 : nxr_node_wait(team, node->slot_reader, node->slot_due);
}

/* Write this member's cell for the next phase, and publish that phase. */
static inline int nxr_node_put_cell(struct nixl_team *team, const void *src, size_t nbytes)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    int status = nxr_node_reuse_cell(team, phase);

    if (status == NIXL_OK) {
        if (nbytes > 0) {
            nxr_copy(nxr_node_cell(node, node->me, phase)->bytes, src, nbytes);
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
    int status = NIXL_OK;

    for (int i = 0; i < node->size && status == NIXL_OK; i++) {
        if (i != node->me) {
            status = nxr_node_wait_cell(team, i, phase);
        }
    }
    if (status == NIXL_OK) {
        node->known = phase;
    }
    return status;
}

#endif
