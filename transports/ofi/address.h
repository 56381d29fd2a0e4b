/* SPDX-License-Identifier: Apache-2.0 */
/* What a process publishes of its rails and of registered memory. Does not use libfabric. */
#ifndef NXR_OFI_ADDRESS_H
#define NXR_OFI_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#define NXR_OFI_MAX_RAILS      8
#define NXR_OFI_NAME_NBYTES    56 /* the longest name that a provider may give an endpoint */
#define NXR_OFI_ADDRESS_MAGIC  0x616f786eu /* "nxoa" */
#define NXR_OFI_KEY_MAGIC      0x6b6f786eu /* "nxok" */
#define NXR_OFI_LAYOUT_VERSION 2           /* also of frames */

/* How far a rail reaches. */
enum {
    NXR_OFI_THIS_HOST = 1, /* loopback and shared memory: only in the same network namespace */
    NXR_OFI_ROUTED = 2,    /* an IP address that may be reached from other networks, too */
    NXR_OFI_IP = 4,        /* its name is a sockaddr_in or sockaddr_in6 */
};

struct nxr_ofi_address_rail {
    uint64_t fabric; /* a hash of the network's name, equal where rails can talk */
    uint8_t flags;
    uint8_t nbytes; /* of name */
    uint8_t unused[6];
    unsigned char name[NXR_OFI_NAME_NBYTES];
};

/* Native byte order: a peer of another order finds the magic wrong. Rails from n_rails on are
 * not sent. */
struct nxr_ofi_address {
    uint32_t magic;
    uint32_t checksum; /* of all that is sent, computed with this field as 0 */
    uint16_t version;
    uint8_t n_rails;
    uint8_t unused[5]; /* 0 */
    uint64_t id;       /* of the process, unguessable: whoever knows it may talk to it */
    uint64_t host;     /* of the network namespace on its host */
    char provider[32];
    struct nxr_ofi_address_rail rails[NXR_OFI_MAX_RAILS];
};

struct nxr_ofi_key_rail {
    uint64_t base; /* add the offset */
    uint64_t key;
};

struct nxr_ofi_key {
    uint32_t magic;
    uint32_t checksum; /* as above */
    uint16_t version;
    uint8_t n_rails;
    uint8_t unused[5]; /* 0 */
    uint64_t nbytes;   /* of the memory */
    struct nxr_ofi_key_rail rails[NXR_OFI_MAX_RAILS];
};

/* How many bytes are sent. */
size_t nxr_ofi_address_nbytes(unsigned n_rails);
size_t nxr_ofi_key_nbytes(unsigned n_rails);

/* Fills in the checksum: call it last, before sending. */
void nxr_ofi_address_seal(struct nxr_ofi_address *address);
void nxr_ofi_key_seal(struct nxr_ofi_key *key);

/*
 * Check an address or key from another process. NIXL_OK and the address or key; or
 * NIXL_E_TRANSPORT and one line in *why_p, and nothing was written.
 */
int nxr_ofi_address_parse(const void *bytes, size_t nbytes, struct nxr_ofi_address *address_p,
                          const char **why_p);
int nxr_ofi_key_parse(const void *bytes, size_t nbytes, struct nxr_ofi_key *key_p,
                      const char **why_p);

/*
 * Which rail of theirs each of mine talks to, -1 for none. Rails of the same network are paired
 * first, each of theirs as often as the others. If the hosts have no network in common, rails are
 * paired by their order, if they are routed or of hardware that gives every network its own name.
 * An IP address that both hosts have belongs to neither's network: it leads to their containers, as
 * docker0's does. Returns how many have a partner.
 */
unsigned nxr_ofi_pair(const struct nxr_ofi_address *mine, const struct nxr_ofi_address *theirs,
                      int pairs[NXR_OFI_MAX_RAILS]);

/* How many rails there are between the two: the smaller of the numbers that each side pairs. */
unsigned nxr_ofi_count_rails(const struct nxr_ofi_address *mine,
                             const struct nxr_ofi_address *theirs);

#endif
