/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: rows and lanes, what a reader makes of them, when there is no room, hostile pages. */
#include "config.h"

#include "core/job.h"
#include "core/observe.h"
#include "core/stats.h"

#include "test/unit/unit.h"
#include <stdlib.h>
#include <string.h>

static struct nxr_peer *peer;

static void begin(void)
{
    nxr_job.rank = 0;
    nxr_job.size = 4;
    cr_assert(eq(int, nxr_observe_open(), NIXL_OK));
    nxr_stats_open();
    peer = calloc(1, sizeof(*peer));
    cr_assert(ne(ptr, peer, NULL));
    peer->rank = 3;
}

static void end(void)
{
    nxr_stats_peer_end(peer);
    nxr_stats_close();
    nxr_observe_close();
    free(peer);
}

TestSuite(stats, .timeout = 60, .init = begin, .fini = end);

static struct nxr_stats_reading read_own(void)
{
    struct nxr_stats_reading reading;
    size_t nbytes;
    const struct nxr_stats_head *head = nxr_stats_own(&nbytes);

    cr_assert(ne(ptr, (void *)head, NULL));
    cr_assert(nxr_stats_read(head, nbytes, &reading));
    return reading;
}

static struct nxr_stats_head *own_head(void)
{
    size_t nbytes;

    return (struct nxr_stats_head *)nxr_stats_own(&nbytes);
}

Test(stats, buckets)
{
    cr_expect(eq(u32, nxr_stats_bucket(-5), 0));
    cr_expect(eq(u32, nxr_stats_bucket(0), 0));
    cr_expect(eq(u32, nxr_stats_bucket(1), 0));
    cr_expect(eq(u32, nxr_stats_bucket(2), 1));
    cr_expect(eq(u32, nxr_stats_bucket(1023), 9));
    cr_expect(eq(u32, nxr_stats_bucket(1024), 10));
    cr_expect(eq(u32, nxr_stats_bucket(INT64_MAX), NXR_STATS_N_BUCKETS - 1));
}

Test(stats, one_entry_for_each_path)
{
    struct nxr_stats_entry *put =
        nxr_stats_entry_of(peer, NXR_STATS_PUT, "shm", NXR_METHOD_PROCESS_VM);
    struct nxr_stats_entry *get =
        nxr_stats_entry_of(peer, NXR_STATS_GET, "shm", NXR_METHOD_PROCESS_VM);
    struct nxr_stats_reading reading;

    cr_expect(ne(ptr, put, get));
    cr_expect(eq(ptr, put,
                 nxr_stats_entry_of(peer, NXR_STATS_PUT, put->transport, NXR_METHOD_PROCESS_VM)));
    nxr_stats_count(put, 100);
    nxr_stats_count_alone(put, 10);
    nxr_stats_time(&put->times->complete, 1000);
    nxr_stats_time(&put->times->complete, 3000);
    reading = read_own();
    cr_assert(eq(sz, reading.n_sums, 2));
    cr_expect(eq(int, reading.sums[0].peer, 3));
    cr_expect(eq(u32, reading.sums[0].op, NXR_STATS_PUT));
    cr_expect(eq(str, (char *)reading.sums[0].transport, (char *)"shm"));
    cr_expect(eq(str, (char *)reading.sums[0].method, (char *)"process_vm"));
    cr_expect(eq(u64, reading.sums[0].n[NXR_STATS_OPS], 2));
    cr_expect(eq(u64, reading.sums[0].n[NXR_STATS_NBYTES], 110));
    cr_expect(eq(u64, reading.sums[0].complete_ns, 4000));
    cr_expect(eq(u64, reading.sums[0].max_complete_ns, 3000));
    cr_expect(eq(u64, reading.sums[0].complete[9], 1));
    cr_expect(eq(u64, reading.sums[0].complete[11], 1));
    cr_expect(eq(u32, reading.sums[1].op, NXR_STATS_GET));
    nxr_stats_reading_free(&reading);
}

Test(stats, lanes_add_up_and_are_used_again)
{
    struct nxr_stats_lane *first = nxr_stats_lane_take(3, "shm");
    struct nxr_stats_lane *second = nxr_stats_lane_take(3, "shm");
    struct nxr_stats_totals totals;
    struct nxr_stats_reading reading;

    cr_expect(ne(ptr, first, second));
    nxr_stats_add(&first->n[NXR_LANE_PUTS], 1);
    nxr_stats_add(&first->n[NXR_LANE_PUT_NBYTES], 8);
    nxr_stats_add(&second->n[NXR_LANE_PUTS], 2);
    nxr_stats_add(&second->n[NXR_LANE_PUT_NBYTES], 16);
    cr_assert(nxr_stats_read_totals(own_head(), own_head()->nbytes, &totals));
    cr_expect(eq(u64, totals.nops[NXR_STATS_PUT], 3));
    cr_expect(eq(u64, totals.nbytes[NXR_STATS_PUT], 24));
    nxr_stats_lane_give(first);
    cr_expect(eq(ptr, nxr_stats_lane_take(3, "shm"), first));
    cr_expect(ne(ptr, nxr_stats_lane_take(2, "shm"), first));
    reading = read_own();
    cr_assert(eq(sz, reading.n_sums, 1));
    cr_expect(eq(u64, reading.sums[0].n[NXR_STATS_OPS], 3));
    cr_expect(eq(u64, reading.sums[0].n[NXR_STATS_NBYTES], 24));
    cr_expect(eq(str, (char *)reading.sums[0].method, (char *)"memcpy"));
    nxr_stats_reading_free(&reading);
}

Test(stats, without_room_counts_go_nowhere)
{
    struct nxr_stats_head *head = own_head();
    struct nxr_stats_entry *entry;
    struct nxr_stats_reading reading;

    head->n_rows = head->max_rows;
    head->n_lanes = head->max_lanes;
    entry = nxr_stats_entry_of(peer, NXR_STATS_PUT, "shm", NXR_METHOD_MEMCPY);
    nxr_stats_count(entry, 5);
    nxr_stats_time(&entry->times->post, 5);
    nxr_stats_add(&nxr_stats_lane_take(3, "shm")->n[NXR_LANE_PUTS], 1);
    reading = read_own();
    cr_expect(eq(sz, reading.n_sums, 0), "the rows are not ready");
    cr_expect(eq(u64, reading.n_lost, 2));
    nxr_stats_reading_free(&reading);
}

Test(stats, without_a_page_nothing_fails)
{
    size_t nbytes;

    nxr_stats_close();
    nxr_stats_peer_end(peer);
    nxr_stats_count(nxr_stats_entry_of(peer, NXR_STATS_PUT, "shm", NXR_METHOD_MEMCPY), 5);
    nxr_stats_lane_give(nxr_stats_lane_take(3, "shm"));
    nxr_stats_waited(1, 2, "nixl_barrier", -1);
    cr_expect(eq(ptr, (void *)nxr_stats_own(&nbytes), NULL));
    cr_expect(eq(sz, nbytes, 0));
}

Test(stats, the_longest_waits_are_kept)
{
    struct nxr_stats_reading reading;

    for (int i = 1; i <= 100; i++) {
        nxr_stats_waited(i, (i * 37) % 101, "nixl_notify_recv", i % 4);
    }
    nxr_stats_waited(7, 1000000, NULL, -1); /* of no known call */
    reading = read_own();
    cr_assert(eq(sz, reading.n_longest, NXR_STATS_N_LONGEST));
    for (int i = 0; i < NXR_STATS_N_LONGEST; i++) {
        cr_expect(eq(i64, reading.longest[i].waited_ns, 100 - i));
        cr_expect(eq(str, (char *)reading.longest[i].call, (char *)"nixl_notify_recv"));
    }
    cr_assert(eq(sz, reading.n_sums, 1));
    cr_expect(eq(u64, reading.sums[0].n[NXR_STATS_OPS], 101));
    nxr_stats_reading_free(&reading);
}

/* A page may hold anything: what does not fit is refused, what is too much is cut. */
Test(stats, hostile_sections_are_refused)
{
    struct nxr_stats_head *head = own_head();
    const struct nxr_stats_head good = *head;
    struct nxr_stats_reading reading;
    size_t nbytes = head->nbytes;

    cr_expect(not(nxr_stats_read(head, sizeof(*head) - 1, &reading)));
    cr_expect(not(nxr_stats_read(head, nbytes - 1, &reading)));
    head->rows_at = nbytes + 64;
    cr_expect(not(nxr_stats_read(head, nbytes, &reading)));
    head->rows_at = 8;
    cr_expect(not(nxr_stats_read(head, nbytes, &reading)));
    head->rows_at = good.rows_at;
    head->max_rows = UINT32_MAX;
    cr_expect(not(nxr_stats_read(head, nbytes, &reading)));
    head->max_rows = good.max_rows;
    head->times_at = UINT64_MAX - 63;
    cr_expect(not(nxr_stats_read(head, nbytes, &reading)));
    head->times_at = good.times_at;
    head->n_rows = UINT32_MAX;
    head->n_lanes = UINT32_MAX;
    nxr_stats_rows(head)[0].is_ready = 1;
    nxr_stats_rows(head)[0].op = 1000;
    memset(nxr_stats_rows(head)[1].transport, 'x', sizeof(good.longest[0].call) / 2);
    nxr_stats_rows(head)[1].is_ready = 1;
    cr_assert(nxr_stats_read(head, nbytes, &reading));
    cr_assert(eq(sz, reading.n_sums, 1), "an unknown operation is left out");
    cr_expect(eq(sz, strlen(reading.sums[0].transport), 15));
    nxr_stats_reading_free(&reading);
}

/* One for each thing that is in use; one that has ended leaves its record to the next alike. */
Test(stats, what_has_a_name_is_added_up_by_it)
{
    const struct nxr_stats_key two = {NXR_STATS_COLLECTIVE, NXR_STATS_NO_PEER, "barrier", "barrier",
                                      2};
    const struct nxr_stats_key four = {NXR_STATS_COLLECTIVE, NXR_STATS_NO_PEER, "barrier",
                                       "barrier", 4};
    struct nxr_stats_named *first = nxr_stats_named_take(&two),
                           *second = nxr_stats_named_take(&two);
    struct nxr_stats_named *other = nxr_stats_named_take(&four);
    struct nxr_stats_totals totals;
    struct nxr_stats_reading reading;

    cr_expect(first != second && first != other);
    nxr_stats_add(&first->n[NXR_STATS_OPS], 1);
    nxr_stats_add(&second->n[NXR_STATS_OPS], 2);
    nxr_stats_add(&other->n[NXR_STATS_OPS], 4);
    nxr_stats_add_time(&first->wait, 1000);
    nxr_stats_add_time(&second->wait, 3000);
    nxr_stats_add_time(&second->complete, -1);
    nxr_stats_named_give(first);
    nxr_stats_named_give(NULL);
    cr_expect(eq(ptr, nxr_stats_named_take(&two), first));
    reading = read_own();
    cr_assert(eq(sz, reading.n_sums, 2));
    cr_expect(eq(str, (char *)reading.sums[0].name, (char *)"barrier"));
    cr_expect(eq(u32, reading.sums[0].n_members, 2));
    cr_expect(eq(u64, reading.sums[0].n[NXR_STATS_OPS], 3));
    cr_expect(eq(u64, reading.sums[0].wait_ns, 4000));
    cr_expect(eq(u64, reading.sums[0].max_wait_ns, 3000));
    cr_expect(eq(u64, reading.sums[0].complete[0], 1));
    cr_expect(eq(u32, reading.sums[1].n_members, 4));
    nxr_stats_reading_free(&reading);
    cr_assert(nxr_stats_read_totals(own_head(), own_head()->nbytes, &totals));
    cr_expect(eq(u64, totals.nops[NXR_STATS_COLLECTIVE], 7));
}

Test(stats, records_of_long_names_have_room_or_count_nowhere)
{
    char name[201];
    struct nxr_stats_key key = {NXR_STATS_CHANNEL_SEND, 3, "", name, 0};
    struct nxr_stats_head *head = own_head();
    struct nxr_stats_reading reading;

    memset(name, 'n', 200);
    name[200] = '\0';
    nxr_stats_add(&nxr_stats_named_take(&key)->n[NXR_STATS_OPS], 1);
    name[199] = 'x'; /* as far as names are kept it is the same */
    nxr_stats_add(&nxr_stats_named_take(&key)->n[NXR_STATS_OPS], 1);
    reading = read_own();
    cr_assert(eq(sz, reading.n_sums, 1));
    cr_expect(eq(sz, strlen(reading.sums[0].name), NXR_STATS_NAME - 1));
    cr_expect(eq(u64, reading.sums[0].n[NXR_STATS_OPS], 2));
    nxr_stats_reading_free(&reading);
    head->n_named = head->max_named;
    nxr_stats_add(&nxr_stats_named_take(&key)->n[NXR_STATS_OPS], 1);
    cr_expect(eq(u64, head->n_lost, 1));
    nxr_stats_close();
    nxr_stats_named_give(nxr_stats_named_take(&key));
}

Test(stats, hostile_records_are_refused)
{
    struct nxr_stats_head *head = own_head();
    const struct nxr_stats_head good = *head;
    struct nxr_stats_reading reading;

    head->named_at = 8;
    cr_expect(not(nxr_stats_read(head, head->nbytes, &reading)));
    head->named_at = UINT64_MAX - 63;
    cr_expect(not(nxr_stats_read(head, head->nbytes, &reading)));
    head->named_at = good.named_at;
    head->max_named = UINT32_MAX;
    cr_expect(not(nxr_stats_read(head, head->nbytes, &reading)));
    head->max_named = good.max_named;
    head->n_named = UINT32_MAX;
    nxr_stats_named(head)[0].is_ready = 1;
    nxr_stats_named(head)[0].op = NXR_STATS_N_OPS;
    nxr_stats_named(head)[1].is_ready = 1;
    memset(nxr_stats_named(head)[1].name, 'x', NXR_STATS_NAME);
    cr_assert(nxr_stats_read(head, head->nbytes, &reading));
    cr_assert(eq(sz, reading.n_sums, 1));
    cr_expect(eq(sz, strlen(reading.sums[0].name), NXR_STATS_NAME - 1));
    nxr_stats_reading_free(&reading);
}
