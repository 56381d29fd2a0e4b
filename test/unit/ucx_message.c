/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk that UCX fetches by rendezvous: the core hears once that it has landed, in whichever way it
 * ends. UCX and the core are played here.
 */
#include "test/unit/ucx_case.h"

#include <string.h>

static ucp_am_recv_callback_t offered; /* the handler of rendezvous */
static ucp_request_param_t params[UCX_N_BULKS];
static unsigned n_fetched, n_detached;
static bool is_immediate; /* UCX has it already */
static char request;

/* ---- UCX, and the rest of the module --------------------------------------------------------- */

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker,
                                            const ucp_am_handler_param_t *param)
{
    (void)worker;
    offered = param->id == NXR_UCX_BULK ? param->cb : offered;
    return UCS_OK;
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *bulk, void *memory, size_t nbytes,
                                      const ucp_request_param_t *param)
{
    (void)worker;
    (void)bulk;
    (void)memory;
    cr_assert(eq(sz, nbytes, UCX_BULK_NBYTES));
    cr_assert(lt(uint, n_fetched, UCX_N_BULKS));
    params[n_fetched++] = *param;
    return is_immediate ? NULL : &request;
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_nbytes,
                                 const void *bytes, size_t nbytes, const ucp_request_param_t *param)
{
    (void)ep;
    (void)id;
    (void)header;
    (void)header_nbytes;
    (void)bytes;
    (void)nbytes;
    (void)param;
    cr_fatal("nothing is sent");
}

void ucp_request_free(void *freed)
{
    cr_expect(eq(ptr, freed, &request));
    n_detached++;
}

void nxr_ucx_heard(const void *header, size_t header_nbytes)
{
    (void)header;
    (void)header_nbytes;
}

int nxr_ucx_ep_use(struct nxr_net_ep *ep, bool is_first)
{
    (void)ep;
    (void)is_first;
    return NIXL_E_TRANSPORT;
}

int nxr_ucx_started(struct nxr_net_ep *ep, struct nxr_net_op *op, ucs_status_ptr_t started)
{
    (void)ep;
    (void)op;
    (void)started;
    return NIXL_OK;
}

void nxr_ucx_sent(void *sent, ucs_status_t status, void *op)
{
    (void)sent;
    (void)status;
    (void)op;
}

ucs_status_t nxr_ucx_bulks_start(void)
{
    return UCS_OK;
}

int nxr_ucx_bulk_send(struct nxr_net_ep *ep, const void *header, size_t header_nbytes,
                      const void *bytes, size_t nbytes, struct nxr_net_op *op)
{
    (void)ep;
    (void)header;
    (void)header_nbytes;
    (void)bytes;
    (void)nbytes;
    (void)op;
    return NIXL_OK;
}

/* ---- the core -------------------------------------------------------------------------------- */

static const struct nxr_net_core core = {
    .size = 1, .incoming = ucx_core_incoming, .landed = ucx_core_landed};

static void begin(void)
{
    nxr_ucx.core = &core;
    nxr_list_init(&nxr_ucx.landings);
    cr_assert(eq(int, nxr_ucx_messages_start(), UCS_OK));
    cr_assert(offered != NULL);
}

static ucs_status_t offer(void)
{
    static const ucp_am_recv_param_t param = {.recv_attr = UCP_AM_RECV_ATTR_FLAG_RNDV};
    static char bulk;

    return offered(NULL, "", 0, &bulk, UCX_BULK_NBYTES, &param);
}

static void come(unsigned i, ucs_status_t status)
{
    params[i].cb.recv_am(&request, status, UCX_BULK_NBYTES, params[i].user_data);
}

/* ---- the tests ------------------------------------------------------------------------------- */

TestSuite(ucx_message, .init = begin);

Test(ucx_message, bulk_lands_once_also_where_the_network_closes_amid_another)
{
    cr_expect(eq(int, offer(), UCS_INPROGRESS));
    cr_expect(eq(int, offer(), UCS_INPROGRESS));
    come(0, UCS_OK);
    cr_expect(eq(int, ucx_landings[0].status, NIXL_OK));
    cr_expect(eq(int, ucx_landings[1].status, NIXL_INPROGRESS));
    nxr_ucx_messages_stop();
    cr_expect(eq(int, ucx_landings[0].status, NIXL_OK));
    cr_expect(ne(int, ucx_landings[1].status, NIXL_INPROGRESS));
    cr_expect(ne(int, ucx_landings[1].status, NIXL_OK));
    cr_expect(eq(uint, n_detached, 1));
}

Test(ucx_message, bulk_that_fails_is_not_taken_for_data)
{
    cr_expect(eq(int, offer(), UCS_INPROGRESS));
    come(0, UCS_ERR_CONNECTION_RESET);
    cr_expect(eq(int, ucx_landings[0].status, NIXL_E_TRANSPORT));
    nxr_ucx_messages_stop();
}

Test(ucx_message, bulk_that_is_there_lands_at_once)
{
    is_immediate = true;
    cr_expect(eq(int, offer(), UCS_OK));
    cr_expect(eq(int, ucx_landings[0].status, NIXL_OK));
    nxr_ucx_messages_stop();
}
