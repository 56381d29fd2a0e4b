/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries about networks for the user: what each one is, and why it does not serve a rank. Nothing
 * here changes any state. Caller holds job.lock; modules are called under nxr_net.lock.
 */
#include "config.h"

#include "net/connect.h"

#include <stdio.h>
#include <string.h>

/* The module's descriptions of its devices, one per line. */
static void net_query_describe(const struct net *net, char *text, size_t text_nbytes)
{
    char line[256];
    size_t used = 0;

    for (unsigned i = 0; net_module(net)->describe(i, line, sizeof(line)) == NIXL_OK; i++) {
        if (used + strlen(line) + 1 >= text_nbytes) {
            return;
        }
        used +=
            (size_t)snprintf(text + used, text_nbytes - used, "%s%s", used > 0 ? "\n" : "", line);
    }
}

/* What to expect of an open network: with the peer if both ends have it, else by itself. */
static struct nxr_net_offer net_query_expect(const struct net *net, const struct net_peer *np)
{
    struct nxr_net_offer expected;
    char why[160];

    if (np == NULL || !nxr_net_is_common(net, &np->card, &expected, why, sizeof(why))) {
        expected = nxr_net_own_offer(net);
    }
    return expected;
}

static void net_query_tell_why_not(const struct net *net, const struct nxr_peer *peer, char *why,
                                   size_t why_nbytes)
{
    struct net_peer *np = net_peer_at(peer);
    const struct nxr_full_card *card = np != NULL ? &np->card : peer->full_card;
    struct nxr_net_offer others, its;

    if (np == NULL && peer->transport != NULL) {
        snprintf(why, why_nbytes, "%s is faster", peer->transport->name);
    } else if (card == NULL) {
        snprintf(why, why_nbytes, "the rank's host is unknown");
    } else if (np != NULL && nxr_net_was_tried(np, net, why, why_nbytes)) {
        return;
    } else if (nxr_net_is_common(net, card, &others, why, why_nbytes) && np != NULL &&
               nxr_net_is_common(np->messages, card, &its, why, why_nbytes)) {
        nxr_net_compare(np->messages, &its, net, &others, why, why_nbytes);
    }
}

void nxr_net_ask(size_t index, const struct nxr_peer *peer, struct nixl_route_info *info)
{
    const struct net *net = &nxr_net.nets[index];
    const struct net_peer *np = net_peer_at(peer);
    struct nxr_net_offer expected;

    snprintf(info->transport, sizeof(info->transport), "%s", nxr_net_name(index));
    if (!net->is_open) {
        snprintf(info->why, sizeof(info->why), "%s",
                 nxr_net.n_nets > 0 ? net->why : "not opened: the launcher reports only one host");
        return;
    }
    net_lock();
    info->is_usable = 1;
    info->is_chosen = np != NULL && (np->messages == net || np->bulk == net);
    expected = net_query_expect(net, np);
    info->latency_ns = expected.latency_ns;
    info->bandwidth_mbps = expected.bandwidth_mbps;
    info->nrails = expected.n_rails;
    snprintf(info->library, sizeof(info->library), "%s", net->attr->library);
    net_query_describe(net, info->devices, sizeof(info->devices));
    if (!info->is_chosen) {
        net_query_tell_why_not(net, peer, info->why, sizeof(info->why));
    }
    net_unlock();
}

void nxr_net_expect(const struct nxr_peer *peer, uint64_t *latency_ns_p, uint64_t *bandwidth_mbps_p)
{
    const struct net_peer *np = net_peer_at(peer);

    net_lock();
    *latency_ns_p = net_query_expect(np->messages, np).latency_ns;
    *bandwidth_mbps_p = net_query_expect(np->bulk, np).bandwidth_mbps;
    net_unlock();
}
