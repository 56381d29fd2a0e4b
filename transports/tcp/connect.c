/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a connection for an endpoint: the ways to its peer are tried one after the other until one
 * leads to a process that answers as the peer. A refusal is the kernel of a host speaking: if all
 * ways refuse, or somebody else is there, the peer is gone. Silence says nothing: it goes on, until
 * the core has had enough. A connection that was not confirmed may be given up at any time. The
 * core's lock.
 */
#include "config.h"

#include "connection.h"
#include "util/clock.h"

#include <errno.h>
#include <unistd.h>

#define CONNECT_NS (2 * NXR_S)   /* where there is another way */
#define RETRY_NS   (50 * NXR_MS) /* behind a round that was not refused everywhere */

static void took_too_long(struct nxr_tcp_timer *timer)
{
    nxr_tcp_conn_lost(nxr_list_entry(timer, struct nxr_tcp_conn, timer), "no answer");
}

static void retry(struct nxr_tcp_timer *timer)
{
    struct nxr_net_ep *ep = nxr_list_entry(timer, struct nxr_net_ep, retry_timer);

    ep->is_waiting = false;
    nxr_tcp_connect(ep);
}

/* False: that way leads nowhere now, with errno. */
static bool try_way(struct nxr_net_ep *ep, const struct nxr_tcp_way *way)
{
    struct sockaddr_storage name;
    socklen_t nbytes = nxr_tcp_sockaddr(way, &name);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct nxr_tcp_conn *conn;

    if (fd < 0) {
        return false;
    }
    if (connect(fd, (struct sockaddr *)&name, nbytes) != 0 && errno != EINPROGRESS) {
        int error = errno;

        close(fd);
        errno = error;
        return false;
    }
    conn = nxr_tcp_conn_new(fd, NXR_TCP_CONNECTING);
    if (conn == NULL) {
        errno = ENOMEM;
        return false;
    }
    conn->is_own = true;
    conn->rank = ep->address.rank;
    conn->answer = ep->address.answer;
    conn->ep = ep;
    conn->timer.rings = took_too_long;
    ep->trying = conn;
    if (ep->n_ways > 1) {
        nxr_tcp_timer_set(&conn->timer, CONNECT_NS);
    }
    return true;
}

/* The peer is gone if this goes all the way round. */
static bool was_last_refusal(struct nxr_net_ep *ep, bool is_refusal)
{
    ep->n_refused += is_refusal;
    if (++ep->next_way < ep->n_ways) {
        return false;
    }
    ep->next_way = 0;
    if (ep->n_refused == ep->n_ways) {
        return true;
    }
    ep->n_refused = 0;
    return false;
}

void nxr_tcp_connect_failed(struct nxr_net_ep *ep, bool is_refusal)
{
    if (was_last_refusal(ep, is_refusal)) {
        nxr_tcp_ep_fail(ep, "nobody listens at its addresses");
    } else if (ep->next_way == 0) {
        ep->is_waiting = true;
        nxr_tcp_timer_set(&ep->retry_timer, RETRY_NS);
    } else {
        nxr_tcp_connect(ep);
    }
}

void nxr_tcp_connect(struct nxr_net_ep *ep)
{
    ep->retry_timer.rings = retry;
    if (!try_way(ep, &ep->address.ways[ep->ways[ep->next_way]])) {
        nxr_tcp_connect_failed(ep, errno == ECONNREFUSED);
    }
}

void nxr_tcp_connect_end(struct nxr_net_ep *ep)
{
    struct nxr_tcp_conn *conn = ep->trying;

    nxr_tcp_timer_end(&ep->retry_timer);
    ep->is_waiting = false;
    ep->trying = NULL;
    if (conn != NULL) {
        conn->ep = NULL;
        nxr_tcp_conn_close(conn);
    }
}
