/* SPDX-License-Identifier: Apache-2.0 */
/* Races of three ranks: how far visibility reaches. */
#include "litmus.h"

#include <stdlib.h>
#include <string.h>

/* ---- three ranks ----------------------------------------------------------------------------- */

/* M7: rank 0 puts to 2 and tells 1, which tells 2. */
static void a_flushed_put_is_visible_behind_two_notifications(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_large(2, round);
        MPT_OK(nixl_flush(2, MPT_PATIENCE));
        lit_tell(1);
        lit_hear(2);
    } else if (lit.rank == 1) {
        lit_hear(0);
        lit_tell(2);
    } else {
        lit_hear(1);
        lit_check_large(round);
        lit_tell(0);
    }
}

/* M7: the same by signals. */
static void a_flushed_put_is_visible_behind_two_signals(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_large(2, round);
        MPT_OK(nixl_flush(2, MPT_PATIENCE));
        lit_raise(1, 0, round);
        lit_await(1, round);
    } else if (lit.rank == 1) {
        lit_await(0, round);
        lit_raise(2, 0, round);
    } else {
        lit_await(0, round);
        lit_check_large(round);
        lit_raise(0, 1, round);
    }
}

/* M7: rank 1 finds it by a get, which rank 2's memory answers. */
static void a_flushed_put_is_read_by_a_third_rank(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_word(2, 0, round);
        MPT_OK(nixl_flush(2, MPT_PATIENCE));
        lit_tell(1);
        lit_hear(1);
    } else if (lit.rank == 1) {
        lit_hear(0);
        MPT_EQ(lit_get_word(2, 0), round);
        lit_tell(0);
    }
}

/* M8: rank 1 hands on what it was sent: its put is its own. */
static void what_was_heard_can_be_handed_on(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_large(1, round);
        lit_tell(1);
        lit_hear(2);
    } else if (lit.rank == 1) {
        lit_hear(0);
        MPT_OK(nixl_put_notify(2, lit.region, LIT_LARGE_AT, lit.memory + LIT_LARGE_AT, lit.large,
                               LIT_TAG, NULL, 0, MPT_PATIENCE));
    } else {
        lit_hear(1);
        lit_check_large(round);
        lit_tell(0);
    }
}

/* M6: once a get has found a word, no later get finds an older one; rank 0 only writes. */
static void gets_of_a_word_do_not_go_back(uint64_t round)
{
    static uint64_t last;

    if (lit.rank == 0) {
        lit_put_word(2, 0, round);
    } else if (lit.rank == 1) {
        uint64_t now = lit_get_word(2, 0);

        last = round == 1 ? 0 : last;
        MPT_GE(now, last);
        last = now;
    }
}

const struct litmus lit_three[] = {
    {"a_flushed_put_is_visible_behind_two_notifications",
     a_flushed_put_is_visible_behind_two_notifications, 3, false},
    {"a_flushed_put_is_visible_behind_two_signals", a_flushed_put_is_visible_behind_two_signals, 3,
     false},
    {"a_flushed_put_is_read_by_a_third_rank", a_flushed_put_is_read_by_a_third_rank, 3, false},
    {"what_was_heard_can_be_handed_on", what_was_heard_can_be_handed_on, 3, false},
    {"gets_of_a_word_do_not_go_back", gets_of_a_word_do_not_go_back, 3, false},
    {0},
};
