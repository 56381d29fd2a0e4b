/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for a connection that could not be established. No state. */
#include "config.h"

#include "reason.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

const char *nxr_reason_of(int error)
{
    switch (error) {
    case 0:
    case ETIMEDOUT:
    case EINPROGRESS:
        return "no answer";
    case ECONNREFUSED:
        return "refused";
    case EHOSTUNREACH:
        return "no route to the host, or forbidden on the path";
    case ENETUNREACH:
        return "no route to its network";
    case EACCES:
    case EPERM:
        return "forbidden by this host";
    case ECONNRESET:
    case EPIPE:
        return "broken off";
    case EMFILE:
    case ENFILE:
        return "too many open files here";
    case EADDRNOTAVAIL:
        return "no port is left here";
    case ENOMEM:
    case ENOBUFS:
        return "no memory here";
    default:
        return "the kernel refuses it";
    }
}

void nxr_sockaddr_text(const struct sockaddr *name, socklen_t nbytes, char *text,
                       size_t text_nbytes)
{
    char host[INET6_ADDRSTRLEN] = "?", port[8] = "?";

    (void)getnameinfo(name, nbytes, host, sizeof(host), port, sizeof(port),
                      NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, text_nbytes, "%s port %s", host, port);
}
