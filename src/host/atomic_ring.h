/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of words: one peer's requests to an owner to change words that only the owner can
 * access with processor atomics. It lies in the owner's control page, behind the notification ring
 * of that peer; a slot is a cache line. Both sides use the slots in order:
 *     FREE -> ASKED (asker) -> TAKEN (owner) -> DONE (owner) -> FREE (asker, with the answer)
 *             ASKED -> REVOKED (asker gives up) -> DONE (owner, which did nothing)
 * A step is a release store or an exchange that pairs with the other side's acquire load. The
 * owner does not trust the contents of a slot: it copies the question out and checks the copy.
 */
#ifndef NXR_HOST_ATOMIC_RING_H
#define NXR_HOST_ATOMIC_RING_H

#include "control/wire.h"
#include "core/control.h"

enum nxr_atomic_state {
    NXR_ATOMIC_FREE = 0,
    NXR_ATOMIC_ASKED,
    NXR_ATOMIC_TAKEN,
    NXR_ATOMIC_DONE,
    NXR_ATOMIC_REVOKED,
};

struct nxr_atomic_slot {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t state; /* enum nxr_atomic_state */
    uint32_t unused;
    union {
        struct nxr_wire_atomic asked;     /* until the owner has taken it */
        struct nxr_wire_atomic_done done; /* from DONE on */
    };
};
_Static_assert(sizeof(struct nxr_atomic_slot) == NXR_LINE_NBYTES, "a slot fills its cache line");
_Static_assert(sizeof(struct nxr_atomic_slot) * NXR_ATOMIC_SLOTS == NXR_ATOMICS_NBYTES,
               "control.h");

static inline struct nxr_atomic_slot *nxr_atomic_slot_at(struct nxr_atomic_slot *ring,
                                                         uint64_t position)
{
    return &ring[position & (NXR_ATOMIC_SLOTS - 1)];
}

/* ---- the asker; one thread at a time --------------------------------------------------------- */

/* Post a question in the next slot. False: the slot is not free. */
bool nxr_atomic_post(struct nxr_atomic_slot *slot, const struct nxr_wire_atomic *word);

/* Withdraw a question. False: the owner has taken it, or has answered. */
bool nxr_atomic_revoke(struct nxr_atomic_slot *slot);

/* Take the answer and free the slot. False: there is no answer yet. */
bool nxr_atomic_take_answer(struct nxr_atomic_slot *slot, int *status_p, uint64_t *fetched_p);

static inline bool nxr_atomic_has_answer(const struct nxr_atomic_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire) == NXR_ATOMIC_DONE;
}

/* ---- the owner; one thread at a time --------------------------------------------------------- */

/*
 * Take the question in the next slot. NIXL_OK: *word_p is the question; NIXL_E_CANCELED: it was
 * revoked; in both cases continue with the next slot. NIXL_INPROGRESS: there is no question.
 */
int nxr_atomic_take(struct nxr_atomic_slot *slot, struct nxr_wire_atomic *word_p);

/* Answer; any thread. */
void nxr_atomic_answer(struct nxr_atomic_slot *slot, int status, uint64_t fetched);

#endif
