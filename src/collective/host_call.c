/* SPDX-License-Identifier: Apache-2.0 */
/* Running collectives on host memory, among members on one host or on several. No state. */
#include "config.h"

#include "collective/call.h"
#include "collective/two_level.h"
#include "util/symbol.h"

static int run_on_hosts(struct nixl_team *team, const struct nxr_call *call)
{
    switch (call->kind) {
    case NXR_CALL_BARRIER:
        return nxr_two_level_barrier(team);
    case NXR_CALL_REDUCTION:
        return nxr_two_level_reduce(team, &call->reduction);
    default:
        return nxr_two_level_exchange(team, &call->exchange);
    }
}

NXR_HOT int nxr_call_run_on_host(struct nixl_team *team, const struct nxr_call *call)
{
    if (team->n_nodes > 1) {
        return run_on_hosts(team, call);
    }
    switch (call->kind) {
    case NXR_CALL_BARRIER:
        return nxr_node_barrier(team);
    case NXR_CALL_REDUCTION:
        return nxr_node_reduce(team, &call->reduction);
    default:
        if (!call->exchange.all_send && !call->exchange.is_private) {
            return nxr_node_broadcast(team, call->exchange.root, call->exchange.dst,
                                      call->exchange.nbytes);
        }
        return nxr_node_exchange(team, &call->exchange);
    }
}
