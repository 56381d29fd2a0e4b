/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses and keys on the wire, and which rails of two processes talk to each other. Pure: input
 * from others may be malformed; it is either refused or within its limits.
 */
#include "config.h"

#include "address.h"
#include "nixlrun.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(sizeof(struct nxr_ofi_address_rail) == 72, "the layout is fixed");
_Static_assert(sizeof(struct nxr_ofi_address) == 64 + NXR_OFI_MAX_RAILS * 72, "no padding");
_Static_assert(sizeof(struct nxr_ofi_key) == 24 + NXR_OFI_MAX_RAILS * 16, "no padding");

size_t nxr_ofi_address_nbytes(unsigned n_rails)
{
    return offsetof(struct nxr_ofi_address, rails) + n_rails * sizeof(struct nxr_ofi_address_rail);
}

size_t nxr_ofi_key_nbytes(unsigned n_rails)
{
    return offsetof(struct nxr_ofi_key, rails) + n_rails * sizeof(struct nxr_ofi_key_rail);
}

/* Enough to detect corruption; it is no protection against an attacker. */
static uint32_t ofi_address_checksum(const void *bytes, size_t nbytes)
{
    const unsigned char *at = bytes;
    uint32_t sum = 0x811c9dc5u;

    for (size_t i = 0; i < nbytes; i++) {
        sum = (sum ^ at[i]) * 0x01000193u;
    }
    return sum;
}

void nxr_ofi_address_seal(struct nxr_ofi_address *address)
{
    address->checksum = 0;
    address->checksum = ofi_address_checksum(address, nxr_ofi_address_nbytes(address->n_rails));
}

void nxr_ofi_key_seal(struct nxr_ofi_key *key)
{
    key->checksum = 0;
    key->checksum = ofi_address_checksum(key, nxr_ofi_key_nbytes(key->n_rails));
}

/* Is the checksum right? `sum` lies in `whole`, and is 0 afterwards. */
static bool is_whole(const void *whole, size_t nbytes, uint32_t *sum)
{
    uint32_t told = *sum;

    *sum = 0;
    return ofi_address_checksum(whole, nbytes) == told;
}

int nxr_ofi_address_parse(const void *bytes, size_t nbytes, struct nxr_ofi_address *address_p,
                          const char **why_p)
{
    struct nxr_ofi_address address = {0};

    *why_p = NULL;
    if (nbytes < nxr_ofi_address_nbytes(0) || nbytes > sizeof(address)) {
        *why_p = "an address of the wrong length";
        return NIXL_E_TRANSPORT;
    }
    memcpy(&address, bytes, nbytes);
    if (address.magic != NXR_OFI_ADDRESS_MAGIC || address.version != NXR_OFI_LAYOUT_VERSION) {
        *why_p = "not an address of this version";
    } else if (address.n_rails == 0 || address.n_rails > NXR_OFI_MAX_RAILS ||
               nbytes != nxr_ofi_address_nbytes(address.n_rails)) {
        *why_p = "an address with the wrong number of rails";
    } else if (!is_whole(&address, nbytes, &address.checksum)) {
        *why_p = "a damaged address";
    } else if (memchr(address.provider, '\0', sizeof(address.provider)) == NULL ||
               address.provider[0] == '\0') {
        *why_p = "an address without a provider";
    } else if (address.id == 0) {
        *why_p = "an address without a process";
    }
    for (unsigned i = 0; *why_p == NULL && i < address.n_rails; i++) {
        if (address.rails[i].nbytes == 0 || address.rails[i].nbytes > NXR_OFI_NAME_NBYTES) {
            *why_p = "an address with a rail of the wrong length";
        }
    }
    if (*why_p != NULL) {
        return NIXL_E_TRANSPORT;
    }
    *address_p = address;
    return NIXL_OK;
}

int nxr_ofi_key_parse(const void *bytes, size_t nbytes, struct nxr_ofi_key *key_p,
                      const char **why_p)
{
    struct nxr_ofi_key key = {0};

    *why_p = NULL;
    if (nbytes < nxr_ofi_key_nbytes(0) || nbytes > sizeof(key)) {
        *why_p = "a key of the wrong length";
        return NIXL_E_TRANSPORT;
    }
    memcpy(&key, bytes, nbytes);
    if (key.magic != NXR_OFI_KEY_MAGIC || key.version != NXR_OFI_LAYOUT_VERSION) {
        *why_p = "not a key of this version";
    } else if (key.n_rails == 0 || key.n_rails > NXR_OFI_MAX_RAILS ||
               nbytes != nxr_ofi_key_nbytes(key.n_rails)) {
        *why_p = "a key with the wrong number of rails";
    } else if (!is_whole(&key, nbytes, &key.checksum)) {
        *why_p = "a damaged key";
    }
    for (unsigned i = 0; *why_p == NULL && i < key.n_rails; i++) {
        if (key.rails[i].base > UINT64_MAX - key.nbytes) {
            *why_p = "a key of memory that wraps around the end of the address space";
        }
    }
    if (*why_p != NULL) {
        return NIXL_E_TRANSPORT;
    }
    *key_p = key;
    return NIXL_OK;
}

/* The IP address in a rail's name, without its port. Returns its size; 0: the name has none. */
static size_t ofi_address_find_ip(const struct nxr_ofi_address_rail *rail,
                                  const unsigned char **ip_p)
{
    sa_family_t family;

    memcpy(&family, rail->name, sizeof(family));
    if ((rail->flags & NXR_OFI_IP) != 0 && family == AF_INET) {
        *ip_p = rail->name + offsetof(struct sockaddr_in, sin_addr);
        return sizeof(struct in_addr);
    }
    if ((rail->flags & NXR_OFI_IP) != 0 && family == AF_INET6) {
        *ip_p = rail->name + offsetof(struct sockaddr_in6, sin6_addr);
        return sizeof(struct in6_addr);
    }
    *ip_p = rail->name;
    return 0;
}

static bool ofi_address_is_same_ip(const struct nxr_ofi_address_rail *a,
                                   const struct nxr_ofi_address_rail *b)
{
    const unsigned char *a_ip, *b_ip;
    size_t nbytes = ofi_address_find_ip(a, &a_ip);

    return nbytes > 0 && ofi_address_find_ip(b, &b_ip) == nbytes && memcmp(a_ip, b_ip, nbytes) == 0;
}

/* Does a rail lead from its host to the other one? Not if the other host has the same address. */
static bool ofi_address_leads_out(const struct nxr_ofi_address *from, unsigned i,
                                  const struct nxr_ofi_address *to)
{
    if (from->host == to->host) {
        return true;
    }
    for (unsigned j = 0; j < to->n_rails; j++) {
        if (ofi_address_is_same_ip(&from->rails[i], &to->rails[j])) {
            return false;
        }
    }
    return (from->rails[i].flags & NXR_OFI_THIS_HOST) == 0;
}

/* Can these two rails reach each other, judging by the names of their networks? */
static bool is_same_network(const struct nxr_ofi_address *mine, unsigned i,
                            const struct nxr_ofi_address *theirs, unsigned j)
{
    return mine->rails[i].fabric == theirs->rails[j].fabric &&
           ofi_address_leads_out(mine, i, theirs) && ofi_address_leads_out(theirs, j, mine);
}

/* The rail of theirs for my rail i: with n of mine before it in its network, the n-th of theirs. */
static int ofi_address_partner(const struct nxr_ofi_address *mine, unsigned i,
                               const struct nxr_ofi_address *theirs)
{
    int found[NXR_OFI_MAX_RAILS] = {0};
    unsigned n_found = 0, n_before = 0;

    for (unsigned k = 0; k < i; k++) {
        n_before += mine->rails[k].fabric == mine->rails[i].fabric;
    }
    for (unsigned j = 0; j < theirs->n_rails; j++) {
        if (is_same_network(mine, i, theirs, j)) {
            found[n_found++] = (int)j;
        }
    }
    return n_found == 0 ? -1 : found[n_before % n_found];
}

unsigned nxr_ofi_pair(const struct nxr_ofi_address *mine, const struct nxr_ofi_address *theirs,
                      int pairs[NXR_OFI_MAX_RAILS])
{
    unsigned n_pairs = 0;

    for (unsigned i = 0; i < NXR_OFI_MAX_RAILS; i++) {
        pairs[i] = -1;
    }
    if (strcmp(mine->provider, theirs->provider) != 0) {
        return 0;
    }
    for (unsigned i = 0; i < mine->n_rails; i++) {
        pairs[i] = ofi_address_partner(mine, i, theirs);
        n_pairs += pairs[i] >= 0;
    }
    for (unsigned i = 0; n_pairs == 0 && i < mine->n_rails && i < theirs->n_rails; i++) {
        if ((mine->rails[i].flags & theirs->rails[i].flags & NXR_OFI_ROUTED) != 0 &&
            ofi_address_leads_out(mine, i, theirs) && ofi_address_leads_out(theirs, i, mine)) {
            pairs[i] = (int)i;
            n_pairs++;
        }
    }
    return n_pairs;
}

unsigned nxr_ofi_count_rails(const struct nxr_ofi_address *mine,
                             const struct nxr_ofi_address *theirs)
{
    int pairs[NXR_OFI_MAX_RAILS];
    unsigned n_mine = nxr_ofi_pair(mine, theirs, pairs);
    unsigned n_theirs = nxr_ofi_pair(theirs, mine, pairs);

    return n_mine < n_theirs ? n_mine : n_theirs;
}
