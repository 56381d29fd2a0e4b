/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of UCX that fail: the core hears of each once, in progress(), with
 * the cause, and nothing more is sent. UCX and the core are played here.
 */
#include "transports/tcp_health.h"
#include "transports/ucx/envelope.h"
#include "transports/ucx/ucx.h"

#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define DEVICES "tcp on eth9"

struct nxr_ucx nxr_ucx;

static struct nxr_ucx_sender sender;
static ucp_ep_params_t params;     /* of the endpoint that was made last */
static ucs_status_t made = UCS_OK; /* the outcome of the next one */
static bool must_wait;             /* its flush takes time */
static ucs_status_t waited = UCS_INPROGRESS;
static unsigned n_closed, n_stopped;
static int64_t timer_ns; /* as it was set last */
static char the_ep, the_request;

/* ---- UCX, and the rest of the module
 * --------------------------------------------------------- */

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *given, ucp_ep_h *ep_p)
{
    (void)worker;
    params = *given;
    *ep_p = (ucp_ep_h)(void *)&the_ep;
    return made;
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    (void)ep;
    (void)param;
    return must_wait ? &the_request : NULL;
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    cr_expect(eq(ptr, (void *)ep, &the_ep));
    cr_expect(eq(uint, param->flags, UCP_EP_CLOSE_FLAG_FORCE));
    n_closed++;
    return NULL;
}

ucs_status_t ucp_request_check_status(void *request)
{
    (void)request;
    return waited;
}

void ucp_request_free(void *request)
{
    cr_expect(eq(ptr, request, &the_request));
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_nbytes,
                                 const void *bytes, size_t nbytes, const ucp_request_param_t *param)
{
    (void)ep;
    (void)header;
    (void)header_nbytes;
    (void)bytes;
    (void)nbytes;
    (void)param;
    cr_expect(eq(uint, id, NXR_UCX_HELLO));
    return NULL;
}

const char *ucs_status_string(ucs_status_t status)
{
    return status == UCS_ERR_CONNECTION_RESET ? "reset" : "unreachable";
}

void nxr_ucx_bulks_stop(struct nxr_net_ep *ep, int status)
{
    (void)ep;
    (void)status;
    n_stopped++;
}

void nxr_ucx_bulks_cut(struct nxr_ucx_sender *process)
{
    cr_expect(eq(ptr, process, &sender));
}

struct nxr_ucx_sender *nxr_ucx_sender_of(const void *header, size_t header_nbytes)
{
    (void)header;
    return header_nbytes == sizeof(sender.id) ? &sender : NULL;
}

struct nxr_ucx_sender *nxr_ucx_sender_hold(uint64_t id)
{
    cr_expect(eq(u64, id, 5));
    sender.n_endpoints++;
    return &sender;
}

void nxr_ucx_sender_let_go(struct nxr_ucx_sender *process)
{
    cr_expect(eq(ptr, process, &sender));
    process->n_endpoints--;
}

void nxr_ucx_set_timer(int64_t after_ns)
{
    timer_ns = after_ns;
}

void nxr_ucx_cancel_all(struct nxr_net_ep *ep)
{
    (void)ep;
}

void nxr_tcp_health_to(const void *bytes, size_t nbytes, char *line, size_t line_nbytes)
{
    (void)bytes;
    (void)nbytes;
    snprintf(line, line_nbytes, "asked");
}

/* ---- the core
 * --------------------------------------------------------------------------------
 */

static struct nxr_net_ep *ep;
static unsigned n_told;
static char told[300];

static void core_ep_failed(void *peer, struct nxr_net_ep *failed, const char *why)
{
    cr_expect(eq(ptr, peer, &n_told));
    cr_expect(eq(ptr, failed, ep));
    snprintf(told, sizeof(told), "%s", why);
    n_told++;
}

static const struct nxr_net_core core = {.size = 1, .ep_failed = core_ep_failed};

static void begin(void)
{
    struct nxr_ucx_envelope envelope = {.magic = NXR_UCX_ADDRESS_MAGIC, .ucx_major = 1, .id = 5};
    unsigned char address[256];
    size_t nbytes = nxr_ucx_wrap(&envelope, "where", 5, address, sizeof(address));

    nxr_ucx.core = &core;
    nxr_ucx.kinds = NXR_UCX_HAS_TCP;
    snprintf(nxr_ucx.attr.devices, sizeof(nxr_ucx.attr.devices), DEVICES);
    nxr_list_init(&nxr_ucx.endpoints);
    nxr_list_init(&nxr_ucx.wanted);
    nxr_list_init(&nxr_ucx.failed);
    nxr_list_init(&nxr_ucx.closing);
    nxr_list_init(&nxr_ucx.abandoned);
    cr_assert(eq(int, nxr_ucx_ep_open(address, nbytes, &n_told, &ep), NIXL_OK));
}

static void end(void)
{
    nxr_ucx_endpoints_close();
    nxr_ucx_endpoints_free();
}

/* What UCX calls when it has noticed. */
static void fail(ucs_status_t status)
{
    params.err_handler.cb(params.err_handler.arg, (ucp_ep_h)(void *)&the_ep, status);
}

/* ---- the tests
 * -------------------------------------------------------------------------------
 */

TestSuite(ucx_endpoint, .init = begin, .fini = end, .timeout = 60);

Test(ucx_endpoint, a_failure_is_told_once_and_ends_what_is_sent)
{
    cr_assert(eq(int, nxr_ucx_ep_use(ep, false), NIXL_OK));
    cr_assert(eq(int, nxr_ucx_endpoints_progress(), 0));
    fail(UCS_ERR_CONNECTION_RESET);
    cr_expect(eq(uint, n_told, 0), "not inside the callback");
    cr_expect(eq(uint, n_stopped, 1));
    cr_expect(eq(int, nxr_ucx_ep_use(ep, false), NIXL_E_TRANSPORT));
    cr_expect(eq(int, nxr_ucx_ep_reach(ep), NIXL_E_TRANSPORT));
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 1));
    fail(UCS_ERR_ENDPOINT_TIMEOUT);
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 0));
    cr_expect(eq(uint, n_told, 1));
    cr_expect(eq(str, told, (char *)"reset"));
}

Test(ucx_endpoint, without_a_connection_the_devices_are_named)
{
    must_wait = true;
    cr_assert(eq(int, nxr_ucx_ep_use(ep, false), NIXL_E_AGAIN));
    fail(UCS_ERR_UNREACHABLE);
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 1));
    cr_expect(ne(ptr, strstr(told, "(" DEVICES "): unreachable"), NULL));
}

Test(ucx_endpoint, one_that_cannot_be_made_has_failed)
{
    made = UCS_ERR_UNREACHABLE;
    cr_expect(eq(int, nxr_ucx_ep_use(ep, false), NIXL_E_TRANSPORT));
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 1));
    cr_expect(eq(uint, n_told, 1));
    made = UCS_OK;
}

Test(ucx_endpoint, a_failure_ends_what_waits_for_the_connection)
{
    must_wait = true;
    cr_assert(eq(int, nxr_ucx_ep_use(ep, false), NIXL_E_AGAIN));
    waited = UCS_ERR_UNREACHABLE;
    fail(UCS_ERR_UNREACHABLE);
    cr_expect(eq(int, nxr_ucx_ep_use(ep, false), NIXL_E_TRANSPORT));
}

Test(ucx_endpoint, a_closed_one_is_not_told_of)
{
    cr_assert(eq(int, nxr_ucx_ep_use(ep, false), NIXL_OK));
    must_wait = true;
    nxr_ucx_ep_close(ep, true);
    cr_expect(eq(uint, n_closed, 0), "its flush is under way");
    fail(UCS_ERR_CONNECTION_RESET);
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 1), "closed at once, since it has failed");
    cr_expect(eq(uint, n_closed, 1));
    cr_expect(eq(uint, n_told, 0));
}

/* It is closed in order, and its flush is under way. */
static void begin_to_close(void)
{
    cr_assert(eq(int, nxr_ucx_ep_use(ep, false), NIXL_OK));
    must_wait = true;
    nxr_ucx_ep_close(ep, true);
    cr_assert(eq(uint, n_closed, 0));
    cr_assert(timer_ns > 0);
}

Test(ucx_endpoint, the_timer_is_off_when_a_close_has_ended)
{
    begin_to_close();
    waited = UCS_OK;
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 1));
    cr_expect(eq(i64, timer_ns, 0));
}

Test(ucx_endpoint, the_timer_is_off_when_the_time_of_a_close_is_over)
{
    begin_to_close();
    ep->n_operations++; /* UCX has not ended it yet */
    while (n_closed == 0) {
        (void)nxr_ucx_endpoints_progress();
    }
    cr_expect(eq(uint, sender.n_endpoints, 1));
    cr_expect(eq(i64, timer_ns, 0));
    ep->n_operations--;
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 1));
}

/* begin() has opened it; progress() creates what was asked for inside a callback of UCX. */
static void create_outside_of_the_callback(void)
{
    nxr_ucx.is_inside = true;
    cr_assert(eq(int, nxr_ucx_ep_reach(ep), NIXL_E_AGAIN));
    nxr_ucx.is_inside = false;
    cr_assert(eq(int, nxr_ucx_endpoints_progress(), 1));
    cr_assert(eq(int, nxr_ucx_ep_reach(ep), NIXL_OK));
}

Test(ucx_endpoint, one_that_had_to_wait_is_closed_at_the_end)
{
    create_outside_of_the_callback();
    cr_assert(eq(uint, n_closed, 0));
    nxr_ucx_endpoints_close();
    cr_expect(eq(uint, n_closed, 1));
}

Test(ucx_endpoint, one_that_has_failed_is_closed_at_the_end)
{
    create_outside_of_the_callback();
    fail(UCS_ERR_CONNECTION_RESET);
    cr_assert(eq(int, nxr_ucx_endpoints_progress(), 1));
    nxr_ucx_endpoints_close();
    cr_expect(eq(uint, n_closed, 1));
}

Test(ucx_endpoint, one_that_was_closed_before_it_was_open_stays_until_its_connection_ends)
{
    must_wait = true;
    cr_assert(eq(int, nxr_ucx_ep_use(ep, false), NIXL_E_AGAIN));
    nxr_ucx_ep_close(ep, true);
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 0));
    cr_expect(eq(uint, sender.n_endpoints, 1));
    fail(UCS_ERR_CONNECTION_RESET);
    cr_expect(eq(uint, n_closed, 0), "not inside the callback");
    cr_expect(eq(int, nxr_ucx_endpoints_progress(), 1));
    cr_expect(eq(uint, n_closed, 1));
    cr_expect(eq(uint, sender.n_endpoints, 0));
    cr_expect(eq(uint, n_told, 0));
}
