/* SPDX-License-Identifier: Apache-2.0 */
/* Offers of networks in cards, and choosing networks by them. No state of its own, no lock. */
#include "config.h"

#include "net/offer.h"

#include "net/state.h"

#include <stdio.h>
#include <string.h>

/* ---- offers ---------------------------------------------------------------------------------- */

struct nxr_net_offer nxr_net_own_offer(const struct net *net)
{
    return (struct nxr_net_offer){
        .latency_ns = net->attr->latency_ns,
        .bandwidth_mbps = net->attr->bandwidth_mbps,
        .n_rails = (uint16_t)net->attr->n_rails,
        .has_adapters = !net->attr->takes_mappings,
        .has_fixed_rail = net->attr->has_fixed_rail,
    };
}

int nxr_net_offer_add(struct nxr_full_card *card, const struct net *net, const void *address,
                      size_t nbytes)
{
    const struct nxr_net_offer offer = nxr_net_own_offer(net);
    unsigned char bytes[sizeof(offer) + NXR_NET_ADDRESS_NBYTES];

    if (nbytes > NXR_NET_ADDRESS_NBYTES) {
        return NIXL_E_LIMIT;
    }
    memcpy(bytes, &offer, sizeof(offer));
    memcpy(bytes + sizeof(offer), address, nbytes);
    return nxr_card_add_address(card, net->module->name, bytes, sizeof(offer) + nbytes);
}

const void *nxr_net_offer_find(const struct nxr_full_card *card, const char *network,
                               struct nxr_net_offer *offer_p, size_t *nbytes_p)
{
    size_t nbytes;
    const unsigned char *bytes = nxr_card_find_address(card, network, &nbytes);

    if (bytes == NULL || nbytes < sizeof(*offer_p)) {
        return NULL;
    }
    memcpy(offer_p, bytes, sizeof(*offer_p));
    *nbytes_p = nbytes - sizeof(*offer_p);
    return bytes + sizeof(*offer_p);
}

/* ---- a pair ---------------------------------------------------------------------------------- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static struct nxr_net_offer worse(struct nxr_net_offer mine, struct nxr_net_offer theirs)
{
    return (struct nxr_net_offer){
        .latency_ns = mine.latency_ns > theirs.latency_ns ? mine.latency_ns : theirs.latency_ns,
        .bandwidth_mbps = smaller(mine.bandwidth_mbps, theirs.bandwidth_mbps),
        .n_rails = (uint16_t)smaller(mine.n_rails, theirs.n_rails),
        .has_adapters = mine.has_adapters != 0 && theirs.has_adapters != 0,
        .has_fixed_rail = mine.has_fixed_rail != 0 || theirs.has_fixed_rail != 0,
    };
}

bool nxr_net_is_common(const struct net *net, const struct nxr_full_card *card,
                       struct nxr_net_offer *expected_p, char *why, size_t why_nbytes)
{
    struct nxr_net_offer theirs;
    const void *address;
    unsigned n_rails;
    size_t nbytes;

    if (!net->is_open) {
        snprintf(why, why_nbytes, "%s", net->why);
        return false;
    }
    address = nxr_net_offer_find(card, net->module->name, &theirs, &nbytes);
    if (address == NULL) {
        snprintf(why, why_nbytes, "the other rank does not offer it");
        return false;
    }
    if (net->module->reach(address, nbytes, &n_rails, why, why_nbytes) != NIXL_OK) {
        return false;
    }
    *expected_p = worse(nxr_net_own_offer(net), theirs);
    expected_p->n_rails = (uint16_t)smaller(expected_p->n_rails, n_rails);
    return true;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/*
 * Sockets over several rails: large transfers use all of them, and the failure of any one
 * is repaired.
 */
static bool has_spare_rails(const struct nxr_net_offer *offer)
{
    return offer->has_adapters == 0 && offer->n_rails > 1 && offer->has_fixed_rail == 0;
}

/*
 * Does `a` carry messages better than `b`? Adapters before sockets, several rails before one,
 * then the lower latency.
 */
static bool net_offer_is_better(const struct nxr_net_offer *a, const struct nxr_net_offer *b)
{
    if (a->has_adapters != b->has_adapters) {
        return a->has_adapters != 0;
    }
    if (has_spare_rails(a) != has_spare_rails(b)) {
        return has_spare_rails(a);
    }
    return a->latency_ns < b->latency_ns;
}

/*
 * Should `a` move bulk while another network carries the messages? Only if it reads and writes by
 * itself, so that no processor has to place the bytes, and only with adapters: sockets of two
 * networks are no faster than those of one.
 */
static bool is_faster(const struct net *net, const struct nxr_net_offer *a,
                      const struct nxr_net_offer *b)
{
    return net_uses_rma(net) && a->has_adapters != 0 && a->bandwidth_mbps > b->bandwidth_mbps;
}

/* Insert a network, best first, into those found so far; equal ones stay in order. */
static void net_offer_insert(struct nxr_net_choice *choice,
                             struct nxr_net_offer expected[NXR_NET_MAX], struct net *net,
                             const struct nxr_net_offer *offer)
{
    unsigned at = choice->n_networks++;

    for (; at > 0 && net_offer_is_better(offer, &expected[at - 1]); at--) {
        choice->networks[at] = choice->networks[at - 1];
        expected[at] = expected[at - 1];
    }
    choice->networks[at] = net;
    expected[at] = *offer;
}

bool nxr_net_choose(const struct nxr_full_card *card, struct nxr_net_choice *choice_p, char *why,
                    size_t why_nbytes)
{
    struct nxr_net_choice choice = {.n_networks = 0};
    struct nxr_net_offer expected[NXR_NET_MAX], offer;
    unsigned bulk = 0;
    size_t used = 0;

    why[0] = '\0';
    for (size_t i = 0; i < nxr_net.n_nets; i++) {
        char reason[160];

        if (nxr_net_is_common(&nxr_net.nets[i], card, &offer, reason, sizeof(reason))) {
            net_offer_insert(&choice, expected, &nxr_net.nets[i], &offer);
        } else if (used < why_nbytes) {
            used += (size_t)snprintf(why + used, why_nbytes - used, "%s%s: %s",
                                     used > 0 ? "; " : "", nxr_net.nets[i].name, reason);
        }
    }
    if (choice.n_networks == 0) {
        return false;
    }
    for (unsigned i = 1; i < choice.n_networks; i++) {
        if (is_faster(choice.networks[i], &expected[i], &expected[bulk])) {
            bulk = i;
        }
    }
    choice.bulk = choice.networks[bulk];
    *choice_p = choice;
    return true;
}

void nxr_net_compare(const struct net *taken, const struct nxr_net_offer *its,
                     const struct net *other, const struct nxr_net_offer *others, char *why,
                     size_t why_nbytes)
{
    const char *name = taken->module->name;

    if (its->has_adapters != others->has_adapters) {
        snprintf(why, why_nbytes, "%s moves the bytes by adapters, %s by the processor", name,
                 other->module->name);
    } else if (has_spare_rails(its) && !has_spare_rails(others)) {
        snprintf(why, why_nbytes, "%s has %u rails to that host, and repairs a cut one", name,
                 its->n_rails);
    } else {
        snprintf(why, why_nbytes, "%s is expected to be faster (%.1f us against %.1f us)", name,
                 its->latency_ns / 1e3, others->latency_ns / 1e3);
    }
}
