/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posted buffers: a layer above that will copy the next put into an own region to a buffer of its
 * own posts that buffer, and the bulk goes there at once. What was already on its way when the
 * buffer was posted, or comes another way (in messages, in parts, by a network that cannot move
 * bulk elsewhere), goes into the region as ever. The idea is the posted receive of MPI. Lock:
 * nxr_net.lock.
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

/* What is still to come goes to where it would have gone without the buffer. */
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
