/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: every operation is counted once, with its bytes, for the peer and the path that it
 * takes; by several threads, too. Argument "stay": when all was done, say so and wait to be ended,
 * for the tests of what reads counters from outside.
 */
#include "test/mp/mptest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE     (4 << 20)
#define N_THREADS 4
#define N_PUTS    5000

static struct nixl_region *region, *own;
static char *bytes;
static int next_rank, previous_rank;

static struct nixl_stats sum_of(int rank, unsigned op)
{
    struct nixl_stats stats = NIXL_STATS_INIT;

    MPT_OK(nixl_stats_sum(rank, op, NULL, &stats));
    return stats;
}

/* So many operations of so many bytes more than before. */
static void expect_more(const struct nixl_stats *before, uint64_t nops, uint64_t nbytes)
{
    struct nixl_stats now = sum_of(before->rank, before->op);

    MPT_EQ(now.nops - before->nops, nops);
    MPT_EQ(now.nbytes - before->nbytes, nbytes);
    MPT_EQ(now.nfailed, before->nfailed);
}

static void put_and_get(struct nixl_region *there)
{
    struct nixl_stats puts = sum_of(next_rank, NIXL_STATS_PUT);
    struct nixl_stats gets = sum_of(next_rank, NIXL_STATS_GET);

    for (int i = 0; i < 100; i++) {
        MPT_OK(nixl_put(next_rank, there, 0, bytes, 100));
    }
    expect_more(&puts, 100, 10000);
    MPT_OK(nixl_get(next_rank, there, 0, bytes, 3000));
    expect_more(&gets, 1, 3000);
    MPT_OK(nixl_flush(next_rank, MPT_PATIENCE));
    expect_more(&puts, 100, 10000);
}

/* Those that take time have times, wherever they are carried out. */
static void large_requests(void)
{
    struct nixl_stats puts = sum_of(next_rank, NIXL_STATS_PUT), now;
    int n = 0;

    for (int i = 0; i < 10; i++) {
        struct nixl_req *req = NULL;
        int status = nixl_put_x(next_rank, region, 0, bytes, LARGE, NULL, &req);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        if (status == NIXL_INPROGRESS) {
            n++;
            MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        }
    }
    expect_more(&puts, 10, 10ull * LARGE);
    now = sum_of(next_rank, NIXL_STATS_PUT);
    MPT_EQ(now.nrequests - puts.nrequests, (uint64_t)n);
    MPT_EQ(now.post.count - puts.post.count, (uint64_t)n);
    MPT_EQ(now.complete.count - puts.complete.count, (uint64_t)n);
    MPT_TRUE(now.complete.sum_ns >= now.complete.max_ns);
    MPT_TRUE(n == 0 || now.complete.max_ns > 0);
}

static void notifications(void)
{
    struct nixl_stats sent = sum_of(next_rank, NIXL_STATS_NOTIFY);
    struct nixl_stats received = sum_of(previous_rank, NIXL_STATS_RECEIVE);
    struct nixl_note note;

    nixl_note_init(&note);
    for (int i = 0; i < 50; i++) {
        MPT_OK(nixl_notify(next_rank, 7, "abc", 3, MPT_PATIENCE));
        MPT_OK(nixl_notify_recv(previous_rank, 7, UINT64_MAX, MPT_PATIENCE, &note));
    }
    expect_more(&sent, 50, 150);
    expect_more(&received, 50, 150);
}

static void atomics(void)
{
    struct nixl_stats before = sum_of(next_rank, NIXL_STATS_ATOMIC);
    uint64_t one = 1, old;

    for (int i = 0; i < 20; i++) {
        MPT_OK(nixl_atomic(next_rank, region, LARGE - 8, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                           &old));
    }
    expect_more(&before, 20, 160);
}

static void *put_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < N_PUTS; i++) {
        MPT_OK(nixl_put(next_rank, region, 0, bytes, 8));
    }
    return NULL;
}

/* Nothing is lost between threads; a thread that comes later counts on where one has ended. */
static void threads(void)
{
    struct nixl_stats before = sum_of(next_rank, NIXL_STATS_PUT);
    pthread_t all[N_THREADS];

    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < N_THREADS; i++) {
            MPT_EQ(pthread_create(&all[i], NULL, put_much, NULL), 0);
        }
        for (int i = 0; i < N_THREADS; i++) {
            MPT_EQ(pthread_join(all[i], NULL), 0);
        }
        MPT_OK(nixl_flush(next_rank, MPT_PATIENCE));
        expect_more(&before, (uint64_t)round * N_THREADS * N_PUTS,
                    8ull * (uint64_t)round * N_THREADS * N_PUTS);
    }
}

/* Each collective by its name, on several teams together. */
static void collectives(void)
{
    struct nixl_stats before = sum_of(NIXL_ANY_RANK, NIXL_STATS_COLLECTIVE);
    struct nixl_stats barriers = NIXL_STATS_INIT;
    struct nixl_team *world, *other;
    uint64_t word = 1;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    MPT_OK(nixl_team_split(world, 0, 0, MPT_PATIENCE, &other));
    for (int i = 0; i < 10; i++) {
        MPT_OK(nixl_barrier(world, MPT_PATIENCE));
        MPT_OK(nixl_broadcast(world, 0, &word, sizeof(word), MPT_PATIENCE));
        MPT_OK(nixl_barrier(other, MPT_PATIENCE));
    }
    MPT_EQ(sum_of(NIXL_ANY_RANK, NIXL_STATS_COLLECTIVE).nops - before.nops, 30);
    MPT_EQ(sum_of(NIXL_ANY_RANK, NIXL_STATS_COLLECTIVE).nbytes - before.nbytes, 80);
    MPT_OK(nixl_stats_sum(NIXL_ANY_RANK, NIXL_STATS_COLLECTIVE, "barrier", &barriers));
    MPT_EQ(barriers.nops, 20);
    MPT_OK(nixl_team_free(other));
    MPT_OK(nixl_team_free(world));
}

/* What is listed one by one adds up, and keeps its place. */
static void list(void)
{
    struct nixl_stats all = sum_of(NIXL_ANY_RANK, NIXL_STATS_ANY), one = NIXL_STATS_INIT;
    uint64_t nbytes = 0;
    unsigned n = 0;

    while (nixl_stats_query(n, &one) == NIXL_OK) {
        struct nixl_stats again = NIXL_STATS_INIT;

        MPT_OK(nixl_stats_query(n, &again));
        MPT_TRUE(one.rank == again.rank && one.op == again.op);
        MPT_TEXT(one.transport, again.transport);
        nbytes += one.op == NIXL_STATS_PUT || one.op == NIXL_STATS_GET ? one.nbytes : 0;
        n++;
    }
    MPT_EQ(nixl_last_error()->status, NIXL_E_NOT_FOUND);
    MPT_TRUE(n >= 4);
    MPT_TRUE(all.nbytes >= nbytes && nbytes >= 10ull * LARGE);
}

static void bad_calls(void)
{
    struct nixl_stats stats = NIXL_STATS_INIT;

    MPT_STATUS(nixl_stats_query(1000000, &stats), NIXL_E_NOT_FOUND);
    MPT_STATUS(nixl_stats_query(0, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_stats_sum(nixl_size(), NIXL_STATS_PUT, NULL, &stats), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_stats_sum(0, 99, NULL, &stats), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_stats_sum(0, NIXL_STATS_PUT, NULL, NULL), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_stats_sum(0, NIXL_STATS_PUT, "no such transport", &stats));
    MPT_EQ(stats.nops, 0);
    stats.struct_nbytes = 8;
    MPT_STATUS(nixl_stats_sum(0, NIXL_STATS_PUT, NULL, &stats), NIXL_E_INVALID_ARG);
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    next_rank = (nixl_rank() + 1) % nixl_size();
    previous_rank = (nixl_rank() + nixl_size() - 1) % nixl_size();
    bytes = calloc(1, LARGE);
    MPT_TRUE(bytes != NULL);
    MPT_OK(nixl_region_alloc("stats", LARGE, NULL, &region));
    MPT_OK(nixl_region_register("own", calloc(1, 4096), 4096, NULL, &own));
    mpt_barrier();
    put_and_get(region);
    put_and_get(own);
    large_requests();
    mpt_barrier();
    notifications();
    atomics();
    threads();
    collectives();
    list();
    bad_calls();
    mpt_barrier();
    if (argc > 1 && strcmp(argv[1], "stay") == 0) {
        printf("rank %d stays\n", nixl_rank());
        fflush(stdout);
        for (;;) {
            pause();
        }
    }
    MPT_OK(nixl_region_close(own, MPT_PATIENCE));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
