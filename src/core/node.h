/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks share a host, as the launcher counts hosts: whom to ask and to watch. Who can share
 * memory is another question (host/link.c), since names of hosts lie in containers.
 *
 * Written while a rank joins, only read from then until it leaves: no lock.
 */
#ifndef NXR_CORE_NODE_H
#define NXR_CORE_NODE_H

/*
 * The hosts of the job, numbered from 0 in the order of their first ranks. Where the launcher does
 * not tell, each rank counts as a host of its own. Any thread.
 */
int nxr_n_nodes(void);
int nxr_node_of(int rank);

/* Set the number of each rank's host, which is taken; NULL: `n_nodes` ranks, each its own host. */
void nxr_nodes_set(int *node_of_rank, int n_nodes);

#endif
