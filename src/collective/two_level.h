/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of teams with members on several hosts. Functions return NIXL_OK; any other status
 * ends the call under way, and the team is broken.
 */
#ifndef NXR_COLLECTIVE_TWO_LEVEL_H
#define NXR_COLLECTIVE_TWO_LEVEL_H

#include "collective/node_collective.h"
#include "core/trace.h"

/* A phase among the members of this host, as a trace shows it. */
#define NXR_ON_HOST(_call) NXR_TRACED_STEP(NXR_TRACE_COLLECTIVE, "on this host", -1, 0, _call)

int nxr_two_level_barrier(struct nixl_team *team);
int nxr_two_level_reduce(struct nixl_team *team, const struct nxr_reduction *what);
int nxr_two_level_reduce_scatter(struct nixl_team *team, const struct nxr_reduction *what);
int nxr_two_level_exchange(struct nixl_team *team, const struct nxr_exchange *what);

/* `root` is a team rank. */
int nxr_two_level_broadcast(struct nixl_team *team, int root, void *buf, size_t nbytes);

#endif
