/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incoming connections. There is one listening socket for each own address, so that no connection
 * arrives by an interface that was not chosen. A process that connects has some time to show that
 * it has the card. Only a limited number may be in that state at once; further ones wait in the
 * kernel, as they do when no descriptor is left. The core's lock.
 */
#include "config.h"

#include "connection.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MAX_STRANGERS 256
#define ACCEPTS       16             /* in one round */
#define HELLO_NS      (30 * NXR_S)   /* for a hello */
#define PATIENCE_NS   (1 * NXR_S)    /* ... if others are waiting */
#define PAUSE_NS      (100 * NXR_MS) /* while no descriptor is left */

static struct nxr_tcp_watch listeners[NXR_TCP_MAX_PATHS];
static struct nxr_tcp_timer pause_timer;

void nxr_tcp_tell_stranger(int fd, const char *what)
{
    struct sockaddr_storage name;
    socklen_t nbytes = sizeof(name);
    char host[INET6_ADDRSTRLEN] = "somebody";

    if (getpeername(fd, (struct sockaddr *)&name, &nbytes) == 0) {
        (void)getnameinfo((struct sockaddr *)&name, nbytes, host, sizeof(host), NULL, 0,
                          NI_NUMERICHOST);
    }
    nxr_tcp.core->log(NXR_NET_WARN, "tcp: a connection from %s is closed: %s", host, what);
}

static void watch_all(uint32_t events)
{
    for (unsigned i = 0; i < nxr_tcp.address.n_paths; i++) {
        nxr_tcp_watch_change(&listeners[i], events);
    }
}

static void resume(struct nxr_tcp_timer *timer)
{
    (void)timer;
    watch_all(EPOLLIN);
}

static void was_silent(struct nxr_tcp_timer *timer)
{
    struct nxr_tcp_conn *conn = nxr_list_entry(timer, struct nxr_tcp_conn, timer);

    nxr_tcp_read_hello(conn); /* it may have arrived while this process was stopped */
    if (conn->stage == NXR_TCP_WANTS_HELLO) {
        nxr_tcp_conn_lost(conn, "it sends nothing");
    }
}

/* Stop accepting for now; until then something may arrive or be closed. */
static void pause_all(void)
{
    watch_all(0);
    nxr_tcp_timer_set(&pause_timer, PAUSE_NS);
}

/*
 * Drop a connection that stays silent for long while others wait; its process has to connect again.
 * A rank speaks at once, and connects again if it was stopped. False: none was silent for that
 * long.
 */
static bool drop_slowest(void)
{
    int64_t latest = nxr_now_ns() + HELLO_NS - PATIENCE_NS;
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &nxr_tcp.conns) { /* by age */
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, link);

        if (conn->stage == NXR_TCP_WANTS_HELLO) {
            if (conn->timer.at <= latest) {
                was_silent(&conn->timer);
                return true;
            }
            return false;
        }
    }
    return false;
}

/* Can another connection be accepted now? */
static bool may_accept(int error)
{
    switch (error) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        nxr_tcp.core->log(NXR_NET_DEBUG, "tcp: no connection is accepted for now: %s",
                          strerror(error));
        pause_all();
        return false;
    default:
        return true; /* the connection was aborted by its peer */
    }
}

static void tcp_listen_is_ready(struct nxr_tcp_watch *watch, uint32_t events)
{
    (void)events;
    for (int i = 0; i < ACCEPTS; i++) {
        struct nxr_tcp_conn *conn;
        int fd;

        if (nxr_tcp.n_strangers >= MAX_STRANGERS && !drop_slowest()) {
            pause_all();
            return;
        }
        fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (!may_accept(errno)) {
                return;
            }
            continue;
        }
        conn = nxr_tcp_conn_new(fd, NXR_TCP_WANTS_HELLO);
        if (conn != NULL) {
            nxr_tcp.n_strangers++;
            conn->timer.rings = was_silent;
            nxr_tcp_timer_set(&conn->timer, HELLO_NS);
        }
    }
}

/* Listen on that path at its port, 0 for any, and fill that in. */
static int open_listener_at(struct nxr_tcp_path *path)
{
    const int one = 1;
    struct sockaddr_storage name;
    socklen_t nbytes = nxr_tcp_sockaddr(path, &name);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    if (path->port != 0) { /* connections of a former process may linger at it */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    }
    if (path->family == 6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    }
    if (bind(fd, (struct sockaddr *)&name, nbytes) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &nbytes) != 0) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    path->port = ntohs(path->family == 4 ? ((struct sockaddr_in *)(void *)&name)->sin_port
                                         : ((struct sockaddr_in6 *)(void *)&name)->sin6_port);
    return fd;
}

/* Listen on that path at the first port of the range that is free. */
static int open_listener(struct nxr_tcp_path *path, struct nxr_port_range range)
{
    uint32_t port = range.first;
    int fd;

    do {
        path->port = (uint16_t)port;
        fd = open_listener_at(path);
    } while (fd < 0 && errno == EADDRINUSE && ++port <= range.last);
    return fd;
}

static void listen_explain(struct nxr_port_range range, int error, char *why, size_t why_nbytes)
{
    if (range.first != 0) {
        snprintf(why, why_nbytes,
                 "cannot listen at any port of NIXLRUN_TCP_PORTS, %u to %u: %s; allowed: one for "
                 "each process of this host",
                 range.first, range.last, strerror(error));
    } else {
        snprintf(why, why_nbytes, "cannot listen at any address: %s", strerror(error));
    }
}

/* A path that cannot be listened on is skipped: an address may disappear at any time. */
int nxr_tcp_listen(struct nxr_port_range range, char *why, size_t why_nbytes)
{
    struct nxr_tcp_address *address = &nxr_tcp.address;
    unsigned n = 0;
    int error = 0;

    pause_timer = (struct nxr_tcp_timer){.rings = resume};
    nxr_list_init(&pause_timer.link);
    for (unsigned i = 0; i < address->n_paths; i++) {
        listeners[n] =
            (struct nxr_tcp_watch){tcp_listen_is_ready, open_listener(&address->paths[i], range)};
        if (listeners[n].fd < 0 || nxr_tcp_watch(&listeners[n], EPOLLIN) != NIXL_OK) {
            error = errno;
            if (listeners[n].fd >= 0) {
                close(listeners[n].fd);
            }
            continue;
        }
        address->paths[n] = address->paths[i];
        memmove(nxr_tcp.names[n], nxr_tcp.names[i], sizeof(nxr_tcp.names[n]));
        n++;
    }
    memset(&address->paths[n], 0, (NXR_TCP_MAX_PATHS - n) * sizeof(address->paths[0]));
    address->n_paths = (uint8_t)n;
    if (n == 0) {
        listen_explain(range, error, why, why_nbytes);
        return NIXL_E_TRANSPORT;
    }
    return NIXL_OK;
}

void nxr_tcp_listen_end(void)
{
    for (unsigned i = 0; i < nxr_tcp.address.n_paths; i++) {
        if (listeners[i].fd >= 0) {
            close(listeners[i].fd);
        }
        listeners[i].fd = -1;
    }
}

/* ---- rails ----------------------------------------------------------------------------------- */

/* A rail of the other side whose link was cut is not closed by it in words. */
void nxr_tcp_rail_accepted(struct nxr_tcp_conn *conn)
{
    struct sockaddr_storage name = {0}, other;
    socklen_t nbytes = sizeof(name);
    int path = nxr_tcp_own_path(conn->watch.fd);
    struct nxr_list *link, *after;

    nxr_tcp.core->log(NXR_NET_INFO, "tcp: %s is joined as a rail by the other side",
                      path >= 0 ? nxr_tcp.names[path] : "an interface");
    if (getpeername(conn->watch.fd, (struct sockaddr *)&name, &nbytes) != 0) {
        return;
    }
    ((struct sockaddr_in *)(void *)&name)->sin_port = 0; /* at the same place in sockaddr_in6 */
    nxr_list_for_each (link, after, &conn->process->rails) {
        struct nxr_tcp_conn *old = nxr_list_entry(link, struct nxr_tcp_conn, process_link);

        memset(&other, 0, sizeof(other));
        nbytes = sizeof(other);
        if (old == conn || old->is_own || nxr_tcp_own_path(old->watch.fd) != path ||
            getpeername(old->watch.fd, (struct sockaddr *)&other, &nbytes) != 0) {
            continue;
        }
        ((struct sockaddr_in *)(void *)&other)->sin_port = 0;
        if (memcmp(&name, &other, sizeof(name)) == 0) {
            nxr_tcp_conn_close(old);
        }
    }
}
