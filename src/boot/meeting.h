/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for all ranks of the job. Under nixlrun the launcher counts who has come and who has
 * ended, so that a death ends no meeting (util/meet.h); under other launchers it is PMIx's fence.
 */
#ifndef NXR_BOOT_MEETING_H
#define NXR_BOOT_MEETING_H

#include <pmix.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Under nixlrun: give it the own card and wait until all living ranks have. PMIX_SUCCESS: *answer_p
 * has their cards, nbytes, to be freed; PMIX_ERR_TIMEOUT, or why it failed.
 */
pmix_status_t nxr_meeting_of_cards(const pmix_proc_t *self, const void *card, size_t card_nbytes,
                                   int64_t timeout_ns, void **answer_p, size_t *nbytes_p);

/*
 * Under other launchers: all ranks are here, and have committed what they put before; a rank that
 * has died is not waited for where the launcher does not do so. PMIX_SUCCESS, PMIX_ERR_TIMEOUT, or
 * why it failed.
 *
 * `may_be_early`: this process was in the job before, and may be faster than ranks that are still
 * leaving.
 */
pmix_status_t nxr_meeting_by_fence(const char *nspace, bool may_be_early, int64_t timeout_ns);

/* Begin PMIx's fence over all ranks: a barrier under every engine while nobody has died. */
void nxr_meeting_fence(const char *nspace, pmix_op_cbfunc_t ended_fn, void *arg);

#endif
