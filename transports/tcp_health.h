/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of a connection on which nothing is heard: does what was sent arrive at the
 * other host?
 */
#ifndef NXR_TCP_HEALTH_H
#define NXR_TCP_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Everything has arrived, and yet nothing is heard. */
#define NXR_TCP_HEARD                                                                              \
    "its host acknowledges what is sent: its process is stopped, or long packets do not pass "     \
    "from there to here (is an MTU on the path smaller?)"

/*
 * True: as far as the kernel knows, everything sent has arrived. False: the line says what has not
 * arrived, and why that may be; it is empty if that may still arrive.
 */
bool nxr_tcp_health(int fd, char *line, size_t line_nbytes);

/*
 * How long a connection has been established on which nothing was sent and nothing has arrived;
 * -1: it is none, or the kernel (before 4.19) does not tell.
 */
int64_t nxr_tcp_silent_ms(int fd);

/* What the other host has acknowledged; false: the kernel (before 4.1) does not tell. */
struct nxr_tcp_acked {
    uint64_t nbytes;
    bool is_awaited; /* something was sent that it has not acknowledged, or answered: the kernel
                      * asks a host that had no room, or of which nothing was heard for long */
    int64_t round_trip_us;
};
bool nxr_tcp_acked(int fd, struct nxr_tcp_acked *acked_p);

/*
 * The same as nxr_tcp_health() for all connections of this process whose remote IP address occurs
 * anywhere in `bytes`: libraries reveal neither their sockets nor how they encode addresses. The
 * line is empty if there is none, or nothing to report.
 */
void nxr_tcp_health_to(const void *bytes, size_t nbytes, char *line, size_t line_nbytes);

#endif
