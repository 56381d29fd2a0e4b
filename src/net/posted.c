/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posted buffers. A layer above that would copy the next put out of an own region posts the buffer
 * that it would copy to; the bulk of that put then lands in the buffer. A put that began to arrive
 * before, or that comes in messages, in parts or over a network without redirect(), goes into the
 * region. Owns the list of posted buffers. The idea is MPI's posted receive. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/clients.h"
#include "net/in.h"

void nxr_net_post(struct nxr_net_posted *posted)
{
    posted->landing = NULL;
    posted->has_landed = false;
    net_lock();
    nxr_list_append(&nxr_net.posted, &posted->link);
    net_unlock();
}

/* The rest of the bulk goes to its place in the region. */
static void posted_give_back(struct nxr_net_posted *posted)
{
    struct net_landing *landing = posted->landing;

    net_module(landing->receiver)->redirect(landing, posted->buffer, landing->place);
    landing->posted = NULL;
    posted->landing = NULL;
}

bool nxr_net_unpost(struct nxr_net_posted *posted)
{
    net_lock();
    if (posted->landing != NULL) {
        posted_give_back(posted);
    }
    nxr_list_remove(&posted->link);
    net_unlock();
    return posted->has_landed;
}

char *nxr_net_posted_place(struct net_landing *landing, const struct net_range *range, char *place)
{
    struct nxr_list *link, *after;

    if (nxr_net.receiver == NULL || net_module(nxr_net.receiver)->redirect == NULL) {
        return place;
    }
    nxr_list_for_each (link, after, &nxr_net.posted) {
        struct nxr_net_posted *posted = nxr_list_entry(link, struct nxr_net_posted, link);

        if (posted->id == range->id && posted->generation == range->generation &&
            posted->offset == range->offset && posted->nbytes == range->nbytes &&
            posted->landing == NULL && !posted->has_landed) {
            landing->receiver = nxr_net.receiver;
            landing->place = place;
            landing->posted = posted;
            posted->landing = landing;
            return posted->buffer;
        }
    }
    return place;
}

void nxr_net_posted_landed(struct net_landing *landing, int status)
{
    struct nxr_net_posted *posted = landing->posted;

    if (posted != NULL) {
        posted->landing = NULL;
        posted->has_landed = status == NIXL_OK;
    }
}
