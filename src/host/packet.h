/* SPDX-License-Identifier: Apache-2.0 */
/* One message with its descriptors through a socket that keeps borders. No state, never blocks. */
#ifndef NXR_HOST_PACKET_H
#define NXR_HOST_PACKET_H

#include "control/wire.h"

#define NXR_PACKET_MAX_FDS 8 /* more than any message has: those that are too many are seen */

/* What came. A message that is too long has one byte more than any of nixlrun's. */
struct nxr_packet {
    size_t nbytes;
    int n_fds;
    int fds[NXR_PACKET_MAX_FDS]; /* the receiver's to close: CLOEXEC */
    char bytes[sizeof(union nxr_wire_message) + 1];
};

/*
 * Send; the descriptors stay the caller's. NIXL_OK; NIXL_ERR_AGAIN: no room now;
 * NIXL_ERR_PEER_LOST: the connection is of no use.
 */
int nxr_packet_send(int socket, const void *bytes, size_t nbytes, const int *fds, int n_fds);

/*
 * Receive. NIXL_OK; NIXL_ERR_AGAIN: nothing is there; NIXL_ERR_LIMIT: it came without descriptors
 * that this process has no room for; NIXL_ERR_PEER_LOST: the end. Descriptors come with NIXL_OK
 * only; those that are too many are closed.
 */
int nxr_packet_receive(int socket, struct nxr_packet *packet);

/* Close those that are not negative. */
void nxr_packet_close_fds(const int *fds, int n_fds);

#endif
