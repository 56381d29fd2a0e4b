/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank's card says about its networks, and which network two ranks use. In the card, each
 * address from a module follows the figures that the rank expects of that network. For a pair of
 * ranks the worse of the two figures counts, so both ends compare the same figures and make the
 * same choice.
 */
#ifndef NXR_NET_OFFER_H
#define NXR_NET_OFFER_H

#include "core/card.h"
#include "transports/network.h"

struct net;

#define NXR_NET_MAX 4 /* networks that a process has open */

/* In native byte order, like the rest of a card. */
struct nxr_net_offer {
    uint32_t latency_ns;
    uint32_t bandwidth_mbps;
    uint16_t n_rails;
    uint16_t has_adapters; /* 1: adapters move the bytes; 0: the processor does, through sockets */
    uint32_t has_fixed_rail; /* 1: a cut of the first rail is not repaired */
};
_Static_assert(sizeof(struct nxr_net_offer) == 16, "fixed on the wire");

/* The networks that a pair has in common, best for messages first, and the best one for bulk. */
struct nxr_net_choice {
    struct net *networks[NXR_NET_MAX];
    unsigned n_networks;
    struct net *bulk;
};

/* What this process expects of a network that it has opened. */
struct nxr_net_offer nxr_net_own_offer(const struct net *net);

/* Append an open network to this rank's card. NIXL_OK, or NIXL_E_LIMIT: no room. */
int nxr_net_offer_add(struct nxr_full_card *card, const struct net *net, const void *address,
                      size_t nbytes);

/* The rank's address in a network, for the module, and its offer there; NULL: it offers none. */
const void *nxr_net_offer_find(const struct nxr_full_card *card, const char *network,
                               struct nxr_net_offer *offer_p, size_t *nbytes_p);

/*
 * Can the rank of that card be reached in that network? If so, *expected_p is what both ends can
 * expect of it; else `why` is one line.
 */
bool nxr_net_is_common(const struct net *net, const struct nxr_full_card *card,
                       struct nxr_net_offer *expected_p, char *why, size_t why_nbytes);

/* The networks to use to the rank of that card. False: there is none; the reasons are in `why`.
 */
bool nxr_net_choose(const struct nxr_full_card *card, struct nxr_net_choice *choice_p, char *why,
                    size_t why_nbytes);

/* Why one of two networks that reach a rank was taken and not the other, in one line. */
void nxr_net_compare(const struct net *taken, const struct nxr_net_offer *its,
                     const struct net *other, const struct nxr_net_offer *others, char *why,
                     size_t why_nbytes);

#endif
