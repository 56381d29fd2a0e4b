/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks share a host, as the launcher counts hosts. This decides which ranks to ask and to
 * watch. Whether ranks can share memory is a separate question (host/connect.c), since host names
 * are unreliable in containers.
 *
 * Written while this rank joins, and only read from then until it leaves: no lock.
 */
#ifndef NXR_CORE_NODE_H
#define NXR_CORE_NODE_H

/*
 * The hosts of the job, numbered from 0 in the order of their first ranks. If the launcher does not
 * report them, each rank counts as a host of its own. Any thread.
 */
int nxr_n_nodes(void);
int nxr_node_of(int rank);

/*
 * Set the host number of each rank. Takes ownership of the array, which is allocated by malloc().
 * NULL: `n_nodes` is 1 and all ranks share a host, or it is the number of ranks, each its own host.
 */
void nxr_nodes_set(int *node_of_rank, int n_nodes);

#endif
