/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of a connection on which nothing is heard: does what was sent arrive at the
 * other host?
 */
#ifndef NXR_TCP_HEALTH_H
#define NXR_TCP_HEALTH_H

#include <stdbool.h>
#include <stddef.h>

/* All has arrived, and yet nothing is heard. */
#define NXR_TCP_HEARD                                                                              \
    "its host acknowledges what is sent: its process is stopped, or long packets do not pass "     \
    "from there to here (is an MTU on the way smaller?)"

/*
 * True: all has, as far as the kernel knows. False: the line says what has not, and why that may
 * be, or it is empty as that may still come.
 */
bool nxr_tcp_health(int fd, char *line, size_t line_nbytes);

/*
 * The same of all connections of this process whose other end is an IP address that lies in
 * `bytes`, anywhere: libraries do not tell their sockets, nor how they write addresses. The line is
 * empty where there is none, or nothing to be said.
 */
void nxr_tcp_health_to(const void *bytes, size_t nbytes, char *line, size_t line_nbytes);

#endif
