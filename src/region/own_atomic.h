/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing words in regions of this rank for peers, whatever carries the question. A change enters
 * the region like a peer's copy, so that a close waits for it.
 */
#ifndef NXR_REGION_OWN_ATOMIC_H
#define NXR_REGION_OWN_ATOMIC_H

#include "control/wire.h"
#include "region/publish.h"

/*
 * The word of a question that nxr_wire_check_atomic() has passed, in a region that was entered:
 * memory_p->addr is its address. NIXL_OK, NIXL_E_RANGE; NIXL_E_INVALID_ARG: not aligned, a word of
 * storage, or a SYNC of what is none.
 */
int nxr_own_atomic_find(const struct nxr_wire_atomic *asked, struct nxr_own_memory *memory_p);

/*
 * The former value of a word in a region that was entered, as peers are told it: 0 if they may not
 * read the region. Signals and puts of words come here as other changes do, and need no answer.
 */
uint64_t nxr_own_atomic_shown(uint32_t id, uint64_t fetched);

/*
 * Change the word for a peer, if the region allows it. *slot_p is the caller's in-flight slot in
 * the own page, which is claimed at the first call; the caller's lock guards it. NIXL_OK;
 * NIXL_INPROGRESS: the word is in device memory, which takes time, and nothing was done; or the
 * failure to answer.
 */
int nxr_own_atomic_change(struct nxr_inflight_slot **slot_p, const struct nxr_wire_atomic *asked,
                          uint64_t *fetched_p);

#endif
