/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages are active messages. UCX guarantees no order between those, but preserves it on a single
 * lane. All eager messages of an endpoint use its one message lane (settings.c ensures that), in
 * pieces if they are long. So does the request of a rendezvous, which carries the header of bulk.
 * The bulk itself follows, on whichever lanes are best, once the receiver has said where to put it.
 * The core's lock.
 */
#include "config.h"

#include "ucx.h"
#include "util/debug.h"

#include <stdlib.h>
#include <string.h>

/* Bulk that is being received into the core's memory. */
struct landing {
    struct nxr_list link;
    void *cookie;
};

static void end_landing(struct landing *landing, int status)
{
    nxr_list_remove(&landing->link);
    nxr_ucx.core->landed(landing->cookie, status);
    free(landing);
}

static void ucx_message_bulk_came(void *request, ucs_status_t status, size_t nbytes,
                                  void *user_data)
{
    (void)nbytes;
    ucp_request_free(request);
    end_landing(user_data, status == UCS_OK ? NIXL_OK : NIXL_E_TRANSPORT);
}

static ucs_status_t message_came(void *arg, const void *header, size_t header_nbytes, void *bytes,
                                 size_t nbytes, const ucp_am_recv_param_t *param)
{
    (void)arg;
    nxr_ucx_heard(header, header_nbytes);
    nxr_rail_received(&nxr_ucx.rail, 1, nbytes);
    /* This module sends no plain message by rendezvous, so such a message is not accepted. */
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        nxr_ucx.core->received(bytes, nbytes);
    }
    return UCS_OK;
}

/* Fetch the bulk of a rendezvous. If the core does not want it, UCX tells the sender to drop it. */
static ucs_status_t fetch(void *bulk, void *memory, size_t nbytes, void *cookie)
{
    struct landing *landing = malloc(sizeof(*landing));
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb = {.recv_am = ucx_message_bulk_came},
        .user_data = landing,
    };
    ucs_status_ptr_t request;

    if (landing == NULL) {
        nxr_ucx.core->landed(cookie, NIXL_E_NO_MEMORY);
        return UCS_OK;
    }
    landing->cookie = cookie;
    nxr_list_append(&nxr_ucx.landings, &landing->link);
    request = ucp_am_recv_data_nbx(nxr_ucx.worker, bulk, memory, nbytes, &param);
    if (UCS_PTR_IS_PTR(request)) {
        return UCS_INPROGRESS;
    }
    end_landing(landing, request == NULL ? NIXL_OK : NIXL_E_TRANSPORT);
    return UCS_OK;
}

static ucs_status_t bulk_offered(void *arg, const void *header, size_t header_nbytes, void *bulk,
                                 size_t nbytes, const ucp_am_recv_param_t *param)
{
    void *cookie = NULL;
    void *memory = nxr_ucx.core->incoming(header, header_nbytes, nbytes, &cookie);

    (void)arg;
    nxr_rail_received(&nxr_ucx.rail, 1, header_nbytes + nbytes);
    if (memory == NULL) {
        return UCS_OK;
    }
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        return fetch(bulk, memory, nbytes, cookie);
    }
    memcpy(memory, bulk, nbytes);
    nxr_ucx.core->landed(cookie, NIXL_OK);
    return UCS_OK;
}

/* Nothing to do: its effect was on the sending side, see endpoint.c. */
static ucs_status_t hello_came(void *arg, const void *header, size_t header_nbytes, void *bytes,
                               size_t nbytes, const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_nbytes;
    (void)bytes;
    (void)nbytes;
    (void)param;
    return UCS_OK;
}

ucs_status_t nxr_ucx_set_handler(unsigned id, ucp_am_recv_callback_t handler)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = handler,
    };

    return ucp_worker_set_am_recv_handler(nxr_ucx.worker, &param);
}

ucs_status_t nxr_ucx_messages_start(void)
{
    ucs_status_t status = nxr_ucx_set_handler(NXR_UCX_MESSAGE, message_came);

    if (status == UCS_OK) {
        status = nxr_ucx_set_handler(NXR_UCX_BULK, bulk_offered);
    }
    if (status == UCS_OK) {
        status = nxr_ucx_set_handler(NXR_UCX_HELLO, hello_came);
    }
    return status == UCS_OK ? nxr_ucx_bulks_start() : status;
}

void nxr_ucx_messages_stop(void)
{
    while (!nxr_list_is_empty(&nxr_ucx.landings)) {
        end_landing(nxr_list_entry(nxr_ucx.landings.next, struct landing, link), NIXL_E_TRANSPORT);
    }
}

/* On an endpoint that is not open yet: send immediately or not at all. */
static int send_first(struct nxr_net_ep *ep, const void *bytes, size_t nbytes)
{
    static const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL,
        .flags = UCP_AM_SEND_FLAG_EAGER,
    };
    ucs_status_ptr_t request = ucp_am_send_nbx(ep->ucp, NXR_UCX_MESSAGE, &nxr_ucx.id,
                                               sizeof(nxr_ucx.id), bytes, nbytes, &param);

    if (request == NULL) {
        nxr_ucx.is_idle = false;
        return NIXL_OK;
    }
    return UCS_PTR_STATUS(request) == UCS_ERR_NO_RESOURCE ? NIXL_E_AGAIN : NIXL_E_TRANSPORT;
}

static int message_send(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                        size_t bulk_nbytes, struct nxr_net_op *op)
{
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .cb = {.send = nxr_ucx_sent},
        .user_data = op,
        .flags = UCP_AM_SEND_FLAG_EAGER,
    };
    ucs_status_ptr_t request;
    int status = nxr_ucx_ep_use(ep, bulk_nbytes == 0);

    NXR_ASSERT(!ep->is_closing && nbytes > 0 &&
               (bulk_nbytes == 0 || nbytes <= NXR_NET_HEADER_NBYTES));
    if (__builtin_expect(status != NIXL_OK, 0)) {
        return status;
    }
    if (__builtin_expect(!ep->is_open, 0)) {
        return send_first(ep, bytes, nbytes);
    }
    /* Over TCP the sizes were measured; with RDMA, UCX knows its hardware. */
    if (bulk_nbytes > NXR_UCX_EAGER_NBYTES && (nxr_ucx.kinds & NXR_UCX_HAS_RDMA) == 0) {
        return nxr_ucx_bulk_send(ep, bytes, nbytes, bulk, bulk_nbytes, op);
    }
    if (bulk_nbytes == 0) {
        request = ucp_am_send_nbx(ep->ucp, NXR_UCX_MESSAGE, NULL, 0, bytes, nbytes, &param);
    } else {
        param.flags = (nxr_ucx.kinds & NXR_UCX_HAS_RDMA) != 0 ? 0 : UCP_AM_SEND_FLAG_EAGER;
        request = ucp_am_send_nbx(ep->ucp, NXR_UCX_BULK, bytes, nbytes, bulk, bulk_nbytes, &param);
    }
    return nxr_ucx_started(ep, op, request);
}

int nxr_ucx_send(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                 size_t bulk_nbytes, struct nxr_net_op *op)
{
    int status = message_send(ep, bytes, nbytes, bulk, bulk_nbytes, op);

    if (status == NIXL_OK || status == NIXL_INPROGRESS) {
        nxr_rail_sent(&ep->rail, 1, nbytes + bulk_nbytes);
    } else if (status == NIXL_E_AGAIN) {
        nxr_rail_was_full(&ep->rail);
    }
    return status;
}
