/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the followers that are to be told although their requests have not ended. Lock:
 * requests_lock (request.c).
 */
#include "config.h"

#include "core/request_follow.h"
#include "core/request_watch.h"

static struct nxr_follower *due; /* what they follow is ordered */
static atomic_bool has_due;

struct nxr_follower *nxr_followers_take(struct nixl_req *req)
{
    struct nxr_follower *followers = req->followers;

    req->followers = NULL;
    return followers;
}

void nxr_followers_tell(struct nxr_follower *followers, int status)
{
    while (followers != NULL) {
        struct nxr_follower *next = followers->next;

        followers->go(followers, status);
        followers = next;
    }
}

void nxr_followers_make_due(struct nxr_follower *followers)
{
    struct nxr_follower **end = &due;

    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = followers;
    atomic_store(&has_due, due != NULL);
}

bool nxr_followers_are_due(void)
{
    return atomic_load_explicit(&has_due, memory_order_acquire);
}

void nxr_followers_tell_due(void)
{
    struct nxr_follower *followers;

    if (!nxr_followers_are_due()) {
        return;
    }
    pthread_mutex_lock(&nxr_requests_lock);
    followers = due;
    due = NULL;
    atomic_store(&has_due, false);
    pthread_mutex_unlock(&nxr_requests_lock);
    nxr_followers_tell(followers, NIXL_OK);
}
