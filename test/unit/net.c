/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between hosts, step by step, over a network that does what the test says. */
#include "net_case.h"

#include "core/progress.h"
#include "region/region.h"
#include "core/request.h"
#include "util/clock.h"
#include "util/env.h"

#include "test/unit/unit.h"
#include <string.h>

enum { MANY = 3000 };

/* ---- bulk that comes ------------------------------------------------------------------------- */

Test(bulk_in, more_puts_at_a_time_than_the_page_has_slots, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(FAKE_OWN_NBYTES);

    for (int i = 0; i < MANY; i++) {
        cr_assert(eq(ptr, fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), FAKE_OWN_NBYTES),
                     fake_job.own));
    }
    for (int i = 0; i < MANY; i++) {
        fake_land(0, NIXL_OK);
    }
    cr_expect(zero(u32, fake_n_sent(NXR_NET_REFUSED)));
    cr_expect(nxr_list_is_empty(&nxr_net.holds));
}

Test(bulk_in, more_gets_at_a_time_than_the_page_has_slots, .init = start, .fini = stop)
{
    const struct nxr_net_get get = {.generation = fake_job.own_key.generation,
                                    .nbytes = FAKE_OWN_NBYTES,
                                    .id = fake_job.own_key.id,
                                    .is_bulk = 1};

    fake.answer = NIXL_INPROGRESS;
    for (int i = 0; i < MANY; i++) {
        fake_receive(1, NXR_NET_GET, &get, sizeof(get), NULL, 0);
    }
    cr_expect(eq(u32, fake_n_sent(NXR_NET_BULK_GOT), MANY));
    fake_end_ops(NIXL_OK);
    cr_expect(nxr_list_is_empty(&nxr_net.holds));
}

Test(bulk_in, holds_the_region_until_all_has_landed, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(8);

    fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8);
    fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8);
    pthread_mutex_lock(&nxr_job.lock);
    nxr_publish_revoke(fake_job.published);
    pthread_mutex_unlock(&nxr_job.lock);
    cr_expect(zero(ptr, fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8)), "it is closed");
    cr_expect(eq(int, nxr_inflight_quiesce_own(fake_job.own_key.id, 0), NIXL_INPROGRESS));
    fake_land(0, NIXL_OK);
    cr_expect(eq(int, nxr_inflight_quiesce_own(fake_job.own_key.id, 0), NIXL_INPROGRESS));
    fake_land(0, NIXL_OK);
    cr_expect(eq(int, nxr_inflight_quiesce_own(fake_job.own_key.id, 0), NIXL_OK));
}

Test(bulk_in, wakes_who_sleeps_when_it_has_landed, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(8);

    fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8);
    atomic_store(&nxr_job.control->sleep_flags, NXR_SLEEP_FUTEX);
    fake_round();
    cr_expect(eq(u32, atomic_load(&nxr_job.control->sleep_flags), NXR_SLEEP_FUTEX));
    fake_land(0, NIXL_OK);
    cr_expect(zero(u32, atomic_load(&nxr_job.control->sleep_flags)));
}

Test(bulk_in, outside_of_the_region_is_refused, .init = start, .fini = stop)
{
    struct nxr_net_put put = own_put(16);

    put.offset = FAKE_OWN_NBYTES - 8;
    cr_expect(zero(ptr, fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 16)));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_REFUSED), 1));
    put.offset = 0;
    cr_expect(zero(ptr, fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 17)), "other length");
    cr_expect(eq(u32, fake_n_sent(NXR_NET_REFUSED), 2));
    cr_expect(nxr_list_is_empty(&nxr_net.holds));
}

Test(bulk_in, what_was_sent_behind_it_waits, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(8);
    const struct nxr_net_stamp flush = {7};

    receive_note(1, 1);
    fake_round();
    fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8);
    receive_note(1, 2);
    fake_round();
    fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8);
    fake_coming(1, NXR_NET_FLUSH, &flush, sizeof(flush), NULL, 0);
    receive_note(1, 3);
    fake_round();
    cr_expect(eq(u64, next_tag(), 1));
    cr_expect(zero(u64, next_tag()));
    fake_land(1, NIXL_OK); /* the second lands first */
    cr_expect(zero(u64, next_tag()));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_FLUSHED)));
    fake_land(0, NIXL_OK);
    cr_expect(eq(u32, fake_n_sent(NXR_NET_FLUSHED), 1));
    cr_expect(eq(u64, next_tag(), 2));
    cr_expect(eq(u64, next_tag(), 3));
    cr_expect(zero(u64, next_tag()));
}

Test(bulk_in, flush_of_its_own_header_waits_until_it_has_landed, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(8);

    cr_assert(eq(ptr, fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8), fake_job.own));
    cr_assert(eq(ptr, fake_bulk_and_flush(1, &put, 7, 8), fake_job.own));
    fake_land(1, NIXL_OK); /* the first is still under way */
    cr_expect(zero(u32, fake_n_sent(NXR_NET_FLUSHED)));
    fake_land(0, NIXL_OK);
    cr_assert(eq(u32, fake_n_sent(NXR_NET_FLUSHED), 1));
    cr_expect(eq(u64, ((const struct nxr_net_stamp *)fake_last(NXR_NET_FLUSHED))->value, 7));
}

Test(bulk_in, flush_of_a_refused_one_is_answered, .init = start, .fini = stop)
{
    struct nxr_net_put put = own_put(8);

    put.offset = FAKE_OWN_NBYTES;
    cr_expect(zero(ptr, fake_bulk_and_flush(1, &put, 7, 8)));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_REFUSED), 1));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_FLUSHED), 1));
}

Test(in, messages_may_lie_anywhere, .init = start, .fini = stop)
{
    struct nxr_net_put put = own_put(0);

    for (fake.offset = 0; fake.offset < 8; fake.offset++) {
        put.offset = fake.offset;
        fake_receive(1, NXR_NET_PUT, &put, sizeof(put), "x", 1);
        receive_note(1, 1 + fake.offset);
        fake_round();
        cr_expect(eq(u64, next_tag(), 1 + fake.offset));
    }
    cr_expect(zero(int, memcmp(fake_job.own, "xxxxxxxx", 9)));
    cr_expect(zero(u64, nxr_net.n_dropped));
}

/* ---- gets ------------------------------------------------------------------------------------ */

Test(get, second_answer_while_the_first_lands_is_dropped, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nxr_net_got got = {.nbytes = LARGE};
    struct nixl_req *req = NULL;

    cr_assert(eq(int, get_nb(region, LARGE, &req), NIXL_INPROGRESS));
    got.move = ((const struct nxr_net_get *)fake_last(NXR_NET_GET))->move;
    cr_expect(eq(ptr, fake_bulk(1, NXR_NET_BULK_GOT, &got, sizeof(got), LARGE), buffer));
    cr_expect(zero(ptr, fake_bulk(1, NXR_NET_BULK_GOT, &got, sizeof(got), LARGE)));
    fake_land(0, NIXL_OK);
    cr_expect(eq(int, nixl_req_test(&req), NIXL_OK));
}

/* ---- what is put off until job.lock can be taken --------------------------------------------- */

Test(later, messages_behind_a_greeting_are_delivered_at_once, .init = start, .fini = stop)
{
    const struct nxr_net_note note = {.tag = 5};

    fake_greet(2);
    fake_coming(2, NXR_NET_NOTE, &note, sizeof(note), NULL, 0);
    fake_round();
    cr_expect(eq(u64, fake_next_tag(2), 5));
}

Test(later, greeting_of_one_does_not_hold_back_another, .init = start, .fini = stop)
{
    fake_greet(2);
    receive_note(1, 1);
    net_lock(); /* as between a module's progress and what follows it */
    nxr_net.nets[0].module->progress();
    net_unlock();
    cr_expect(eq(u64, next_tag(), 1));
}

Test(later, nothing_of_a_rank_overtakes_what_waits, .init = start, .fini = stop)
{
    const struct nxr_net_note first = {.tag = 1}, second = {.tag = 2};

    fake_greet(2);
    fake_coming(2, NXR_NET_NOTE, &first, sizeof(first), NULL, 0);
    net_lock();
    nxr_net.nets[0].module->progress();
    cr_expect(nxr_net_is_behind(2));
    cr_expect(not(nxr_net_is_behind(1)));
    net_unlock();
    fake_coming(2, NXR_NET_NOTE, &second, sizeof(second), NULL, 0);
    fake_round();
    cr_expect(eq(u64, fake_next_tag(2), 1));
    cr_expect(eq(u64, fake_next_tag(2), 2));
}

/* Others know this rank once its card is with the launcher; the answer with theirs may be late. */
Test(later, all_waits_until_this_rank_has_joined, .init = start, .fini = stop)
{
    const struct nxr_net_note note = {.tag = 5};

    atomic_store(&nxr_job.state, NXR_STATE_NONE);
    fake_greet(2);
    fake_coming(2, NXR_NET_NOTE, &note, sizeof(note), NULL, 0);
    fake_round();
    cr_expect(zero(ptr, nxr_peer_find(2)));
    atomic_store(&nxr_job.state, NXR_STATE_READY);
    fake_round();
    cr_expect(eq(u64, fake_next_tag(2), 5));
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void close_theirs(void)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_CLOSED);
    message.header.from.rank = 1;
    message.closed.generation = 1;
    fake_control_coming(1, &message);
}

Test(key, owner_is_answered_when_all_handles_have_let_go, .init = start_rma, .fini = stop)
{
    struct nixl_region *regions[] = {fake_region(1, true), fake_region(1, true)};
    struct nixl_req *reqs[2] = {NULL};

    fake.answer = NIXL_INPROGRESS;
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(int, put_nb(regions[i], LARGE, &reqs[i]), NIXL_INPROGRESS));
    }
    fake.answer = NIXL_OK;
    close_theirs();
    fake_round();
    cr_expect(zero(u32, fake_n_sent(NXR_NET_CLOSED_ACK)));
    fake_end_op(0, NIXL_OK);
    cr_expect(zero(u32, fake_n_sent(NXR_NET_CLOSED_ACK)), "the other handle's put is under way");
    fake_end_op(0, NIXL_OK);
    cr_expect(eq(u32, fake_n_sent(NXR_NET_CLOSED_ACK), 1));
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(int, nixl_req_test(&reqs[i]), NIXL_OK));
    }
    cr_expect(eq(int, put_nb(regions[0], LARGE, &reqs[0]), NIXL_E_STALE));
}

/* For its own operations, once; a region with a name is registered when a peer asks for it. */
Test(key, memory_of_this_rank_alone_is_registered_at_once, .init = start_rma, .fini = stop)
{
    struct nixl_region *region, *named;

    cr_assert(eq(int, nixl_region_register("named", buffer, LARGE, NULL, &named), NIXL_OK));
    cr_expect(zero(u32, fake.n_shown));
    cr_assert(eq(int, nixl_region_register(NULL, buffer, LARGE, NULL, &region), NIXL_OK));
    cr_expect(eq(u32, fake.n_shown, 1));
    cr_expect(eq(u32, fake.shown_access, NXR_ACCESS_ALL));
    cr_expect(eq(int, nixl_region_close(region, NIXL_FOREVER), NIXL_OK));
    fake.mem_answer = NIXL_E_NO_MEMORY;
    cr_assert(eq(int, nixl_region_register(NULL, buffer, LARGE, NULL, &region), NIXL_OK));
    cr_expect(eq(u32, fake.n_shown, 2));
    cr_expect(eq(int, nixl_region_close(region, NIXL_FOREVER), NIXL_OK));
    cr_expect(eq(int, nixl_region_close(named, NIXL_FOREVER), NIXL_OK));
}

Test(key, region_that_is_closed_as_its_key_comes_is_closed, .init = start_rma, .fini = stop)
{
    struct nixl_region *region;
    struct nixl_req *req = NULL;

    cr_assert(eq(int, nixl_region_open("theirs", &region), NIXL_OK));
    cr_assert(eq(int, put_nb(region, LARGE, &req), NIXL_INPROGRESS));
    fake_key_coming(1, true);
    close_theirs();
    fake_round();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_CLOSED_ACK), 1));
    nxr_request_start_begun();
    cr_expect(zero(int, fake.n_moved), "nothing reads or writes behind the answer");
    cr_expect(eq(int, nixl_req_test(&req), NIXL_E_STALE));
}

/* ---- notifications, fence and silence -------------------------------------------------------- */

Test(note, who_waits_for_room_asks_whether_the_peer_lives, .init = start, .fini = stop)
{
    char payload[NIXL_NOTE_MAX] = {0};
    int64_t now = nxr_now_ns();
    int status = NIXL_OK;

    while (status == NIXL_OK) {
        status =
            nxr_net_notify(np->peer, &(struct nxr_message){0, 1, payload, sizeof(payload), false});
    }
    cr_expect(eq(int, status, NIXL_E_AGAIN));
    cr_expect(lt(u64, np->tx_tail, np->tx_limit), "there is room, but not enough");
    pthread_mutex_lock(&nxr_job.lock);
    nxr_net_tick(now + nxr_env.peer_timeout);
    pthread_mutex_unlock(&nxr_job.lock);
    cr_expect(eq(u32, fake_n_sent(NXR_NET_PING), 1));
}

static void tick(int64_t now)
{
    pthread_mutex_lock(&nxr_job.lock);
    nxr_net_tick(now);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* Ticks, each in its time, until the peer counts as lost. */
static int ticks_to_loss(int64_t *now)
{
    int n = 0;

    for (; !atomic_load(&nxr_net.has_later) && n < 100; n++) {
        tick(*now += nxr_env.peer_timeout / 20);
    }
    return n;
}

Test(note, who_was_stopped_forgives_what_it_did_not_hear, .init = start, .fini = stop)
{
    int64_t now = nxr_now_ns(), interval = nxr_env.peer_timeout / 20;
    int before = 0;

    np->wants_credit = true; /* something is expected */
    tick(now += 3 * interval);
    cr_assert(np->pinged_at == now);
    for (; before < 3; before++) {
        tick(now += interval);
    }
    tick(now += nxr_env.peer_timeout); /* much of it in the time of a stop */
    cr_expect(not(atomic_load(&nxr_net.has_later)), "it is not lost by that");
    cr_expect(eq(u32, fake_n_sent(NXR_NET_PING), 1), "nor asked again");
    cr_expect(eq(int, ticks_to_loss(&now), 15 - before - 1), "what was heard before counts");
}

Test(note, who_was_stopped_reads_before_it_judges, .init = start, .fini = stop)
{
    int64_t now = nxr_now_ns(), interval = nxr_env.peer_timeout / 20;

    np->wants_credit = true;
    tick(now += 3 * interval);
    for (int i = 0; i < 13; i++) {
        tick(now += interval);
    }
    tick(now += nxr_env.peer_timeout);
    cr_expect(eq(int, ticks_to_loss(&now), 5));
}

Test(note, credit_makes_room, .init = start, .fini = stop)
{
    const struct nxr_net_stamp credit = {NXR_RING_SLOTS + 1};

    for (int i = 0; i < NXR_RING_SLOTS; i++) {
        cr_assert(eq(int, nxr_net_notify(np->peer, &(struct nxr_message){0, 1, NULL, 0, false}),
                     NIXL_OK));
    }
    cr_expect(eq(int, nxr_net_notify(np->peer, &(struct nxr_message){0, 1, NULL, 0, false}),
                 NIXL_E_AGAIN));
    fake_receive(1, NXR_NET_CREDIT, &credit, sizeof(credit), NULL, 0);
    cr_expect(
        eq(int, nxr_net_notify(np->peer, &(struct nxr_message){0, 1, NULL, 0, false}), NIXL_OK));
    cr_expect(not(np->wants_credit));
    cr_expect(eq(int, nxr_net_notify(np->peer, &(struct nxr_message){0, 1, NULL, 0, false}),
                 NIXL_E_AGAIN));
}

/* The own program has taken that many slots of what the peer has sent. Returns the credits sent. */
static uint32_t take_slots_of(uint64_t n_slots)
{
    atomic_store(&np->peer->in.credit->taken, n_slots);
    nxr_net_send_credit(np->peer);
    return fake_n_sent(NXR_NET_CREDIT);
}

Test(note, credit_goes_with_answers_while_half_of_the_ring_is_left, .init = start, .fini = stop)
{
    const struct nxr_message answer = {0, 1, NULL, 0, false};
    uint64_t half = NXR_RING_WIDE_SLOTS / 2, n_slots = NXR_RING_SLOTS / 4;

    cr_expect(eq(u32, take_slots_of(n_slots), 1), "it does not know yet how wide the ring is");
    for (uint32_t i = 1; i <= 8; i++) {
        cr_expect(eq(u32, take_slots_of(n_slots += half - 1), i), "it waits");
        cr_expect(eq(int, nxr_net_notify(np->peer, &answer), NIXL_OK));
        cr_expect(eq(u32, fake_n_sent(NXR_NET_CREDIT), i + 1), "with the answer");
        nxr_net.n_user_rounds++; /* it waits for the next one: no burst */
    }
    cr_expect(eq(u32, take_slots_of(n_slots += half - 1), 9));
    cr_expect(eq(u32, take_slots_of(n_slots + 1), 11), "what waits, and this, at once");
    fake_round();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_CREDIT), 11));
    np->ring.tail = n_slots + 1 + 2 * half - 32; /* more has come that is not taken yet */
    cr_expect(eq(u32, take_slots_of(n_slots + 65), 12), "the peer has no room for long ones");
}

/* The peer sends notifications of that many bytes while it knows of room. Returns their number. */
static int fill_ring(size_t nbytes)
{
    static const char payload[NXR_RING_MAX_NBYTES];
    const struct nxr_net_note note = {.tag = 5};
    uint64_t n_slots = nxr_ring_slots_of(nbytes);
    int n = 0;

    for (; np->ring.tail + n_slots <= np->rx_sent; n++) {
        fake_receive(1, NXR_NET_NOTE, &note, sizeof(note), payload, nbytes);
    }
    return n;
}

Test(note, many_long_ones_are_under_way_after_the_first_credit, .init = start, .fini = stop)
{
    cr_assert(eq(int, fill_ring(NXR_RING_MAX_NBYTES), NXR_RING_SLOTS / 65));
    cr_assert(eq(u64, fake_next_tag(1), 5));
    nxr_net_send_credit(np->peer);
    cr_assert(eq(u32, fake_n_sent(NXR_NET_CREDIT), 1), "a sender that is full waits for it");
    fill_ring(NXR_RING_MAX_NBYTES);
    for (int i = 0; i < NXR_RING_WIDE_SLOTS / 65; i++) {
        cr_assert(eq(u64, fake_next_tag(1), 5), "%d", i);
    }
    cr_expect(not(np->is_dead));
}

Test(note, who_sends_beyond_a_wide_ring_is_not_obeyed, .init = start, .fini = stop)
{
    const struct nxr_net_note note = {.tag = 5};
    int n = 0;

    for (int i = 0; i < NXR_RING_WIDE_SLOTS + 1; i++) {
        fake_receive(1, NXR_NET_NOTE, &note, sizeof(note), NULL, 0);
    }
    while (fake_next_tag(1) != 0) {
        n++;
    }
    cr_expect(eq(int, n, NXR_RING_WIDE_SLOTS));
}

Test(note, a_credit_that_cannot_be_is_not_taken, .init = start, .fini = stop)
{
    const uint64_t wrong[] = {0, NXR_RING_SLOTS - 1, NXR_RING_WIDE_SLOTS + 1, UINT64_MAX};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fake_receive(1, NXR_NET_CREDIT, &(struct nxr_net_stamp){wrong[i]}, sizeof(uint64_t), NULL,
                     0);
        cr_expect(eq(u64, np->tx_limit, NXR_RING_SLOTS), "%zu", i);
    }
}

Test(order, fence_costs_nothing_where_messages_move_everything, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);

    cr_assert(eq(int, put(region, 0, 8), NIXL_OK));
    cr_expect(eq(int, nxr_net_fence(np->peer), NIXL_OK));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_FLUSH)));
}

Test(order, fence_behind_bulk_waits_until_it_is_visible, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nxr_net_stamp flushed;
    struct nixl_req *req = NULL;

    cr_assert(eq(int, put_nb(region, LARGE, &req), NIXL_INPROGRESS));
    cr_expect(eq(int, nixl_req_test(&req), NIXL_OK));
    cr_expect(eq(int, nxr_net_fence(np->peer), NIXL_INPROGRESS));
    cr_assert(eq(u32, fake_n_sent(NXR_NET_FLUSH), 1));
    flushed = *(const struct nxr_net_stamp *)fake_last(NXR_NET_FLUSH);
    fake_receive(1, NXR_NET_FLUSHED, &flushed, sizeof(flushed), NULL, 0);
    cr_expect(eq(int, nxr_net_fence(np->peer), NIXL_OK));
}

static void flush_after_each_put_of(size_t nbytes)
{
    struct nixl_region *region = fake_region(1, false);
    struct nxr_net_stamp flushed;

    for (unsigned i = 1; i <= 3; i++) {
        unsigned n_asked = i > 1 ? i : 0; /* from the second put on */

        cr_assert(eq(int, put(region, 0, nbytes), NIXL_OK));
        cr_expect(eq(u32, fake_n_sent(NXR_NET_FLUSH), n_asked));
        cr_expect(eq(int, nxr_net_flush(np->peer), NIXL_INPROGRESS));
        cr_expect(eq(u32, fake_n_sent(NXR_NET_FLUSH), i));
        flushed = *(const struct nxr_net_stamp *)fake_last(NXR_NET_FLUSH);
        fake_receive(1, NXR_NET_FLUSHED, &flushed, sizeof(flushed), NULL, 0);
        cr_expect(eq(int, nxr_net_flush(np->peer), NIXL_OK));
    }
}

Test(order, flush_is_asked_with_the_put_by_who_always_flushes, .init = start, .fini = stop)
{
    flush_after_each_put_of(8);
}

Test(order, flush_is_asked_with_bulk_by_who_always_flushes, .init = start, .fini = stop)
{
    flush_after_each_put_of(LARGE);
}

Test(order, fence_behind_bulk_waits_for_the_flush_that_went_with_it, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nxr_net_stamp flushed;

    cr_assert(eq(int, nxr_net_flush(np->peer), NIXL_OK));
    cr_assert(eq(int, put(region, 0, LARGE), NIXL_OK));
    cr_expect(eq(int, nxr_net_fence(np->peer), NIXL_INPROGRESS));
    cr_assert(eq(u32, fake_n_sent(NXR_NET_FLUSH), 1), "no second one");
    flushed = *(const struct nxr_net_stamp *)fake_last(NXR_NET_FLUSH);
    fake_receive(1, NXR_NET_FLUSHED, &flushed, sizeof(flushed), NULL, 0);
    cr_expect(eq(int, nxr_net_fence(np->peer), NIXL_OK));
}

/* ---- going out ------------------------------------------------------------------------------- */

Test(out, memory_of_a_burst_is_given_back, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nxr_list *link, *after;
    unsigned n_free = 0;

    fake.answer = NIXL_INPROGRESS;
    for (int i = 0; i < MANY; i++) {
        struct nixl_req *req = NULL;

        cr_assert(eq(int, put_nb(region, LARGE, &req), NIXL_INPROGRESS));
        nixl_req_detach(&req);
    }
    cr_expect(eq(u32, fake_n_ops(), MANY));
    fake_end_ops(NIXL_OK);
    cr_expect(zero(u32, atomic_load(&nxr_n_started)));
    cr_expect(zero(u32, atomic_load(&nxr_n_at_networks)));
    nxr_list_for_each (link, after, &nxr_net.nets[0].free_outs) {
        n_free++;
    }
    cr_expect(le(u32, n_free, 100));
}

Test(out, order_is_kept_where_there_is_no_room, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);

    fake.answer = NIXL_E_AGAIN;
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert(eq(int, put(region, i, FAKE_SMALL), NIXL_OK));
    }
    fake_forget_sent();
    fake_round();
    cr_expect(zero(u32, fake_n_messages()));
    fake.answer = NIXL_OK;
    fake.n_room = 2;
    net_lock();
    cr_expect(nxr_net_pump(np), "some of it was sent");
    cr_expect(eq(u32, fake_n_messages(), 2));
    cr_expect(not(nxr_net_pump(np)), "there is no room");
    net_unlock();
    fake.answer = NIXL_OK;
    fake_round();
    cr_assert(eq(u32, fake_n_sent(NXR_NET_PUT), 100));
    for (unsigned i = 0; i < 100; i++) {
        const struct nxr_net_put *put = fake_nth(NXR_NET_PUT, i);

        cr_expect(eq(u64, put->offset, i));
    }
    cr_expect(nxr_list_is_empty(&nxr_net.busy));
}

Test(out, burst_is_gathered_and_a_lone_put_is_not, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);

    fake_forget_sent();
    np->pushed_at = 0;
    cr_assert(eq(int, put(region, 0, 8), NIXL_OK));
    cr_expect(eq(u32, fake_n_messages(), 1));
    for (int i = 0; i < 100; i++) {
        np->pushed_at = INT64_MAX / 2; /* they follow each other at once */
        cr_assert(eq(int, put(region, 0, 8), NIXL_OK));
    }
    cr_expect(lt(u32, fake_n_messages(), 10));
    fake_round();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_PUT), 101), "a round sends what is gathered");
    cr_expect(lt(u32, fake_n_messages(), 10));
}
