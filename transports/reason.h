/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts for a connection that could not be established, where the kernel's would not help the user.
 */
#ifndef NXR_REASON_H
#define NXR_REASON_H

#include <stddef.h>
#include <sys/socket.h>

/* The prefix of a list of addresses that have all refused. */
#define NXR_ALL_REFUSE "nobody listens there, or a firewall refuses: "

/* The connection was established, but nothing was heard on it. */
#define NXR_TAKEN "its host accepts it, and its process sends nothing"

/* The reason for an errno of connect(). Static. */
const char *nxr_reason_of(int error);

/* "10.0.0.1 port 4711". */
void nxr_sockaddr_text(const struct sockaddr *name, socklen_t nbytes, char *text,
                       size_t text_nbytes);

#endif
