/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows a request: each follower is told once, when the request has ended, or earlier when
 * its operation is ordered before all that comes later.
 */
#ifndef NXR_CORE_REQUEST_FOLLOW_H
#define NXR_CORE_REQUEST_FOLLOW_H

#include "core/request.h"

/* What waits for the request, taken from it. Caller holds requests_lock. */
struct nxr_follower *nxr_followers_take(struct nixl_req *req);

/* Tell each of a list, which is gone then. Without requests_lock. */
void nxr_followers_tell(struct nxr_follower *followers, int status);

/*
 * A transport that finds an operation to be ordered may hold its lock, which what follows would
 * take: the next thread that drives progress tells it. Caller holds requests_lock.
 */
void nxr_followers_make_due(struct nxr_follower *followers);

/* Are there any of these? Any thread; and tell them, without requests_lock. */
bool nxr_followers_are_due(void);
void nxr_followers_tell_due(void);

#endif
