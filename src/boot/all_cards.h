/* SPDX-License-Identifier: Apache-2.0 */
/* The cards of all ranks, kept by a rank that leaves PMIx when it has joined. */
#ifndef NXR_BOOT_ALL_CARDS_H
#define NXR_BOOT_ALL_CARDS_H

#include <pmix.h>
#include <stddef.h>
#include <stdint.h>

/* Read the value of `key` of each rank. PMIX_SUCCESS, or the failure and nothing is kept. */
pmix_status_t nxr_all_cards_read(const char *nspace, int size, const char *key, int64_t timeout_ns);

/* The card of a rank as it came; NULL: none is kept. */
const void *nxr_all_cards_find(int rank, size_t *nbytes_p);

void nxr_all_cards_drop(void);

#endif
