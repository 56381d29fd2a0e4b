/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of both sides of a ring of words; atomic_ring.h describes the protocol. No lock. */
#include "config.h"

#include "host/atomic_ring.h"

bool nxr_atomic_post(struct nxr_atomic_slot *slot, const struct nxr_wire_atomic *word)
{
    if (atomic_load_explicit(&slot->state, memory_order_relaxed) != NXR_ATOMIC_FREE) {
        return false;
    }
    slot->asked = *word;
    atomic_store_explicit(&slot->state, NXR_ATOMIC_ASKED, memory_order_release);
    return true;
}

bool nxr_atomic_revoke(struct nxr_atomic_slot *slot)
{
    uint32_t state = NXR_ATOMIC_ASKED;

    return atomic_compare_exchange_strong_explicit(&slot->state, &state, NXR_ATOMIC_REVOKED,
                                                   memory_order_relaxed, memory_order_relaxed);
}

bool nxr_atomic_take_answer(struct nxr_atomic_slot *slot, int *status_p, uint64_t *fetched_p)
{
    if (!nxr_atomic_has_answer(slot)) {
        return false;
    }
    *status_p = nxr_wire_atomic_outcome(&slot->done);
    *fetched_p = slot->done.fetched;
    atomic_store_explicit(&slot->state, NXR_ATOMIC_FREE, memory_order_relaxed);
    return true;
}

int nxr_atomic_take(struct nxr_atomic_slot *slot, struct nxr_wire_atomic *word_p)
{
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);

    if (state == NXR_ATOMIC_ASKED &&
        atomic_compare_exchange_strong_explicit(&slot->state, &state, NXR_ATOMIC_TAKEN,
                                                memory_order_acquire, memory_order_acquire)) {
        *word_p = slot->asked;
        return NIXL_OK;
    }
    if (state != NXR_ATOMIC_REVOKED) {
        return NIXL_INPROGRESS;
    }
    nxr_atomic_answer(slot, NIXL_E_CANCELED, 0);
    return NIXL_E_CANCELED;
}

void nxr_atomic_answer(struct nxr_atomic_slot *slot, int status, uint64_t fetched)
{
    slot->done = (struct nxr_wire_atomic_done){.fetched = fetched, .status = status};
    atomic_store_explicit(&slot->state, NXR_ATOMIC_DONE, memory_order_release);
}
