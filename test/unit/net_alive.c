/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a peer on another host counts as lost: by silence, and not by the slowness of its link. The
 * time is the test's.
 */
#include "net_case.h"

#include "util/clock.h"
#include "util/env.h"

#include "test/unit/unit.h"

#include <stdlib.h>

enum { TICKS = 20, PIECE = 128 << 10 };

static void tick(void)
{
    fake.now += nxr_env.peer_timeout / TICKS;
    pthread_mutex_lock(&nxr_job.lock);
    nxr_net_tick(fake.now);
    pthread_mutex_unlock(&nxr_job.lock);
    fake_round(); /* a rank that counts as lost is dead behind it */
}

Test(alive, who_is_silent_is_asked_and_lost_in_time, .init = start, .fini = stop)
{
    fake.now = nxr_now_ns();
    np->wants_credit = true; /* something is expected of it */
    for (int i = 0; i < 3; i++) {
        tick();
    }
    cr_expect(eq(u32, fake_n_sent(NXR_NET_PING), 1));
    cr_expect(not(np->is_dead));
    for (int i = 3; i <= TICKS; i++) {
        tick();
    }
    cr_expect(np->is_dead);
}

Test(alive, who_shows_that_it_runs_has_twice_the_time, .init = start, .fini = stop)
{
    fake.now = nxr_now_ns();
    fake.ran_ago_ns = nxr_env.peer_timeout / 2 - 1;
    fake.was_connected = true;
    np->wants_credit = true;
    for (int i = 0; i < 2 * TICKS; i++) {
        tick();
    }
    cr_expect(not(np->is_dead));
    for (int i = 0; i < 4; i++) {
        tick();
    }
    cr_expect(np->is_dead);
    cr_expect(eq(int, nxr_peer_fail_lost("test", 1, ""), NIXL_E_PEER_LOST));
    cr_expect(
        eq(str, (char *)nixl_last_error()->text,
           (char *)"rank 1 (restart 1) is lost: it was silent for twice NIXLRUN_PEER_TIMEOUT"));
}

Test(alive, who_ran_and_stopped_is_lost_in_time, .init = start, .fini = stop)
{
    fake.now = nxr_now_ns();
    fake.ran_ago_ns = 1;
    np->wants_credit = true;
    for (int i = 0; i < TICKS; i++) {
        tick();
    }
    cr_expect(not(np->is_dead));
    fake.ran_ago_ns = nxr_env.peer_timeout / 2;
    tick();
    cr_expect(np->is_dead);
}

/* Lose rank 1 by silence. What the user reads of that. */
static const char *text_of_silence(bool was_connected, const char *known)
{
    fake.was_connected = was_connected;
    fake.known = known;
    fake.now = nxr_now_ns();
    np->wants_credit = true;
    for (int i = 0; i <= TICKS; i++) {
        tick();
    }
    cr_assert(np->is_dead);
    cr_expect(eq(int, nxr_peer_fail_lost("test", 1, ""), NIXL_E_PEER_LOST));
    return nixl_last_error()->text;
}

Test(alive, silence_is_told_with_what_the_network_knows, .init = start, .fini = stop)
{
    char *text = (char *)text_of_silence(true, "9 bytes are not acknowledged");

    cr_expect(eq(str, text,
                 (char *)"rank 1 (restart 1) is lost: it was silent for NIXLRUN_PEER_TIMEOUT; 9 "
                         "bytes are not "
                         "acknowledged"));
}

Test(alive, a_connection_that_never_came_about_is_no_silence, .init = start, .fini = stop)
{
    char *text = (char *)text_of_silence(false, "10.0.0.1 port 1: refused");
    char why[NXR_WHY_NBYTES];

    cr_expect(
        eq(str, text,
           (char *)"rank 1 (restart 1) is lost: no connection to it could be made by ucx within "
                   "NIXLRUN_PEER_TIMEOUT "
                   "(10.0.0.1 port 1: refused): see NO CONNECTION in nixlrun-transports(7)"));
    cr_expect(not(nxr_net_is_unconnected(np->peer, "1 s", why, sizeof(why))), "it is lost now");
}

Test(alive, a_call_in_vain_tells_that_there_was_no_connection, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    char why[NXR_WHY_NBYTES];

    cr_assert(eq(int, put(region, 0, 8), NIXL_OK)); /* the network has been asked for it */
    fake.known = "10.0.0.1 port 1: refused";
    cr_expect(nxr_net_is_unconnected(np->peer, "1 s", why, sizeof(why)));
    cr_expect(strstr(why, "by ucx within 1 s (10.0.0.1 port 1: refused)") != NULL, "'%s'", why);
    fake.was_connected = true;
    cr_expect(not(nxr_net_is_unconnected(np->peer, "1 s", why, sizeof(why))));
}

/* This process was stopped while it waited to hear of the rank. */
Test(alive, a_pause_is_no_word_of_the_rank, .init = start, .fini = stop)
{
    fake.now = nxr_now_ns();
    np->heard_at = 0;
    tick();
    fake.now += nxr_env.peer_timeout;
    tick();
    cr_expect(not(nxr_net_has_heard(np->peer)));
}

/* A module that does not know its bandwidth says 0. */
Test(alive, nothing_is_expected_of_an_unknown_bandwidth, .init = start, .fini = stop)
{
    fake.attr.bandwidth_mbps = 0;
    atomic_store(&nxr_net_expected_end, 0);
    nxr_net_peer_expect(np, FAKE_SEGMENT_NBYTES);
    cr_expect(zero(i64, atomic_load(&nxr_net_expected_end)));
    fake.attr.bandwidth_mbps = 1000;
    nxr_net_peer_expect(np, 1);
    cr_expect(zero(i64, atomic_load(&nxr_net_expected_end)), "nor of what is small");
    nxr_net_peer_expect(np, FAKE_SEGMENT_NBYTES);
    cr_expect(gt(i64, atomic_load(&nxr_net_expected_end), 0));
    atomic_store(&nxr_net_expected_end, 0);
}

Test(alive, who_sends_bulk_for_long_is_not_lost, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(FAKE_OWN_NBYTES);

    cr_assert(
        eq(ptr, fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), FAKE_OWN_NBYTES), fake_job.own));
    fake.now = nxr_now_ns();
    for (int i = 0; i < 10 * TICKS; i++) {
        if (i % (TICKS / 4) == 0) {
            fake_landing(PIECE);
        }
        tick();
        cr_assert(not(np->is_dead), "tick %d", i);
    }
    fake_forget_sent();
    for (int i = 0; i <= TICKS; i++) {
        tick();
    }
    cr_expect(np->is_dead, "when nothing comes any more");
}

Test(alive, who_gets_much_tells_its_sender_unasked, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(FAKE_OWN_NBYTES);

    fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), FAKE_OWN_NBYTES);
    fake.now = nxr_now_ns();
    tick();
    cr_expect(zero(u32, fake_n_sent(NXR_NET_PONG)), "a header is not much");
    fake_landing(PIECE);
    tick();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_PONG), 1));
    tick();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_PONG), 1), "once for what came between two ticks");
}

Test(alive, who_takes_a_long_write_is_not_lost, .init = start_rma, .fini = stop)
{
    struct nixl_region *region = fake_region(1, true);
    char *memory = calloc(1, FAKE_SEGMENT_NBYTES);
    struct nixl_req *req = NULL;

    fake.answer = NIXL_INPROGRESS;
    cr_assert(eq(int, put_nb_from(region, 0, memory, FAKE_SEGMENT_NBYTES, &req), NIXL_INPROGRESS));
    fake.now = nxr_now_ns();
    for (int i = 0; i < 10 * TICKS; i++) {
        if (i % (TICKS / 4) == TICKS / 4 - 1) {
            fake_end_op(0, NIXL_OK);
        }
        tick();
        cr_assert(not(np->is_dead), "tick %d", i);
    }
    for (int i = 0; i <= TICKS; i++) {
        tick();
    }
    cr_expect(np->is_dead, "when no piece ends any more");
    fake_end_ops(NIXL_E_CANCELED);
    nixl_req_detach(&req);
    free(memory);
}

Test(alive, pieces_over_a_slow_link_are_short, .init = start_rma, .fini = stop)
{
    struct nixl_region *region = fake_region(1, true);
    char *memory = calloc(1, FAKE_SEGMENT_NBYTES);
    struct nixl_req *req = NULL;
    uint64_t first;

    fake.answer = NIXL_INPROGRESS;
    cr_assert(eq(int, put_nb_from(region, 0, memory, FAKE_SEGMENT_NBYTES, &req), NIXL_INPROGRESS));
    first = np->rma_nbytes;
    fake.now = nxr_now_ns() + 3 * NXR_S;
    fake_round();
    fake_end_op(0, NIXL_OK);
    cr_expect(le(u64, np->rma_nbytes, first), "of what took so long no more is sent at a time");
    fake.now = 0;
    fake_round();
    while (nixl_req_test(&req) == NIXL_INPROGRESS) {
        fake_end_op(0, NIXL_OK);
        first = np->rma_nbytes > first ? np->rma_nbytes : first;
    }
    cr_expect(gt(u64, first, FAKE_SEGMENT_NBYTES / 16), "of what is fast, much");
    free(memory);
}

Test(alive, a_rank_lost_before_its_card_came_has_no_host, .init = start, .fini = stop)
{
    cr_expect(ne(ptr, (void *)nixl_host(1), NULL));
    fake_lose(2);
    cr_expect(zero(ptr, (void *)nixl_host(2)));
    cr_expect_eq(nixl_last_error()->status, NIXL_E_NOT_FOUND);
}
