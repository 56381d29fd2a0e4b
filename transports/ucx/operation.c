/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that UCX has accepted. Each is in its endpoint's list until UCX ends it. One that UCX
 * ends while the core is calling in (a close, or a send that finds the peer gone) waits in `ended`
 * for the next progress(), since the core may be called only from there. The core's lock.
 */
#include "config.h"

#include "ucx.h"

#include <string.h>

/* The module's data of an operation, stored in the scratch of nxr_net_op. */
struct operation {
    struct nxr_list link;
    struct nxr_net_ep *ep;
    intptr_t status; /* once it has ended */
};

_Static_assert(sizeof(struct operation) <= sizeof(struct nxr_net_op), "an operation fits");

static struct operation *ucx_operation_operation_of(struct nxr_net_op *op)
{
    return (struct operation *)(void *)op->scratch;
}

static struct nxr_net_op *op_of(struct operation *operation)
{
    return (struct nxr_net_op *)(void *)operation;
}

void nxr_ucx_keep(struct nxr_net_ep *ep, struct nxr_net_op *op)
{
    struct operation *operation = ucx_operation_operation_of(op);

    operation->ep = ep;
    nxr_list_append(&ep->operations, &operation->link);
    ep->n_operations++;
}

int nxr_ucx_started(struct nxr_net_ep *ep, struct nxr_net_op *op, ucs_status_ptr_t request)
{
    if (request == NULL) {
        return NIXL_OK;
    }
    if (UCS_PTR_IS_ERR(request)) {
        return NIXL_E_TRANSPORT;
    }
    nxr_ucx_keep(ep, op);
    return NIXL_INPROGRESS;
}

void nxr_ucx_end(struct nxr_net_op *op, int status)
{
    struct operation *operation = ucx_operation_operation_of(op);

    nxr_list_remove(&operation->link);
    operation->ep->n_operations--;
    if (nxr_ucx.is_progressing) {
        nxr_ucx.core->ended(op, status);
        return;
    }
    operation->status = status;
    nxr_list_append(&nxr_ucx.ended, &operation->link);
}

/*
 * Operations on an endpoint that the core closed were canceled; on one that failed they were not.
 */
void nxr_ucx_sent(void *request, ucs_status_t status, void *op)
{
    struct nxr_net_ep *ep = ucx_operation_operation_of(op)->ep;
    int failure = ep->is_closing && !ep->has_failed ? NIXL_E_CANCELED : NIXL_E_TRANSPORT;

    ucp_request_free(request);
    nxr_ucx_end(op, status == UCS_OK ? NIXL_OK : failure);
}

void nxr_ucx_cancel_all(struct nxr_net_ep *ep)
{
    while (!nxr_list_is_empty(&ep->operations)) {
        nxr_ucx_end(op_of(nxr_list_entry(ep->operations.next, struct operation, link)),
                    NIXL_E_CANCELED);
    }
}

int nxr_ucx_tell_ended(void)
{
    struct nxr_list *link;
    int n = 0;

    while ((link = nxr_list_pop(&nxr_ucx.ended)) != NULL) {
        struct operation *operation = nxr_list_entry(link, struct operation, link);

        nxr_ucx.core->ended(op_of(operation), (int)operation->status);
        n++;
    }
    return n;
}
