/* SPDX-License-Identifier: Apache-2.0 */
/* Words for a connection that does not come about, where the kernel's own are not the user's. */
#ifndef NXR_REASON_H
#define NXR_REASON_H

#include <stddef.h>
#include <sys/socket.h>

/* What all addresses together have said, before they are listed. */
#define NXR_ALL_REFUSE "nobody listens there, or a firewall refuses: "

/* A connection that came about, and nothing on it. */
#define NXR_TAKEN "its host takes it, and its process says nothing"

/* Why, for an errno of connect(). Static. */
const char *nxr_reason_of(int error);

/* "10.0.0.1 port 4711". */
void nxr_sockaddr_text(const struct sockaddr *name, socklen_t nbytes, char *text,
                       size_t text_nbytes);

#endif
