/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets at which attachers introduce themselves: a local one for each publication in a
 * folder, and one for each TCP port, which publications of several names share. Each of them has a
 * secret of its own. The service thread watches the sockets. Caller holds job.lock.
 */
#ifndef NXR_ATTACH_LISTENER_H
#define NXR_ATTACH_LISTENER_H

#include "attach/proof.h"
#include "attach/where.h"
#include "core/control.h"
#include "host/acceptor.h"
#include "host/local_socket.h"
#include "util/list.h"

#define NXR_LISTENER_WHY_NBYTES 400

struct nxr_listener {
    struct nxr_list link;
    struct nxr_acceptor acceptor;
    struct nxr_local_socket local; /* none: TCP */
    int tcp_fd;                    /* -1: local */
    bool is_closed;                /* to be freed at the next tick */
    bool is_stream;                /* TCP */
    unsigned n_users;              /* publications */
    uint16_t port;
    char *where;                                   /* of a TCP port; NULL: a local socket */
    unsigned char secret[NXR_PROOF_SECRET_NBYTES]; /* for names that are not published there */
};

/* Listen on the local socket that an entry names. NIXL_OK, or the failure, in words in `why`. */
int nxr_listener_local(const unsigned char nonce[NXR_NONCE_NBYTES],
                       const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                       struct nxr_listener **listener_p, char why[NXR_LISTENER_WHY_NBYTES]);

/*
 * Listen on the first of these addresses that can be used, or share what listens there for another
 * name. NIXL_OK; NIXL_E_IN_USE: another process has the port; NIXL_E_NOT_FOUND: no address is this
 * host's; NIXL_E_ACCESS: the port is privileged; NIXL_E_NO_MEMORY, NIXL_E_LIMIT, NIXL_E_TRANSPORT.
 */
int nxr_listener_tcp(const struct nxr_where *where, const struct addrinfo *addresses,
                     const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                     struct nxr_listener **listener_p, char why[NXR_LISTENER_WHY_NBYTES]);

/* A publication is done with it; with the last one it ends, and so do its introductions. */
void nxr_listener_let_go(struct nxr_listener *listener);

/* Listen again where descriptors were short; free what has ended. Returns when to call again. */
int64_t nxr_listeners_tick(int64_t now);

#endif
