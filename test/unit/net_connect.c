/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of two networks a peer is reached by: nothing is given to one before it has got through,
 * and the first that gets through has everything, in order.
 */
#include "net_case.h"

#include "util/clock.h"

#include <stdio.h>
#include <string.h>

enum { FIRST, SECOND };

static void start_two(void)
{
    fake_start_two();
    fake.second_attr.message_nbytes = 4608; /* the least that is allowed */
    fake.second_attr.put_message_nbytes = fake.second_attr.get_message_nbytes = 512;
    np = fake_link(1);
    fake.reach[FIRST] = fake.reach[SECOND] = NIXL_E_AGAIN;
}

static void notify(int rank, uint64_t tag)
{
    static const char text[NIXL_NOTE_MAX];

    cr_assert(eq(
        int, nxr_net_notify(nxr_job.peers[rank], &(struct nxr_message){0, tag, text, 1000, false}),
        NIXL_OK));
}

static unsigned n_sent_by(unsigned net)
{
    struct nxr_list *link, *after;
    unsigned n = 0;

    nxr_list_for_each (link, after, &fake.sent) {
        n += nxr_list_entry(link, struct fake_sent, link)->net == net;
    }
    return n;
}

/* So much time is over that one more network is tried. */
static void let_time_pass(struct net_peer *peer)
{
    peer->next_try_at = 1;
}

TestSuite(connect, .init = start_two, .fini = stop, .timeout = 60);

Test(connect, without_a_network_each_tells_why)
{
    struct nxr_peer *peer = nxr_peer_get(2);
    char why[256] = "";

    cr_assert(ne(ptr, peer, NULL));
    snprintf(nxr_net.nets[FIRST].why, sizeof(nxr_net.nets[FIRST].why), "no adapter");
    snprintf(nxr_net.nets[SECOND].why, sizeof(nxr_net.nets[SECOND].why), "no library");
    atomic_store(&nxr_net_is_open, false);
    cr_expect(eq(int, nxr_net_add_peer(peer, fake_card(2), why, sizeof(why)), NIXL_E_UNSUPPORTED));
    cr_expect(eq(str, why, (char *)"ucx: no adapter; ofi: no library"));
    nxr_net.n_nets = 0;
    cr_expect(eq(int, nxr_net_add_peer(peer, fake_card(2), why, sizeof(why)), NIXL_E_UNSUPPORTED));
    cr_expect(ne(ptr, strstr(why, "only one host"), NULL), "%s", why);
    nxr_net.n_nets = 2;
    atomic_store(&nxr_net_is_open, true);
}

Test(connect, nothing_is_sent_before_the_peer_is_reached)
{
    notify(1, 1);
    fake_round();
    cr_expect(zero(u32, fake_n_messages()));
    cr_expect(gt(u32, fake.n_reached[FIRST], 0));
    cr_expect(zero(u32, fake.n_reached[SECOND]), "only the best one at first");
    fake.reach[FIRST] = NIXL_OK;
    fake_round();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
    cr_expect(eq(u32, n_sent_by(SECOND), 0));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_TAKES)));
    notify(1, 2);
    fake_round();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 2));
}

Test(connect, the_next_network_has_everything_in_order)
{
    for (uint64_t tag = 1; tag <= 12; tag++) {
        notify(1, tag); /* more than one message of either network takes */
    }
    let_time_pass(np);
    fake_round();
    cr_expect(gt(u32, fake.n_reached[SECOND], 0));
    cr_expect(zero(u32, fake_n_messages()));
    fake.reach[SECOND] = NIXL_OK;
    fake_round();
    cr_expect(eq(u32, n_sent_by(FIRST), 0));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_HELLO), 1));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 12));
    for (unsigned i = 0; i < 12; i++) {
        const struct nxr_net_note *note = fake_nth(NXR_NET_NOTE, i);

        cr_expect(eq(u64, note->tag, i + 1));
    }
    cr_expect(eq(str, (char *)((const struct nxr_net_takes *)fake_last(NXR_NET_TAKES))->network,
                 (char *)"ofi"));
    cr_expect(eq(str, (char *)np->peer->transport->name, (char *)"ofi"));
    cr_expect(eq(sz, np->put_max, 512));
    fake.reach[FIRST] = NIXL_OK; /* too late */
    notify(1, 13);
    fake_round();
    cr_expect(eq(u32, n_sent_by(FIRST), 0));
}

Test(connect, the_best_one_is_taken_where_both_get_through)
{
    notify(1, 1);
    let_time_pass(np);
    fake_round();
    fake.reach[FIRST] = fake.reach[SECOND] = NIXL_OK;
    fake_round();
    cr_expect(eq(u32, n_sent_by(SECOND), 0));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
}

Test(connect, a_network_that_fails_costs_no_time)
{
    fake.reach[FIRST] = NIXL_E_TRANSPORT;
    fake.reach[SECOND] = NIXL_OK;
    notify(1, 1);
    fake_round();
    cr_expect(eq(u32, n_sent_by(SECOND), fake_n_messages()));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
    fake_fail(1, FIRST); /* no longer needed */
    fake_round();
    cr_expect(not(np->is_dead));
    fake_fail(1, SECOND);
    fake_round();
    cr_expect(np->is_dead);
}

Test(connect, who_is_reached_by_none_is_lost)
{
    fake.reach[FIRST] = NIXL_E_TRANSPORT;
    notify(1, 1);
    fake_round();
    cr_expect(not(np->is_dead), "the second is still tried");
    fake_fail(1, FIRST);
    fake_round();
    cr_expect(not(np->is_dead));
    fake.reach[SECOND] = NIXL_E_TRANSPORT;
    fake_round();
    cr_expect(np->is_dead);
    cr_expect(zero(u32, fake_n_messages()));
}

Test(connect, a_network_that_was_too_slow_is_not_waited_for_again)
{
    struct net_peer *other;

    notify(1, 1);
    let_time_pass(np);
    fake.reach[SECOND] = NIXL_OK;
    fake_round();
    cr_assert(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
    other = fake_link(2);
    notify(2, 1);
    fake_round();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 2));
    cr_expect(other->is_reached);
    cr_expect(eq(u32, n_sent_by(FIRST), 0));
}

Test(connect, what_the_peer_takes_is_tried_at_once)
{
    const struct nxr_net_takes nobodys = {"none"}, takes = {"ofi"};

    notify(1, 1);
    fake_receive(1, NXR_NET_TAKES, &nobodys, sizeof(nobodys), NULL, 0);
    cr_expect(zero(u32, fake.n_reached[SECOND]));
    fake.reach[SECOND] = NIXL_OK;
    fake_receive(1, NXR_NET_TAKES, &takes, sizeof(takes), NULL, 0);
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
    cr_expect(eq(u32, n_sent_by(FIRST), 0));
}

Test(connect, what_the_peer_takes_changes_nothing_for_who_has_got_through)
{
    const struct nxr_net_takes takes = {"ofi"};

    fake.reach[FIRST] = fake.reach[SECOND] = NIXL_OK;
    notify(1, 1);
    fake_receive(1, NXR_NET_TAKES, &takes, sizeof(takes), NULL, 0);
    notify(1, 2);
    fake_round();
    cr_expect(eq(u32, n_sent_by(SECOND), 0));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 2));
}

/* The peer sends by a network whose messages are shorter than those of ours, or the reverse. */
Test(connect, an_answer_may_be_shorter_than_what_was_asked_for)
{
    const struct nxr_net_get get = {.move = 1,
                                    .generation = fake_job.own_key.generation,
                                    .nbytes = FAKE_OWN_NBYTES,
                                    .id = fake_job.own_key.id};

    fake.reach[FIRST] = NIXL_OK;
    notify(1, 1);
    fake_round();
    np->piece_max = FAKE_OWN_NBYTES / 2;
    fake_receive(1, NXR_NET_GET, &get, sizeof(get), NULL, 0);
    cr_assert(eq(u32, fake_n_sent(NXR_NET_GOT), 1));
    cr_expect(eq(int, ((const struct nxr_net_got *)fake_last(NXR_NET_GOT))->status, NIXL_OK));
    cr_expect(eq(u32, ((const struct nxr_net_record *)fake_last(NXR_NET_GOT) - 1)->nbytes,
                 sizeof(struct nxr_net_got) + FAKE_OWN_NBYTES / 2));
}

/* What was asked for as bulk comes inside of messages, piece by piece. */
Test(connect, bulk_that_the_peer_cannot_send_comes_in_messages)
{
    struct nixl_region *region;
    struct nixl_req *req = NULL;
    static char got[LARGE];
    struct nxr_net_got answer = {0};
    size_t n = 0;

    fake.reach[FIRST] = NIXL_OK;
    region = fake_region(1, false);
    memset(buffer, 0, sizeof(buffer));
    for (size_t i = 0; i < LARGE; i++) {
        got[i] = (char)(i % 251);
    }
    cr_assert(eq(int, get_nb(region, LARGE, &req), NIXL_INPROGRESS));
    for (; n < LARGE; n += 2000) {
        const struct nxr_net_get *get = fake_last(NXR_NET_GET);

        cr_assert(eq(u64, get->offset, n));
        answer.move = get->move;
        fake_receive(1, NXR_NET_GOT, &answer, sizeof(answer), got + n, 2000);
    }
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_OK));
    cr_expect(zero(int, memcmp(buffer, got, LARGE)));
}

/* The key that a peer has of a region may be of a network that this rank has given up. */
Test(connect, a_close_waits_for_who_has_a_key_of_any_network)
{
    struct nxr_published *published = fake_job.published;
    union nxr_wire_message key;

    fake.attr.is_rma_better = true;
    fake.second_attr.has_rma = false;
    notify(1, 1);
    nxr_wire_init(&key, NXR_WIRE_KEY);
    key.key.key = published->key;
    pthread_mutex_lock(&nxr_job.lock);
    nxr_net_send_key(np->peer, NULL, &key, published);
    pthread_mutex_unlock(&nxr_job.lock);
    let_time_pass(np);
    fake.reach[SECOND] = NIXL_OK;
    fake_round();
    cr_assert(eq(u32, fake_n_controls_sent(NXR_WIRE_KEY), 1));
    pthread_mutex_lock(&nxr_job.lock);
    nxr_net_revoking(np->peer, published);
    pthread_mutex_unlock(&nxr_job.lock);
    cr_expect(eq(int, nxr_net_quiesce(published, 0), NIXL_INPROGRESS));
    fake_lose(1);
    cr_expect(eq(int, nxr_net_quiesce(published, 0), NIXL_OK));
    pthread_mutex_lock(&nxr_job.lock);
    nxr_net_forget(published);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* What a module has taken and not ended is ended in that round. */
Test(connect, each_network_has_a_last_round)
{
    fake.n_driven = 0;
    nxr_net_stop();
    cr_expect(eq(u32, fake.n_driven, 2));
}

/* ---- watching a network ---------------------------------------------------------------------- */

Test(watch, asks_the_module_as_each_call_does, .init = start, .fini = stop)
{
    cr_expect(eq(int, nxr_net_watch_start(), NIXL_E_LIMIT), "there is no service thread");
}
