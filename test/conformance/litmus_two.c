/* SPDX-License-Identifier: Apache-2.0 */
/* Message passing and store buffering: races of two ranks. */
#include "litmus.h"

#include <stdlib.h>
#include <string.h>

/* ---- message passing ------------------------------------------------------------------------- */

/* M1, M2: the source is overwritten as soon as the put returns. */
static void a_notification_shows_the_put(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_large(1, round);
        lit_fill_source(round + 1);
        lit_tell(1);
        lit_hear(1);
    } else {
        lit_hear(0);
        lit_check_large(round);
        lit_tell(0);
    }
}

/* M3: a wait by the library, and a load by the program, in turns. */
static void a_signal_shows_the_put(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_large(1, round);
        lit_raise(1, 0, round);
        lit_await(1, round);
    } else {
        if (round % 2 == 0) {
            lit_await(0, round);
        } else {
            lit_spin(0, round);
        }
        lit_check_large(round);
        lit_raise(0, 1, round);
    }
}

/* M4: after the flush the target finds the data by a load that nothing else orders. */
static void a_flush_shows_the_put(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_large(1, round);
        MPT_OK(nixl_flush(1, MPT_PATIENCE));
        lit_put_word(1, 0, round);
        lit_spin(1, round);
    } else {
        lit_spin(0, round);
        lit_check_large(round);
        lit_put_word(0, 1, round);
    }
}

/* M5: a put that is still under way when the notification is sent. */
static void an_unfinished_put_is_an_earlier_one(uint64_t round)
{
    struct nixl_req *req = NULL;
    int status;

    if (lit.rank == 0) {
        lit_fill_source(round);
        status = nixl_put_x(1, lit.region, LIT_LARGE_AT, lit.source, lit.large, NULL, &req);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        lit_tell(1);
        if (status == NIXL_INPROGRESS) {
            MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        }
        lit_hear(1);
    } else {
        lit_hear(0);
        lit_check_large(round);
        lit_tell(0);
    }
}

/* M12 */
static void a_fence_orders_puts(uint64_t round)
{
    if (lit.rank == 0) {
        lit_put_large(1, round);
        MPT_OK(nixl_fence(1));
        lit_put_word(1, 0, round);
        MPT_OK(nixl_fence(1));
        MPT_EQ(lit_get_word(1, 0), round);
        lit_spin(1, round);
    } else {
        lit_spin(0, round);
        lit_check_large(round);
        lit_put_word(0, 1, round);
    }
}

/* M13: a word that counts rounds, changed behind a put. */
static void an_atomic_takes_effect_after_puts(uint64_t round)
{
    uint64_t one = 1, before = 0;

    if (lit.rank == 0) {
        lit_put_large(1, round);
        MPT_OK(nixl_atomic(1, lit.region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before));
        MPT_EQ(before, round - 1);
        lit_await(1, round);
    } else {
        lit_await(0, round);
        lit_check_large(round);
        MPT_OK(nixl_signal_add(0, lit.region, LIT_LINE, 1));
    }
}

/* M11: numbers in the order in which they were sent, each once. */
static void notifications_arrive_once_in_order(uint64_t round)
{
    static struct nixl_note note;
    uint64_t number;

    for (uint64_t i = 0; i < 4; i++) {
        number = 4 * round + i;
        if (lit.rank == 0) {
            MPT_OK(nixl_notify(1, LIT_TAG, &number, sizeof(number), MPT_PATIENCE));
            continue;
        }
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(0, LIT_TAG, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_EQ(note.nbytes, sizeof(number));
        MPT_EQ(memcmp(note.payload, &number, sizeof(number)), 0);
    }
    if (lit.rank == 0) {
        lit_hear(1);
    } else {
        lit_tell(0);
    }
}

/* M14: the owner overwrites the bytes when it hears that they were read. */
static void a_get_notify_has_read_its_bytes(uint64_t round)
{
    if (lit.rank == 0) {
        lit_hear(1);
        MPT_OK(nixl_get_notify(1, lit.region, LIT_LARGE_AT, lit.source, lit.large, LIT_TAG, NULL, 0,
                               MPT_PATIENCE));
        MPT_CHECK_BYTES(lit.source, lit.large, lit_byte(round));
    } else {
        memset(lit.memory + LIT_LARGE_AT, lit_byte(round), lit.large);
        lit_tell(0);
        lit_hear(0);
    }
}

/* ---- store buffering ------------------------------------------------------------------------- */

/*
 * Both write, then read what the other wrote: that neither finds the other's write is forbidden.
 * Each then sends what it read, so that both can judge.
 */
static void judge(uint64_t round, uint64_t read)
{
    static struct nixl_note note;
    uint64_t theirs;

    nixl_note_init(&note);
    MPT_OK(nixl_notify(1 - lit.rank, LIT_TAG, &read, sizeof(read), MPT_PATIENCE));
    MPT_OK(nixl_notify_recv(1 - lit.rank, LIT_TAG, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&theirs, note.payload, sizeof(theirs));
    MPT_TRUE(read == round || theirs == round);
}

/* M4: writes into each other's memory, reads of the own one. */
static void two_flushed_puts_do_not_both_miss(uint64_t round)
{
    lit_put_word(1 - lit.rank, 0, round);
    MPT_OK(nixl_flush(1 - lit.rank, MPT_PATIENCE));
    judge(round, lit_load(0));
}

/* M4, M6: both words lie in the memory of rank 0, and are read by gets. */
static void two_flushed_puts_and_gets_do_not_both_miss(uint64_t round)
{
    lit_put_word(0, (unsigned)lit.rank, round);
    MPT_OK(nixl_flush(0, MPT_PATIENCE));
    judge(round, lit_get_word(0, (unsigned)(1 - lit.rank)));
}

/* M15: by atomics, one word in the memory of each. */
static void two_atomics_do_not_both_miss(uint64_t round)
{
    uint64_t read;

    MPT_OK(nixl_atomic(1 - lit.rank, lit.region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_SWAP, &round,
                       &read));
    MPT_OK(nixl_atomic(lit.rank, lit.region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, &read));
    judge(round, read);
}

const struct litmus lit_two[] = {
    {"a_notification_shows_the_put", a_notification_shows_the_put, 2, false},
    {"a_signal_shows_the_put", a_signal_shows_the_put, 2, false},
    {"a_flush_shows_the_put", a_flush_shows_the_put, 2, false},
    {"an_unfinished_put_is_an_earlier_one", an_unfinished_put_is_an_earlier_one, 2, false},
    {"a_fence_orders_puts", a_fence_orders_puts, 2, false},
    {"an_atomic_takes_effect_after_puts", an_atomic_takes_effect_after_puts, 2, false},
    {"notifications_arrive_once_in_order", notifications_arrive_once_in_order, 2, false},
    {"a_get_notify_has_read_its_bytes", a_get_notify_has_read_its_bytes, 2, false},
    {"two_flushed_puts_do_not_both_miss", two_flushed_puts_do_not_both_miss, 2, false},
    {"two_flushed_puts_and_gets_do_not_both_miss", two_flushed_puts_and_gets_do_not_both_miss, 2,
     false},
    {"two_atomics_do_not_both_miss", two_atomics_do_not_both_miss, 2, false},
    {0},
};
