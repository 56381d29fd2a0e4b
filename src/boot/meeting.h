/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for all ranks of the job. nixlrun counts the ranks that have arrived and those that have
 * ended, so that a death does not end a meeting (util/meet.h). Other launchers use PMIx's fence.
 */
#ifndef NXR_BOOT_MEETING_H
#define NXR_BOOT_MEETING_H

#include <pmix.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Under nixlrun: give it this rank's card and wait until all living ranks have done so.
 * PMIX_SUCCESS: *answer_p holds their cards, *nbytes_p long, and the caller frees it. Otherwise
 * PMIX_ERR_TIMEOUT or another failure.
 */
pmix_status_t nxr_meeting_of_cards(const pmix_proc_t *self, const void *card, size_t card_nbytes,
                                   int64_t timeout_ns, void **answer_p, size_t *nbytes_p);

/*
 * Under other launchers: wait until all ranks have arrived and have committed what they put before.
 * A rank that has died is waited for only if the launcher does so. PMIX_SUCCESS, PMIX_ERR_TIMEOUT,
 * or another failure.
 *
 * `may_be_early`: this rank has been in the job before, and may get here while other ranks are
 * still leaving it.
 */
pmix_status_t nxr_meeting_by_fence(const char *nspace, bool may_be_early, int64_t timeout_ns);

/*
 * How many programs of this rank have met the others before this one, as each has put its number, a
 * uint32, under `key`.
 */
uint32_t nxr_meeting_count_former(const pmix_proc_t *self, const char *key, int64_t timeout_ns);

/*
 * Wait until all ranks have committed `key`; all are on this host. PMIX_SUCCESS, PMIX_ERR_TIMEOUT,
 * or another failure. A fence comes first: the server may not answer a question about a rank that
 * is still leaving.
 */
pmix_status_t nxr_meeting_by_key(const char *nspace, int size, const char *key, int64_t timeout_ns);

/*
 * Under nixlrun: say that this rank leaves, as `self`. `ended_fn` is called once, perhaps within
 * this call: PMIX_SUCCESS when all ranks that live have said so, or another status.
 */
void nxr_meeting_to_leave(const pmix_proc_t *self, pmix_op_cbfunc_t ended_fn, void *arg);

/*
 * Under other launchers: start PMIx's fence over all ranks, a barrier under every engine as long as
 * no rank has died. `ended_fn` is called once, perhaps within this call.
 */
void nxr_meeting_fence(const char *nspace, pmix_op_cbfunc_t ended_fn, void *arg);

#endif
