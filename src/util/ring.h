/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notification ring: one sender, one receiver, fixed slots of a cache line each.
 *
 * A message takes one slot for its context, its tag and the first 40 bytes, and whole slots for the
 * rest. The slot at position p is full when its state is (p + 1) << 16 | nbytes. The sender fills
 * the rest of the message first and stores the state last, with release; the receiver's acquire
 * load of the state pairs with it, so that one cache line carries a short message. Positions never
 * repeat, so a state of an earlier lap is never mistaken for a new one. NXR_RING_LATE may be added
 * to nbytes. Payload slots may hold any bytes: the receiver clears their first word before it
 * returns them.
 *
 * The receiver returns slots (credits) a quarter of the ring at a time, by a release store of
 * `taken`. It pairs with the sender's acquire load, so that the sender overwrites only what has
 * been read.
 *
 * A ring in a control page has NXR_RING_SLOTS. A sender on another host waits a round trip for
 * credit; its messages go through a wide ring, which is private to the receiver: its core pushes
 * them.
 */
#ifndef NXR_UTIL_RING_H
#define NXR_UTIL_RING_H

#include "util/barrier.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_LINE_NBYTES     64
#define NXR_RING_SLOTS      256 /* per sender; a power of two, as is: */
#define NXR_RING_WIDE_SLOTS 1024

/* One slot of the ring. */
struct nxr_ring_slot {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint64_t state;
    uint64_t context;
    uint64_t tag;
    unsigned char payload[40];
};

/*
 * Credits: how many slots of a ring its receiver has taken. And what the sender says of itself: has
 * it used the ring of words? Has it mapped the receiver's page, to connect? Has it, in a process
 * that is attached, ended the attachment?
 */
struct nxr_ring_credit {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint64_t taken;
    _Atomic uint64_t announced_by; /* its process and descriptor (host/announce.h); 0: not yet */
    atomic_bool has_asked;
    atomic_bool has_detached; /* no operation of the sender begins any more */
    atomic_bool is_out;       /* no thread of the sender uses the receiver's memory any more */
};

_Static_assert(sizeof(struct nxr_ring_slot) == NXR_LINE_NBYTES, "a slot fills its cache line");

#define NXR_RING_NBYTES      (NXR_RING_SLOTS * sizeof(struct nxr_ring_slot))
#define NXR_RING_WIDE_NBYTES (NXR_RING_WIDE_SLOTS * sizeof(struct nxr_ring_slot))

#define NXR_RING_INLINE_NBYTES sizeof(((struct nxr_ring_slot *)0)->payload)
#define NXR_RING_MAX_NBYTES    4096

/* In the lower half of a state: data that the message comes after did not arrive. */
#define NXR_RING_LATE 0x8000u

struct nxr_ring_tx {
    struct nxr_ring_slot *slots;
    size_t n_slots; /* a power of two */
    const struct nxr_ring_credit *credit;
    uint64_t tail;  /* position of the next message */
    uint64_t limit; /* tail may not pass this before more credit is seen */
};

struct nxr_ring_rx {
    struct nxr_ring_slot *_Atomic slots;
    _Atomic size_t n_slots; /* a power of two; read before `slots` */
    struct nxr_ring_credit *credit;
    _Atomic uint64_t head; /* position of the next message; written under the inbox lock */
    uint64_t returned;     /* value of credit->taken */
};

/* A notification to be sent: for which context of its receiver, the user's tag and the payload. */
struct nxr_message {
    uint64_t context; /* the identity of a context; 0: the default one */
    uint64_t tag;
    const void *bytes;
    size_t nbytes;
    bool is_late; /* data that was sent before it did not arrive */
};

/* The message at the head of a ring. */
struct nxr_ring_message {
    uint64_t context;
    uint64_t tag;
    uint32_t nbytes;
    bool is_late; /* data that was sent before it did not arrive */
};

static inline uint64_t nxr_ring_slots_of(size_t nbytes)
{
    return nbytes <= NXR_RING_INLINE_NBYTES
               ? 1
               : 1 + (nbytes - NXR_RING_INLINE_NBYTES + NXR_LINE_NBYTES - 1) / NXR_LINE_NBYTES;
}

/* The slot at a position. Any thread: before nxr_ring_widen(), or after it. */
static inline struct nxr_ring_slot *nxr_ring_slot_at(const struct nxr_ring_rx *rx,
                                                     uint64_t position)
{
    size_t n_slots = atomic_load_explicit(&rx->n_slots, memory_order_acquire);

    return &atomic_load_explicit(&rx->slots, memory_order_relaxed)[position & (n_slots - 1)];
}

/*
 * Go over to a wide ring, which is empty, from one of NXR_RING_SLOTS through which nothing has
 * come. The sender knows of as many slots until the first credit, so that is returned early. Other
 * threads may look for messages.
 */
void nxr_ring_widen(struct nxr_ring_rx *rx, struct nxr_ring_slot *slots);

/* Append a message of at most NXR_RING_MAX_NBYTES; false: no room. One caller at a time. */
bool nxr_ring_push(struct nxr_ring_tx *tx, const struct nxr_message *message);

/*
 * Is a message at the head? Any thread, without a lock: another thread may be taking that message
 * at this moment, and the sender may be filling the slot with payload. So the answer is only a
 * hint; nxr_ring_peek() decides.
 */
NXR_NO_TSAN static inline bool nxr_ring_has(const struct nxr_ring_rx *rx)
{
    uint64_t head = atomic_load_explicit(&rx->head, memory_order_acquire);
    const struct nxr_ring_slot *slot = nxr_ring_slot_at(rx, head);

    return atomic_load_explicit(&slot->state, memory_order_acquire) >> 16 ==
           ((head + 1) & 0xffffffffffffull);
}

/*
 * Look at the message at the head without removing it. False if there is none, or if the sender
 * wrote an impossible length. One caller at a time.
 */
bool nxr_ring_peek(const struct nxr_ring_rx *rx, struct nxr_ring_message *message_p);

/*
 * Copy out the payload of the message at the head (as nxr_ring_peek() returned it) and remove it.
 * True if credits were returned, so that the sender may have to be woken. One caller at a time.
 */
bool nxr_ring_pop(struct nxr_ring_rx *rx, const struct nxr_ring_message *message, void *payload);

#endif
