/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of prepared collectives: taking them into use, and releasing them. No lock. */
#include "config.h"

#include "collective/plan.h"
#include "collective/buffer_far.h"

struct nxr_planned_offer *nxr_plan_offer(struct nixl_team *team, const struct nxr_offer *offer)
{
    struct nxr_planned_offer *planned;

    if (team->plan == NULL || offer->for_kernels) {
        return NULL;
    }
    planned = &team->plan->offers[offer->is_in_region];
    team->far = planned->far;
    return planned;
}

bool nxr_plan_shares_nothing(const struct nixl_team *team, const struct nxr_offer *offer)
{
    const struct nxr_planned_offer *planned =
        team->plan != NULL ? &team->plan->offers[offer->is_in_region] : NULL;

    return planned != NULL && planned->is_made && planned->shared == 0;
}

void nxr_plan_enter(struct nixl_team *team, struct nxr_plan *plan)
{
    plan->team_far = team->far;
    team->plan = plan;
}

void nxr_plan_leave(struct nixl_team *team)
{
    team->far = team->plan->team_far;
    team->plan = NULL;
}

void nxr_plan_drop(const struct nixl_team *team, struct nxr_plan *plan)
{
    for (int i = 0; i < 2; i++) {
        nxr_fars_drop(team, plan->offers[i].far);
        plan->offers[i] = (struct nxr_planned_offer){.is_made = false};
    }
}
