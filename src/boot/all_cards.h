/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cards of all ranks: given by nixlrun when all ranks have met, or read from PMIx by a rank
 * that leaves PMIx as soon as it has joined. A rank without a card has ended.
 */
#ifndef NXR_BOOT_ALL_CARDS_H
#define NXR_BOOT_ALL_CARDS_H

#include <pmix.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read the value of `key` of each rank. PMIX_SUCCESS; on failure nothing is kept. */
pmix_status_t nxr_all_cards_read(const char *nspace, int size, const char *key, int64_t timeout_ns);

/*
 * Keep an answer of nixlrun (util/meet.h). Takes ownership of its memory, also on failure. Ranks
 * without a card are reported by nxr_boot_events_tell(). PMIX_SUCCESS, PMIX_ERR_BAD_PARAM,
 * PMIX_ERR_NOMEM.
 */
pmix_status_t nxr_all_cards_take(void *answer, size_t nbytes, int size);

/* Are cards kept? */
bool nxr_all_cards_are_kept(void);

/* The card of a rank as received; NULL: it has none. Call only if cards are kept. */
const void *nxr_all_cards_find(int rank, size_t *nbytes_p);

void nxr_all_cards_drop(void);

#endif
