/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a prepared collective (coll.h): what its members found out about their buffers when
 * they prepared it, so that its starts need not ask again. In place of an offer (buffer.h) they
 * only meet. The plan keeps its own mappings: those of the team are replaced by other calls.
 *
 * All members on the host have a plan for a call, or none has. A plan is in use by the thread that
 * works for its team, between nxr_plan_enter() and nxr_plan_leave().
 */
#ifndef NXR_COLLECTIVE_PLAN_H
#define NXR_COLLECTIVE_PLAN_H

#include "collective/buffer.h"
#include "collective/team.h"

/* The status of a call that makes a plan: it ends before it moves anything. */
#define NXR_PLANNED NIXL_INPROGRESS

/* An offer that was made. */
struct nxr_planned_offer {
    bool is_made;
    unsigned shared;     /* as nxr_buffers_offer() tells */
    struct nxr_far *far; /* [node.size]: the ways to the buffers of the others; NULL: none */
};

struct nxr_plan {
    bool is_used;                       /* else starts run as plain calls */
    bool is_making;                     /* the call under way makes it */
    bool has_offers;                    /* ... and has asked the others for something */
    bool is_in_cells;                   /* it is nxr_node_allreduce_cells(), nothing else */
    bool knows_largest;                 /* ... of data of different sizes: */
    size_t largest;                     /* the largest piece of all members */
    struct nxr_planned_offer offers[2]; /* by nxr_offer.is_in_region */
    struct nxr_far *team_far;           /* while it is in use: those of the team */
    _Atomic unsigned n_started;         /* starts that wait for the team's worker, or run there */
};

/* Is the call under way one that makes a plan, and must move nothing? */
static inline bool nxr_plan_is_making(const struct nixl_team *team)
{
    return __builtin_expect(team->plan != NULL, 0) && team->plan->is_making;
}

/* The offer of the plan in use that stands for this one; NULL: there is none. */
struct nxr_planned_offer *nxr_plan_offer(struct nixl_team *team, const struct nxr_offer *offer);

/* Is it known that such an offer gives the others nothing? Then they need not meet for it. */
bool nxr_plan_shares_nothing(const struct nixl_team *team, const struct nxr_offer *offer);

void nxr_plan_enter(struct nixl_team *team, struct nxr_plan *plan);
void nxr_plan_leave(struct nixl_team *team);

/* Release the mappings. It is not in use. */
void nxr_plan_drop(const struct nixl_team *team, struct nxr_plan *plan);

#endif
