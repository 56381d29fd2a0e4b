/* SPDX-License-Identifier: Apache-2.0 */
/* Listening for attachers. Lock: job.lock. */
#include "config.h"

#include "attach/listener.h"
#include "attach/introduction.h"
#include "attach/visit.h"
#include "util/status.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct nxr_local_socket no_local_socket = NXR_LOCAL_SOCKET_NONE;
static struct nxr_list attach_listeners = {&attach_listeners, &attach_listeners};

static bool listener_take(struct nxr_acceptor *acceptor, int fd)
{
    return nxr_visit_begin(nxr_list_entry(acceptor, struct nxr_listener, acceptor), fd);
}

static void listener_close(struct nxr_listener *listener)
{
    if (listener->is_stream) {
        close(listener->tcp_fd);
    }
    nxr_local_socket_close(&listener->local);
    listener->is_closed = true;
}

static void listener_free(struct nxr_listener *listener)
{
    free(listener->where);
    explicit_bzero(listener->secret, sizeof(listener->secret));
    free(listener);
}

/*
 * Watch a TCP socket that listens at `where`, or a local one, NULL: the other one is -1, or none.
 * What listens is closed if that fails.
 */
static int listener_begin(int tcp_fd, const char *where, const struct nxr_local_socket *local,
                          const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                          struct nxr_listener **listener_p)
{
    const int tcp_fds[NXR_LOCAL_ADDRESSES] = {tcp_fd, -1};
    struct nxr_listener *listener = calloc(1, sizeof(*listener));
    int status = NIXL_E_NO_MEMORY;

    if (listener == NULL) {
        return status;
    }
    listener->local = *local;
    listener->is_stream = where != NULL;
    listener->n_users = 1;
    listener->tcp_fd = tcp_fd;
    memcpy(listener->secret, secret, sizeof(listener->secret));
    if (where == NULL || (listener->where = strdup(where)) != NULL) {
        status = nxr_acceptor_start(&listener->acceptor, where != NULL ? tcp_fds : local->fds,
                                    listener_take);
    }
    if (status != NIXL_OK) {
        listener_free(listener);
        return status;
    }
    nxr_list_append(&attach_listeners, &listener->link);
    *listener_p = listener;
    return NIXL_OK;
}

int nxr_listener_local(const unsigned char nonce[NXR_NONCE_NBYTES],
                       const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                       struct nxr_listener **listener_p, char why[NXR_LISTENER_WHY_NBYTES])
{
    struct nxr_local_socket local;
    int status = nxr_local_socket_listen(NXR_INTRO_SOCKET, nonce, &local);

    if (status == NIXL_OK) {
        status = listener_begin(-1, NULL, &local, secret, listener_p);
        if (status != NIXL_OK) {
            nxr_local_socket_close(&local);
        }
    }
    if (status != NIXL_OK) {
        snprintf(why, NXR_LISTENER_WHY_NBYTES, "cannot listen on a socket: %s",
                 nixl_strerror(status));
    }
    return status;
}

/* ---- TCP ------------------------------------------------------------------------------------- */

static struct nxr_listener *listener_find(const char *where)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &attach_listeners) {
        struct nxr_listener *listener = nxr_list_entry(link, struct nxr_listener, link);

        if (!listener->is_closed && listener->where != NULL &&
            strcmp(listener->where, where) == 0) {
            return listener;
        }
    }
    return NULL;
}

/* A socket that listens at an address; -1, with errno. */
static int listener_open(const struct addrinfo *address, uint16_t *port_p)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } name = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t nbytes = sizeof(name);
    const int one = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, &name.any, &nbytes) != 0) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    *port_p = ntohs(name.any.sa_family == AF_INET ? name.four.sin_port : name.six.sin6_port);
    return fd;
}

/* Why the port cannot be listened at, as a status and in words. */
static int listener_fail(const struct nxr_where *where, int error,
                         char why[NXR_LISTENER_WHY_NBYTES])
{
    switch (error) {
    case EADDRINUSE:
        snprintf(why, NXR_LISTENER_WHY_NBYTES,
                 "port %u is in use by another process; allowed: another port, or 0 for any that "
                 "is free",
                 where->port);
        return NIXL_E_IN_USE;
    case EADDRNOTAVAIL:
        snprintf(why, NXR_LISTENER_WHY_NBYTES,
                 "'%.120s' is not an address of this host; allowed: one that is, or 0.0.0.0 or "
                 "[::] for all",
                 where->host);
        return NIXL_E_NOT_FOUND;
    case EACCES:
        snprintf(why, NXR_LISTENER_WHY_NBYTES,
                 "port %u is privileged; allowed: 1024 to 65535, or 0 for any", where->port);
        return NIXL_E_ACCESS;
    default:
        snprintf(why, NXR_LISTENER_WHY_NBYTES, "cannot listen there: %s", strerror(error));
        return nxr_status_of_errno(error);
    }
}

int nxr_listener_tcp(const struct nxr_where *where, const struct addrinfo *addresses,
                     const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                     struct nxr_listener **listener_p, char why[NXR_LISTENER_WHY_NBYTES])
{
    struct nxr_listener *shared = listener_find(where->text);
    int fd = -1, error = 0, status;
    uint16_t port = 0;

    if (shared != NULL) {
        shared->n_users++;
        *listener_p = shared;
        return NIXL_OK;
    }
    for (; addresses != NULL && fd < 0; addresses = addresses->ai_next) {
        fd = listener_open(addresses, &port);
        error = fd < 0 && error == 0 ? errno : error;
    }
    if (fd < 0) {
        return listener_fail(where, error, why);
    }
    status = listener_begin(fd, where->text, &no_local_socket, secret, listener_p);
    if (status == NIXL_OK) {
        (*listener_p)->port = port;
    } else {
        close(fd);
        snprintf(why, NXR_LISTENER_WHY_NBYTES, "cannot watch a socket: %s", nixl_strerror(status));
    }
    return status;
}

/* ---- the end --------------------------------------------------------------------------------- */

void nxr_listener_let_go(struct nxr_listener *listener)
{
    if (--listener->n_users > 0) {
        return;
    }
    nxr_visits_end(listener, NULL);
    nxr_acceptor_stop(&listener->acceptor);
    listener_close(listener);
    nxr_service_kick();
}

int64_t nxr_listeners_tick(int64_t now)
{
    struct nxr_list *link, *after;
    int64_t due = INT64_MAX;

    nxr_list_for_each (link, after, &attach_listeners) {
        struct nxr_listener *listener = nxr_list_entry(link, struct nxr_listener, link);
        int64_t again_at;

        if (listener->is_closed) {
            nxr_list_remove(&listener->link); /* no event of this round refers to it any more */
            listener_free(listener);
            continue;
        }
        again_at = nxr_acceptor_tick(&listener->acceptor, now);
        due = again_at < due ? again_at : due;
    }
    return due;
}
