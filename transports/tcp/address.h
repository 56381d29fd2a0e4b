/* SPDX-License-Identifier: Apache-2.0 */
/* What a process tells others of the ways to it, and which of them may be tried from here. */
#ifndef NXR_TCP_ADDRESS_H
#define NXR_TCP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_TCP_MAX_WAYS       16
#define NXR_TCP_ADDRESS_MAGIC  0x6174786eu /* "nxta" */
#define NXR_TCP_LAYOUT_VERSION 1

/* An own IP address, and the port that is listened at. */
struct nxr_tcp_way {
    unsigned char ip[16]; /* the first 4 of them for IPv4 */
    uint8_t family;       /* 4 or 6 */
    uint8_t prefix_nbits; /* of the network */
    uint16_t port;        /* in host order */
};

/*
 * Native byte order: a peer of another order finds the magic wrong. Ways behind n_ways are not
 * sent. Whoever connects shows `knock` of who is connected to, which answers with its `answer`: so
 * both know that the other one has the card, and neither learns from a hello what it had to show.
 */
struct nxr_tcp_address {
    uint32_t magic;
    uint32_t checksum; /* of all that is sent, with this as 0 */
    uint16_t version;
    uint8_t n_ways;
    uint8_t unused; /* 0 */
    uint32_t rank;
    uint64_t knock;
    uint64_t answer;
    uint64_t host; /* of the network namespace on its host */
    struct nxr_tcp_way ways[NXR_TCP_MAX_WAYS];
};

/* How many bytes are sent. */
size_t nxr_tcp_address_nbytes(unsigned n_ways);

/* The last thing to fill in before it is sent. */
void nxr_tcp_address_seal(struct nxr_tcp_address *address);

/*
 * Check what came from another process. NULL and the address; or one line of what is wrong, and
 * nothing was written.
 */
const char *nxr_tcp_address_parse(const void *bytes, size_t nbytes,
                                  struct nxr_tcp_address *address_p);

/*
 * Which ways of theirs may be tried, as indices, the best first: those in a network that both are
 * in, then those of a family that both have. Loopback leads to one's own host only, and so does an
 * address that both have, as of a bridge that every host calls the same. How many; with any from
 * here to there, there is any from there to here.
 */
unsigned nxr_tcp_order(const struct nxr_tcp_address *mine, const struct nxr_tcp_address *theirs,
                       uint8_t order[NXR_TCP_MAX_WAYS]);

#endif
