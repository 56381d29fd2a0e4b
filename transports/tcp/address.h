/* SPDX-License-Identifier: Apache-2.0 */
/* What a process publishes of the paths to it, and which of them may be tried from here. */
#ifndef NXR_TCP_ADDRESS_H
#define NXR_TCP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/announce.h"

#define NXR_TCP_MAX_PATHS      16
#define NXR_TCP_MAX_RAILS      8
#define NXR_TCP_ADDRESS_MAGIC  0x6174786eu /* "nxta" */
#define NXR_TCP_LAYOUT_VERSION 2

/* An IP address of the process, and the port that it listens on. */
struct nxr_tcp_path {
    unsigned char ip[16]; /* the first 4 of them for IPv4 */
    uint8_t family;       /* 4 or 6 */
    uint8_t prefix_nbits; /* of the network */
    uint16_t port;        /* in host order */
};

/*
 * Native byte order: a peer of another order finds the magic wrong. Paths from n_paths on are not
 * sent. A process that connects shows the other one's `connect_secret`, and the other one replies
 * with its own `answer`. So each knows that the other has its card, and neither learns from a
 * hello the secret that it has to show itself.
 */
struct nxr_tcp_address {
    uint32_t magic;
    uint32_t checksum; /* of all that is sent, computed with this field as 0 */
    uint16_t version;
    uint8_t n_paths;
    uint8_t unused; /* 0 */
    uint32_t rank;
    uint64_t connect_secret;
    uint64_t answer;
    uint64_t host; /* of the network namespace on its host */
    struct nxr_tcp_path paths[NXR_TCP_MAX_PATHS];
};

/* How many bytes are sent. */
size_t nxr_tcp_address_nbytes(unsigned n_paths);

/* Fills in the checksum: call it last, before sending. */
void nxr_tcp_address_seal(struct nxr_tcp_address *address);

/*
 * Check an address from another process. NULL and the address; or one line that says what is wrong,
 * and nothing was written.
 */
const char *nxr_tcp_address_parse(const void *bytes, size_t nbytes,
                                  struct nxr_tcp_address *address_p);

/*
 * The address that others are told: `own`, and before its paths the announced one, which leads to
 * the first of the same family. If there are too many, the last one is left out. Not sealed.
 */
void nxr_tcp_address_tell(const struct nxr_tcp_address *own, const struct nxr_announced *announced,
                          struct nxr_tcp_address *told_p);

/*
 * Which paths of theirs may be tried, as indices, the best first: those in a network that both are
 * in, then those of an address family that both have. Loopback leads to one's own host only, and so
 * does an address that both hosts have, such as that of a bridge with the same address on every
 * host. Returns how many. If any path leads from here to there, some path leads from there to here.
 */
unsigned nxr_tcp_order(const struct nxr_tcp_address *mine, const struct nxr_tcp_address *theirs,
                       uint8_t order[NXR_TCP_MAX_PATHS]);

/* An address of this host and one of the other, in the same network, as indices of paths. */
struct nxr_tcp_pair {
    uint8_t mine;
    uint8_t theirs;
};

/*
 * The pairs of addresses that may carry pieces beside each other, each address in one pair only, of
 * the family that has more of them. Returns how many: the other side counts as many. None within a
 * host.
 */
unsigned nxr_tcp_pairs(const struct nxr_tcp_address *mine, const struct nxr_tcp_address *theirs,
                       struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS]);

#endif
