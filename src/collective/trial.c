/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of the paths of large data. Owns team->trials and team->region_trials. No lock: one thread
 * works for a team.
 *
 * Invariant: between calls, n_calls, n_runs, is_agreed and n_blind of every trial are the same on
 * all members of a host, since they change only with what all members know; times are each member's
 * own until they are told.
 */
#include "config.h"

#include "collective/trial.h"
#include "collective/phase.h"
#include "collective/plan.h"
#include "util/clock.h"
#include "util/coll_table.h"
#include "util/log.h"
#include "util/status.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * How the times of an operation are judged. Of periods, the mean of the members counts: if the root
 * goes round, they are long and short in turn.
 */
struct judging {
    bool is_rooted;     /* the slowest member counts, which changes with the root; else the mean */
    float clearly;      /* process_vm calls have to take less than this part of the time by slots */
    size_t crowd_up_to; /* in a crowd, so many bytes go through cells without an offer */
};

/*
 * Slots win a tie: they need no permission, and fail less often. Some costs lie outside of the
 * call. The root of a scatter may go on once it has filled its slot; by process_vm calls it waits
 * until all have read its src. The root of a gather later fetches what others wrote from their
 * caches; by slots it has done so within the call. In a crowd, an offer is one more round of
 * switches of the cores; but where a member gets the data of all, or has a part for each, the
 * second copy soon takes longer. The factors are measured with data that changes.
 */
static const struct judging judgings[NXR_TRIAL_OPERATIONS] = {
    [NXR_TRIAL_BROADCAST] = {true, 0.97f, 64 << 10},
    [NXR_TRIAL_SCATTER] = {true, 0.9f, 16 << 10},
    [NXR_TRIAL_GATHER] = {true, 0.6f, 64 << 10},
    [NXR_TRIAL_ALLGATHER] = {false, 0.97f, 16 << 10},
    [NXR_TRIAL_ALLTOALL] = {false, 0.97f, 16 << 10},
    [NXR_TRIAL_REDUCE] = {false, 0.97f, 64 << 10},
    [NXR_TRIAL_ALLREDUCE] = {false, 0.97f, 64 << 10},
    [NXR_TRIAL_REDUCE_SCATTER] = {false, 0.97f, 0},
};

/*
 * A call leaves data in caches or takes it out, which the program pays for before the next call. So
 * the periods of calls are compared if these follow each other closely: within so many times what a
 * call takes. Else a period is mostly the program's own work, and varies with that. Not the first
 * time: periods then have page faults. Slots may have left the caches since they were used, so the
 * shortest period by slots counts, as in regions, and the median by process_vm calls.
 */
#define CLOSE         4
#define MIDDLE        (NXR_TRIAL_RUNS / 2 - 1)
#define CLEARLY_CLOSE 0.97f

/*
 * A program does something else with its data later, and what was faster at first is not any more:
 * a path is measured anew after so many calls. Since the times vary, the other path has to take
 * less than CHANGES of its time. If it takes more than twice as long, the calls between are more in
 * proportion, so that to measure costs less than 2 %.
 *
 * The first time, pages are touched and caches are cold. So it is done again soon, unless the other
 * path took more than DOUBTFUL times as long.
 */
#define AGAIN_SOON    32
#define DOUBTFUL      3
#define AGAIN         256
#define AGAIN_AT_MOST 16384
#define CHANGES       0.95f

/*
 * An offer takes up to half as long as the copies of 16 KiB. One that finds no region is repeated
 * after so many calls: that hides its cost, and notices a program that changes to regions.
 */
#define BLIND 31

static size_t class_of(size_t nbytes)
{
    size_t class = (size_t)(63 - __builtin_clzll(nbytes | 1u));
    size_t lowest = (size_t)(63 - __builtin_clzll(nxr_coll_table.direct_from | 1u));

    return class > lowest ? class - lowest : 0;
}

static struct nxr_trial *trial_of(struct nixl_team *team, enum nxr_trial_operation of,
                                  size_t nbytes)
{
    size_t class = class_of(nbytes);

    return &team->trials[of][class < NXR_TRIAL_CLASSES ? class : NXR_TRIAL_CLASSES - 1];
}

/* NULL: what lies in regions is shared without a trial. A plan has made its offers before. */
static struct nxr_trial *region_trial_of(struct nixl_team *team, enum nxr_trial_operation of,
                                         size_t nbytes)
{
    size_t class = class_of(nbytes);

    return class < NXR_TRIAL_REGION_CLASSES && nxr_coll_table.process_vm_from == 0 &&
                   team->plan == NULL
               ? &team->region_trials[of][class]
               : NULL;
}

static bool goes_by_slots(const struct nxr_trial *trial)
{
    return trial->is_agreed && trial->path == NXR_TRIAL_BY_SLOTS;
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
 * lie in regions do not get there.
 */
static void trial_populate_slots(const struct nixl_team *team, const struct nxr_trial *trial,
                                 enum nxr_trial_operation of, size_t nbytes,
                                 const struct nxr_offer *offer)
{
    const struct nxr_node *node = &team->node;
    bool is_gather = of == NXR_TRIAL_GATHER;
    bool has_pieces = of == NXR_TRIAL_SCATTER || of == NXR_TRIAL_ALLTOALL;
    size_t slot_nbytes = nbytes < NXR_NODE_SLOT_NBYTES ? nbytes : NXR_NODE_SLOT_NBYTES;

    if (trial->n_runs == 0 || trial->n_runs >= NXR_TRIAL_RUNS) {
        return;
    }
    slot_nbytes *= has_pieces ? (size_t)node->size : 1;
    for (int i = 0; i < node->size; i++) {
        bool is_sender = !offer->is_rooted || (i == offer->root) != is_gather;
        bool is_reader = !is_gather || node->me == offer->root;

        if (is_sender && (i == node->me || is_reader)) {
            nxr_node_populate_slot(node, i, slot_nbytes);
        }
    }
}

/* One more call: is the path still the one that was agreed? */
static void trial_count_call(struct nxr_trial *trial)
{
    if (trial->is_agreed && ++trial->n_calls == trial->again_after) {
        trial->is_agreed = false;
        trial->n_runs = 0;
    }
}

/* All have met, or seen the root. */
static void trial_start_run(struct nxr_trial *trial, int64_t now_ns)
{
    unsigned last = trial->n_runs - 1u;

    if (trial->n_runs > 0) {
        trial->ns.period[last / NXR_TRIAL_RUNS][last % NXR_TRIAL_RUNS] =
            (float)(now_ns - trial->started_ns);
    }
    trial->started_ns = now_ns;
}

/* This call is a run. */
static void trial_begin(struct nxr_trial *trial, int64_t now_ns, struct nxr_trial_run *run)
{
    run->trial = trial;
    run->path = trial->n_runs < NXR_TRIAL_RUNS ? NXR_TRIAL_BY_SLOTS : NXR_TRIAL_IN_PLACE;
    trial_start_run(trial, now_ns);
}

/* ---- data in regions ------------------------------------------------------------------------- */

/*
 * The buffers lie in regions: take the agreed path, or the one to be measured. The offer is part of
 * the path in place; of the runs by slots, only the first one has made an offer.
 */
static void region_take_path(struct nxr_trial *trial, int64_t begun_ns, unsigned *shared_p,
                             struct nxr_trial_run *run)
{
    enum nxr_trial_path path = trial->path;

    if (!trial->is_agreed) {
        trial_begin(trial, begun_ns, run);
        path = run->path;
    }
    if (path == NXR_TRIAL_BY_SLOTS) {
        *shared_p = 0;
    }
}

/*
 * Offer what lies in regions. run->is_in_regions: all that is wanted does, even if *shared_p is 0.
 * Device memory is shared without a trial: calls that do not meet for an offer take up to five
 * times as long through slots (gather of 100 KB, 2 and 4 ranks on two H200s).
 */
static int region_offer(struct nixl_team *team, struct nxr_trial *trial, unsigned wanted,
                        struct nxr_offer *offer, unsigned *shared_p, struct nxr_trial_run *run)
{
    int64_t begun_ns = trial != NULL && !trial->is_agreed ? nxr_now_ns() : 0;
    int status = nxr_buffers_offer(team, offer, shared_p);

    run->is_in_regions = status == NIXL_OK && (*shared_p & wanted) == wanted;
    if (trial != NULL && run->is_in_regions && team->offers_are_plain) {
        region_take_path(trial, begun_ns, shared_p, run);
    } else if (trial != NULL) {
        trial->is_agreed = false; /* it begins anew once there are regions again */
        trial->n_runs = 0;
    }
    return status;
}

/* ---- data anywhere --------------------------------------------------------------------------- */

static int trial_offer(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes,
                       unsigned wanted, struct nxr_offer *offer, unsigned *shared_p,
                       struct nxr_trial_run *run)
{
    struct nxr_trial *trial = trial_of(team, of, nbytes);
    struct nxr_trial *regions = region_trial_of(team, of, nbytes);
    bool is_measured = nxr_coll_table.process_vm_from == 0;
    int status;

    trial_count_call(trial);
    if (is_measured && !trial->was_agreed) {
        trial_populate_slots(team, trial, of, nbytes, offer);
    }
    offer->is_in_region =
        is_measured ? !trial->is_agreed || goes_by_slots(trial) : is_in_region_by_limit(of, nbytes);
    if ((!is_measured || trial->is_agreed) && nxr_plan_shares_nothing(team, offer)) {
        *shared_p = 0;
        return NIXL_OK;
    }
    status = region_offer(team, offer->is_in_region ? regions : NULL, wanted, offer, shared_p, run);
    if (status != NIXL_OK || !is_measured || trial->is_agreed || team->has_no_process_vm ||
        run->is_in_regions) {
        trial->n_blind = !run->is_in_regions && trial->is_plain && goes_by_slots(trial) ? BLIND : 0;
        return status;
    }
    trial_begin(trial, nxr_now_ns(), run); /* a second offer is part of the path */
    if (run->path == NXR_TRIAL_IN_PLACE || nxr_plan_is_making(team)) {
        offer->is_in_region = false;
        status = nxr_buffers_offer(team, offer, shared_p);
    }
    return status;
}

/*
 * Data in no region goes by slots without an offer if these were found to be faster than process_vm
 * calls, and the last offer found no region. Not for long, not for sizes at which regions would be
 * much faster, and not for device memory.
 */
static bool anywhere_needs_no_offer(struct nixl_team *team, enum nxr_trial_operation of,
                                    size_t nbytes)
{
    struct nxr_trial *trial = trial_of(team, of, nbytes);

    if (trial->n_blind == 0 || region_trial_of(team, of, nbytes) == NULL) {
        return false;
    }
    trial_count_call(trial);
    trial->n_blind = trial->is_agreed ? (uint8_t)(trial->n_blind - 1) : 0;
    return trial->is_agreed;
}

/*
 * A call goes by slots without an offer if it is a run by slots. It also does once slots were found
 * to be faster than regions, but one call in so many checks that there still are regions.
 */
static bool region_needs_no_offer(struct nixl_team *team, enum nxr_trial_operation of,
                                  size_t nbytes, unsigned *shared_p, struct nxr_trial_run *run)
{
    struct nxr_trial *trial = region_trial_of(team, of, nbytes);

    *run = (struct nxr_trial_run){.of = of};
    *shared_p = 0;
    if (trial == NULL) {
        return false;
    }
    trial_count_call(trial);
    if (trial->is_agreed) {
        return goes_by_slots(trial) && trial->n_calls % (BLIND + 1) != 0;
    }
    if (trial->n_runs > 0 && trial->n_runs < NXR_TRIAL_RUNS) {
        trial_begin(trial, nxr_now_ns(), run);
        return true;
    }
    return false;
}

int nxr_trial_offer(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes,
                    unsigned wanted, struct nxr_offer *offer, unsigned *shared_p,
                    struct nxr_trial_run *run)
{
    int status;

    team->node.moving_nbytes = nbytes * (size_t)team->node.size;
    if (region_needs_no_offer(team, of, nbytes, shared_p, run) ||
        anywhere_needs_no_offer(team, of, nbytes)) {
        return NIXL_OK;
    }
    status = trial_offer(team, of, nbytes, wanted, offer, shared_p, run);
    if (status == NIXL_OK && nxr_plan_is_making(team)) {
        status = NXR_PLANNED;
    }
    if (status != NIXL_OK) {
        team->node.moving_nbytes = 0;
    }
    return status;
}

int nxr_trial_offer_small(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes,
                          unsigned wanted, struct nxr_offer *offer, unsigned *shared_p,
                          struct nxr_trial_run *run)
{
    int status;

    if (region_needs_no_offer(team, of, nbytes, shared_p, run)) {
        return NIXL_OK;
    }
    offer->is_in_region = nxr_coll_table.process_vm_from == 0 || is_in_region_by_limit(of, nbytes);
    if (nxr_plan_shares_nothing(team, offer)) {
        return NIXL_OK;
    }
    status = region_offer(team, region_trial_of(team, of, nbytes), wanted, offer, shared_p, run);
    if (status == NIXL_OK && team->plan == NULL && !run->is_in_regions) {
        trial_of(team, of, nbytes)->n_blind = BLIND;
    }
    return status == NIXL_OK && nxr_plan_is_making(team) ? NXR_PLANNED : status;
}

bool nxr_trial_needs_no_offer(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes)
{
    struct nxr_trial *trial = trial_of(team, of, nbytes);
    struct nxr_trial *regions = region_trial_of(team, of, nbytes);

    if (nxr_coll_table.process_vm_from != 0 && !is_in_region_by_limit(of, nbytes)) {
        return false;
    }
    if (team->node.is_crowded && nbytes <= judgings[of].crowd_up_to) {
        return true;
    }
    if (regions != NULL && goes_by_slots(regions)) {
        trial_count_call(regions);
        return regions->is_agreed;
    }
    if (team->plan != NULL || trial->n_blind == 0) {
        return false;
    }
    trial->n_blind--;
    return true;
}

/* ---- agreeing -------------------------------------------------------------------------------- */

/* What a run took, in ns, by the times of all members. */
static float run_time(const struct nxr_node *node, uint64_t phase, size_t at, bool is_rooted)
{
    float longest = 0, sum = 0, ns;

    for (int i = 0; i < node->size; i++) {
        memcpy(&ns, nxr_node_cell_bytes(node, i, phase, sizeof(struct nxr_trial_times)) + at,
               sizeof(ns));
        longest = ns > longest ? ns : longest;
        sum += ns;
    }
    return is_rooted ? longest : sum / (float)node->size;
}

static bool any_touches_device(const struct nxr_node *node, uint64_t phase)
{
    bool any = false;

    for (int i = 0; i < node->size; i++) {
        struct nxr_trial_times times;

        memcpy(&times, nxr_node_cell_bytes(node, i, phase, sizeof(times)), sizeof(times));
        any |= times.touches_device != 0;
    }
    return any;
}

static int shorter_first(const void *a, const void *b)
{
    float left = *(const float *)a, right = *(const float *)b;

    return left < right ? -1 : left > right;
}

/* The times of the runs by a path, in order; `at`: where they are in struct nxr_trial_times. */
static void sort_times(const struct nxr_node *node, uint64_t phase, size_t at, bool is_rooted,
                       float *ns)
{
    for (size_t run = 0; run < NXR_TRIAL_RUNS; run++) {
        ns[run] = run_time(node, phase, at + run * sizeof(*ns), is_rooted);
    }
    qsort(ns, NXR_TRIAL_RUNS, sizeof(*ns), shorter_first);
}

/* After how many calls to measure again, if the other path takes so many times as long. */
static uint16_t again_after(float longer, bool is_first)
{
    float n = AGAIN * (longer - 1);

    if (is_first && longer < DOUBTFUL) {
        return AGAIN_SOON;
    }
    return n > AGAIN_AT_MOST ? AGAIN_AT_MOST : n > AGAIN ? (uint16_t)n : AGAIN; /* or no number */
}

/*
 * The first use of a region maps it, and if the root goes round, all first runs may do so. If
 * regions took much longer at first, measure again at once.
 */
static bool is_for_first_use(const struct nxr_trial_run *run, const float *best)
{
    return run->is_in_regions && !run->trial->was_agreed && !run->trial->is_repeated &&
           best[NXR_TRIAL_IN_PLACE] > DOUBTFUL * best[NXR_TRIAL_BY_SLOTS];
}

/* The path to take from now on, by the times of both. */
static void trial_choose(const struct nxr_trial_run *run, float clearly, const float *best)
{
    struct nxr_trial *trial = run->trial;

    if (is_for_first_use(run, best)) {
        trial->is_repeated = true;
        trial->n_runs = 0;
        return;
    }
    if (trial->was_agreed && trial->path == NXR_TRIAL_IN_PLACE) {
        clearly /= CHANGES;
    } else if (trial->was_agreed && clearly > CHANGES) {
        clearly = CHANGES;
    }
    trial->path = best[NXR_TRIAL_IN_PLACE] < clearly * best[NXR_TRIAL_BY_SLOTS]
                      ? NXR_TRIAL_IN_PLACE
                      : NXR_TRIAL_BY_SLOTS;
    trial->again_after = again_after(best[1 - trial->path] / best[trial->path], !trial->was_agreed);
    trial->n_calls = 0;
    trial->is_agreed = trial->was_agreed = true;
}

/* All tell their times. */
static int trial_agree(struct nixl_team *team, const struct nxr_trial_run *run)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    struct nxr_trial *trial = run->trial;
    const struct judging *judging = &judgings[run->of];
    float call[NXR_TRIAL_PATHS], period[NXR_TRIAL_PATHS], ns[NXR_TRIAL_RUNS];
    bool is_close;
    int status;

    trial->ns.touches_device = !team->is_plain;
    status = nxr_node_put_cell(team, &trial->ns, sizeof(trial->ns));
    if (status == NIXL_OK) {
        status = nxr_node_wait_cells(team, phase);
    }
    if (status != NIXL_OK) {
        return status;
    }
    trial->is_plain = !any_touches_device(node, phase);
    for (size_t path = 0; path < NXR_TRIAL_PATHS; path++) {
        const size_t at = path * sizeof(trial->ns.call[0]);

        sort_times(node, phase, offsetof(struct nxr_trial_times, call) + at, judging->is_rooted,
                   ns);
        call[path] = ns[0];
        sort_times(node, phase, offsetof(struct nxr_trial_times, period) + at, false, ns);
        period[path] = path == NXR_TRIAL_BY_SLOTS || run->is_in_regions
                           ? ns[0]
                           : (ns[MIDDLE] + ns[MIDDLE + 1]) / 2;
    }
    is_close = trial->was_agreed && period[0] < CLOSE * call[0] && period[1] < CLOSE * call[1];
    trial_choose(run, is_close ? CLEARLY_CLOSE : judging->clearly, is_close ? period : call);
    nxr_debug(COLL, "%s of %d members here: slots %.1f us, %s %.1f us%s", team->operation,
              node->size, (is_close ? period : call)[NXR_TRIAL_BY_SLOTS] * 1e-3,
              run->is_in_regions ? "regions" : "process_vm",
              (is_close ? period : call)[NXR_TRIAL_IN_PLACE] * 1e-3,
              !trial->is_agreed ? ": again"
              : is_close        ? " from call to call"
                                : "");
    return NIXL_OK;
}

int nxr_trial_end(struct nixl_team *team, const struct nxr_trial_run *run)
{
    struct nxr_trial *trial = run->trial;

    team->node.moving_nbytes = 0;
    if (trial == NULL) {
        return NIXL_OK;
    }
    if (trial->n_runs == NXR_TRIAL_PATHS * NXR_TRIAL_RUNS) {
        return trial_agree(team, run); /* this one has ended the period of the last run */
    }
    trial->ns.call[run->path][trial->n_runs % NXR_TRIAL_RUNS] =
        (float)(nxr_now_ns() - trial->started_ns);
    trial->n_runs++;
    return NIXL_OK;
}
