/* SPDX-License-Identifier: Apache-2.0 */
/* The list of transports, and the functions for what a transport cannot do. */
#include "config.h"

#include "transports/transport.h"

extern const struct nxr_transport nxr_transport_self;
extern const struct nxr_transport nxr_transport_shm;

/* By cost, the cheapest first. */
const struct nxr_transport *const nxr_transports[] = {
    &nxr_transport_self,
    &nxr_transport_shm,
};
const size_t nxr_n_transports = sizeof(nxr_transports) / sizeof(nxr_transports[0]);

int nxr_no_start(struct nxr_op *op)
{
    (void)op;
    return NIXL_ERR_UNSUPPORTED;
}

int nxr_no_cancel(struct nxr_op *op)
{
    (void)op;
    return NIXL_OK;
}

int nxr_no_progress(void)
{
    return 0;
}

int nxr_no_order(struct nxr_peer *peer)
{
    (void)peer;
    return NIXL_OK;
}

int nxr_no_atomic(struct nxr_part *part, const struct nxr_atomic *atomic, uint64_t *fetched_p)
{
    (void)part;
    (void)atomic;
    (void)fetched_p;
    return NIXL_ERR_AGAIN;
}

int nxr_no_signal(struct nxr_part *part, const struct nxr_atomic *atomic)
{
    (void)part;
    (void)atomic;
    return NIXL_ERR_AGAIN;
}

int nxr_no_control(struct nxr_peer *peer, const void *msg, size_t nbytes)
{
    (void)peer;
    (void)msg;
    (void)nbytes;
    return NIXL_ERR_UNSUPPORTED;
}

int nxr_no_event_fd(void)
{
    return NIXL_ERR_UNSUPPORTED;
}

int nxr_no_arm(void)
{
    return NIXL_OK;
}
