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

/* How the times of an operation are judged. */
struct judging {
    bool is_rooted; /* the slowest member counts, which changes with the root; else the mean */
    float clearly;  /* process_vm calls have to take less than this part of the time by slots */
};

/*
 * Slots win a tie: they need no permission, and fail less often. Some costs lie outside of the
 * call. The root of a scatter may go on once it has filled its slot; by process_vm calls it waits
 * until all have read its src. The root of a gather later fetches what others wrote from their
 * caches; by slots it has done so within the call. The factors are measured with data that changes.
 */
static const struct judging judgings[NXR_TRIAL_OPERATIONS] = {
    [NXR_TRIAL_BROADCAST] = {true, 0.97f},  [NXR_TRIAL_SCATTER] = {true, 0.9f},
    [NXR_TRIAL_GATHER] = {true, 0.6f},      [NXR_TRIAL_ALLGATHER] = {false, 0.97f},
    [NXR_TRIAL_ALLTOALL] = {false, 0.97f},  [NXR_TRIAL_REDUCE] = {false, 0.97f},
    [NXR_TRIAL_ALLREDUCE] = {false, 0.97f}, [NXR_TRIAL_REDUCE_SCATTER] = {false, 0.97f},
};

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

/*
 * Map what a run by slots writes and reads there: if a root goes round, it is another one's slot in
 * each run, and page faults would count as time of the path. Not before the first run: buffers that
 * lie in regions are never measured.
 */
static void trial_populate_slots(const struct nixl_team *team, enum nxr_trial_operation of,
                                 size_t nbytes, const struct nxr_offer *offer)
{
    const struct nxr_node *node = &team->node;
    bool is_gather = of == NXR_TRIAL_GATHER;
    bool has_pieces = of == NXR_TRIAL_SCATTER || of == NXR_TRIAL_ALLTOALL;
    size_t slot_nbytes = nbytes < NXR_NODE_SLOT_NBYTES ? nbytes : NXR_NODE_SLOT_NBYTES;

    slot_nbytes *= has_pieces ? (size_t)node->size : 1;
    for (int i = 0; i < node->size; i++) {
        bool is_sender = !offer->is_rooted || (i == offer->root) != is_gather;
        bool is_reader = !is_gather || node->me == offer->root;

        if (is_sender && (i == node->me || is_reader)) {
            nxr_node_populate_slot(node, i, slot_nbytes);
        }
    }
}

static int trial_offer(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes,
                       unsigned wanted, struct nxr_offer *offer, unsigned *shared_p,
                       struct nxr_trial_run *run)
{
    struct nxr_trial *trial = trial_of(team, of, nbytes);
    bool is_measured = nxr_coll_table.process_vm_from == 0;
    int status;

    if (is_measured && trial->n_runs > 0 && trial->n_runs < NXR_TRIAL_RUNS) {
        trial_populate_slots(team, of, nbytes, offer);
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
    run->of = of;
    run->path = trial->n_runs < NXR_TRIAL_RUNS ? NXR_TRIAL_BY_SLOTS : NXR_TRIAL_BY_PROCESS_VM;
    /* All have met, or seen the root; a second offer is part of the path. */
    run->started_ns = nxr_now_ns();
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

/* What a run took, in ns, from what all members have told of it. */
static float run_time(const struct nxr_node *node, uint64_t phase, size_t run, bool is_rooted)
{
    float longest = 0, sum = 0, ns;

    for (int i = 0; i < node->size; i++) {
        memcpy(&ns, nxr_node_cell(node, i, phase)->bytes + run * sizeof(ns), sizeof(ns));
        longest = ns > longest ? ns : longest;
        sum += ns;
    }
    return is_rooted ? longest : sum / (float)node->size;
}

static float best_time(const struct nxr_node *node, uint64_t phase, enum nxr_trial_path path,
                       bool is_rooted)
{
    float best = 0;

    for (size_t run = 0; run < NXR_TRIAL_RUNS; run++) {
        float ns = run_time(node, phase, (size_t)path * NXR_TRIAL_RUNS + run, is_rooted);

        best = run == 0 || ns < best ? ns : best;
    }
    return best;
}

/* All tell their times. */
static int trial_agree(struct nixl_team *team, const struct nxr_trial_run *run)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    struct nxr_trial *trial = run->trial;
    const struct judging *judging = &judgings[run->of];
    float by_slots, by_process_vm;
    int status = nxr_node_put_cell(team, trial->ns, sizeof(trial->ns));

    if (status == NIXL_OK) {
        status = nxr_node_wait_cells(team, phase);
    }
    if (status != NIXL_OK) {
        return status;
    }
    by_slots = best_time(node, phase, NXR_TRIAL_BY_SLOTS, judging->is_rooted);
    by_process_vm = best_time(node, phase, NXR_TRIAL_BY_PROCESS_VM, judging->is_rooted);
    trial->path =
        by_process_vm < judging->clearly * by_slots ? NXR_TRIAL_BY_PROCESS_VM : NXR_TRIAL_BY_SLOTS;
    trial->is_agreed = true;
    nxr_debug(COLL, "%s of %d members here: slots %.1f us, process_vm %.1f us", team->operation,
              node->size, by_slots * 1e-3, by_process_vm * 1e-3);
    return NIXL_OK;
}

int nxr_trial_end(struct nixl_team *team, const struct nxr_trial_run *run)
{
    struct nxr_trial *trial = run->trial;

    if (trial == NULL) {
        return NIXL_OK;
    }
    trial->ns[run->path][trial->n_runs % NXR_TRIAL_RUNS] = (float)(nxr_now_ns() - run->started_ns);
    trial->n_runs++;
    return trial->n_runs < NXR_TRIAL_PATHS * NXR_TRIAL_RUNS ? NIXL_OK : trial_agree(team, run);
}
