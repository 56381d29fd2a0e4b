/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: every operation is counted once, with its bytes, for the peer and the path that it
 * takes; by several threads, too. For the tests of what reads counters from outside the argument
 * "stay": when all was done, say so and wait to be ended; "hang": likewise, in a call; "die": then
 * rank 1 kills itself, when all others have come so far; "again": leave and join after the first
 * half, which is done twice.
 */
#include "test/mp/mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

/* The counters of a name; zeros if there are none. */
static struct nixl_stats named(unsigned op, int rank, const char *name)
{
    struct nixl_stats one = NIXL_STATS_INIT;

    for (unsigned i = 0; nixl_stats_query(i, &one) == NIXL_OK; i++) {
        if (one.op == op && one.rank == rank && strcmp(one.name, name) == 0) {
            return one;
        }
    }
    return (struct nixl_stats)NIXL_STATS_INIT;
}

/* Does a thread of this rank sleep in that call? */
static bool sleeps_in(const char *call)
{
    char text[4096];
    int fds[2];
    ssize_t nbytes;

    MPT_EQ(pipe(fds), 0);
    MPT_OK(nixl_debug_dump(fds[1]));
    nbytes = read(fds[0], text, sizeof(text) - 1);
    MPT_TRUE(close(fds[0]) == 0 && close(fds[1]) == 0);
    text[nbytes > 0 ? nbytes : 0] = '\0';
    return strstr(text, call) != NULL;
}

/* When this rank sleeps in `call`, `rank` is notified with `tag`. */
struct sleeper {
    const char *call;
    int rank;
    uint64_t tag;
};

/* A thread: notify as the struct sleeper says. */
static void *tell_sleep(void *arg)
{
    const struct sleeper *sleeper = arg;
    const struct timespec look = {.tv_nsec = 1000000};
    int64_t n_left = MPT_PATIENCE / look.tv_nsec;

    while (!sleeps_in(sleeper->call)) {
        MPT_TRUE(n_left-- > 0);
        nanosleep(&look, NULL);
    }
    MPT_OK(nixl_notify(sleeper->rank, sleeper->tag, NULL, 0, MPT_PATIENCE));
    return NULL;
}

/* The root of a broadcast comes `late` after the last of the others sleeps in it. */
static void late_broadcast(struct nixl_team *world, const struct timespec *late)
{
    struct sleeper sleeper = {"nixl_broadcast", 0, 96};
    struct nixl_note note;
    pthread_t thread;

    if (nixl_rank() == 0) {
        for (int i = 1; i < nixl_size(); i++) {
            nixl_note_init(&note);
            MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, sleeper.tag, UINT64_MAX, MPT_PATIENCE, &note));
        }
        nanosleep(late, NULL);
        MPT_OK(nixl_broadcast(world, 0, bytes, 8, MPT_PATIENCE));
        return;
    }
    MPT_EQ(pthread_create(&thread, NULL, tell_sleep, &sleeper), 0);
    MPT_OK(nixl_broadcast(world, 0, bytes, 8, MPT_PATIENCE));
    MPT_EQ(pthread_join(thread, NULL), 0);
}

/*
 * Each team size has its own counters of a collective. Some calls are timed, all large ones are; a
 * member that waits for one that comes late counts that wait.
 */
static void collective_times(void)
{
    static const int64_t late_ns = 30000000;
    const struct timespec late = {.tv_nsec = late_ns};
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_stats before, now;
    struct nixl_team *world, *alone;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    MPT_OK(nixl_team_split(world, nixl_rank(), 0, MPT_PATIENCE, &alone));
    for (int i = 0; i < 64; i++) {
        MPT_OK(nixl_barrier(alone, MPT_PATIENCE));
        MPT_OK(nixl_barrier(world, MPT_PATIENCE));
    }
    now = named(NIXL_STATS_COLLECTIVE, -1, "barrier");
    MPT_TRUE(now.nmembers == 1 || now.nmembers == (unsigned)nixl_size());
    MPT_TRUE(now.nops >= 64 && now.complete.count >= 2 && now.complete.count <= now.nops);
    MPT_TRUE(now.complete.sum_ns >= now.complete.max_ns && now.complete.max_ns > 0);
    MPT_TEXT(now.transport, "barrier");
    args.src = bytes;
    args.dst = calloc(1, 262144);
    args.count = 65536;
    args.type = NIXL_TYPE_UINT32;
    MPT_OK(nixl_allreduce(world, &args, MPT_PATIENCE));
    MPT_OK(nixl_allreduce(world, &args, MPT_PATIENCE));
    now = named(NIXL_STATS_COLLECTIVE, -1, "allreduce");
    MPT_EQ(now.nops, 2);
    MPT_EQ(now.complete.count, 2);
    free(args.dst);
    MPT_OK(nixl_barrier(world, MPT_PATIENCE));
    before = named(NIXL_STATS_COLLECTIVE, -1, "broadcast");
    late_broadcast(world, &late);
    now = named(NIXL_STATS_COLLECTIVE, -1, "broadcast");
    MPT_EQ(now.nops - before.nops, 1);
    if (nixl_rank() != 0) {
        MPT_TRUE(now.wait.count > before.wait.count);
        MPT_TRUE(now.wait.sum_ns - before.wait.sum_ns >= (uint64_t)late_ns);
    }
    MPT_OK(nixl_barrier(world, MPT_PATIENCE));
    MPT_OK(nixl_team_free(alone));
    MPT_OK(nixl_team_free(world));
}

#define N_ITEMS 20

/* The consumer begins when the producer has slept for some time since all slots were full. */
static void send_items(struct nixl_channel *channel)
{
    struct sleeper sleeper = {"nixl_channel_acquire", 1, 97};
    pthread_t thread;
    void *slot;

    MPT_EQ(pthread_create(&thread, NULL, tell_sleep, &sleeper), 0);
    for (int i = 0; i < N_ITEMS; i++) {
        MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
        MPT_OK(nixl_channel_publish(channel, 10));
    }
    MPT_EQ(pthread_join(thread, NULL), 0);
}

static void take_items(struct nixl_channel *channel)
{
    const struct timespec some_time = {.tv_nsec = 10000000};
    struct nixl_note note;
    void *slot;
    size_t nbytes;
    int rank;

    MPT_STATUS(nixl_channel_recv(channel, 0, &slot, &nbytes, &rank), NIXL_INPROGRESS);
    mpt_barrier();
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, 97, UINT64_MAX, MPT_PATIENCE, &note)); /* the slots are full */
    nanosleep(&some_time, NULL);
    for (int i = 0; i < N_ITEMS; i++) {
        MPT_OK(nixl_channel_recv(channel, MPT_PATIENCE, &slot, &nbytes, &rank));
        MPT_OK(nixl_channel_release(channel, slot));
    }
    MPT_STATUS(nixl_channel_recv(channel, 50000000, &slot, &nbytes, &rank), NIXL_E_TIMEOUT);
}

/* Items, bytes, and how often and for how long a channel was full or empty, at both ends. */
static void channels(void)
{
    struct nixl_channel *channel = NULL;
    struct nixl_stats now;
    int role = nixl_rank() > 1 ? -1 : nixl_rank();

    if (nixl_size() < 2) {
        return;
    }
    if (role == 1) {
        MPT_OK(nixl_channel_open("counted", 0, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &channel));
        take_items(channel);
    } else if (role == 0) {
        MPT_OK(nixl_channel_open("counted", 1, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &channel));
        mpt_barrier();
        send_items(channel);
    } else {
        mpt_barrier();
    }
    mpt_barrier();
    if (role == 0) {
        now = named(NIXL_STATS_CHANNEL_SEND, 1, "counted");
        MPT_TRUE(now.nretries >= 1 && now.nretries <= N_ITEMS);
        MPT_TRUE(now.wait.count >= 1 && now.wait.sum_ns > 5000000);
    } else if (role == 1) {
        now = named(NIXL_STATS_CHANNEL_RECEIVE, 0, "counted");
        MPT_TRUE(now.nretries >= 1);
        MPT_TRUE(now.wait.count >= 1 && now.wait.max_ns > 40000000);
    }
    if (role >= 0) {
        MPT_EQ(now.nops, N_ITEMS);
        MPT_EQ(now.nbytes, 10 * N_ITEMS);
        MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
    }
    mpt_barrier();
}

/*
 * Between two hosts a member says with its own next message what it has taken: one message a round
 * from each receiver. What the networks say for themselves, and one answer, may come to it.
 */
static void broadcasts(void)
{
    enum { ROUNDS = 100, OTHER = 20 };
    struct nixl_team *team;
    struct nixl_stats before, now;
    uint64_t value = 0;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    before = sum_of(0, NIXL_STATS_RAIL_SEND);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        value = nixl_rank() == 0 ? i : 0;
        MPT_OK(nixl_broadcast(team, 0, &value, sizeof(value), MPT_PATIENCE));
        MPT_EQ(value, i);
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    }
    now = sum_of(0, NIXL_STATS_RAIL_SEND);
    MPT_TRUE(nixl_size() != 2 || nixl_rank() == 0 || now.nops - before.nops <= ROUNDS + OTHER);
    MPT_OK(nixl_team_free(team));
}

/* With a network, its rails carry at least what was put; without one there is none. What an adapter
 * writes is counted by who has sent it. */
static void rails(void)
{
    struct nixl_stats sent = sum_of(next_rank, NIXL_STATS_RAIL_SEND);
    struct nixl_stats received = sum_of(NIXL_ANY_RANK, NIXL_STATS_RAIL_RECEIVE);
    struct nixl_stats put = NIXL_STATS_INIT;
    uint64_t nbytes = 0;

    for (unsigned i = 0; nixl_stats_query(i, &put) == NIXL_OK; i++) {
        if (put.op == NIXL_STATS_PUT && put.rank == next_rank &&
            (strcmp(put.transport, "tcp") == 0 || strcmp(put.transport, "ofi") == 0 ||
             strcmp(put.transport, "ucx") == 0)) {
            nbytes += put.nbytes;
        }
    }
    MPT_EQ(sent.nbytes > 0, nbytes > 0);
    MPT_TRUE(sent.nbytes >= nbytes && (received.nbytes > 0) == (nbytes > 0));
    MPT_TRUE(sent.nops <= sent.nbytes && (sent.nops > 0) == (nbytes > 0));
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

static void await_death(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    if (nixl_rank() == 1) {
        for (int i = 1; i < nixl_size(); i++) {
            MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, 98, UINT64_MAX, MPT_PATIENCE, &note));
        }
        raise(SIGKILL);
    }
    MPT_OK(nixl_notify(1, 98, NULL, 0, MPT_PATIENCE));
    MPT_STATUS(nixl_notify_recv(1, 99, UINT64_MAX, MPT_PATIENCE, &note), NIXL_E_PEER_LOST);
    MPT_OK(nixl_finalize());
}

static void hang(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    printf("rank %d stays\n", nixl_rank());
    fflush(stdout);
    MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, 100, UINT64_MAX, INT64_MAX, &note));
}

static void join(void)
{
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
}

static void leave(void)
{
    MPT_OK(nixl_region_close(own, MPT_PATIENCE));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
}

int main(int argc, char **argv)
{
    mpt_start();
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        join();
        leave();
    }
    join();
    notifications();
    atomics();
    threads();
    collectives();
    collective_times();
    broadcasts();
    channels();
    mpt_barrier();
    rails();
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
    if (argc > 1 && strcmp(argv[1], "hang") == 0) {
        hang();
    }
    if (argc > 1 && strcmp(argv[1], "die") == 0) {
        await_death();
        return mpt_passed();
    }
    leave();
    return mpt_passed();
}
