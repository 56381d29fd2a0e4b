/* SPDX-License-Identifier: Apache-2.0 */
/* Races of two ranks on words, and by plain loads and stores through mapped pointers. */
#include "litmus.h"

#include <stdlib.h>
#include <string.h>

/* ---- mapped pointers ------------------------------------------------------------------------- */

/* M9: plain stores through the pointer, then a notification. */
static void a_notification_shows_stores(uint64_t round)
{
    if (lit.rank == 0) {
        memset(lit.mapped + LIT_LARGE_AT, lit_byte(round), lit.large);
        lit_tell(1);
        lit_hear(1);
    } else {
        lit_hear(0);
        lit_check_large(round);
        lit_tell(0);
    }
}

/* M9: the same with a signal. */
static void a_signal_shows_stores(uint64_t round)
{
    if (lit.rank == 0) {
        memset(lit.mapped + LIT_LARGE_AT, lit_byte(round), lit.large);
        lit_raise(1, 0, round);
        lit_await(1, round);
    } else {
        lit_await(0, round);
        lit_check_large(round);
        lit_raise(0, 1, round);
    }
}

/* M9: loads through the pointer find what its owner had stored before it told. */
static void a_notification_shows_stores_to_loads(uint64_t round)
{
    if (lit.rank == 0) {
        lit_hear(1);
        MPT_CHECK_BYTES(lit.mapped + LIT_LARGE_AT, lit.large, lit_byte(round));
        lit_tell(1);
    } else {
        memset(lit.memory + LIT_LARGE_AT, lit_byte(round), lit.large);
        lit_tell(0);
        lit_hear(0);
    }
}

/* M10: a store does not wake a waiter, and the waiter sees it all the same, within a second. */
static void a_waiter_sees_a_store(uint64_t round)
{
    uint64_t *theirs = (uint64_t *)(void *)lit.mapped;

    if (lit.rank == 0) {
        __atomic_store_n(theirs, round, __ATOMIC_RELEASE);
        lit_await(1, round);
    } else {
        lit_await(0, round);
        lit_raise(0, 1, round);
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

/* M16: a word whose halves are equal is put again and again, and is never seen in parts. */
static void a_put_word_is_in_one_piece(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_word(1, 0, round << 32 | round);
        if (round % 256 == 0) {
            lit_tell(1);
            lit_hear(1);
        }
        return;
    }
    for (int i = 0; i < 4; i++) {
        uint64_t seen = lit_load(0);

        MPT_EQ(seen >> 32, seen & UINT32_MAX);
    }
    if (round % 256 == 0) {
        lit_hear(0);
        lit_tell(0);
    }
}

/* M17: each rank adds to one word, its owner by an instruction of its own too; none is lost. */
static void no_addition_is_lost(uint64_t round)
{
    uint64_t one = 1;

    if (lit.rank == 0) {
        __atomic_fetch_add(lit_word(0), 1, __ATOMIC_RELAXED);
        MPT_OK(nixl_atomic(0, lit.region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL));
        lit_hear(1);
        MPT_EQ(lit_load(0), 4 * round);
        lit_tell(1);
    } else {
        MPT_OK(nixl_atomic(0, lit.region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL));
        MPT_OK(nixl_signal_add(0, lit.region, 0, 1));
        lit_tell(0);
        lit_hear(0);
    }
}

/* M18: a counter that only grows passes many values; no wait for "at least" misses its value. */
static void a_wait_for_at_least_misses_nothing(uint64_t round)
{
    if (lit.rank == 0) {
        for (int i = 0; i < 4; i++) {
            MPT_OK(nixl_signal_add(1, lit.region, 0, 1));
        }
        lit_await(1, round);
    } else {
        lit_await(0, 4 * round - 2);
        MPT_OK(nixl_signal_wait(lit_word(0), NIXL_COMPARE_EQ, 4 * round, MPT_PATIENCE, NULL));
        lit_raise(0, 1, round);
    }
}

/* M19: unsigned, so that the values above the half of all are greater than those below. */
static void waits_compare_without_a_sign(uint64_t round)
{
    if (lit.rank == 0) {
        lit_raise(1, 0, UINT64_MAX - round);
        lit_await(1, round);
    } else {
        MPT_OK(
            nixl_signal_wait(lit_word(0), NIXL_COMPARE_EQ, UINT64_MAX - round, MPT_PATIENCE, NULL));
        MPT_OK(nixl_signal_wait(lit_word(0), NIXL_COMPARE_GE, 1, 0, NULL));
        MPT_STATUS(nixl_signal_wait(lit_word(0), NIXL_COMPARE_LT, 1, 0, NULL), NIXL_INPROGRESS);
        lit_raise(0, 1, round);
    }
}

const struct litmus lit_words[] = {
    {"a_notification_shows_stores", a_notification_shows_stores, 2, true},
    {"a_signal_shows_stores", a_signal_shows_stores, 2, true},
    {"a_notification_shows_stores_to_loads", a_notification_shows_stores_to_loads, 2, true},
    {"a_waiter_sees_a_store", a_waiter_sees_a_store, 2, true},
    {"a_put_word_is_in_one_piece", a_put_word_is_in_one_piece, 2, false},
    {"no_addition_is_lost", no_addition_is_lost, 2, false},
    {"a_wait_for_at_least_misses_nothing", a_wait_for_at_least_misses_nothing, 2, false},
    {"waits_compare_without_a_sign", waits_compare_without_a_sign, 2, false},
    {0},
};
