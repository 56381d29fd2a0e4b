/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a name is published: in a folder, or by a process that listens at a TCP port. No state;
 * callers hold no lock.
 */
#ifndef NXR_ATTACH_WHERE_H
#define NXR_ATTACH_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NXR_WHERE_HOST_NBYTES 256

enum nxr_where_kind { NXR_WHERE_FOLDER, NXR_WHERE_PORT };

struct nxr_where {
    enum nxr_where_kind kind;
    const char *text;                 /* as the program gave it */
    const char *dir;                  /* of file:DIR; else NULL */
    char host[NXR_WHERE_HOST_NBYTES]; /* without brackets */
    uint16_t port;
};

/* Read one. False: it has no allowed form. The text stays the caller's. */
bool nxr_where_parse(const char *text, struct nxr_where *where_p);

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
