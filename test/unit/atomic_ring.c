/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of words step by step: its order, its end, what is withdrawn, and false answers. */
#include "host/atomic_ring.h"

#include "test/unit/unit.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct nxr_atomic_slot *ring;

static void make_ring(void)
{
    ring = aligned_alloc(NXR_LINE_NBYTES, NXR_ATOMICS_NBYTES);
    memset(ring, 0, NXR_ATOMICS_NBYTES);
}

static void free_ring(void)
{
    free(ring);
}

static struct nxr_wire_atomic word_of(uint64_t number)
{
    return (struct nxr_wire_atomic){.id = (uint32_t)number,
                                    .generation = number + 1,
                                    .atomic = {.op = NIXL_ATOMIC_ADD,
                                               .type = NIXL_TYPE_UINT64,
                                               .offset = 8 * number,
                                               .operand = ~number}};
}

static void post(uint64_t at)
{
    struct nxr_wire_atomic word = word_of(at);

    cr_assert(nxr_atomic_post(nxr_atomic_slot_at(ring, at), &word));
}

/* The owner takes the question with that number. */
static void take(uint64_t at)
{
    const struct nxr_wire_atomic expected = word_of(at);
    struct nxr_wire_atomic word;

    cr_assert(eq(int, nxr_atomic_take(nxr_atomic_slot_at(ring, at), &word), NIXL_OK));
    cr_expect(eq(u32, word.id, expected.id));
    cr_expect(eq(u64, word.generation, expected.generation));
    cr_expect(eq(int, memcmp(&word.atomic, &expected.atomic, sizeof(word.atomic)), 0));
}

static void expect_answer(uint64_t at, int status, uint64_t fetched)
{
    int status_there = 99;
    uint64_t fetched_there = 99;

    cr_assert(nxr_atomic_has_answer(nxr_atomic_slot_at(ring, at)));
    cr_assert(nxr_atomic_take_answer(nxr_atomic_slot_at(ring, at), &status_there, &fetched_there));
    cr_expect(eq(int, status_there, status));
    cr_expect(eq(u64, fetched_there, fetched));
    cr_expect(
        not(nxr_atomic_take_answer(nxr_atomic_slot_at(ring, at), &status_there, &fetched_there)));
}

TestSuite(atomic_ring, .init = make_ring, .fini = free_ring, .timeout = 60);

Test(atomic_ring, questions_and_answers_go_round_it)
{
    for (uint64_t at = 0; at < 3 * NXR_ATOMIC_SLOTS; at++) {
        post(at);
        cr_expect(not(nxr_atomic_has_answer(nxr_atomic_slot_at(ring, at))));
        take(at);
        nxr_atomic_answer(nxr_atomic_slot_at(ring, at), NIXL_OK, at + 5);
        expect_answer(at, NIXL_OK, at + 5);
    }
}

Test(atomic_ring, a_slot_is_used_again_when_its_answer_was_taken)
{
    struct nxr_wire_atomic word = word_of(1);

    for (uint64_t at = 0; at < NXR_ATOMIC_SLOTS; at++) {
        post(at);
    }
    cr_expect(not(nxr_atomic_post(nxr_atomic_slot_at(ring, NXR_ATOMIC_SLOTS), &word)));
    take(0);
    cr_expect(not(nxr_atomic_post(nxr_atomic_slot_at(ring, NXR_ATOMIC_SLOTS), &word)));
    nxr_atomic_answer(nxr_atomic_slot_at(ring, 0), NIXL_OK, 0);
    cr_expect(not(nxr_atomic_post(nxr_atomic_slot_at(ring, NXR_ATOMIC_SLOTS), &word)));
    expect_answer(0, NIXL_OK, 0);
    cr_expect(nxr_atomic_post(nxr_atomic_slot_at(ring, NXR_ATOMIC_SLOTS), &word));
}

Test(atomic_ring, what_is_taken_back_is_not_done)
{
    struct nxr_wire_atomic word = {.id = 77};

    post(0);
    cr_expect(nxr_atomic_revoke(nxr_atomic_slot_at(ring, 0)));
    cr_expect(not(nxr_atomic_revoke(nxr_atomic_slot_at(ring, 0))));
    cr_expect(not(nxr_atomic_has_answer(nxr_atomic_slot_at(ring, 0))));
    cr_expect(eq(int, nxr_atomic_take(nxr_atomic_slot_at(ring, 0), &word), NIXL_E_CANCELED));
    cr_expect(eq(u32, word.id, 77));
    expect_answer(0, NIXL_E_CANCELED, 0);
}

Test(atomic_ring, what_the_owner_has_taken_is_not_taken_back)
{
    struct nxr_wire_atomic word;

    cr_expect(not(nxr_atomic_revoke(nxr_atomic_slot_at(ring, 0))));
    post(0);
    take(0);
    cr_expect(not(nxr_atomic_revoke(nxr_atomic_slot_at(ring, 0))));
    cr_expect(eq(int, nxr_atomic_take(nxr_atomic_slot_at(ring, 0), &word), NIXL_INPROGRESS));
    nxr_atomic_answer(nxr_atomic_slot_at(ring, 0), NIXL_E_STALE, 3);
    cr_expect(not(nxr_atomic_revoke(nxr_atomic_slot_at(ring, 0))));
    expect_answer(0, NIXL_E_STALE, 3);
}

Test(atomic_ring, states_that_do_not_exist_are_nothing)
{
    static const uint32_t states[] = {NXR_ATOMIC_FREE, NXR_ATOMIC_TAKEN, NXR_ATOMIC_DONE,
                                      NXR_ATOMIC_REVOKED + 1, UINT32_MAX};
    struct nxr_wire_atomic word;

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        atomic_store(&ring[0].state, states[i]);
        cr_expect(eq(int, nxr_atomic_take(&ring[0], &word), NIXL_INPROGRESS));
        cr_expect(eq(u32, atomic_load(&ring[0].state), states[i]));
    }
}

/* An owner that answers what cannot be must not make a call succeed, or wait. */
Test(atomic_ring, only_an_owners_outcomes_are_taken)
{
    static const int bad[] = {NIXL_INPROGRESS, NIXL_E_AGAIN, NIXL_E_PEER_LOST, INT_MAX, INT_MIN};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        post(i);
        take(i);
        nxr_atomic_answer(nxr_atomic_slot_at(ring, i), bad[i], 0);
        expect_answer(i, NIXL_E_TRANSPORT, 0);
    }
}
