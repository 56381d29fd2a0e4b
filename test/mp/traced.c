/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What test/launcher/test_trace.sh traces, by 2 or more ranks. Its argument says what they do
 * beside the start and the end:
 *
 *   all      each a put with its notification to the next rank, a put and then a notification, a
 *            channel from rank 0 to rank 1, an allreduce, a put of 8 MiB that is waited for, an
 *            operation that fails
 *   kill     rank 1 waits for a notification that nobody sends, and is killed meanwhile
 *   wrap     rank 0 makes 10000 puts
 *   threads  rank 0 puts from 3 threads
 *   crowd    rank 0 puts from 70 threads at a time
 *   forked   a child of rank 0 puts, while rank 0 does so 10 times
 *   faults   rank 0 makes 20000 puts and prints how many page faults it had meanwhile
 *   N        rank 0 times N puts of 8 bytes and prints the nanoseconds of one
 */
#include "test/mp/mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGE (8u << 20)

static struct nixl_region *region;
static char *bytes;
static int me, next, before;

static void put_and_notify(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_put_notify(next, region, 0, bytes, 100, 41, "a", 1, MPT_PATIENCE));
    MPT_OK(nixl_notify_recv(before, 41, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_OK(nixl_put(next, region, 0, bytes, 4096));
    MPT_OK(nixl_notify(next, 42, "bc", 2, MPT_PATIENCE));
    MPT_OK(nixl_notify_recv(before, 42, UINT64_MAX, MPT_PATIENCE, &note));
}

static void use_channel(void)
{
    struct nixl_channel *channel;
    void *slot;

    if (me > 1) {
        return;
    }
    MPT_OK(nixl_channel_open("traced", 1 - me,
                             me == 0 ? NIXL_CHANNEL_PRODUCER : NIXL_CHANNEL_CONSUMER, 64, 4, NULL,
                             &channel));
    for (int i = 0; i < 3; i++) {
        if (me == 0) {
            MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
            MPT_OK(nixl_channel_publish(channel, 10));
        } else {
            MPT_OK(nixl_channel_recv(channel, MPT_PATIENCE, &slot, NULL, NULL));
            MPT_OK(nixl_channel_release(channel, slot));
        }
    }
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
}

static void do_all(struct nixl_team *team)
{
    const uint64_t mine = 1;
    uint64_t sum = 0;
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_req *req = NULL;
    int status;

    put_and_notify();
    use_channel();
    args.src = &mine;
    args.dst = &sum;
    args.count = 1;
    args.type = NIXL_TYPE_UINT64;
    MPT_OK(nixl_allreduce(team, &args, MPT_PATIENCE));
    MPT_EQ(sum, (uint64_t)nixl_size());
    status = nixl_put_x(next, region, 0, bytes, LARGE, NULL, &req);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    if (req != NULL) {
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    }
    MPT_EQ(nixl_put(next, region, LARGE, bytes, 8), NIXL_E_RANGE);
}

static void wait_to_be_killed(void)
{
    struct nixl_note note;
    pid_t pid = getpid();

    nixl_note_init(&note);
    if (me == 1) {
        MPT_OK(nixl_notify(0, 7, &pid, sizeof(pid), MPT_PATIENCE));
        MPT_OK(nixl_notify_recv(0, 8, UINT64_MAX, MPT_PATIENCE, &note)); /* nobody sends it */
    }
    MPT_OK(nixl_notify_recv(1, 7, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&pid, note.payload, sizeof(pid));
    MPT_TRUE(pid > 1);
    /* until it sleeps, and is seen to */
    MPT_EQ(nixl_notify_recv(1, 9, UINT64_MAX, 300 * MPT_MS, &note), NIXL_E_TIMEOUT);
    MPT_EQ(kill(pid, SIGKILL), 0);
    MPT_EQ(nixl_notify_recv(1, 9, UINT64_MAX, MPT_PATIENCE, &note), NIXL_E_PEER_LOST);
}

static void put_often(int n)
{
    for (int i = 0; i < n; i++) {
        MPT_OK(nixl_put(next, region, 0, bytes, 8));
    }
}

static void *put_in_thread(void *arg)
{
    (void)arg;
    put_often(10);
    return NULL;
}

static void put_from_threads(void)
{
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        MPT_EQ(pthread_create(&threads[i], NULL, put_in_thread, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        MPT_EQ(pthread_join(threads[i], NULL), 0);
    }
}

/* A child is no rank, and records nothing. */
static void put_beside_child(void)
{
    pid_t pid = fork();
    int status = -1;

    MPT_TRUE(pid >= 0);
    for (int i = 0; pid == 0 && i < 1000; i++) {
        if (nixl_put(next, region, 0, bytes, 16) != NIXL_E_FORKED) {
            _exit(1);
        }
    }
    if (pid == 0) {
        _exit(0);
    }
    put_often(10);
    MPT_EQ(waitpid(pid, &status, 0), pid);
    MPT_EQ(status, 0);
}

#define N_CROWD 70

static pthread_barrier_t crowd_meets;

/* None gives its ring back before all have asked for one. */
static void *put_in_crowd(void *arg)
{
    put_often(10);
    pthread_barrier_wait(&crowd_meets);
    return arg;
}

static void put_from_crowd(void)
{
    pthread_t threads[N_CROWD];

    MPT_EQ(pthread_barrier_init(&crowd_meets, NULL, N_CROWD), 0);
    for (int i = 0; i < N_CROWD; i++) {
        MPT_EQ(pthread_create(&threads[i], NULL, put_in_crowd, NULL), 0);
    }
    for (int i = 0; i < N_CROWD; i++) {
        MPT_EQ(pthread_join(threads[i], NULL), 0);
    }
    MPT_EQ(pthread_barrier_destroy(&crowd_meets), 0);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * MPT_S + now.tv_nsec;
}

static void time_puts(int n)
{
    int64_t best = INT64_MAX;

    for (int i = 0; i < 20; i++) {
        int64_t began = now_ns(), took;

        put_often(n);
        took = now_ns() - began;
        best = took < best ? took : best;
    }
    printf("%.1f\n", (double)best / n);
}

static void count_faults(void)
{
    struct rusage usage;
    long n;

    put_often(1);
    MPT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    n = usage.ru_minflt;
    put_often(20000);
    MPT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    printf("%ld faults\n", usage.ru_minflt - n);
}

int main(int argc, char **argv)
{
    struct nixl_team *team;

    mpt_start();
    MPT_EQ(argc, 2);
    MPT_OK(nixl_init(NULL));
    me = nixl_rank();
    next = (me + 1) % nixl_size();
    before = (me + nixl_size() - 1) % nixl_size();
    bytes = calloc(1, LARGE);
    MPT_OK(nixl_region_alloc("traced", LARGE, NULL, &region));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    if (strcmp(argv[1], "all") == 0) {
        do_all(team);
    } else if (strcmp(argv[1], "kill") == 0) {
        wait_to_be_killed();
    } else if (strcmp(argv[1], "wrap") == 0 && me == 0) {
        put_often(10000);
    } else if (strcmp(argv[1], "threads") == 0 && me == 0) {
        put_from_threads();
    } else if (strcmp(argv[1], "crowd") == 0 && me == 0) {
        put_from_crowd();
    } else if (strcmp(argv[1], "forked") == 0 && me == 0) {
        put_beside_child();
    } else if (strcmp(argv[1], "faults") == 0 && me == 0) {
        count_faults();
    } else if (me == 0 && atoi(argv[1]) > 0) {
        put_often(1);
        time_puts(atoi(argv[1]));
    }
    if (strcmp(argv[1], "kill") != 0) {
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
        MPT_OK(nixl_team_free(team));
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    }
    MPT_OK(nixl_finalize());
    free(bytes);
    return mpt_passed();
}
