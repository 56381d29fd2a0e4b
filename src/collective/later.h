/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nonblocking collectives: the team's worker, a thread that is created with the first of them, runs
 * them one after the other. So they proceed while the caller computes, and no algorithm needs a
 * second form.
 */
#ifndef NXR_COLLECTIVE_LATER_H
#define NXR_COLLECTIVE_LATER_H

#include "collective/call.h"
#include "core/request.h"

/* Start a call that was checked, on a team of more than one. NIXL_INPROGRESS and the request. */
int nxr_later_start(struct nixl_team *team, const char *operation, const struct nxr_call *call,
                    struct nixl_req **req_p);

/* Wait until all that was started has ended. Returns as nxr_wait(). */
int nxr_later_wait(struct nixl_team *team, int64_t timeout_ns);

/* Cancel everything and end the worker. */
void nxr_later_stop(struct nixl_team *team);

#endif
