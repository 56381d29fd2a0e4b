/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of peers. UCX's endpoint is made when the first message is sent, since making it
 * connects. It fails once, in UCX's callback, whenever UCX detects the failure; the next progress()
 * reports it to the core.
 *
 * Two UCX endpoints learn each other's number by a request and a reply. In UCX 1.13, if one of
 * these is queued inside UCX while its peer dies, or while the worker is destroyed, an assertion
 * ends the process. So this module makes sure that none is ever queued. An endpoint is opened in
 * steps. First, a flush shows that the connection is established. Until the endpoint is open,
 * messages must be sent immediately or not at all: that is the only thing that UCX sends without a
 * request. Only when the other side was heard, and so has a connection to answer on, a hello brings
 * about request and reply, with nothing else under way. Then everything may be sent. An endpoint
 * that is closed before it is open is kept until its connection has ended, or the worker is
 * destroyed: otherwise UCX would connect anew to answer a request that it reads later.
 *
 * A close that UCX has started cannot be hurried. So an orderly close is a flush first, for at most
 * CLOSE_NS, and then a forced close, which is also the only kind for a dead peer. The timer is in
 * the event descriptor, so that a sleeper sees the end of that time. A closed endpoint stays in the
 * list until UCX has ended its last operation.
 *
 * UCX may lose a connection that it is reading from when an endpoint is made or closed meanwhile;
 * so neither is done inside a callback, but by progress() right after it. An endpoint is in one of
 * five lists: those in use, to be connected, with a failure to report, being closed, and abandoned.
 * progress() walks the middle three. The core's lock.
 */
#include "config.h"

#include "envelope.h"
#include "transports/tcp_health.h"
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLOSE_NS 200000000ll

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* An endpoint that UCX has connected but that is not open yet stays until its connection ends. */
static bool must_stay(const struct nxr_net_ep *ep)
{
    return ep->ucp != NULL && !ep->is_open;
}

static void move_to(struct nxr_list *list, struct nxr_net_ep *ep)
{
    nxr_list_remove(&ep->link);
    nxr_list_append(list, &ep->link);
}

static void ucx_endpoint_fail(struct nxr_net_ep *ep, ucs_status_t status)
{
    if (!ep->has_failed) {
        ep->has_failed = true;
        ep->failure = status;
        nxr_rail_failed(&ep->rail);
        nxr_ucx_bulks_stop(ep, NIXL_E_TRANSPORT);
        nxr_ucx_bulks_cut(ep->sender);
        if (!ep->is_closing) {
            move_to(&nxr_ucx.failed, ep);
        } else if (must_stay(ep)) {
            move_to(&nxr_ucx.closing, ep); /* nothing is read from it any more */
        }
    }
}

static void on_failure(void *arg, ucp_ep_h ucp, ucs_status_t status)
{
    (void)ucp;
    ucx_endpoint_fail(arg, status);
}

int nxr_ucx_ep_open(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p)
{
    struct nxr_ucx_envelope envelope;
    const void *contents;
    struct nxr_net_ep *ep;
    char why[80];

    if (nxr_ucx_unwrap(NXR_UCX_ADDRESS_MAGIC, address, nbytes, &envelope, &contents, why,
                       sizeof(why)) != NIXL_OK) {
        return NIXL_E_UNSUPPORTED;
    }
    ep = calloc(1, sizeof(*ep) + envelope.nbytes);
    if (ep == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    ep->sender = nxr_ucx_sender_hold(envelope.id);
    if (ep->sender == NULL) {
        free(ep);
        return NIXL_E_NO_MEMORY;
    }
    memcpy(ep->address, contents, envelope.nbytes);
    ep->address_nbytes = envelope.nbytes;
    ep->peer = peer;
    nxr_rail_open(nxr_ucx.core, "ucx", peer, "ucx", &ep->rail);
    nxr_list_init(&ep->operations);
    nxr_list_init(&ep->bulks);
    nxr_list_init(&ep->bulk_link);
    nxr_list_append(&nxr_ucx.endpoints, &ep->link);
    *ep_p = ep;
    return NIXL_OK;
}

static void connect_ep(struct nxr_net_ep *ep)
{
    static const ucp_request_param_t flush_param;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(const void *)ep->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_failure, .arg = ep},
    };
    ucs_status_t status;

    nxr_ucx.is_idle = false;
    ep->has_sent_hello = !nxr_ucx.must_hear;
    status = ucp_ep_create(nxr_ucx.worker, &params, &ep->ucp);
    if (status != UCS_OK) {
        ep->ucp = NULL;
        ucx_endpoint_fail(ep, status);
        return;
    }
    ep->flush = ucp_ep_flush_nbx(ep->ucp, &flush_param);
    ep->is_connected = ep->flush == NULL;
    if (!UCS_PTR_IS_PTR(ep->flush)) {
        ep->flush = NULL;
    }
}

static bool is_flushing(struct nxr_net_ep *ep)
{
    ucs_status_t status;

    if (ep->flush == NULL) {
        return false;
    }
    status = ucp_request_check_status(ep->flush);
    if (status == UCS_INPROGRESS) {
        return true;
    }
    ep->is_connected |= status == UCS_OK;
    ucp_request_free(ep->flush);
    ep->flush = NULL;
    return false;
}

/* A message that asks for a reply: before sending it, UCX asks for the other endpoint's number. */
static void endpoint_send_hello(struct nxr_net_ep *ep)
{
    static const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER,
    };
    void *request = ucp_am_send_nbx(ep->ucp, NXR_UCX_HELLO, NULL, 0, NULL, 0, &param);

    ep->has_sent_hello = true;
    if (UCS_PTR_IS_PTR(request)) {
        ep->flush = request;
    } else if (request != NULL) {
        ucx_endpoint_fail(ep, UCS_PTR_STATUS(request));
    }
}

/* The next step of opening an endpoint. */
static int open_further(struct nxr_net_ep *ep, bool is_first)
{
    if (ep->ucp == NULL) {
        if (nxr_ucx.is_inside) {
            move_to(&nxr_ucx.wanted, ep);
            return NIXL_E_AGAIN;
        }
        connect_ep(ep);
    }
    if (!ep->has_failed && !is_flushing(ep) && !ep->has_sent_hello) {
        if (is_first && !ep->sender->was_heard) {
            return NIXL_OK;
        }
        nxr_ucx.is_idle = false;
        endpoint_send_hello(ep);
    }
    if (ep->has_failed) {
        return NIXL_E_TRANSPORT;
    }
    if (is_flushing(ep)) {
        return NIXL_E_AGAIN;
    }
    ep->is_open = true;
    return NIXL_OK;
}

/* UCX's own address of the peer contains the peer's IP addresses. */
static void ucx_endpoint_ask_kernel(const struct nxr_net_ep *ep, char *line, size_t line_nbytes)
{
    line[0] = '\0';
    if (nxr_ucx.kinds == NXR_UCX_HAS_TCP) {
        nxr_tcp_health_to(ep->address, ep->address_nbytes, line, line_nbytes);
    }
}

bool nxr_ucx_ep_state(struct nxr_net_ep *ep, char *line, size_t line_nbytes)
{
    if (ep->is_connected) {
        ucx_endpoint_ask_kernel(ep, line, line_nbytes);
    } else {
        snprintf(line, line_nbytes, "%s", nxr_ucx.attr.devices);
    }
    return ep->is_connected;
}

int nxr_ucx_ep_reach(struct nxr_net_ep *ep)
{
    if (ep->has_failed) {
        return NIXL_E_TRANSPORT;
    }
    return ep->is_open ? NIXL_OK : open_further(ep, true);
}

int nxr_ucx_ep_use(struct nxr_net_ep *ep, bool is_first)
{
    if (__builtin_expect(ep->has_failed, 0)) {
        return NIXL_E_TRANSPORT;
    }
    if (__builtin_expect(!ep->is_open, 0)) {
        return open_further(ep, is_first);
    }
    if (__builtin_expect(ep->n_operations >= NXR_UCX_MAX_OPERATIONS, 0)) {
        return NIXL_E_AGAIN;
    }
    nxr_ucx.is_idle = false;
    return NIXL_OK;
}

void nxr_ucx_heard(const void *header, size_t header_nbytes)
{
    struct nxr_ucx_sender *sender = nxr_ucx_sender_of(header, header_nbytes);

    if (sender != NULL) {
        sender->was_heard = true;
    }
}

/* Forced close: nothing more is sent, and UCX ends all operations with an error. */
static void close_by_force(struct nxr_net_ep *ep)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
    };
    ucp_ep_h ucp = ep->ucp;
    void *request;

    nxr_ucx_bulks_stop(ep, ep->has_failed ? NIXL_E_TRANSPORT : NIXL_E_CANCELED);
    if (ep->flush != NULL) {
        ucp_request_free(ep->flush);
        ep->flush = NULL;
    }
    if (ucp != NULL) {
        ep->ucp = NULL;
        request = ucp_ep_close_nbx(ucp, &param);
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        }
    }
}

static void ucx_endpoint_free_ep(struct nxr_net_ep *ep)
{
    nxr_list_remove(&ep->link);
    nxr_rail_close(nxr_ucx.core, &ep->rail);
    nxr_ucx_sender_let_go(ep->sender);
    free(ep);
}

/* Is what was accepted still being sent, and is there time left? Bulk goes first, then a flush. */
static bool ucx_endpoint_is_leaving(struct nxr_net_ep *ep)
{
    static const ucp_request_param_t param;

    if (!ep->is_orderly || ep->has_failed || !ep->is_open) {
        return false;
    }
    if (!ep->has_flushed && nxr_list_is_empty(&ep->bulks)) {
        ep->has_flushed = true;
        ep->flush = ucp_ep_flush_nbx(ep->ucp, &param);
        if (!UCS_PTR_IS_PTR(ep->flush)) {
            ep->flush = NULL;
        }
    }
    if (ep->has_flushed && !is_flushing(ep)) {
        return false;
    }
    if (ep->deadline_ns == 0) {
        ep->deadline_ns = now_ns() + CLOSE_NS;
    }
    return now_ns() < ep->deadline_ns;
}

/* One step of closing an endpoint, which may be freed by it. */
static int ucx_endpoint_close_further(struct nxr_net_ep *ep)
{
    if (ep->ucp != NULL) {
        if (ucx_endpoint_is_leaving(ep)) {
            return 0;
        }
        close_by_force(ep);
    }
    if (ep->n_operations > 0) {
        return 0;
    }
    ucx_endpoint_free_ep(ep);
    return 1;
}

/* Set the timer to the first deadline ahead: one that is over keeps the descriptor readable. */
static void ucx_endpoint_set_timer(void)
{
    struct nxr_list *link, *after;
    int64_t first = 0;

    nxr_list_for_each (link, after, &nxr_ucx.closing) {
        const struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, link);

        if (ep->ucp != NULL && ep->deadline_ns != 0 && (first == 0 || ep->deadline_ns < first)) {
            first = ep->deadline_ns;
        }
    }
    if (first != nxr_ucx.timer_at_ns) {
        int64_t after_ns = first - now_ns();

        nxr_ucx.timer_at_ns = first;
        nxr_ucx_set_timer(first == 0 ? 0 : after_ns > 0 ? after_ns : 1);
    }
}

void nxr_ucx_ep_close(struct nxr_net_ep *ep, bool is_orderly)
{
    nxr_ucx.is_idle = false;
    ep->is_closing = true;
    ep->is_orderly = is_orderly;
    nxr_ucx_bulks_cut(ep->sender);
    if (must_stay(ep)) {
        move_to(&nxr_ucx.abandoned, ep); /* without operations */
        return;
    }
    move_to(&nxr_ucx.closing, ep);
    if (!nxr_ucx.is_inside) {
        (void)ucx_endpoint_close_further(ep);
        ucx_endpoint_set_timer();
    }
}

/* UCX does not report addresses, except in its log. */
static void ucx_endpoint_tell_failure(struct nxr_net_ep *ep)
{
    const char *reason = ucs_status_string(ep->failure);
    char why[300];

    if (ep->is_connected) {
        nxr_ucx.core->ep_failed(ep->peer, ep, reason);
        return;
    }
    snprintf(why, sizeof(why), "no connection to it could be made by ucx (%s): %s",
             nxr_ucx.attr.devices, reason);
    nxr_ucx.core->ep_failed(ep->peer, ep, why);
}

int nxr_ucx_endpoints_progress(void)
{
    struct nxr_list *link, *after;
    int n = 0;

    while ((link = nxr_list_pop(&nxr_ucx.wanted)) != NULL) {
        nxr_list_append(&nxr_ucx.endpoints, link);
        connect_ep(nxr_list_entry(link, struct nxr_net_ep, link));
        n++;
    }
    while ((link = nxr_list_pop(&nxr_ucx.failed)) != NULL) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, link);

        nxr_list_append(&nxr_ucx.endpoints, link);
        ucx_endpoint_tell_failure(ep);
        n++;
    }
    nxr_list_for_each (link, after, &nxr_ucx.closing) {
        n += ucx_endpoint_close_further(nxr_list_entry(link, struct nxr_net_ep, link));
    }
    ucx_endpoint_set_timer();
    return n;
}

void nxr_ucx_endpoints_close(void)
{
    struct nxr_list *link, *after;

    nxr_list_splice(&nxr_ucx.closing, &nxr_ucx.endpoints);
    nxr_list_splice(&nxr_ucx.closing, &nxr_ucx.wanted);
    nxr_list_splice(&nxr_ucx.closing, &nxr_ucx.failed);
    nxr_list_for_each (link, after, &nxr_ucx.closing) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, link);

        ep->is_closing = true;
        if (must_stay(ep)) {
            move_to(&nxr_ucx.abandoned, ep);
        } else {
            close_by_force(ep);
        }
    }
}

void nxr_ucx_endpoints_free(void)
{
    struct nxr_list *link;

    nxr_list_splice(&nxr_ucx.closing, &nxr_ucx.abandoned);
    while ((link = nxr_list_pop(&nxr_ucx.closing)) != NULL) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, link);

        nxr_ucx_cancel_all(ep);
        nxr_rail_close(nxr_ucx.core, &ep->rail);
        nxr_ucx_sender_let_go(ep->sender);
        free(ep);
    }
}
