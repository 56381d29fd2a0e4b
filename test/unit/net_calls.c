/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls to a rank on another host: how often each asks the transport, and what it sends.
 */
#include "net_case.h"

#include "core/returned.h"
#include "core/subsystem.h"
#include "region/publish.h"
#include "region/region.h"
#include "sync/notify.h"
#include "transfer/transfer.h"
#include "transfer/window.h"
#include "transfer/xfer.h"

#include "test/unit/unit.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>

/* ---- how often a transport is asked ---------------------------------------------------------- */

/* The transport of the segment, with calls that count. */
static struct {
    struct nxr_transport table;
    unsigned n_puts, n_gets, n_starts;
} counted;

static int count_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes)
{
    counted.n_puts++;
    return nxr_net_segment_put(segment, offset, src, nbytes);
}

static int count_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes)
{
    counted.n_gets++;
    return nxr_net_segment_get(segment, offset, dst, nbytes);
}

static int count_start(struct nxr_op *op)
{
    counted.n_starts++;
    return nxr_net_op_start(op);
}

static struct nixl_region *counted_region(void)
{
    struct nixl_region *region = fake_region(1, false);
    struct nxr_segment *segment = nxr_region_segment(region, 1);

    counted.table = *segment->transport;
    counted.table.put = count_put;
    counted.table.get = count_get;
    counted.table.start = count_start;
    segment->transport = &counted.table;
    return region;
}

/* Nothing is tried that is known to take time: each of them is one start. */
Test(submit, what_takes_time_is_submitted_once, .init = start, .fini = stop)
{
    struct nixl_region *region = counted_region();
    struct nixl_req *req = NULL;

    cr_expect(eq(int, nixl_put(1, region, 0, buffer, LARGE), NIXL_OK));
    cr_expect(eq(u32, counted.n_starts, 1));
    cr_assert(eq(int, nixl_put_x(1, region, 0, buffer, LARGE, NULL, &req), NIXL_INPROGRESS));
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_OK));
    cr_expect(eq(u32, counted.n_starts, 2));
    cr_expect(eq(int, nixl_put_notify(1, region, 0, buffer, LARGE, 7, NULL, 0, 0), NIXL_OK));
    cr_expect(eq(u32, counted.n_starts, 3));
    cr_assert(eq(int, nixl_get_x(1, region, 0, buffer, 8, NULL, &req), NIXL_INPROGRESS));
    cr_expect(eq(int, nixl_req_cancel(&req, 0, NULL), NIXL_OK));
    cr_expect(eq(u32, counted.n_starts, 4));
    cr_expect(zero(u32, counted.n_puts + counted.n_gets));
    cr_expect(eq(int, counted.table.get(nxr_region_segment(region, 1), 0, buffer, 8), NIXL_E_AGAIN),
              "an answer takes its time");
}

/* The service thread has found the networks' lock taken, and has asked its holder for a round. */
Test(submit, who_starts_a_put_makes_the_round_that_is_wanted, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    const struct nxr_net_note note = {.tag = 7};

    fake_coming(1, NXR_NET_NOTE, &note, sizeof(note), NULL, 0);
    cr_expect(eq(int, nixl_put(1, region, 0, buffer, LARGE), NIXL_OK));
    cr_expect(zero(u64, fake_next_tag(1)), "none is wanted");
    atomic_store(&nxr_net.is_round_wanted, true);
    cr_expect(eq(int, nixl_put(1, region, 0, buffer, LARGE), NIXL_OK));
    cr_expect(eq(u64, fake_next_tag(1), 7));
    cr_expect(not(atomic_load(&nxr_net.is_round_wanted)));
}

Test(submit, what_is_small_is_put_once_and_started_where_that_fails, .init = start, .fini = stop)
{
    struct nixl_region *region = counted_region();
    struct nixl_req *req = NULL;
    int status = NIXL_OK;

    cr_expect(eq(int, nixl_put(1, region, 0, buffer, 8), NIXL_OK));
    cr_expect(eq(u32, counted.n_puts, 1));
    cr_expect(zero(u32, counted.n_starts));
    fake.answer = NIXL_E_AGAIN;
    while (status == NIXL_OK) { /* until there is no room for more */
        counted.n_puts = 0;
        status = nixl_put_x(1, region, 0, buffer, FAKE_SMALL, NULL, &req);
    }
    cr_expect(eq(int, status, NIXL_INPROGRESS));
    cr_expect(eq(u32, counted.n_puts, 1));
    cr_expect(eq(u32, counted.n_starts, 1));
    fake.answer = NIXL_OK;
    fake_round();
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_OK));
}

/* ---- what a former process has left ---------------------------------------------------------- */

/* Rank 1 is started again and readmitted, before anything that its former process left is seen. */
static void come_back(void)
{
    struct nxr_full_card card = *fake_card(1);

    card.head.identity.incarnation++;
    pthread_mutex_lock(&nxr_job.lock);
    nxr_returned_hear(&card);
    pthread_mutex_unlock(&nxr_job.lock);
    cr_assert(eq(int, nixl_peer_state(1), NIXL_PEER_LOST));
    cr_assert(eq(int, nixl_peer_readmit(1, card.head.identity.incarnation), NIXL_OK));
    cr_assert(eq(int, nixl_peer_state(1), NIXL_PEER_ALIVE));
}

static void stop_former(void)
{
    stop();
    nxr_returned_reset();
}

Test(former, request_says_nothing_of_the_next_process, .init = start, .fini = stop_former)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req = NULL;

    fake.answer = NIXL_INPROGRESS;
    cr_assert(eq(int, put_nb(region, LARGE, &req), NIXL_INPROGRESS));
    come_back();
    fake_round();
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_E_PEER_LOST));
    cr_expect(eq(int, nixl_peer_state(1), NIXL_PEER_ALIVE));
}

Test(former, window_is_freed_though_the_job_ends_at_once, .init = start, .fini = stop_former)
{
    const struct nxr_published *window;
    char name[NIXL_NAME_MAX + 1];
    unsigned char pages;
    void *addr;

    nxr_window_name(1, name, sizeof(name));
    pthread_mutex_lock(&nxr_job.lock);
    nxr_publish_ask(&(struct nxr_control_source){.peer = np->peer}, 1, name);
    window = nxr_publish_find(name);
    pthread_mutex_unlock(&nxr_job.lock);
    cr_assert(ne(ptr, (void *)window, NULL));
    addr = (void *)(uintptr_t)window->key.addr;
    cr_assert(eq(int, mincore(addr, 1, &pages), 0));
    come_back();
    nxr_windows_subsystem.quiesce();
    cr_expect(eq(int, mincore(addr, 1, &pages), -1));
    cr_expect(eq(int, errno, ENOMEM), "it is not mapped any more");
}

Test(former, call_says_nothing_of_the_next_process, .init = start, .fini = stop_former)
{
    struct nixl_region *region = fake_region(1, false);
    struct nxr_segment *segment = nxr_region_segment(region, 1);

    come_back();
    cr_expect(eq(int, nxr_transfer_fail("nixl_put", NIXL_E_PEER_LOST, region, segment),
                 NIXL_E_PEER_LOST));
    cr_expect(eq(int, nixl_peer_state(1), NIXL_PEER_ALIVE));
}

/* It was told in a round, and is taken when the next process is there. */
static void told_late(enum net_later_what what)
{
    net_lock();
    nxr_net_later(what, 1, NULL, 0);
    net_unlock();
    come_back();
    fake_round();
    cr_expect(eq(int, nixl_peer_state(1), NIXL_PEER_ALIVE));
}

Test(former, its_loss_says_nothing_of_the_next_process, .init = start, .fini = stop_former)
{
    told_late(NET_LATER_LOST);
}

Test(former, its_leaving_says_nothing_of_the_next_process, .init = start, .fini = stop_former)
{
    told_late(NET_LATER_LEFT);
}

/* ---- stopping a prepared transfer ------------------------------------------------------------ */

enum { N_BLOCKS = 3, BLOCK = 64 };

/*
 * A transport that keeps each piece until the case ends it. When a thread that stops a start has
 * canceled the last one, all end, and the user goes on as far as he can before that thread does.
 */
static struct {
    struct nxr_transport table;
    struct nxr_op *ops[N_BLOCKS];
    unsigned n_started, n_canceled;
    struct nixl_xfer *xfer;
    struct nixl_req *req, *next;
} keeping;

static int keep_start(struct nxr_op *op)
{
    keeping.ops[keeping.n_started++ % N_BLOCKS] = op;
    return NIXL_INPROGRESS;
}

static void keep_end(int status)
{
    for (int i = 0; i < N_BLOCKS; i++) {
        nxr_op_done(keeping.ops[i], status);
    }
    (void)nxr_xfer_progress();
}

static int keep_cancel(struct nxr_op *op)
{
    (void)op;
    if (++keeping.n_canceled == N_BLOCKS) {
        keep_end(NIXL_E_CANCELED);
        if (nxr_request_is_done(keeping.req)) {
            cr_expect(eq(int, nixl_req_wait(&keeping.req, 0), NIXL_E_CANCELED));
            cr_expect(eq(int, nixl_xfer_start(keeping.xfer, &keeping.next), NIXL_INPROGRESS));
        }
    }
    return NIXL_INPROGRESS;
}

static void keep_begin(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nxr_segment *segment;

    start();
    remote.region = fake_region(1, false);
    segment = nxr_region_segment(remote.region, 1);
    keeping.table = *segment->transport;
    keeping.table.move_list = nxr_no_move_list;
    keeping.table.start_list = nxr_no_start_list;
    keeping.table.start = keep_start;
    keeping.table.cancel = keep_cancel;
    segment->transport = &keeping.table;
    local.addr = buffer;
    local.nblocks = remote.nblocks = N_BLOCKS;
    local.block_nbytes = remote.block_nbytes = local.stride = BLOCK;
    remote.stride = 2 * BLOCK;
    cr_assert(
        eq(int, nixl_xfer_create(NIXL_XFER_GET, 1, &local, 1, &remote, 1, &keeping.xfer), NIXL_OK));
}

Test(stop, the_next_start_begins_when_nobody_stops_the_last, .init = keep_begin, .fini = stop)
{
    cr_assert(eq(int, nixl_xfer_start(keeping.xfer, &keeping.req), NIXL_INPROGRESS));
    cr_assert(eq(u32, keeping.n_started, N_BLOCKS));
    (void)nxr_request_stop(keeping.req); /* as the service thread does at its deadline */
    cr_assert(eq(ptr, keeping.next, NULL));
    cr_expect(eq(u32, keeping.n_canceled, N_BLOCKS));
    cr_expect(eq(int, nixl_req_wait(&keeping.req, 0), NIXL_E_CANCELED));
    cr_assert(eq(int, nixl_xfer_start(keeping.xfer, &keeping.next), NIXL_INPROGRESS));
    cr_expect(eq(u32, keeping.n_started, 2 * N_BLOCKS));
    keep_end(NIXL_OK);
    cr_expect(eq(int, nixl_req_wait(&keeping.next, 0), NIXL_OK));
    cr_expect(eq(u32, keeping.n_canceled, N_BLOCKS));
    cr_expect(eq(int, nixl_xfer_free(keeping.xfer), NIXL_OK));
}

/* ---- flush -------------------------------------------------------------------------------- */

Test(flush, of_gets_ends_when_they_have_ended, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *get = NULL, *flush = NULL;
    struct nxr_net_got got = {0};

    op.flags = NIXL_OP_GETS;
    cr_assert(eq(int, nixl_get_x(1, region, 0, buffer, 8, NULL, &get), NIXL_INPROGRESS));
    got.move = ((const struct nxr_net_get *)fake_last(NXR_NET_GET))->move;
    cr_expect(eq(int, nixl_flush(1, 0), NIXL_OK), "its request tells of a get");
    cr_assert(eq(int, nixl_flush_x(1, region, &op, &flush), NIXL_INPROGRESS));
    op.timeout_ns = NIXL_AT_ONCE;
    cr_expect(eq(int, nixl_flush_x(1, region, &op, NULL), NIXL_E_TIMEOUT));
    fake_receive(1, NXR_NET_GOT, &got, sizeof(got), "12345678", 8);
    cr_expect(eq(int, nixl_flush_x(1, region, &op, NULL), NIXL_OK));
    cr_expect(eq(int, nixl_req_cancel(&flush, 0, NULL), NIXL_OK), "no service thread runs here");
    cr_expect(eq(int, nixl_req_wait(&get, 0), NIXL_OK));
}

/* Another thread connects the rank at this moment: nothing was put to it yet. */
Test(flush, of_a_rank_that_is_being_connected_asks_no_transport, .init = start, .fini = stop)
{
    struct net_slot *slot = nxr_peer_slot_of(np->peer, &nxr_net_slot);
    struct net_peer *made = slot->np;

    atomic_store(&np->peer->connection, NXR_CONNECTION_CARD);
    atomic_store(&slot->np, NULL);
    cr_expect(eq(int, nixl_flush(1, 0), NIXL_OK));
    cr_expect(eq(int, nixl_fence(1), NIXL_OK));
    cr_expect(eq(int, nixl_flush(NIXL_ALL_RANKS, 0), NIXL_OK));
    atomic_store(&slot->np, made);
    atomic_store(&np->peer->connection, NXR_CONNECTION_UP);
}

/* Of several ranks the request names the one that is lost, not the last one. */
Test(flush, of_all_names_the_rank_that_is_lost, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *put = NULL, *flush = NULL;
    int status = NIXL_INPROGRESS;

    fake_link(2);
    cr_assert(eq(int, nixl_notify(2, 7, NULL, 0, 0), NIXL_OK));
    fake.answer = NIXL_INPROGRESS;
    cr_assert(eq(int, nixl_put_x(1, region, 0, buffer, LARGE, NULL, &put), NIXL_INPROGRESS));
    cr_assert(eq(int, nixl_flush_x(NIXL_ALL_RANKS, NULL, &op, &flush), NIXL_INPROGRESS));
    fake_lose(1);
    fake_end_ops(NIXL_E_CANCELED);
    fake.answer = NIXL_OK;
    for (int i = 0; i < 100 && status == NIXL_INPROGRESS; i++) {
        fake_round();
        nxr_flush_subsystem.progress();
        status = nixl_req_test(&flush);
    }
    cr_expect(eq(int, status, NIXL_E_PEER_LOST));
    cr_expect(eq(int, nixl_last_error()->rank, 1));
    cr_expect(eq(int, nixl_req_wait(&put, 0), NIXL_E_PEER_LOST));
}

/* ---- put and notification -------------------------------------------------------------------- */

Test(put_notify, of_much_is_one_message, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);

    fake_forget_sent();
    cr_assert(eq(int, nixl_put_notify(1, region, 0, buffer, LARGE, 7, "hello", 5, 0), NIXL_OK));
    cr_expect(eq(u32, fake_n_messages(), 1));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_BULK_PUT), 1));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
}

Test(put_notify, what_the_header_has_no_room_for_comes_behind, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    static const char payload[NXR_NET_HEADER_NBYTES];

    fake_forget_sent();
    cr_assert(eq(int, nixl_put_notify(1, region, 0, buffer, LARGE, 7, payload, sizeof(payload), 0),
                 NIXL_OK));
    cr_expect(eq(u32, fake_n_messages(), 2));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_BULK_PUT), 1));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
}

Test(put_notify, without_room_at_the_target_the_bytes_go, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);

    fake_forget_sent();
    np->tx_tail = np->tx_limit;
    cr_expect(eq(int, nixl_put_notify(1, region, 0, buffer, LARGE, 7, NULL, 0, 0), NIXL_E_AGAIN));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_BULK_PUT), 1));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)));
    fake_round();
    cr_expect(nxr_list_is_empty(&np->moves));
}

/* A notification beyond the room would be written over one that the target has not read. */
Test(put_notify, a_short_one_waits_for_room_at_the_target, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);

    fake_forget_sent();
    np->tx_tail = np->tx_limit;
    cr_expect(eq(int, nixl_put_notify(1, region, 0, buffer, 8, 7, "hello", 5, 0), NIXL_E_AGAIN));
    fake_round();
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_PUT), 1), "the bytes go, once");
    np->tx_limit += nxr_ring_slots_of(5);
    cr_expect(eq(int, nixl_put_notify(1, region, 0, buffer, 8, 7, "hello", 5, 0), NIXL_OK));
    fake_round();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
}

/* ---- writes by another network than messages ------------------------------------------------- */

/* Bulk goes by the first network, messages by the second: neither knows of the other's order. */
static void start_apart(void)
{
    fake_start_two();
    fake.attr.is_rma_better = fake.attr.orders_writes = true;
    np = fake_link(1);
    np->bulk = &nxr_net.nets[0];
    np->messages = &nxr_net.nets[1];
}

Test(apart, a_notification_waits_for_a_write_elsewhere, .init = start_apart, .fini = stop)
{
    struct nixl_region *region = fake_region(1, true);
    struct nixl_req *req = NULL;

    fake.answer = NIXL_INPROGRESS;
    cr_assert(eq(int, nixl_put_x(1, region, 0, buffer, LARGE, NULL, &req), NIXL_INPROGRESS));
    cr_assert(eq(int, fake.n_moved, 1));
    cr_expect(eq(int, nixl_notify(1, 7, NULL, 0, 0), NIXL_OK));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)), "the write has not ended");
    fake.answer = NIXL_OK;
    fake_end_ops(NIXL_OK);
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_OK));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
}

/* What was held behind it says so, even if it goes after the failure was told here. */
Test(apart, a_write_that_fails_is_counted_before_it_is_told, .init = start_apart, .fini = stop)
{
    struct nixl_region *region = fake_region(1, true);
    struct nixl_req *req = NULL;

    fake.answer = NIXL_INPROGRESS;
    cr_assert(eq(int, nixl_put_x(1, region, 0, buffer, LARGE, NULL, &req), NIXL_INPROGRESS));
    cr_expect(eq(int, nixl_notify(1, 7, NULL, 0, 0), NIXL_OK));
    fake_end_ops(NIXL_E_STALE);
    cr_expect(eq(u32, atomic_load(&np->peer->n_failed_puts), 1));
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_E_STALE));
    cr_expect(zero(u32, atomic_load(&np->peer->doubts)));
}

/* ---- atomics --------------------------------------------------------------------------------- */

/* It waits here, behind an atomic that found no room: nothing has its buffer yet. */
Test(atomic, bulk_for_a_put_that_was_not_begun, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    const uint64_t one = 1;
    uint64_t before;
    struct nixl_req *reqs[2] = {NULL};
    struct nxr_net_atomic_done done = {0};
    struct nxr_net_got got = {.nbytes = LARGE};

    np->queued_nbytes = (size_t)1 << 30;
    cr_assert(eq(int,
                 nixl_atomic_x(1, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL, &before,
                               &reqs[0]),
                 NIXL_INPROGRESS));
    cr_assert(eq(int, nixl_put_x(1, region, 0, buffer, LARGE, NULL, &reqs[1]), NIXL_INPROGRESS));
    done.ask = np->last_id - 1;
    got.move = np->last_id;
    cr_expect(zero(ptr, fake_bulk(1, NXR_NET_BULK_GOT, &got, sizeof(got), LARGE)));
    cr_expect(eq(u64, nxr_net.n_dropped, 1));
    np->queued_nbytes = 0;
    fake_round();
    fake_receive(1, NXR_NET_ATOMIC_DONE, &done, sizeof(done), NULL, 0);
    cr_expect(eq(int, nixl_req_wait(&reqs[0], 0), NIXL_OK));
    cr_expect(eq(int, nixl_req_wait(&reqs[1], 0), NIXL_OK));
}

/* An answer that no owner gives ends the call; what is refused is test/unit/wire.c's to show. */
Test(atomic, outcomes_that_no_owner_has, .init = start, .fini = stop)
{
    static const int bad[] = {NIXL_INPROGRESS, NIXL_E_AGAIN, NIXL_E_PEER_LOST, INT_MAX};
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req = NULL;
    const uint64_t one = 1;
    uint64_t before;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct nxr_net_atomic_done done = {.what = {.status = bad[i]}};

        cr_assert(eq(int,
                     nixl_atomic_x(1, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL,
                                   &before, &req),
                     NIXL_INPROGRESS));
        done.ask = np->last_id;
        fake_receive(1, NXR_NET_ATOMIC_DONE, &done, sizeof(done), NULL, 0);
        cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_E_TRANSPORT));
    }
}
