/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that the core does not have: those that have ended or left, and processes that have spoken
 * before the core opens them. They stay, since their numbers continue if the core opens them
 * (again). One that is at rest, so that libfabric uses nothing of it, gives back its outbox. If
 * there are too many, the one that was heard longest ago is forgotten; it would be a new peer if it
 * spoke again. A process that has this one open speaks every few seconds (repair.c), so that it is
 * the ended ones that are forgotten. The core's lock.
 */
#include "config.h"

#include "outbox.h"
#include "rma.h"

static bool aside_is_at_rest(const struct nxr_net_ep *ep)
{
    bool is_used = ep->is_open || ep->close_at != 0 || ep->n_rmas > 0;

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        is_used |= ep->paths[i].n_pieces > 0;
    }
    return !is_used && !nxr_ofi_outbox_is_under_way(ep);
}

void nxr_ofi_aside_add(struct nxr_net_ep *ep)
{
    nxr_list_append(&nxr_ofi.aside, &ep->aside_link);
    nxr_ofi.n_aside++;
    nxr_ofi_aside_rest(ep);
}

void nxr_ofi_aside_remove(struct nxr_net_ep *ep)
{
    nxr_list_remove(&ep->aside_link);
    nxr_ofi.n_aside--;
}

void nxr_ofi_aside_heard(struct nxr_net_ep *ep)
{
    nxr_list_remove(&ep->aside_link);
    nxr_list_append(&nxr_ofi.aside, &ep->aside_link);
}

void nxr_ofi_aside_rest(struct nxr_net_ep *ep)
{
    if (aside_is_at_rest(ep)) {
        nxr_ofi_outbox_free(ep);
    }
}

struct nxr_net_ep *nxr_ofi_aside_surplus(void)
{
    struct nxr_list *link, *after;

    if (nxr_ofi.n_aside <= NXR_OFI_MAX_ASIDE + (unsigned)nxr_ofi.core->size) {
        return NULL;
    }
    nxr_list_for_each (link, after, &nxr_ofi.aside) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, aside_link);

        if (aside_is_at_rest(ep)) {
            return ep;
        }
    }
    return NULL;
}
