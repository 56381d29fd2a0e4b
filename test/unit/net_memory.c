/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between hosts without memory: calls of this process fail and may be made again, and a peer that
 * waits for something which cannot be made is given up, so that it does not wait forever. Linked
 * with --wrap=malloc.
 */
#include "net_case.h"

#include "core/returned.h"
#include "sync/notify.h"

#include <stdlib.h>

void *__real_malloc(size_t nbytes);
void *__wrap_malloc(size_t nbytes);

#define NO_LIMIT 1000000u

/* Which requests fail, by their size, and how many of them after so many that do not. */
static struct {
    size_t nbytes;
    unsigned after, n;
} failing[3];

void *__wrap_malloc(size_t nbytes)
{
    for (size_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++) {
        if (failing[i].nbytes != nbytes || failing[i].n == 0) {
            continue;
        }
        if (failing[i].after == 0) {
            failing[i].n--;
            return NULL;
        }
        failing[i].after--;
    }
    return __real_malloc(nbytes);
}

static void have_memory(void)
{
    for (size_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++) {
        failing[i].n = failing[i].after = 0;
    }
}

/* There is none for so many messages, also not of those that are kept. */
static void lack_messages(unsigned n)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&np->messages->free_outs)) != NULL) {
        free(nxr_list_entry(link, struct net_out, link));
        np->messages->n_free_outs--;
    }
    failing[0].nbytes = sizeof(struct net_out) + np->messages->attr->message_nbytes;
    failing[0].n = n;
}

/* ... nor to put off that a peer is lost. */
static void lack_everything(void)
{
    lack_messages(NO_LIMIT);
    failing[1].nbytes = sizeof(struct net_later) + sizeof(struct nxr_peer *);
    failing[1].n = 1;
}

static void finish(void)
{
    have_memory();
    stop();
}

static void finish_former(void)
{
    finish();
    nxr_returned_reset();
}

/* ---- own calls ------------------------------------------------------------------------------- */

/* A flush is asked for, once, and answered. */
static void expect_flush(int (*call)(struct nxr_peer *peer))
{
    struct nxr_net_stamp flushed;

    fake_forget_sent();
    cr_expect(eq(int, call(np->peer), NIXL_INPROGRESS));
    cr_assert(eq(u32, fake_n_sent(NXR_NET_FLUSH), 1));
    flushed = *(const struct nxr_net_stamp *)fake_last(NXR_NET_FLUSH);
    fake_receive(1, NXR_NET_FLUSHED, &flushed, sizeof(flushed), NULL, 0);
    cr_expect(eq(int, call(np->peer), NIXL_OK));
}

static void bulk_that_found_none(int (*call)(struct nxr_peer *peer))
{
    struct nixl_region *region = fake_region(1, false);

    cr_assert(eq(int, nxr_net_flush(np->peer), NIXL_OK)); /* from now on bulk brings its flush */
    lack_messages(NO_LIMIT);
    cr_expect(eq(int, nixl_put(1, region, 0, buffer, LARGE), NIXL_E_NO_MEMORY));
    cr_expect(eq(int, call(np->peer), NIXL_INPROGRESS), "nor is there for the question");
    have_memory();
    cr_expect(zero(u32, fake_n_sent(NXR_NET_BULK_PUT)));
    expect_flush(call);
    cr_expect(eq(int, nixl_put(1, region, 0, buffer, LARGE), NIXL_OK));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_BULK_PUT), 1));
}

Test(memory, flush_behind_bulk_that_found_none, .init = start, .fini = finish)
{
    bulk_that_found_none(nxr_net_flush);
}

Test(memory, fence_behind_bulk_that_found_none, .init = start, .fini = finish)
{
    bulk_that_found_none(nxr_net_fence);
}

Test(memory, flush_that_finds_none_is_asked_again, .init = start, .fini = finish)
{
    struct nixl_region *region = fake_region(1, false);

    cr_assert(eq(int, nixl_put(1, region, 0, buffer, 8), NIXL_OK));
    lack_messages(NO_LIMIT);
    cr_expect(eq(int, nxr_net_flush(np->peer), NIXL_INPROGRESS));
    have_memory();
    expect_flush(nxr_net_flush);
}

Test(memory, bulk_never_goes_before_the_greeting, .init = start, .fini = finish)
{
    struct nixl_region *region = fake_region(1, false);

    np->is_greeted = false;
    fake_forget_sent();
    lack_messages(1);
    cr_expect(eq(int, nixl_put(1, region, 0, buffer, LARGE), NIXL_E_NO_MEMORY));
    cr_expect(zero(u32, fake_n_messages()));
    cr_expect(eq(int, nixl_put(1, region, 0, buffer, LARGE), NIXL_OK));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_HELLO), 1));
}

static int put_notify(struct nixl_region *region, size_t nbytes)
{
    return nixl_put_notify(1, region, 0, buffer, nbytes, 7, "", 1, 0);
}

/* Its data has moved, by the network's own write. */
Test(memory, put_whose_notification_finds_none_may_be_made_again, .init = start_rma, .fini = finish)
{
    struct nixl_region *region = fake_region(1, true);

    lack_messages(NO_LIMIT);
    cr_expect(eq(int, put_notify(region, LARGE), NIXL_E_NO_MEMORY));
    have_memory();
    cr_expect(eq(int, fake.n_moved, 1));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)));
    cr_expect(eq(int, put_notify(region, LARGE), NIXL_OK));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
}

Test(memory, put_notify_in_one_message_that_found_none, .init = start, .fini = finish)
{
    struct nixl_region *region = fake_region(1, false);

    lack_messages(NO_LIMIT);
    cr_expect(eq(int, put_notify(region, 8), NIXL_E_NO_MEMORY));
    have_memory();
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)));
    cr_expect(eq(int, put_notify(region, 8), NIXL_OK));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
}

/* The network keeps the order of writes and messages, so that notifications need not wait. */
Test(memory, no_notification_goes_ahead_of_a_piece_that_found_none, .init = start_rma,
     .fini = finish)
{
    static char bytes[512 << 10]; /* two pieces */
    struct nixl_region *region = fake_region(1, true);
    struct nixl_req *req = NULL;

    fake.attr.orders_writes = true;
    fake.answer = NIXL_INPROGRESS;
    failing[0].nbytes = sizeof(struct net_op) + 4 * sizeof(uint64_t); /* net/rma.c's net_piece */
    failing[0].after = failing[0].n = 1;
    cr_assert(eq(int, nixl_put_x(1, region, 0, bytes, sizeof(bytes), NULL, &req), NIXL_INPROGRESS));
    cr_assert(zero(u32, failing[0].n));
    cr_assert(eq(int, fake.n_moved, 1));
    cr_expect(eq(int, nixl_notify(1, 7, NULL, 0, 0), NIXL_OK));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)), "the put has not ended");
    fake.answer = NIXL_OK;
    fake_end_ops(NIXL_OK);
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_E_NO_MEMORY));
}

/* ---- what a peer waits for ------------------------------------------------------------------- */

static void expect_lost(void)
{
    fake_round();
    cr_expect(eq(int, (int)nixl_peer_state(1), (int)NIXL_PEER_LOST));
    cr_expect_str_eq(nxr_peer_get(1)->why_not, "this rank had no memory to serve it");
}

static void ask_for_flush(void)
{
    const struct nxr_net_stamp flush = {7};

    fake_receive(1, NXR_NET_FLUSH, &flush, sizeof(flush), NULL, 0);
}

Test(memory, who_waits_for_a_flush_is_given_up, .init = start, .fini = finish)
{
    lack_messages(NO_LIMIT);
    ask_for_flush();
    expect_lost();
}

Test(memory, who_waits_for_a_get_is_given_up, .init = start, .fini = finish)
{
    const struct nxr_net_get get = {.move = 3,
                                    .generation = fake_job.own_key.generation,
                                    .nbytes = 8,
                                    .id = fake_job.own_key.id};

    lack_messages(NO_LIMIT);
    fake_receive(1, NXR_NET_GET, &get, sizeof(get), NULL, 0);
    expect_lost();
}

Test(memory, giving_up_takes_none, .init = start, .fini = finish)
{
    lack_everything();
    ask_for_flush();
    expect_lost();
    cr_expect(zero(u32, nxr_net.n_to_lose));
}

/* The process is given up without memory, and another one has come before that is done. */
Test(memory, giving_up_says_nothing_of_the_next_process, .init = start, .fini = finish_former)
{
    struct nxr_full_card card = *fake_card(1);

    lack_everything();
    net_lock();
    nxr_net_later(NET_LATER_LOST, 1, NULL, 0);
    net_unlock();
    have_memory();
    cr_assert(eq(u32, nxr_net.n_to_lose, 1));
    card.head.identity.incarnation++;
    pthread_mutex_lock(&nxr_job.lock);
    nxr_returned_hear(&card);
    pthread_mutex_unlock(&nxr_job.lock);
    cr_assert(eq(int, nixl_peer_readmit(1, card.head.identity.incarnation), NIXL_OK));
    fake_round();
    cr_expect(zero(u32, nxr_net.n_to_lose));
    cr_expect(eq(int, nixl_peer_state(1), NIXL_PEER_ALIVE));
}

Test(memory, bulk_that_cannot_land_gives_its_sender_up, .init = start, .fini = finish)
{
    const struct nxr_net_put put = own_put(8);

    failing[0].nbytes = sizeof(struct net_landing);
    failing[0].n = 1;
    cr_expect(zero(ptr, fake_bulk_and_flush(1, &put, 7, 8)));
    expect_lost();
    cr_expect(zero(u32, nxr_net.n_landings));
    cr_expect(nxr_list_is_empty(&nxr_net.holds));
}

Test(memory, flush_of_bulk_that_cannot_wait_gives_its_sender_up, .init = start, .fini = finish)
{
    const struct nxr_net_put put = own_put(8);

    failing[0].nbytes =
        sizeof(struct net_pending) + sizeof(struct nxr_net_record) + sizeof(struct nxr_net_stamp);
    failing[0].after = failing[0].nbytes == sizeof(struct net_landing); /* which comes first */
    failing[0].n = 1;
    cr_assert(eq(ptr, fake_bulk_and_flush(1, &put, 7, 8), fake_job.own));
    expect_lost();
    fake_land(0, NIXL_OK);
    cr_expect(zero(u32, fake_n_sent(NXR_NET_FLUSHED)));
    cr_expect(nxr_list_is_empty(&nxr_net.holds));
}
