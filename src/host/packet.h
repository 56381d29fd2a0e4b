/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of a local socket, and one message with its descriptors over one that
 * preserves message boundaries. No state, never blocks.
 */
#ifndef NXR_HOST_PACKET_H
#define NXR_HOST_PACKET_H

#include "control/wire.h"

#include <sys/socket.h>

#define NXR_PACKET_MAX_FDS 8 /* more than any message has, so that excess ones are noticed */

/* A received message. One that is too long has one byte more than nixlrun's longest. */
struct nxr_packet {
    size_t nbytes;
    int n_fds;
    int fds[NXR_PACKET_MAX_FDS]; /* the receiver's to close: CLOEXEC */
    char bytes[sizeof(union nxr_wire_message) + 1];
};

/*
 * The credentials of the other end, from the kernel; uid -1: unknown; pid 0: it is in a PID
 * namespace that is not seen from here.
 */
struct ucred nxr_packet_other_end(int socket);

/* A pidfd of the process at the other end, wherever it is; -1: the kernel cannot (Linux 6.5). */
int nxr_packet_other_pidfd(int socket);

/*
 * Send; the caller keeps its descriptors. NIXL_OK; NIXL_E_AGAIN: no room now;
 * NIXL_E_PEER_LOST: the connection is broken.
 */
int nxr_packet_send(int socket, const void *bytes, size_t nbytes, const int *fds, int n_fds);

/*
 * Receive. NIXL_OK; NIXL_E_AGAIN: there is no message; NIXL_E_LIMIT: this process has no room for
 * the message's descriptors, and it waits; NIXL_E_INVALID_ARG: it had more than any message has,
 * and is dropped; NIXL_E_PEER_LOST: the connection has ended. Descriptors are returned with NIXL_OK
 * only.
 */
int nxr_packet_receive(int socket, struct nxr_packet *packet);

/* Close all that are not negative. */
void nxr_packet_close_fds(const int *fds, int n_fds);

#endif
