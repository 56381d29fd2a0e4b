/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of the paths of large data. Owns team->trials. No lock: one thread works for a team.
 *
 * Invariant: between calls, n_runs and is_agreed of every trial are the same on all members of a
 * host, since they change only with what all members know; times are each member's own until they
 * are told.
 */
#include "config.h"

#include "collective/trial.h"
#include "collective/phase.h"
#include "collective/plan.h"
#include "util/clock.h"
#include "util/coll_table.h"
#include "util/log.h"
#include "util/status.h"

#include <string.h>

/* Each path so many times: the first of them has page faults, and others may be disturbed. */
#define RUNS_OF_A_PATH 4

/* process_vm calls have to be faster by so much: slots need no permission, and fail less often. */
#define CLEARLY 0.97

static struct nxr_trial *trial_of(struct nixl_team *team, enum nxr_trial_operation of,
                                  size_t nbytes)
{
    size_t class = (size_t)(63 - __builtin_clzll(nbytes | 1u));
    size_t lowest = (size_t)(63 - __builtin_clzll(nxr_coll_table.direct_from | 1u));

    class = class > lowest ? class - lowest : 0;
    return &team->trials[of][class < NXR_TRIAL_CLASSES ? class : NXR_TRIAL_CLASSES - 1];
}

/* The limit says where memory outside of regions is shared. */
static bool is_in_region_by_limit(enum nxr_trial_operation of, size_t nbytes)
{
    /* If several members read it, it is mostly faster for its owner to copy it once, for all. */
    return nbytes < nxr_coll_table.process_vm_from || of == NXR_TRIAL_ALLGATHER;
}

static int trial_offer(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes,
                       unsigned wanted, struct nxr_offer *offer, unsigned *shared_p,
                       struct nxr_trial_run *run)
{
    struct nxr_trial *trial = trial_of(team, of, nbytes);
    bool is_measured = nxr_coll_table.process_vm_from == 0;
    int status;

    if (is_measured && !trial->is_agreed && offer->src != NULL) {
        nxr_node_populate_slot(&team->node); /* a root that goes round has another slot each time */
    }
    offer->is_in_region = is_measured ? !trial->is_agreed || trial->path == NXR_TRIAL_BY_SLOTS
                                      : is_in_region_by_limit(of, nbytes);
    if ((!is_measured || trial->is_agreed) && nxr_plan_shares_nothing(team, offer)) {
        *shared_p = 0;
        return NIXL_OK;
    }
    status = nxr_buffers_offer(team, offer, shared_p);
    if (status != NIXL_OK || !is_measured || trial->is_agreed || team->has_no_process_vm ||
        (*shared_p & wanted) == wanted) {
        return status;
    }
    run->trial = trial;
    run->path = trial->n_runs % 2 == 0 ? NXR_TRIAL_BY_SLOTS : NXR_TRIAL_BY_PROCESS_VM;
    run->started_ns =
        nxr_now_ns(); /* all have met, or seen the root; a second offer is part of the path */
    if (run->path == NXR_TRIAL_BY_PROCESS_VM || nxr_plan_is_making(team)) {
        offer->is_in_region = false;
        status = nxr_buffers_offer(team, offer, shared_p);
    }
    return status;
}

int nxr_trial_offer(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes,
                    unsigned wanted, struct nxr_offer *offer, unsigned *shared_p,
                    struct nxr_trial_run *run)
{
    int status;

    *run = (struct nxr_trial_run){.trial = NULL};
    status = trial_offer(team, of, nbytes, wanted, offer, shared_p, run);
    return status == NIXL_OK && nxr_plan_is_making(team) ? NXR_PLANNED : status;
}

/* All tell their times; the sums decide. */
static int trial_agree(struct nixl_team *team, struct nxr_trial *trial)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    double sums[NXR_TRIAL_PATHS] = {0};
    int status = nxr_node_put_cell(team, trial->best_ns, sizeof(trial->best_ns));

    if (status == NIXL_OK) {
        status = nxr_node_wait_cells(team, phase);
    }
    if (status != NIXL_OK) {
        return status;
    }
    for (int i = 0; i < node->size; i++) {
        float told[NXR_TRIAL_PATHS];

        memcpy(told, nxr_node_cell(node, i, phase)->bytes, sizeof(told));
        sums[NXR_TRIAL_BY_SLOTS] += told[NXR_TRIAL_BY_SLOTS];
        sums[NXR_TRIAL_BY_PROCESS_VM] += told[NXR_TRIAL_BY_PROCESS_VM];
    }
    trial->path = sums[NXR_TRIAL_BY_PROCESS_VM] < CLEARLY * sums[NXR_TRIAL_BY_SLOTS]
                      ? NXR_TRIAL_BY_PROCESS_VM
                      : NXR_TRIAL_BY_SLOTS;
    trial->is_agreed = true;
    nxr_debug(COLL, "%s of %d members here: slots %.1f us, process_vm %.1f us", team->operation,
              node->size, sums[NXR_TRIAL_BY_SLOTS] / node->size * 1e-3,
              sums[NXR_TRIAL_BY_PROCESS_VM] / node->size * 1e-3);
    return NIXL_OK;
}

int nxr_trial_end(struct nixl_team *team, const struct nxr_trial_run *run)
{
    struct nxr_trial *trial = run->trial;
    float took_ns;

    if (trial == NULL) {
        return NIXL_OK;
    }
    took_ns = (float)(nxr_now_ns() - run->started_ns);
    if (trial->n_runs < NXR_TRIAL_PATHS || took_ns < trial->best_ns[run->path]) {
        trial->best_ns[run->path] = took_ns;
    }
    trial->n_runs++;
    return trial->n_runs < NXR_TRIAL_PATHS * RUNS_OF_A_PATH ? NIXL_OK : trial_agree(team, trial);
}
