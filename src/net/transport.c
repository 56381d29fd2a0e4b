/* SPDX-License-Identifier: Apache-2.0 */
/* Networks as transports: the same functions for every network that carries messages. No state. */
#include "config.h"

#include "net/connect.h"
#include "net/move.h"

#include <stdio.h>

static int net_probe(char *why, size_t why_nbytes)
{
    (void)why; /* a network that is open has been probed by its module */
    (void)why_nbytes;
    return NIXL_OK;
}

static int net_reach(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why,
                     size_t why_nbytes)
{
    (void)kind; /* what the network cannot access is staged */
    if (scope == NIXL_SCOPE_REMOTE) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "reaches ranks on other hosts");
    return NIXL_E_UNSUPPORTED;
}

static void net_expect(const struct nxr_peer *peer, enum nxr_method method, uint64_t *latency_ns_p,
                       uint64_t *bandwidth_mbps_p)
{
    (void)method;
    nxr_net_expect(peer, latency_ns_p, bandwidth_mbps_p);
}

static int net_start(struct nxr_op *op)
{
    size_t nbytes = op->nbytes;
    int status = nxr_net_op_start(op);

    nxr_net_started(nbytes);
    return status;
}

struct nxr_transport nxr_net_transport(const char *name, unsigned cost)
{
    return (struct nxr_transport){
        .name = name,
        .cost = cost,
        .probe = net_probe,
        .reach = net_reach,
        .serves = nxr_net_serves,
        .segment_open = nxr_net_segment_open,
        .segment_close = nxr_net_segment_close,
        .segment_is_busy = nxr_net_segment_is_busy,
        .put = nxr_net_segment_put,
        .get = nxr_net_segment_get,
        .put_notify = nxr_net_put_notify,
        .put_signal = nxr_net_put_signal,
        .move_list = nxr_net_move_list,
        .start = net_start,
        .start_list = nxr_net_start_list,
        .cancel = nxr_net_cancel,
        .progress = nxr_no_progress,
        .expect = net_expect,
        .notify = nxr_net_notify,
        .fence = nxr_net_fence,
        .flush = nxr_net_flush,
        .atomic = nxr_net_atomic,
        .signal = nxr_net_signal,
    };
}
