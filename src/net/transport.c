/* SPDX-License-Identifier: Apache-2.0 */
/* The networks as transports: one table, whichever network carries the messages. No state. */
#include "config.h"

#include "net/state.h"

#include <stdio.h>

static int net_probe(char *why, size_t why_nbytes)
{
    (void)why; /* a network that is open has been probed by its module */
    (void)why_nbytes;
    return NIXL_OK;
}

static int net_reach(enum nixl_scope scope, enum nixl_mem_kind kind, char *why, size_t why_nbytes)
{
    (void)kind; /* the owner's library moves what the network cannot reach */
    if (scope == NIXL_SCOPE_REMOTE) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "reaches ranks on other hosts");
    return NIXL_ERR_UNSUPPORTED;
}

struct nxr_transport net_transport(const char *name, unsigned cost)
{
    return (struct nxr_transport){
        .abi = NXR_TRANSPORT_ABI,
        .name = name,
        .cost = cost,
        .probe = net_probe,
        .reach = net_reach,
        .serves = net_serves,
        .part_open = net_part_open,
        .part_close = net_part_close,
        .part_is_busy = net_part_is_busy,
        .put = net_put,
        .get = net_get,
        .put_notify = net_put_notify,
        .put_signal = net_put_signal,
        .move_list = net_move_list,
        .start = net_start,
        .start_list = net_start_list,
        .cancel = net_cancel,
        .progress = nxr_no_progress,
        .notify = net_notify,
        .fence = net_fence,
        .flush = net_flush,
        .atomic = net_atomic,
        .signal = net_signal,
    };
}
