/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier of the members on one host: phases only. */
#include "config.h"

#include "collective/node_collective.h"
#include "collective/phase.h"
#include "util/coll_table.h"
#include "util/symbol.h"

/*
 * Few members check each other, and know at once when all have arrived. If there are many, and each
 * check is a cache line of its own, the first one checks all, and the others check the first.
 */
static bool is_flat(const struct nxr_node *node)
{
    return node->is_crowded || (size_t)node->size <= nxr_coll_table.flat_up_to;
}

NXR_HOT int nxr_node_barrier(struct nixl_team *team)
{
    struct nxr_node *node = &team->node;
    int status;

    if (node->size == 1) {
        return NIXL_OK;
    }
    nxr_node_publish(node, node->phase + 1);
    if (is_flat(node)) {
        return nxr_node_wait_all(team, node->phase);
    }
    status = node->me == 0 ? nxr_node_wait_all(team, node->phase)
                           : nxr_node_wait(team, 0, node->phase + 1);
    if (status == NIXL_OK) {
        node->known = node->phase;
        nxr_node_publish(node, node->phase + 1);
    }
    return status;
}
