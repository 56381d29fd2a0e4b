/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a name is published: in a folder, by a process that listens at a TCP port, or in etcd. No
 * state; callers hold no lock.
 */
#ifndef NXR_ATTACH_WHERE_H
#define NXR_ATTACH_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NXR_WHERE_HOST_NBYTES 256

#define NXR_WHERE_USER_NBYTES      65
#define NXR_WHERE_PREFIX_NBYTES    256
#define NXR_WHERE_ENDPOINTS_NBYTES 1024

enum nxr_where_kind { NXR_WHERE_FOLDER, NXR_WHERE_PORT, NXR_WHERE_ETCD };

struct nxr_where {
    enum nxr_where_kind kind;
    const char *text; /* as the program gave it */
    const char *dir;  /* of file:DIR; else NULL */

    /* Of tcp://HOST:PORT. */
    char host[NXR_WHERE_HOST_NBYTES]; /* without brackets */
    uint16_t port;

    /* Of etcd://[USER@]HOST:PORT[,HOST:PORT...][/PREFIX]. */
    bool is_tls;                                /* etcds:// */
    char user[NXR_WHERE_USER_NBYTES];           /* "": none */
    char endpoints[NXR_WHERE_ENDPOINTS_NBYTES]; /* HOST:PORT, with commas between them */
    char prefix[NXR_WHERE_PREFIX_NBYTES];       /* without slashes at its ends */
};

#define NXR_WHERE_ALLOWED                                                                          \
    "file:DIR, a folder; tcp://HOST:PORT, a host name or address, IPv6 in [], and 0 to 65535; "    \
    "etcd://[USER@]HOST:PORT[,HOST:PORT...][/PREFIX], or etcds:// for TLS, and no password"

/* Read one. False: it has no allowed form. The text stays the caller's. */
bool nxr_where_parse(const char *text, struct nxr_where *where_p);

/* The text for messages: without what may be a password. */
struct nxr_where_shown {
    char text[160];
};
struct nxr_where_shown nxr_where_show(const char *text);

/* Write "tcp://HOST:PORT" with that port. Returns its length, as snprintf(). */
int nxr_where_write(const char *host, uint16_t port, char *text, size_t nbytes);

struct addrinfo;

/*
 * The addresses of a host and port, to be freed by freeaddrinfo(). `is_passive`: to listen at.
 * NULL: there are none, and `why` says so in words. May ask a name server, and so take seconds.
 */
struct addrinfo *nxr_where_resolve(const struct nxr_where *where, bool is_passive, char *why,
                                   size_t why_nbytes);

#endif
