/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: how the core sends to a peer. An endpoint that is closed in order may continue for a
 * while to send what was accepted. It then says that nothing follows, and waits until the peer's
 * kernel has everything: closing a socket that has unread input would discard what is still being
 * sent. The core's lock.
 */
#include "config.h"

#include "rails.h"
#include "transports/tcp_health.h"
#include "util/clock.h"
#include "util/debug.h"

#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define CLOSE_NS (100 * NXR_MS) /* for an orderly close */
#define LOOK_NS  (2 * NXR_MS)   /* ... checked at this interval */

static void close_timer_rings(struct nxr_tcp_timer *timer);

/* Send on a connection that the process has made; all of them are known to be of this peer now. */
static void adopt_any(struct nxr_net_ep *ep)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &ep->process->conns) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, process_link);

        nxr_tcp_conn_count(conn);
        if (ep->conn == NULL && conn->ep == NULL && !conn->drops) {
            nxr_tcp_ep_adopt(ep, conn);
        }
    }
    nxr_list_for_each (link, after, &ep->process->rails) {
        nxr_tcp_conn_count(nxr_list_entry(link, struct nxr_tcp_conn, process_link));
    }
}

int nxr_tcp_ep_open(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p)
{
    struct nxr_net_ep *ep = calloc(1, sizeof(*ep));

    if (ep == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    if (nxr_tcp_address_parse(address, nbytes, &ep->address) == NULL) {
        ep->n_paths = nxr_tcp_order(&nxr_tcp.address, &ep->address, ep->paths);
    }
    if (ep->n_paths == 0) {
        free(ep);
        return NIXL_E_UNSUPPORTED;
    }
    ep->process = nxr_tcp_process_get(ep->address.answer);
    if (ep->process == NULL) {
        free(ep);
        return NIXL_E_NO_MEMORY;
    }
    ep->process->ep = ep;
    ep->peer = peer;
    ep->close_timer.rings = close_timer_rings;
    nxr_list_init(&ep->retry_timer.link);
    nxr_list_init(&ep->close_timer.link);
    nxr_list_append(&nxr_tcp.eps, &ep->link);
    adopt_any(ep);
    *ep_p = ep;
    return NIXL_OK;
}

void nxr_tcp_ep_adopt(struct nxr_net_ep *ep, struct nxr_tcp_conn *conn)
{
    if (ep->trying == conn) {
        ep->trying = NULL;
    }
    nxr_tcp_connect_end(ep);
    ep->conn = conn;
    conn->ep = ep;
    (void)nxr_tcp_flush(ep);
}

static void let_go_of_conn(struct nxr_net_ep *ep)
{
    if (ep->conn != NULL) {
        ep->conn->ep = NULL;
        nxr_tcp_conn_wants_room(ep->conn, false);
        ep->conn = NULL;
    }
}

static void let_go_of_rails(struct nxr_net_ep *ep, int status)
{
    struct nxr_tcp_rails *rails = ep->rails;

    if (rails == NULL) {
        return;
    }
    ep->rails = NULL;
    nxr_tcp_timer_end(&rails->timer);
    for (unsigned i = 1; i < rails->n; i++) {
        if (rails->at[i].conn != NULL) {
            nxr_tcp_conn_abort(rails->at[i].conn);
        }
    }
    nxr_tcp_stripes_end(rails, status);
    free(rails);
}

void nxr_tcp_ep_fail(struct nxr_net_ep *ep, const char *why)
{
    if (ep->has_failed) {
        return;
    }
    ep->has_failed = true;
    snprintf(ep->why, sizeof(ep->why), "%s", why);
    let_go_of_conn(ep);
    nxr_tcp_connect_end(ep);
    nxr_tcp_outs_end(ep, NIXL_E_TRANSPORT);
    let_go_of_rails(ep, NIXL_E_TRANSPORT);
    if (!ep->is_closing) {
        nxr_list_remove(&ep->link);
        nxr_list_append(&nxr_tcp.failed, &ep->link);
    }
}

int nxr_tcp_ep_reach(struct nxr_net_ep *ep)
{
    if (ep->conn == NULL && ep->trying == NULL && !ep->is_waiting && !ep->has_failed) {
        nxr_tcp_connect(ep);
    }
    if (ep->has_failed) {
        return NIXL_E_TRANSPORT;
    }
    return ep->conn != NULL ? NIXL_OK : NIXL_E_AGAIN;
}

bool nxr_tcp_ep_state(struct nxr_net_ep *ep, char *line, size_t line_nbytes)
{
    if (ep->conn == NULL) {
        nxr_tcp_connect_text(ep, line, line_nbytes);
        return ep->has_failed;
    }
    if (nxr_tcp_health(ep->conn->watch.fd, line, line_nbytes)) {
        snprintf(line, line_nbytes, "%s", NXR_TCP_HEARD);
    }
    return true;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* The process, which it keeps until here, may be forgotten. */
static void let_go_of_process(struct nxr_net_ep *ep)
{
    if (ep->process->ep == ep) {
        ep->process->ep = NULL;
    }
    nxr_tcp_process_let_go(ep->process);
    ep->process = NULL;
}

static void tcp_endpoint_free_ep(struct nxr_net_ep *ep)
{
    struct nxr_tcp_conn *conn = ep->conn;

    if (ep->process != NULL) {
        let_go_of_process(ep);
    }
    nxr_tcp_connect_end(ep);
    nxr_tcp_outs_end(ep, NIXL_E_CANCELED);
    let_go_of_rails(ep, NIXL_E_CANCELED);
    nxr_tcp_timer_end(&ep->close_timer);
    if (conn != NULL) {
        conn->ep = NULL;
        nxr_tcp_conn_close(conn);
    }
    nxr_list_remove(&ep->link);
    free(ep);
}

/* Does the peer's kernel have all that was sent? */
static bool has_arrived(const struct nxr_tcp_conn *conn)
{
    int n_left = 0;

    return ioctl(conn->watch.fd, SIOCOUTQ, &n_left) != 0 || n_left == 0;
}

/* Is there anything left to do before it can be freed? */
static bool tcp_endpoint_is_leaving(struct nxr_net_ep *ep)
{
    if (ep->has_failed || nxr_now_ns() >= ep->close_at) {
        return false;
    }
    if (ep->n_outs > 0 || nxr_tcp_rails_are_busy(ep)) {
        return true;
    }
    if (ep->conn != NULL && !ep->is_shut) {
        ep->is_shut = true;
        (void)shutdown(ep->conn->watch.fd, SHUT_WR);
    }
    return ep->conn != NULL && !has_arrived(ep->conn);
}

/* One step of closing an endpoint, which may be freed by it. */
static int tcp_endpoint_close_further(struct nxr_net_ep *ep)
{
    if (tcp_endpoint_is_leaving(ep)) {
        if (nxr_list_is_empty(&ep->close_timer.link)) {
            nxr_tcp_timer_set(&ep->close_timer, LOOK_NS);
        }
        return 0;
    }
    tcp_endpoint_free_ep(ep);
    return 1;
}

static void close_timer_rings(struct nxr_tcp_timer *timer)
{
    (void)timer; /* nxr_tcp_endpoints_progress() follows */
}

/* Drop everything else that the peer has sent. */
static void shut_out(const struct nxr_net_ep *ep, bool is_orderly)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &ep->process->conns) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, process_link);

        conn->drops = true;
        if (!is_orderly && conn != ep->conn) {
            nxr_tcp_conn_close(conn);
        }
    }
    nxr_list_for_each (link, after, &ep->process->rails) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, process_link);

        if (!conn->is_own) {
            nxr_tcp_conn_close(conn);
        }
    }
}

void nxr_tcp_ep_close(struct nxr_net_ep *ep, bool is_orderly)
{
    NXR_ASSERT(!ep->is_closing && !nxr_tcp.is_progressing);
    ep->is_closing = true;
    ep->close_at = is_orderly ? nxr_now_ns() + CLOSE_NS : 0;
    shut_out(ep, is_orderly);
    let_go_of_process(ep);
    nxr_list_remove(&ep->link);
    nxr_list_append(&nxr_tcp.closing, &ep->link);
    if (!nxr_tcp.is_progressing) {
        (void)tcp_endpoint_close_further(ep);
    }
}

int nxr_tcp_endpoints_progress(void)
{
    struct nxr_list *link, *after;
    int n = 0;

    while ((link = nxr_list_pop(&nxr_tcp.failed)) != NULL) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, link);

        nxr_list_append(&nxr_tcp.eps, link);
        nxr_tcp.core->ep_failed(ep->peer, ep, ep->why);
        n++;
    }
    nxr_list_for_each (link, after, &nxr_tcp.closing) {
        n += tcp_endpoint_close_further(nxr_list_entry(link, struct nxr_net_ep, link));
    }
    return n;
}

void nxr_tcp_endpoints_end(void)
{
    struct nxr_list *link, *after;

    while (!nxr_list_is_empty(&nxr_tcp.closing)) {
        (void)nxr_tcp_handle_events(1);
        nxr_list_for_each (link, after, &nxr_tcp.closing) {
            (void)tcp_endpoint_close_further(nxr_list_entry(link, struct nxr_net_ep, link));
        }
    }
    nxr_list_splice(&nxr_tcp.eps, &nxr_tcp.failed);
    nxr_list_for_each (link, after, &nxr_tcp.eps) {
        tcp_endpoint_free_ep(nxr_list_entry(link, struct nxr_net_ep, link));
    }
}
