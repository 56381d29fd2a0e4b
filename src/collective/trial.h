/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large data gets to the other members of the host: through slots or cells, where it is copied
 * twice, or in place, once. In regions, a copy in place takes an offer, and cache lines that
 * another core has to give up. Elsewhere it takes process_vm calls, with a cost per page. Which is
 * faster depends on the machine, the operation, its size, and how many members share the caches,
 * so a team measures it: its first calls of an operation and of a size class go by one path, the
 * next ones by the other, and then the members agree on the path whose best time is shorter. Later
 * they measure again. From eight times direct_from on, regions are used in place without a trial.
 * Open MPI's ADCL and MVAPICH2 tune at run time likewise.
 *
 * All members choose alike: what counts are calls that all of them made, and times that all of
 * them told. The limit process_vm_from (coll_table.h) replaces the measurements.
 */
#ifndef NXR_COLLECTIVE_TRIAL_H
#define NXR_COLLECTIVE_TRIAL_H

#include "collective/buffer.h"
#include "collective/trial_table.h"

#include <stdint.h>

/* The call under way, as far as it is measured. */
struct nxr_trial_run {
    struct nxr_trial *trial; /* NULL: it is not */
    enum nxr_trial_operation of;
    enum nxr_trial_path path;
    bool is_in_regions; /* all that is wanted; not known if no offer was made */
};

/*
 * nxr_buffers_offer() for an operation on `nbytes` bytes, a number that all members know. `wanted`:
 * the buffers without which the operation goes through slots. offer->is_in_region is set here. The
 * caller does what *shared_p allows, and ends with nxr_trial_end(), unless it has failed. Of a call
 * that makes a plan: NXR_PLANNED.
 */
int nxr_trial_offer(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes,
                    unsigned wanted, struct nxr_offer *offer, unsigned *shared_p,
                    struct nxr_trial_run *run);

/*
 * The same for data that fits into cells, which take less time than process_vm calls: only regions
 * count. If the offer gives less than is wanted, the next 31 calls of the operation and the size
 * class need none.
 */
int nxr_trial_offer_small(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes,
                          unsigned wanted, struct nxr_offer *offer, unsigned *shared_p,
                          struct nxr_trial_run *run);

/*
 * Does a call with such data go through cells without an offer? In a crowd it does, since to make
 * one takes longer than the second copy; and if cells were found to be faster than regions. All
 * members get the same answer, once per call.
 */
bool nxr_trial_needs_no_offer(struct nixl_team *team, enum nxr_trial_operation of, size_t nbytes);

/*
 * Note the time of this member; in the call after the last run, agree. NIXL_OK, or the failure of
 * the team.
 */
int nxr_trial_end(struct nixl_team *team, const struct nxr_trial_run *run);

#endif
