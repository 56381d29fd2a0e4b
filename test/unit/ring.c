/* SPDX-License-Identifier: Apache-2.0 */
/* The notification ring step by step: room, credits, the ring's end, and false states. */
#include "util/ring.h"

#include "test/unit/unit.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct nxr_ring_slot *slots;
static struct nxr_ring_credit *credit;
static struct nxr_ring_tx tx;
static struct nxr_ring_rx rx;
static unsigned char big[NXR_RING_MAX_NBYTES], got[NXR_RING_MAX_NBYTES];

static void make_ring(void)
{
    slots = aligned_alloc(NXR_LINE_NBYTES, NXR_RING_NBYTES);
    credit = aligned_alloc(NXR_LINE_NBYTES, sizeof(*credit));
    memset(slots, 0, NXR_RING_NBYTES);
    memset(credit, 0, sizeof(*credit));
    tx = (struct nxr_ring_tx){
        .slots = slots, .n_slots = NXR_RING_SLOTS, .credit = credit, .limit = NXR_RING_SLOTS};
    rx = (struct nxr_ring_rx){.slots = slots, .n_slots = NXR_RING_SLOTS, .credit = credit};
    for (size_t i = 0; i < sizeof(big); i++) {
        big[i] = (unsigned char)(i * 7 + 1);
    }
}

static void free_ring(void)
{
    free(slots);
    free(credit);
}

/* Take the message at the head and compare it. */
static void take(uint64_t tag, size_t nbytes)
{
    struct nxr_ring_message message;

    cr_assert(nxr_ring_has(&rx));
    cr_assert(nxr_ring_peek(&rx, &message));
    cr_assert(eq(u64, message.tag, tag));
    cr_assert(eq(sz, message.nbytes, nbytes));
    memset(got, 0, sizeof(got));
    nxr_ring_pop(&rx, &message, got);
    cr_assert(eq(int, memcmp(got, big, nbytes), 0), "payload of %zu bytes", nbytes);
}

TestSuite(ring, .init = make_ring, .fini = free_ring, .timeout = 120);

Test(ring, an_empty_ring_has_nothing)
{
    struct nxr_ring_message message;

    cr_expect(not(nxr_ring_has(&rx)));
    cr_expect(not(nxr_ring_peek(&rx, &message)));
}

Test(ring, messages_of_every_size_come_back)
{
    for (size_t nbytes = 0; nbytes <= sizeof(big); nbytes++) {
        cr_assert(nxr_ring_push(&tx, &(struct nxr_message){0, nbytes * 3, big, nbytes, false}),
                  "%zu bytes", nbytes);
        take(nbytes * 3, nbytes);
        cr_assert(not(nxr_ring_has(&rx)));
    }
}

Test(ring, slots_of_a_message)
{
    cr_expect(eq(u64, nxr_ring_slots_of(0), 1));
    cr_expect(eq(u64, nxr_ring_slots_of(40), 1));
    cr_expect(eq(u64, nxr_ring_slots_of(41), 2));
    cr_expect(eq(u64, nxr_ring_slots_of(40 + 64), 2));
    cr_expect(eq(u64, nxr_ring_slots_of(40 + 65), 3));
    cr_expect(eq(u64, nxr_ring_slots_of(NXR_RING_MAX_NBYTES), 65));
}

Test(ring, credit_for_one_slot_is_used)
{
    while (nxr_ring_push(&tx, &(struct nxr_message){0, 0, big, 8, false})) {
    }
    atomic_store(&credit->taken, 1);
    cr_expect(nxr_ring_push(&tx, &(struct nxr_message){0, 0, big, 8, false}));
    cr_expect(not(nxr_ring_push(&tx, &(struct nxr_message){0, 0, big, 8, false})));
}

Test(ring, a_full_ring_takes_nothing_until_credit_comes)
{
    unsigned n = 0, n_taken = 0;

    while (nxr_ring_push(&tx, &(struct nxr_message){0, n, big, 8, false})) {
        n++;
    }
    cr_expect(eq(uint, n, NXR_RING_SLOTS));
    cr_expect(not(nxr_ring_push(&tx, &(struct nxr_message){0, 0, big, 0, false})));
    while (atomic_load(&credit->taken) == 0) {
        take(n_taken++, 8);
    }
    cr_expect(le(uint, n_taken, NXR_RING_SLOTS / 2), "credit comes before half is empty");
    for (unsigned i = 0; i < n_taken; i++) {
        cr_assert(nxr_ring_push(&tx, &(struct nxr_message){0, n + i, big, 8, false}), "%u", i);
    }
    cr_expect(not(nxr_ring_push(&tx, &(struct nxr_message){0, 0, big, 8, false})));
    for (unsigned i = n_taken; i < n + n_taken; i++) {
        take(i, 8);
    }
    cr_expect(not(nxr_ring_has(&rx)));
}

Test(ring, a_refused_push_writes_nothing)
{
    struct nxr_ring_slot *before = malloc(NXR_RING_NBYTES);
    unsigned n = 0;

    while (nxr_ring_push(&tx, &(struct nxr_message){0, n, big, 1000, false})) {
        n++;
    }
    memcpy(before, slots, NXR_RING_NBYTES);
    cr_expect(not(nxr_ring_push(&tx, &(struct nxr_message){0, 1, big, sizeof(big), false})));
    cr_expect(eq(int, memcmp(before, slots, NXR_RING_NBYTES), 0));
    for (unsigned i = 0; i < n; i++) {
        take(i, 1000);
    }
    free(before);
}

/* The state of the slot at a position, in its lap, as ring.h has it. */
static uint64_t state_at(uint64_t position, size_t nbytes)
{
    return (position + 1) << 16 | nbytes;
}

/*
 * A message whose payload slots hold, where their states lie, those of messages that will stand
 * there one lap later.
 */
static void fill_with_fakes(uint64_t position, unsigned char *payload, size_t n_slots)
{
    memset(payload, 0, NXR_RING_MAX_NBYTES);
    for (size_t i = 1; i < n_slots; i++) {
        uint64_t fake = state_at(position + i + NXR_RING_SLOTS, 8);

        memcpy(payload + NXR_RING_INLINE_NBYTES + (i - 1) * NXR_LINE_NBYTES +
                   offsetof(struct nxr_ring_slot, state),
               &fake, sizeof(fake));
    }
}

/*
 * A payload may look like any state of the ring: what it leaves behind is not taken for a message
 * when the head comes to that slot a lap later. Each slot of the longest message is once the one
 * that the head then stands on.
 */
Test(ring, payloads_that_look_like_states_deceive_nobody)
{
    const size_t n_slots = nxr_ring_slots_of(NXR_RING_MAX_NBYTES);

    for (size_t stop = 1; stop < n_slots; stop++) {
        struct nxr_ring_message message;
        uint64_t start = tx.tail;

        fill_with_fakes(start, big, n_slots);
        cr_assert(nxr_ring_push(&tx, &(struct nxr_message){0, 1, big, sizeof(big), false}));
        cr_assert(nxr_ring_peek(&rx, &message));
        nxr_ring_pop(&rx, &message, got);
        cr_assert(eq(int, memcmp(got, big, sizeof(big)), 0));
        while (tx.tail < start + stop + NXR_RING_SLOTS) { /* short messages, to that slot */
            cr_assert(nxr_ring_push(&tx, &(struct nxr_message){0, tx.tail, NULL, 0, false}));
            cr_assert(nxr_ring_peek(&rx, &message));
            cr_assert(eq(u64, message.tag, tx.tail - 1));
            nxr_ring_pop(&rx, &message, got);
        }
        cr_assert(not(nxr_ring_has(&rx)), "slot %zu of the message", stop);
        cr_assert(not(nxr_ring_peek(&rx, &message)), "slot %zu of the message", stop);
    }
}

Test(ring, a_wide_ring_takes_the_place_of_an_empty_one)
{
    struct nxr_ring_slot *wide = aligned_alloc(NXR_LINE_NBYTES, NXR_RING_WIDE_NBYTES);
    const uint64_t n_long = nxr_ring_slots_of(sizeof(big));

    memset(wide, 0, NXR_RING_WIDE_NBYTES);
    tx.slots = wide;
    tx.n_slots = tx.limit = NXR_RING_WIDE_SLOTS;
    nxr_ring_widen(&rx, wide);
    cr_assert(not(nxr_ring_has(&rx)));
    cr_assert(nxr_ring_push(&tx, &(struct nxr_message){0, 0, big, sizeof(big), false}));
    take(0, sizeof(big));
    cr_expect(eq(u64, atomic_load(&credit->taken), n_long), "who knows of few slots hears early");
    for (uint64_t lap = 1; lap <= 3; lap++) {
        uint64_t n = 0, n_taken = atomic_load(&credit->taken);

        while (nxr_ring_push(&tx, &(struct nxr_message){0, lap + n, big, sizeof(big), false})) {
            n++;
        }
        cr_expect(ge(u64, n, NXR_RING_WIDE_SLOTS * 3 / 4 / n_long), "lap %d", (int)lap);
        for (uint64_t i = 0; i < n; i++) {
            take(lap + i, sizeof(big));
            cr_assert(eq(u64, atomic_load(&credit->taken) % n_long, 0));
        }
        cr_expect(lt(u64, n_taken, atomic_load(&credit->taken)));
    }
    free(wide);
}

/* Its first slots and its last one, which a count that is off by one leaves. */
Test(ring, every_slot_of_a_message_is_cleared_when_it_is_taken)
{
    for (size_t nbytes = 0; nbytes <= sizeof(big); nbytes += 17) {
        uint64_t start = tx.tail;

        memset(big, 0xff, sizeof(big));
        cr_assert(nxr_ring_push(&tx, &(struct nxr_message){0, 5, big, nbytes, false}));
        take(5, nbytes);
        for (uint64_t i = start + 1; i < tx.tail; i++) {
            cr_assert(eq(u64, atomic_load(&slots[i % NXR_RING_SLOTS].state), 0), "%zu bytes",
                      nbytes);
        }
    }
}

Test(ring, a_length_that_cannot_be_is_not_followed)
{
    struct nxr_ring_message message;

    cr_assert(nxr_ring_push(&tx, &(struct nxr_message){0, 1, big, 8, false}));
    atomic_store(&slots[0].state, 1ull << 16 | (NXR_RING_MAX_NBYTES + 1));
    cr_expect(not(nxr_ring_peek(&rx, &message)));
    atomic_store(&slots[0].state, 1ull << 16 | 0xffff);
    cr_expect(not(nxr_ring_peek(&rx, &message)));
}
