/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a notification ring; ring.h describes the protocol and its memory order. */
#include "config.h"

#include "util/ring.h"
#include "util/debug.h"

#include <string.h>

static uint64_t full_state(uint64_t position, size_t nbytes, bool is_late)
{
    return (position + 1) << 16 | nbytes | (is_late ? NXR_RING_LATE : 0);
}

/* How many slots a receiver takes before it returns them. */
static uint64_t credit_batch(size_t n_slots)
{
    return n_slots / 4;
}

/*
 * Copy the part of a message after its first slot, which is that of a number, between `bytes` and
 * the ring.
 */
static void copy_rest(struct nxr_ring_slot *slots, size_t n_slots, size_t number, void *bytes,
                      size_t nbytes, bool is_push)
{
    size_t first = number + 1;
    size_t until_end = (n_slots - first) * NXR_LINE_NBYTES;
    size_t before = nbytes < until_end ? nbytes : until_end;
    char *ahead = (char *)slots + first * NXR_LINE_NBYTES;

    if (is_push) {
        memcpy(ahead, bytes, before);
        memcpy(slots, (char *)bytes + before, nbytes - before);
    } else {
        memcpy(bytes, ahead, before);
        memcpy((char *)bytes + before, slots, nbytes - before);
    }
}

static bool ring_has_room(struct nxr_ring_tx *tx, uint64_t n_slots)
{
    if (__builtin_expect(tx->tail + n_slots <= tx->limit, 1)) {
        return true;
    }
    tx->limit = atomic_load_explicit(&tx->credit->taken, memory_order_acquire) + tx->n_slots;
    return tx->tail + n_slots <= tx->limit;
}

bool nxr_ring_push(struct nxr_ring_tx *tx, const struct nxr_message *message)
{
    const void *msg = message->bytes;
    size_t nbytes = message->nbytes;
    uint64_t n_slots = nxr_ring_slots_of(nbytes);
    size_t number = tx->tail & (tx->n_slots - 1);
    struct nxr_ring_slot *slot = &tx->slots[number];

    if (!ring_has_room(tx, n_slots)) {
        return false;
    }
    slot->context = message->context;
    slot->tag = message->tag;
    if (nbytes == sizeof(uint64_t)) {
        memcpy(slot->payload, msg, sizeof(uint64_t));
    } else if (nbytes <= NXR_RING_INLINE_NBYTES) {
        if (nbytes > 0) {
            memcpy(slot->payload, msg, nbytes);
        }
    } else {
        memcpy(slot->payload, msg, NXR_RING_INLINE_NBYTES);
        copy_rest(tx->slots, tx->n_slots, number, (char *)msg + NXR_RING_INLINE_NBYTES,
                  nbytes - NXR_RING_INLINE_NBYTES, true);
    }
    atomic_store_explicit(&slot->state, full_state(tx->tail, nbytes, message->is_late),
                          memory_order_release);
    tx->tail += n_slots;
    return true;
}

bool nxr_ring_peek(const struct nxr_ring_rx *rx, struct nxr_ring_message *message_p)
{
    uint64_t head = atomic_load_explicit(&rx->head, memory_order_relaxed);
    const struct nxr_ring_slot *slot = nxr_ring_slot_at(rx, head);
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    uint32_t nbytes = state & 0xffff & ~NXR_RING_LATE;

    if (state >> 16 != ((head + 1) & 0xffffffffffffull) || nbytes > NXR_RING_MAX_NBYTES) {
        return false;
    }
    message_p->context = slot->context;
    message_p->tag = slot->tag;
    message_p->nbytes = nbytes;
    message_p->is_late = (state & NXR_RING_LATE) != 0;
    return true;
}

void nxr_ring_widen(struct nxr_ring_rx *rx, struct nxr_ring_slot *slots)
{
    NXR_ASSERT(rx->slots != slots && rx->head == 0); /* a peer is connected once */
    rx->returned = credit_batch(NXR_RING_SLOTS) - credit_batch(NXR_RING_WIDE_SLOTS); /* below 0 */
    atomic_store_explicit(&rx->slots, slots, memory_order_release);
    atomic_store_explicit(&rx->n_slots, NXR_RING_WIDE_SLOTS, memory_order_release);
}

bool nxr_ring_pop(struct nxr_ring_rx *rx, const struct nxr_ring_message *message, void *payload)
{
    uint64_t head = atomic_load_explicit(&rx->head, memory_order_relaxed);
    uint64_t n_taken = nxr_ring_slots_of(message->nbytes);
    size_t n_slots = atomic_load_explicit(&rx->n_slots, memory_order_relaxed);
    struct nxr_ring_slot *slot = nxr_ring_slot_at(rx, head);

    if (message->nbytes == sizeof(uint64_t)) {
        memcpy(payload, slot->payload, sizeof(uint64_t));
    } else if (message->nbytes <= NXR_RING_INLINE_NBYTES) {
        memcpy(payload, slot->payload, message->nbytes);
    } else {
        memcpy(payload, slot->payload, NXR_RING_INLINE_NBYTES);
        copy_rest(rx->slots, n_slots, head & (n_slots - 1),
                  (char *)payload + NXR_RING_INLINE_NBYTES,
                  message->nbytes - NXR_RING_INLINE_NBYTES, false);
        for (uint64_t i = 1; i < n_taken; i++) {
            atomic_store_explicit(&nxr_ring_slot_at(rx, head + i)->state, 0, memory_order_relaxed);
        }
    }
    head += n_taken;
    atomic_store_explicit(&rx->head, head, memory_order_relaxed);
    if (head - rx->returned < credit_batch(n_slots)) {
        return false;
    }
    rx->returned = head;
    atomic_store_explicit(&rx->credit->taken, head, memory_order_release);
    return true;
}
