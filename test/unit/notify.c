/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: when they are sent, held back and dropped, which waiters they wake, and what a
 * receiver still gets from a lost rank. Rank 1 is on another host. Rank 2 is on this host, and this
 * file makes its ring.
 */
#include "net_case.h"

#include "core/control.h"
#include "sync/notify.h"
#include "sync/peer.h"
#include "util/clock.h"

#include <unistd.h>

enum { MANY_NOTES = 8 };

/* ---- a rank on this host --------------------------------------------------------------------- */

/* Its ring: what a notification finds there, and the tags of those that it took. */
static struct {
    int answer;
    bool was_locked; /* when the last one came */
    unsigned n;
    uint64_t tags[8];
    bool are_late[8];
} ring;

static struct nxr_peer *peer;
static struct nxr_control *page;
static int page_fd;

static int take_note(struct nxr_peer *receiver, const struct nxr_message *message)
{
    ring.was_locked = nxr_spin_is_taken(&sync_peer_of(receiver)->send_lock);
    if (ring.answer == NIXL_OK) {
        fake_must(ring.n < sizeof(ring.tags) / sizeof(ring.tags[0]));
        ring.are_late[ring.n] = message->is_late;
        ring.tags[ring.n++] = message->tag;
    }
    return ring.answer;
}

static const struct nxr_transport transport = {.name = "shm", .notify = take_note};

static void start_here(void)
{
    static const unsigned char nonce[NXR_NONCE_NBYTES] = {1};

    fake_start();
    cr_assert_eq(
        nxr_control_create(&(struct nxr_identity){.rank = 2}, FAKE_SIZE, nonce, &page, &page_fd),
        NIXL_OK);
    peer = nxr_peer_get(2);
    peer->transport = &transport;
    peer->control = page;
    peer->full_fence = true;
    peer->pid = getpid();
    atomic_store(&peer->connection, NXR_CONNECTION_UP);
    ring.answer = NIXL_OK;
}

static void stop_here(void)
{
    peer->control = NULL;
    nxr_control_destroy(page, page_fd);
    fake_stop();
}

static void fall_asleep(void)
{
    atomic_store(&page->sleep_flags, NXR_SLEEP_FUTEX);
}

static bool is_awake(void)
{
    return atomic_load(&page->sleep_flags) == 0;
}

static int notify(int rank, uint64_t tag)
{
    return nixl_notify(rank, tag, NULL, 0, 0);
}

Test(notify, goes_at_once_and_wakes, .init = start_here, .fini = stop_here)
{
    fall_asleep();
    cr_expect_eq(notify(2, 7), NIXL_OK);
    cr_assert_eq(ring.n, 1);
    cr_expect_eq(ring.tags[0], 7);
    cr_expect(is_awake());
}

/* A put that has failed makes the sender look twice. */
Test(notify, goes_behind_a_doubt_and_wakes, .init = start_here, .fini = stop_here)
{
    atomic_store(&peer->doubts, NXR_DOUBT_PUT);
    fall_asleep();
    cr_expect_eq(notify(2, 7), NIXL_OK);
    cr_assert_eq(ring.n, 1);
    cr_expect(is_awake());
    atomic_store(&peer->doubts, 0);
}

Test(notify, held_behind_a_put_goes_when_that_is_visible, .init = start_here, .fini = stop_here)
{
    atomic_store(&peer->n_pending, 1);
    cr_expect_eq(notify(2, 7), NIXL_OK);
    nxr_notify_send_held(peer);
    cr_expect_eq(ring.n, 0, "the put is not visible yet");
    atomic_store(&peer->n_pending, 0);
    cr_expect_eq(notify(2, 8), NIXL_OK, "behind the one that is held");
    fall_asleep();
    nxr_notify_send_held(peer);
    cr_assert_eq(ring.n, 2);
    cr_expect_eq(ring.tags[0], 7);
    cr_expect_eq(ring.tags[1], 8);
    cr_expect(zero(u32, atomic_load(&peer->n_held)), "else all later ones take the slow path");
    cr_expect_eq(notify(2, 9), NIXL_OK);
    cr_expect_eq(ring.n, 3);
}

Test(notify, held_behind_a_put_that_failed_says_so, .init = start_here, .fini = stop_here)
{
    atomic_store(&peer->n_pending, 2);
    cr_expect_eq(notify(2, 7), NIXL_OK);
    atomic_store(&peer->doubts, NXR_DOUBT_PUT); /* by nxr_request_end() */
    nxr_notify_send_held(peer);
    cr_expect_eq(ring.n, 0, "another put is not visible yet");
    atomic_store(&peer->n_pending, 0);
    nxr_notify_send_held(peer);
    cr_expect_eq(notify(2, 8), NIXL_OK);
    atomic_store(&peer->doubts, 0); /* by nxr_request_finish() */
    cr_expect_eq(notify(2, 9), NIXL_OK);
    cr_assert_eq(ring.n, 3);
    cr_expect(ring.are_late[0]);
    cr_expect(ring.are_late[1], "no call has told");
    cr_expect(not(ring.are_late[2]));
}

/* The thread that ends the put may be slower than the one that hears of it. */
Test(notify, held_behind_a_put_that_failed_says_so_after_that_was_told, .init = start_here,
     .fini = stop_here)
{
    atomic_store(&peer->n_pending, 2);
    cr_expect_eq(notify(2, 7), NIXL_OK);
    atomic_store(&peer->doubts, NXR_DOUBT_PUT); /* both by nxr_request_end() */
    atomic_store(&peer->n_failed_puts, 1);
    cr_expect_eq(notify(2, 8), NIXL_OK);
    atomic_store(&peer->doubts, 0); /* by nxr_request_finish() */
    cr_expect_eq(notify(2, 9), NIXL_OK);
    cr_expect_eq(ring.n, 0, "another put is not visible yet");
    atomic_store(&peer->n_pending, 0);
    nxr_notify_send_held(peer);
    cr_assert_eq(ring.n, 3);
    cr_expect(ring.are_late[0]);
    cr_expect(ring.are_late[1], "no call had told");
    cr_expect(not(ring.are_late[2]));
}

Test(notify, held_wakes_when_it_goes, .init = start_here, .fini = stop_here)
{
    atomic_store(&peer->n_pending, 1);
    cr_expect_eq(notify(2, 7), NIXL_OK);
    fall_asleep();
    nxr_notify_send_held(peer);
    cr_expect(not(is_awake()), "nothing was sent");
    atomic_store(&peer->n_pending, 0);
    nxr_notify_send_held(peer);
    cr_expect_eq(ring.n, 1);
    cr_expect(is_awake());
}

Test(notify, held_that_finds_no_room_is_tried_again, .init = start_here, .fini = stop_here)
{
    cr_expect_eq(nxr_notify_tick(100), INT64_MAX, "nothing is held");
    atomic_store(&peer->n_pending, 1);
    cr_expect_eq(notify(2, 7), NIXL_OK);
    atomic_store(&peer->n_pending, 0);
    ring.answer = NIXL_E_AGAIN;
    nxr_notify_send_held(peer);
    cr_expect_eq(ring.n, 0);
    cr_expect(nxr_notify_tick(100) > 100 && nxr_notify_tick(100) <= 100 + 10 * NXR_MS);
    ring.answer = NIXL_OK;
    fall_asleep();
    nxr_notify_retry();
    cr_expect_eq(ring.n, 1);
    cr_expect(is_awake());
    cr_expect_eq(nxr_notify_tick(100), INT64_MAX);
}

Test(notify, held_for_a_rank_that_is_lost_is_dropped, .init = start_here, .fini = stop_here)
{
    atomic_store(&peer->n_pending, 1);
    cr_expect_eq(notify(2, 7), NIXL_OK);
    fake_lose(2);
    atomic_store(&peer->n_pending, 0);
    nxr_notify_retry();
    cr_expect_eq(ring.n, 0);
    cr_expect_eq(nxr_notify_tick(100), INT64_MAX);
    cr_expect_eq(notify(2, 8), NIXL_E_PEER_LOST);
    cr_expect_eq(nxr_notify_hand_over(peer, &(struct nxr_message){0, 9, NULL, 0, false}),
                 NIXL_E_PEER_LOST);
    cr_expect_eq(ring.n, 0);
}

/* ---- behind a prepared transfer -------------------------------------------------------------- */

Test(hand_over, goes_at_once_and_wakes, .init = start_here, .fini = stop_here)
{
    fall_asleep();
    cr_expect_eq(nxr_notify_hand_over(peer, &(struct nxr_message){0, 7, NULL, 0, false}), NIXL_OK);
    cr_expect_eq(ring.n, 1);
    cr_expect(is_awake());
}

Test(hand_over, waits_for_puts_and_for_room, .init = start_here, .fini = stop_here)
{
    atomic_store(&peer->n_pending, 1);
    cr_expect_eq(nxr_notify_hand_over(peer, &(struct nxr_message){0, 7, "one", 4, false}), NIXL_OK);
    cr_expect_eq(ring.n, 0);
    atomic_store(&peer->n_pending, 0);
    ring.answer = NIXL_E_AGAIN;
    cr_expect_eq(nxr_notify_hand_over(peer, &(struct nxr_message){0, 8, "two", 4, false}), NIXL_OK);
    cr_expect_eq(ring.n, 0);
    ring.answer = NIXL_OK;
    nxr_notify_retry();
    cr_assert_eq(ring.n, 2);
    cr_expect_eq(ring.tags[0], 7);
    cr_expect_eq(ring.tags[1], 8);
}

Test(hand_over, says_why_nothing_goes, .init = start_here, .fini = stop_here)
{
    ring.answer = NIXL_E_TRANSPORT;
    cr_expect_eq(nxr_notify_hand_over(peer, &(struct nxr_message){0, 7, NULL, 0, false}),
                 NIXL_E_TRANSPORT);
    cr_expect_eq(nxr_notify_tick(100), INT64_MAX, "nothing is held");
}

/* ---- behind a get ---------------------------------------------------------------------------- */

/*
 * Another thread sends what follows a get. Until it has done so the user's one thread takes
 * send_lock, which it does not need before and afterwards.
 */
static struct nxr_follower *follow_get(uint64_t tag)
{
    const struct nxr_message message = {.tag = tag};
    struct nxr_follower *follower;

    fake_must(!nxr_job.is_multithreaded);
    cr_expect_eq(notify(2, 1), NIXL_OK);
    cr_expect(not(ring.was_locked));
    follower = nxr_notify_reserve(peer, &message, false);
    cr_assert_neq(follower, NULL);
    cr_expect_eq(notify(2, 2), NIXL_OK, "the get is under way, which holds nothing");
    cr_expect_eq(ring.n, 2);
    cr_expect(ring.was_locked);
    return follower;
}

static void expect_no_lock(void)
{
    cr_expect_eq(notify(2, 3), NIXL_OK);
    cr_expect(not(ring.was_locked));
}

Test(behind_get, one_thread_locks_until_it_is_sent, .init = start_here, .fini = stop_here)
{
    struct nxr_follower *follower = follow_get(7);

    ring.answer = NIXL_E_AGAIN;
    follower->go(follower, NIXL_OK);
    cr_expect_eq(ring.n, 2, "there is no room");
    ring.was_locked = false;
    cr_expect_eq(notify(2, 4), NIXL_OK, "it is held behind that one");
    cr_expect(ring.was_locked);
    ring.answer = NIXL_OK;
    nxr_notify_retry();
    cr_assert_eq(ring.n, 4);
    cr_expect_eq(ring.tags[2], 7);
    cr_expect_eq(ring.tags[3], 4);
    expect_no_lock();
}

Test(behind_get, one_thread_locks_until_it_is_dropped, .init = start_here, .fini = stop_here)
{
    struct nxr_follower *follower = follow_get(7);

    follower->go(follower, NIXL_E_CANCELED);
    expect_no_lock();
    cr_expect_eq(ring.n, 3);
    cr_expect_eq(ring.tags[2], 3);
}

/* ---- to another host ------------------------------------------------------------------------- */

/* Many in a row; a round sends those that were gathered. */
static unsigned send_in_a_row(unsigned n_sent)
{
    for (unsigned i = 0; i < MANY_NOTES; i++) {
        cr_assert_eq(notify(1, ++n_sent), NIXL_OK);
    }
    fake_round();
    cr_assert_eq(fake_n_sent(NXR_NET_NOTE), n_sent);
    return n_sent;
}

/* One after a while, with no round before or behind it. */
static void send_lone(unsigned tag)
{
    int64_t end = nxr_now_ns() + NXR_MS;

    while (nxr_now_ns() < end) {
    }
    cr_assert_eq(notify(1, tag), NIXL_OK);
    cr_assert_eq(fake_n_sent(NXR_NET_NOTE), tag);
}

Test(far_note, a_lone_one_is_never_held, .init = start, .fini = stop)
{
    unsigned n_sent = 0;

    for (int i = 0; i < MANY_NOTES; i++) {
        send_lone(++n_sent);
    }
    n_sent = send_in_a_row(n_sent);
    send_lone(++n_sent);
}

Test(far_note, the_first_of_many_go_at_once, .init = start, .fini = stop)
{
    for (unsigned i = 1; i <= 2; i++) {
        cr_assert_eq(notify(1, i), NIXL_OK);
        cr_assert_eq(fake_n_sent(NXR_NET_NOTE), i);
    }
}

/* ---- of a rank that is lost ------------------------------------------------------------------ */

static int receive(int rank, uint64_t tag, uint64_t mask, uint64_t *tag_p)
{
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    status = nixl_notify_recv(rank, tag, mask, 0, &note);
    *tag_p = note.tag;
    return status;
}

static void two_notes_come(void)
{
    receive_note(1, 5);
    receive_note(1, 6);
    fake_round();
}

Test(lost_sender, what_it_had_sent_comes_first, .init = start, .fini = stop)
{
    uint64_t tag;

    two_notes_come();
    fake_lose(1);
    cr_expect_eq(receive(1, 0, 0, &tag), NIXL_OK);
    cr_expect_eq(tag, 5);
    cr_expect_eq(receive(1, 0, 0, &tag), NIXL_OK);
    cr_expect_eq(tag, 6);
    cr_expect_eq(receive(1, 0, 0, &tag), NIXL_E_PEER_LOST);
    cr_expect_eq(receive(1, 0, 0, &tag), NIXL_E_PEER_LOST, "always");
}

Test(lost_sender, also_what_no_call_has_wanted, .init = start, .fini = stop)
{
    uint64_t tag;

    two_notes_come();
    cr_expect_eq(receive(1, 7, UINT64_MAX, &tag), NIXL_INPROGRESS);
    fake_lose(1);
    cr_expect_eq(receive(1, 7, UINT64_MAX, &tag), NIXL_E_PEER_LOST);
    cr_expect_eq(receive(1, 6, UINT64_MAX, &tag), NIXL_OK);
    cr_expect_eq(receive(1, 5, UINT64_MAX, &tag), NIXL_OK);
    cr_expect_eq(receive(1, 5, UINT64_MAX, &tag), NIXL_E_PEER_LOST);
}

Test(lost_sender, any_rank_hears_of_it_once_behind_its_notes, .init = start, .fini = stop)
{
    uint64_t tag;

    two_notes_come();
    fake_lose(1);
    cr_expect_eq(receive(NIXL_ANY_RANK, 0, 0, &tag), NIXL_OK);
    cr_expect_eq(tag, 5);
    cr_expect_eq(receive(NIXL_ANY_RANK, 0, 0, &tag), NIXL_OK);
    cr_expect_eq(tag, 6);
    cr_expect_eq(receive(NIXL_ANY_RANK, 0, 0, &tag), NIXL_E_PEER_LOST);
    cr_expect_eq(receive(NIXL_ANY_RANK, 0, 0, &tag), NIXL_INPROGRESS);
}
