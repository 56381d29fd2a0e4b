/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets by which processes of one host find each other, which keep message boundaries and
 * pass descriptors. Each is named by what it is for and by a nonce, and has up to two addresses:
 * - an abstract one. It vanishes with its process, and is seen in one network namespace only.
 * - with NIXLRUN_SHARED_DIR a path in that folder, for processes of other network namespaces which
 *   share it, such as containers with a common volume. It is removed when the socket is closed;
 *   those of processes that were killed are removed by the next one that listens there.
 * No state. Any thread.
 */
#ifndef NXR_HOST_LOCAL_SOCKET_H
#define NXR_HOST_LOCAL_SOCKET_H

#include "core/control.h"

#include <stdbool.h>

#define NXR_LOCAL_ADDRESSES 2

/* One that listens. */
struct nxr_local_socket {
    int fds[NXR_LOCAL_ADDRESSES]; /* the abstract one, the one by path; -1: none */
    char *path;                   /* NULL: none */
};
#define NXR_LOCAL_SOCKET_NONE                                                                      \
    {                                                                                              \
        {-1, -1}, NULL                                                                             \
    }

/*
 * Listen. NIXL_OK, or the failure, also if NIXLRUN_SHARED_DIR cannot be used; the reason is logged.
 */
int nxr_local_socket_listen(const char *what, const unsigned char nonce[NXR_NONCE_NBYTES],
                            struct nxr_local_socket *socket_p);

/* Stop; the socket is NXR_LOCAL_SOCKET_NONE afterwards. */
void nxr_local_socket_close(struct nxr_local_socket *socket);

/*
 * Connect to one, by whichever address is seen from here. NIXL_OK and the descriptor; NIXL_E_AGAIN:
 * it accepts no connection now; NIXL_E_LIMIT: no descriptor; NIXL_E_PEER_LOST: nobody listens
 * there.
 */
int nxr_local_socket_connect(const char *what, const unsigned char nonce[NXR_NONCE_NBYTES],
                             int *fd_p);

/*
 * A bell: a socket that others make readable, named by its owner's nonce, in one network namespace.
 * nxr_local_bell_open() returns the descriptor, or -1 with errno; reading a byte from it undoes one
 * ring.
 */
int nxr_local_bell_open(const unsigned char nonce[NXR_NONCE_NBYTES]);

/* Ring that of another process, from the own one. False: it is not seen from here, or is gone. */
bool nxr_local_bell_ring(int own_bell, const unsigned char nonce[NXR_NONCE_NBYTES]);

/* Does a process listen there? Does not disturb it. */
bool nxr_local_socket_is_there(const char *what, const unsigned char nonce[NXR_NONCE_NBYTES]);

#endif
