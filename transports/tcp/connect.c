/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a connection for an endpoint: the paths to its peer are tried one after the other until
 * one leads to a process that answers as the peer. A refusal comes from the kernel of a host: if
 * all paths refuse, or another process answers, the peer is gone. Silence says nothing: the
 * attempts continue until the core gives up. A connection that was not confirmed may be given up
 * at any time. The core's lock.
 */
#include "config.h"

#include "connection.h"
#include "transports/reason.h"
#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_NS (2 * NXR_S)   /* if there is another path */
#define RETRY_NS   (50 * NXR_MS) /* after a round in which not all paths refused */

static void took_too_long(struct nxr_tcp_timer *timer)
{
    nxr_tcp_conn_lost(nxr_list_entry(timer, struct nxr_tcp_conn, timer), "no answer");
}

static void tcp_connect_retry(struct nxr_tcp_timer *timer)
{
    struct nxr_net_ep *ep = nxr_list_entry(timer, struct nxr_net_ep, retry_timer);

    ep->is_waiting = false;
    nxr_tcp_connect(ep);
}

/* False: that path cannot be used now; see errno. */
static bool try_path(struct nxr_net_ep *ep, const struct nxr_tcp_path *path)
{
    struct sockaddr_storage name;
    socklen_t nbytes = nxr_tcp_sockaddr(path, &name);
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
    nxr_tcp_name_of_source(fd, ep->tries[ep->next_path].from, IF_NAMESIZE);
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
    if (ep->n_paths > 1) {
        nxr_tcp_timer_set(&conn->timer, CONNECT_NS);
    }
    return true;
}

/* Record an attempt. True: a whole round was refused, so the peer is gone. */
static bool was_last_refusal(struct nxr_net_ep *ep, bool is_refusal)
{
    ep->n_refused += is_refusal;
    if (++ep->next_path < ep->n_paths) {
        return false;
    }
    ep->next_path = 0;
    if (ep->n_refused == ep->n_paths) {
        return true;
    }
    ep->n_refused = 0;
    return false;
}

static void fail_for_good(struct nxr_net_ep *ep)
{
    char text[sizeof(ep->why)] = NXR_ALL_REFUSE;
    size_t used = strlen(text);

    nxr_tcp_connect_text(ep, text + used, sizeof(text) - used);
    nxr_tcp_ep_fail(ep, text);
}

void nxr_tcp_connect_failed(struct nxr_net_ep *ep, const char *why, bool is_refusal)
{
    ep->tries[ep->next_path].why = why;
    if (was_last_refusal(ep, is_refusal)) {
        fail_for_good(ep);
    } else if (ep->next_path == 0) {
        ep->is_waiting = true;
        nxr_tcp_timer_set(&ep->retry_timer, RETRY_NS);
    } else {
        nxr_tcp_connect(ep);
    }
}

void nxr_tcp_connect(struct nxr_net_ep *ep)
{
    ep->retry_timer.rings = tcp_connect_retry;
    if (!try_path(ep, &ep->address.paths[ep->paths[ep->next_path]])) {
        nxr_tcp_connect_failed(ep, nxr_reason_of(errno), errno == ECONNREFUSED);
    }
}

/*
 * An accepted connection waits for the process; otherwise the result of the last attempt, if any.
 */
static const char *outcome_of(const struct nxr_net_ep *ep, unsigned index)
{
    if (ep->trying != NULL && index == ep->next_path && ep->trying->stage == NXR_TCP_WANTS_ANSWER) {
        return NXR_TAKEN;
    }
    return ep->tries[index].why != NULL ? ep->tries[index].why : nxr_reason_of(0);
}

void nxr_tcp_connect_text(const struct nxr_net_ep *ep, char *line, size_t line_nbytes)
{
    size_t used = 0;

    line[0] = '\0';
    for (unsigned i = 0; i < ep->n_paths && used < line_nbytes; i++) {
        const char *from = ep->tries[i].from;
        struct sockaddr_storage name;
        socklen_t nbytes = nxr_tcp_sockaddr(&ep->address.paths[ep->paths[i]], &name);
        char text[64];

        nxr_sockaddr_text((const struct sockaddr *)&name, nbytes, text, sizeof(text));
        used += (size_t)snprintf(line + used, line_nbytes - used, "%s%s%s%s: %s", i > 0 ? "; " : "",
                                 text, from[0] != '\0' ? " by " : "", from, outcome_of(ep, i));
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
