/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank says of its networks in its card, and which one two ranks take: in front of the
 * address that the module made stands what the rank expects of the network. Of a pair the worse of
 * the two holds, so that both ends compare the same figures and choose alike.
 */
#ifndef NXR_NET_OFFER_H
#define NXR_NET_OFFER_H

#include "core/card.h"
#include "transports/network.h"

struct net;

#define NXR_NET_MAX 4 /* networks that a process has open */

/* Native byte order, as all of a card. */
struct nxr_net_offer {
    uint32_t latency_ns;
    uint32_t bandwidth_mbps;
    uint16_t n_rails;
    uint16_t has_adapters; /* 1: they move the bytes; 0: the processor does, through sockets */
    uint32_t unused;
};
_Static_assert(sizeof(struct nxr_net_offer) == 16, "fixed on the wire");

/* The networks in common of a pair, best for messages first, and which is the best for bulk. */
struct nxr_net_choice {
    struct net *networks[NXR_NET_MAX];
    unsigned n_networks;
    struct net *bulk;
};

/* What this process expects of a network that it has open. */
struct nxr_net_offer nxr_net_own_offer(const struct net *net);

/* Append an open network to the own card. NIXL_OK, or NIXL_ERR_LIMIT: no room. */
int nxr_net_offer_add(struct nxr_full_card *card, const struct net *net, const void *address,
                      size_t nbytes);

/* The address in a network, for its module, and what is offered there; NULL: nothing. */
const void *nxr_net_offer_find(const struct nxr_full_card *card, const char *network,
                               struct nxr_net_offer *offer_p, size_t *nbytes_p);

/*
 * Can the rank of that card be reached in that network? What both expect of it, or one line in
 * `why`.
 */
bool nxr_net_is_common(const struct net *net, const struct nxr_full_card *card,
                       struct nxr_net_offer *expected_p, char *why, size_t why_nbytes);

/* The networks to take to the rank of that card; false, and the reasons in one line: there is none.
 */
bool nxr_net_choose(const struct nxr_full_card *card, struct nxr_net_choice *choice_p, char *why,
                    size_t why_nbytes);

/* Why of two networks that reach a rank the one was taken and not the other, in one line. */
void nxr_net_compare(const struct net *taken, const struct nxr_net_offer *its,
                     const struct net *other, const struct nxr_net_offer *others, char *why,
                     size_t why_nbytes);

#endif
