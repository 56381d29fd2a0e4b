/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address by which others reach this host where that is not an address of its interfaces:
 * behind a NAT, or in a container with published ports. NIXLRUN_ANNOUNCE has it:
 * ADDRESS[,PORT:TOLD|,FIRST-LAST:TOLD ...], where ports without a number of their own are the same
 * on both sides. NIXLRUN_TCP_PORTS, FIRST-LAST or PORT, says which ports the network listens at. No
 * state; the network's module has a copy of these functions.
 */
#ifndef NXR_UTIL_ANNOUNCE_H
#define NXR_UTIL_ANNOUNCE_H

#include <stdbool.h>
#include <stdint.h>

#define NXR_ANNOUNCE_MAX_RANGES 16
#define NXR_ANNOUNCE_ALLOWED                                                                       \
    "an IP address, then, for ports that are others there, PORT:TOLD or FIRST-LAST:TOLD, with "    \
    "commas before them"
#define NXR_PORTS_ALLOWED "PORT or FIRST-LAST, 1 to 65535"

struct nxr_port_range {
    uint16_t first, last;
};

struct nxr_announced {
    char host[46];        /* as the user has written it; "": nothing is announced */
    unsigned char ip[16]; /* the first 4 of them for IPv4 */
    uint8_t family;       /* 4 or 6 */
    unsigned n_ranges;
    struct {
        struct nxr_port_range own;
        uint16_t told; /* for the first of them */
    } ranges[NXR_ANNOUNCE_MAX_RANGES];
};

/* Read NIXLRUN_ANNOUNCE; "" announces nothing. False: it has no allowed form. */
bool nxr_announce_parse(const char *text, struct nxr_announced *announced_p);

/* What others are told of an own port. */
uint16_t nxr_announce_port(const struct nxr_announced *announced, uint16_t port);

/* Read NIXLRUN_TCP_PORTS; "" is 0 to 0: any port. False: it has no allowed form. */
bool nxr_ports_parse(const char *text, struct nxr_port_range *range_p);

#endif
