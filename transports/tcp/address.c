/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of ranks, and which paths lead there. Pure: input from others may be malformed; it is
 * either refused or within its limits.
 */
#include "config.h"

#include "address.h"

#include <string.h>

_Static_assert(sizeof(struct nxr_tcp_path) == 20, "the layout is fixed");
_Static_assert(sizeof(struct nxr_tcp_address) == 40 + NXR_TCP_MAX_PATHS * 20, "no padding");

size_t nxr_tcp_address_nbytes(unsigned n_paths)
{
    return offsetof(struct nxr_tcp_address, paths) + n_paths * sizeof(struct nxr_tcp_path);
}

/* Enough to detect corruption; it is no protection against an attacker. */
static uint32_t tcp_address_sum_of(const struct nxr_tcp_address *address)
{
    const unsigned char *at = (const unsigned char *)address;
    size_t begin = offsetof(struct nxr_tcp_address, version);
    size_t end = nxr_tcp_address_nbytes(address->n_paths);
    uint32_t sum = address->magic;

    for (size_t i = begin; i < end; i++) {
        sum = sum * 31 + at[i];
    }
    return sum;
}

void nxr_tcp_address_seal(struct nxr_tcp_address *address)
{
    address->checksum = tcp_address_sum_of(address);
}

static bool is_path(const struct nxr_tcp_path *path)
{
    return path->port != 0 && ((path->family == 4 && path->prefix_nbits <= 32) ||
                               (path->family == 6 && path->prefix_nbits <= 128));
}

const char *nxr_tcp_address_parse(const void *bytes, size_t nbytes,
                                  struct nxr_tcp_address *address_p)
{
    struct nxr_tcp_address address = {0};

    if (nbytes < nxr_tcp_address_nbytes(0) || nbytes > sizeof(address)) {
        return "an address of the wrong length";
    }
    memcpy(&address, bytes, nbytes);
    if (address.magic != NXR_TCP_ADDRESS_MAGIC || address.version != NXR_TCP_LAYOUT_VERSION) {
        return "not an address of this version";
    }
    if (address.n_paths == 0 || address.n_paths > NXR_TCP_MAX_PATHS ||
        nbytes != nxr_tcp_address_nbytes(address.n_paths)) {
        return "an address with the wrong number of paths";
    }
    if (address.checksum != tcp_address_sum_of(&address)) {
        return "a damaged address";
    }
    for (unsigned i = 0; i < address.n_paths; i++) {
        if (!is_path(&address.paths[i])) {
            return "an address with a path to nowhere";
        }
    }
    *address_p = address;
    return NULL;
}

void nxr_tcp_address_tell(const struct nxr_tcp_address *own, const struct nxr_announced *announced,
                          struct nxr_tcp_address *told_p)
{
    struct nxr_tcp_path path = {.family = announced->family,
                                .prefix_nbits = announced->family == 4 ? 32 : 128};
    unsigned first = 0;

    *told_p = *own;
    if (announced->host[0] == '\0' || own->n_paths == 0) {
        return;
    }
    while (first < own->n_paths && own->paths[first].family != path.family) {
        first++;
    }
    memcpy(path.ip, announced->ip, sizeof(path.ip));
    path.port = nxr_announce_port(announced, own->paths[first % own->n_paths].port);
    told_p->n_paths =
        (uint8_t)(own->n_paths < NXR_TCP_MAX_PATHS ? own->n_paths + 1u : NXR_TCP_MAX_PATHS);
    told_p->paths[0] = path;
    memcpy(&told_p->paths[1], own->paths, (told_p->n_paths - 1u) * sizeof(own->paths[0]));
}

static size_t ip_nbytes(const struct nxr_tcp_path *path)
{
    return path->family == 4 ? 4 : 16;
}

static bool tcp_address_is_loopback(const struct nxr_tcp_path *path)
{
    static const unsigned char six[16] = {[15] = 1};

    return path->family == 4 ? path->ip[0] == 127 : memcmp(path->ip, six, sizeof(six)) == 0;
}

static bool tcp_address_is_same_ip(const struct nxr_tcp_path *a, const struct nxr_tcp_path *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, ip_nbytes(a)) == 0;
}

/* Are both in the network of mine? */
static bool is_near(const struct nxr_tcp_path *mine, const struct nxr_tcp_path *theirs)
{
    unsigned n_whole = mine->prefix_nbits / 8, n_rest = mine->prefix_nbits % 8;
    unsigned mask = 0xffu << (8 - n_rest);

    return mine->family == theirs->family && memcmp(mine->ip, theirs->ip, n_whole) == 0 &&
           (n_rest == 0 || ((mine->ip[n_whole] ^ theirs->ip[n_whole]) & mask & 0xffu) == 0);
}

enum nearness { NOWHERE, FAR, NEAR };

/* Does a path lead from one host to another? Not if the other host has the same address. */
static bool tcp_address_leads_out(const struct nxr_tcp_path *path,
                                  const struct nxr_tcp_address *other)
{
    for (unsigned i = 0; i < other->n_paths; i++) {
        if (tcp_address_is_same_ip(path, &other->paths[i])) {
            return false;
        }
    }
    return !tcp_address_is_loopback(path);
}

static enum nearness tcp_address_look(const struct nxr_tcp_address *mine,
                                      const struct nxr_tcp_address *theirs,
                                      const struct nxr_tcp_path *path)
{
    bool is_same_host = mine->host == theirs->host;
    enum nearness found = NOWHERE;

    if (!is_same_host && !tcp_address_leads_out(path, mine)) {
        return NOWHERE;
    }
    for (unsigned i = 0; i < mine->n_paths; i++) {
        const struct nxr_tcp_path *own = &mine->paths[i];

        if (!is_same_host && !tcp_address_leads_out(own, theirs)) {
            continue;
        }
        if (is_near(own, path)) {
            return NEAR;
        }
        if (is_same_host || own->family == path->family) {
            found = FAR;
        }
    }
    return found;
}

unsigned nxr_tcp_order(const struct nxr_tcp_address *mine, const struct nxr_tcp_address *theirs,
                       uint8_t order[NXR_TCP_MAX_PATHS])
{
    unsigned n = 0;

    for (enum nearness wanted = NEAR; wanted > NOWHERE; wanted--) {
        for (unsigned i = 0; i < theirs->n_paths && i < NXR_TCP_MAX_PATHS; i++) {
            if (tcp_address_look(mine, theirs, &theirs->paths[i]) == wanted) {
                order[n++] = (uint8_t)i;
            }
        }
    }
    return n;
}

/* Both are in one network, and call it the same: so each side finds as many pairs. */
static bool is_pair(const struct nxr_tcp_address *mine, unsigned i,
                    const struct nxr_tcp_address *theirs, unsigned j)
{
    const struct nxr_tcp_path *own = &mine->paths[i], *other = &theirs->paths[j];

    return own->prefix_nbits == other->prefix_nbits && is_near(own, other) &&
           tcp_address_leads_out(own, theirs) && tcp_address_leads_out(other, mine);
}

static unsigned pairs_of_family(const struct nxr_tcp_address *mine,
                                const struct nxr_tcp_address *theirs, unsigned family,
                                struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS])
{
    uint32_t taken = 0;
    unsigned n = 0;

    for (unsigned i = 0; i < mine->n_paths && n < NXR_TCP_MAX_RAILS; i++) {
        for (unsigned j = 0; j < theirs->n_paths && mine->paths[i].family == family; j++) {
            if ((taken & 1u << j) == 0 && is_pair(mine, i, theirs, j)) {
                taken |= 1u << j;
                pairs[n++] = (struct nxr_tcp_pair){(uint8_t)i, (uint8_t)j};
                break;
            }
        }
    }
    return n;
}

unsigned nxr_tcp_pairs(const struct nxr_tcp_address *mine, const struct nxr_tcp_address *theirs,
                       struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS])
{
    struct nxr_tcp_pair six[NXR_TCP_MAX_RAILS];
    unsigned n = pairs_of_family(mine, theirs, 4, pairs);
    unsigned n_six = pairs_of_family(mine, theirs, 6, six);

    if (mine->host == theirs->host) {
        return 0;
    }
    if (n_six > n) {
        memcpy(pairs, six, n_six * sizeof(six[0]));
        n = n_six;
    }
    return n;
}
