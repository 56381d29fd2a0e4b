/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams in the making. All members must go through the same steps, so a member that stops waiting
 * does not stop making: a thread goes on, and the next call for the same team finds what it has
 * reached. A team is named by a key that all members compute alike; its id is made of the key and
 * of how many teams of that key there were, and no id is used up before all members have told each
 * other how it went.
 */
#ifndef NXR_COLLECTIVE_MAKING_H
#define NXR_COLLECTIVE_MAKING_H

#include "collective/team.h"

struct nxr_making;

struct nxr_wanted;

/*
 * What makes the team, without a limit of time: NIXL_OK and the team, or the failure, recorded, and
 * whether all members know of it. `id` is of the team, or what ids are made of.
 */
typedef int nxr_make_fn(const struct nxr_wanted *wanted, uint64_t id, bool *is_agreed_p,
                        struct nixl_team **team_p);

/* A team that is wanted. */
struct nxr_wanted {
    const char *operation;
    nxr_make_fn *make;
    uint64_t key;
    const int *ranks;
    int size;
};

/*
 * Make the team, or go on with it. NIXL_OK; NIXL_INPROGRESS (timeout 0) or NIXL_ERR_TIMEOUT: it
 * goes on, and the next call takes it up. Any other failure ends it. Records the failure.
 */
int nxr_making_wait(const struct nxr_wanted *wanted, int64_t timeout_ns, struct nixl_team **team_p);

/* The same without waiting: the request ends when the team is there, and writes *team_p before. */
int nxr_making_start(const struct nxr_wanted *wanted, struct nixl_team **team_p,
                     struct nixl_req **req_p);

/* A team of these ranks; origin: of the team that it was before members were lost, or 0. */
struct nxr_wanted nxr_team_of_ranks(const char *operation, uint64_t origin, const int *ranks,
                                    int size);

/* End a request for a team; what was reached stays. */
void nxr_making_leave(struct nixl_req *req);

/* Stop all, and forget how many teams there were (last finalize). */
void nxr_makings_stop(void);

/* Are they being stopped? Then every wait for members ends. */
bool nxr_makings_are_stopping(void);

#endif
