/* SPDX-License-Identifier: Apache-2.0 */
/* The table of hosts. */
#include "config.h"

#include "core/node.h"

#include <stddef.h>
#include <stdlib.h>

static int *nodes; /* NULL: one host, or each rank its own */
static int n_nodes;

void nxr_nodes_set(int *node_of_rank, int n)
{
    free(nodes);
    nodes = node_of_rank;
    n_nodes = n;
}

int nxr_n_nodes(void)
{
    return n_nodes;
}

int nxr_node_of(int rank)
{
    return nodes != NULL ? nodes[rank] : n_nodes == 1 ? 0 : rank;
}
