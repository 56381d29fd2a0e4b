/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A notification ring whose sender writes what it likes into the shared memory: slots, and the
 * credits that are given back to it. The receiver takes what looks like a message and never writes
 * outside of its payload or of the ring; a sender whose peer writes the credits does not either.
 */
/* sources: src/util/ring.c */
#include "util/ring.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* What one piece of the input writes: the state of a slot, or the credits of the sender. */
struct piece {
    uint8_t is_push;
    uint8_t ahead;   /* of the slot that the receiver looks at */
    uint16_t nbytes; /* of the message */
    uint32_t lap;    /* how far the state is off its position */
    uint64_t credit;
};

/* Take what is there; every byte of the payload must be there to be written. */
static void receive(struct nxr_ring_rx *rx)
{
    struct nxr_ring_message message;

    while (nxr_ring_peek(rx, &message)) {
        unsigned char *payload = malloc(message.nbytes > 0 ? message.nbytes : 1);

        if (payload == NULL || message.nbytes > NXR_RING_MAX_NBYTES) {
            abort();
        }
        nxr_ring_pop(rx, &message, payload);
        free(payload);
    }
}

/* The sender writes a false state into one slot, and the receiver looks. */
static void forge(struct nxr_ring_rx *rx, const struct piece *piece)
{
    uint64_t position = rx->head + piece->ahead;

    atomic_store(&rx->slots[position % NXR_RING_SLOTS].state,
                 (position + 1 + piece->lap) << 16 | piece->nbytes);
    receive(rx);
}

/* The receiver writes false credits, and the sender sends. */
static void push(struct nxr_ring_tx *tx, struct nxr_ring_credit *credit, const struct piece *piece)
{
    static const unsigned char payload[NXR_RING_MAX_NBYTES];

    atomic_store(&credit->taken, piece->credit);
    nxr_ring_push(tx, &(struct nxr_message){0, piece->lap, payload,
                                            piece->nbytes % (NXR_RING_MAX_NBYTES + 1), false});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct nxr_ring_slot *slots = aligned_alloc(NXR_LINE_NBYTES, NXR_RING_NBYTES);
    struct nxr_ring_credit credit = {0};
    struct nxr_ring_tx tx = {
        .slots = slots, .n_slots = NXR_RING_SLOTS, .credit = &credit, .limit = NXR_RING_SLOTS};
    struct nxr_ring_rx rx = {.slots = slots, .n_slots = NXR_RING_SLOTS, .credit = &credit};
    struct piece piece;

    if (slots == NULL) {
        abort();
    }
    memset(slots, 0, NXR_RING_NBYTES);
    for (; nbytes >= sizeof(piece); data += sizeof(piece), nbytes -= sizeof(piece)) {
        memcpy(&piece, data, sizeof(piece));
        if (piece.is_push % 2 == 1) {
            push(&tx, &credit, &piece);
        } else {
            forge(&rx, &piece);
        }
    }
    free(slots);
    return 0;
}
