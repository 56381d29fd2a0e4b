/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are killed again and again and come back: restart KILLS. Rank 0 stays. It puts
 * to and gets from the others, which all put to it meanwhile, kills one of them in the midst, and
 * readmits the process that nixlrun starts in its place. Every byte is checked at both ends; it
 * depends on the rank and on the incarnation, so that what is left of a former process is noticed.
 *
 * At the end the process must have as many descriptors as after the first return, and about as
 * much memory. The times from the end of nixl_init() to the first bytes that have arrived and are
 * right are printed.
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOT_NBYTES     16384
#define TAG_HELLO       1 /* struct hello: a process has joined, and its bytes lie at rank 0 */
#define TAG_MORE        2 /* its bytes lie there again */
#define TAG_END         3 /* from rank 0: leave */
#define MOST_RANKS      16
#define MOST_GROWTH_KIB 4096
#define UCX_KEEPS_KIB   2 /* of each connection that it has ever had, besides pools that fill up */

struct hello {
    uint32_t incarnation;
    int32_t pid;
    int64_t joined_at; /* mpt_now_ns() after nixl_init() */
    uint64_t round;    /* which bytes */
};

static unsigned char bytes[SLOT_NBYTES];
static struct nixl_region *home, *work; /* of rank 0: a slot for each; of each: one slot */

static uint64_t seed_of(int rank, uint32_t incarnation, uint64_t round)
{
    return ((uint64_t)(unsigned)rank << 56) ^ ((uint64_t)incarnation << 32) ^ round;
}

/* ---- the ranks that die ---------------------------------------------------------------------- */

/* Put this rank's bytes to rank 0 and say so. */
static void worker_send(uint64_t tag, struct hello *hello)
{
    int rank = nixl_rank();

    mpt_fill(bytes, SLOT_NBYTES, seed_of(rank, hello->incarnation, ++hello->round));
    MPT_OK(nixl_put(0, home, (uint64_t)rank * SLOT_NBYTES, bytes, SLOT_NBYTES));
    MPT_OK(nixl_notify(0, tag, hello, sizeof(*hello), MPT_PATIENCE));
}

/* What a rank that comes back has missed is no news to it, and the launcher lives. */
static void check_events(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    while (nixl_event_recv(0, &event) == NIXL_OK) {
        MPT_NE(event.type, NIXL_EVENT_LAUNCHER_LOST);
        MPT_NE(event.rank, 0);
    }
}

static void worker(struct hello *hello)
{
    struct nixl_note note;
    int status;

    mpt_fill(nixl_region_addr(work), SLOT_NBYTES, seed_of(nixl_rank(), hello->incarnation, 0));
    worker_send(TAG_HELLO, hello);
    nixl_note_init(&note);
    for (;;) {
        status = nixl_notify_recv(0, 0, 0, 2 * MPT_PATIENCE, &note); /* rank 0 may measure */
        MPT_OK(status);
        check_events();
        if (note.tag == TAG_END) {
            return;
        }
        worker_send(TAG_MORE, hello); /* rank 0 has taken the former ones */
    }
}

/* ---- the rank that stays --------------------------------------------------------------------- */

struct known {
    struct hello hello;
    struct nixl_xfer *xfer; /* that gets its slot */
    int scope;              /* of its first process */
};

static struct known known[MOST_RANKS];
static int64_t *times; /* until the first bytes of each return */
static int n_times;
static unsigned char fetched[SLOT_NBYTES];

/* Take its bytes of that round out of the slot here. */
static void take_slot(int rank, const struct hello *hello)
{
    const unsigned char *slot = nixl_region_addr(home);

    MPT_CHECK(slot + (size_t)rank * SLOT_NBYTES, SLOT_NBYTES,
              seed_of(rank, hello->incarnation, hello->round));
}

/* A process has joined: its first bytes are here. */
static void meet(int rank, uint32_t incarnation)
{
    struct known *of = &known[rank];
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, TAG_HELLO, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ((int)note.nbytes, (int)sizeof(of->hello));
    memcpy(&of->hello, note.payload, sizeof(of->hello));
    MPT_EQ(of->hello.incarnation, incarnation);
    take_slot(rank, &of->hello);
    if (incarnation > 0) {
        times[n_times++] = mpt_now_ns() - of->hello.joined_at;
    }
}

/* Prepare a transfer that gets its bytes. */
static void prepare(int rank)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;

    local.addr = fetched;
    remote.region = work;
    local.block_nbytes = remote.block_nbytes = SLOT_NBYTES;
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, rank, &local, 1, &remote, 1, &known[rank].xfer));
}

/* The transfer of the former process fails, and a new one serves. */
static void prepare_again(int rank)
{
    MPT_EQ(nixl_xfer_start(known[rank].xfer, NULL), NIXL_E_STALE);
    MPT_OK(nixl_xfer_free(known[rank].xfer));
    prepare(rank);
    memset(fetched, 0, SLOT_NBYTES);
    MPT_TRUE(nixl_xfer_start(known[rank].xfer, NULL) >= NIXL_OK);
    MPT_OK(nixl_xfer_wait(known[rank].xfer, MPT_PATIENCE));
    MPT_CHECK(fetched, SLOT_NBYTES, seed_of(rank, known[rank].hello.incarnation, 0));
}

/* One exchange with each; true: that rank is lost. */
static bool traffic_is_cut(int rank)
{
    struct known *of = &known[rank];
    struct nixl_note note;
    int status = nixl_get(rank, work, 0, fetched, SLOT_NBYTES);

    if (status == NIXL_OK) {
        MPT_CHECK(fetched, SLOT_NBYTES, seed_of(rank, of->hello.incarnation, 0));
        status = nixl_notify(rank, TAG_MORE, NULL, 0, MPT_PATIENCE);
    }
    nixl_note_init(&note);
    if (status == NIXL_OK) {
        status = nixl_notify_recv(rank, TAG_MORE, UINT64_MAX, MPT_PATIENCE, &note);
    }
    if (status == NIXL_OK) {
        memcpy(&of->hello, note.payload, sizeof(of->hello));
        take_slot(rank, &of->hello);
        return false;
    }
    MPT_EQ(status, NIXL_E_PEER_LOST);
    return true;
}

static void expect_event(int type, int rank, uint32_t incarnation)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (event.type == NIXL_EVENT_REGION_CLOSED);
    MPT_EQ(event.type, type);
    MPT_EQ(event.rank, rank);
    MPT_EQ(event.incarnation, incarnation);
}

/* The rank has died: take it back. */
static void take_back(int rank)
{
    uint32_t former = known[rank].hello.incarnation;
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;

    expect_event(NIXL_EVENT_PEER_LOST, rank, former);
    expect_event(NIXL_EVENT_PEER_JOINED, rank, former + 1);
    MPT_EQ(nixl_get(rank, work, 0, fetched, SLOT_NBYTES), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_peer_state(rank), NIXL_PEER_LOST);
    MPT_EQ(nixl_peer_readmit(rank, former), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_peer_readmit(rank, former + 2), NIXL_E_PEER_LOST);
    MPT_OK(nixl_peer_readmit(rank, former + 1));
    MPT_OK(nixl_peer_readmit(rank, former + 1));
    meet(rank, former + 1);
    MPT_OK(nixl_peer_query(rank, &info));
    MPT_EQ(info.incarnation, former + 1);
    MPT_EQ(info.state, NIXL_PEER_ALIVE);
    MPT_EQ(info.scope, known[rank].scope);
    prepare_again(rank);
}

/* What the process has when nothing of former processes is kept any more. */
struct use {
    int n_fds;
    long kib;
};

/* Peers are freed some seconds after their processes have been replaced. */
static struct use measure(int n_fds_at_most)
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    while (mpt_n_descriptors() > n_fds_at_most && mpt_now_ns() < until) {
        usleep(10000);
    }
    return (struct use){mpt_n_descriptors(), mpt_resident_kib()};
}

static int compare_times(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;

    return (first > second) - (first < second);
}

static long most_growth_kib(int n_kills)
{
    bool is_ucx = mpt_network() != NULL && strcmp(mpt_network(), "ucx") == 0;

    return MOST_GROWTH_KIB + (is_ucx ? n_kills * UCX_KEEPS_KIB : 0);
}

/* In ms: of that part of the returns, the slowest. */
static double time_of(double part)
{
    return n_times > 0 ? (double)times[(int)(part * (n_times - 1))] / 1e6 : 0;
}

static void boss(int n_kills)
{
    struct use first, last;
    uint64_t random = 17;
    int n_fds;

    times = calloc((size_t)n_kills + 1, sizeof(*times));
    MPT_TRUE(times != NULL);
    for (int rank = 1; rank < nixl_size(); rank++) {
        struct nixl_peer_info info = NIXL_PEER_INFO_INIT;

        meet(rank, 0);
        prepare(rank);
        MPT_OK(nixl_peer_query(rank, &info));
        known[rank].scope = info.scope;
    }
    /* A page of rings for each that comes back; networks keep some connections for a while. */
    n_fds = mpt_n_descriptors() + (mpt_network() != NULL ? 4 : 1) * nixl_size();
    first = measure(n_fds);
    for (int i = 0; i < n_kills; i++) {
        int rank = 1 + (int)(mpt_random(&random) % (uint64_t)(nixl_size() - 1));
        int when = (int)(mpt_random(&random) % 8), n = 0;
        bool is_cut = false;

        while (!is_cut) {
            for (int other = 1; other < nixl_size(); other++) {
                bool is_lost = traffic_is_cut(other);

                MPT_TRUE(!is_lost || other == rank);
                is_cut |= is_lost;
            }
            if (n++ == when) {
                kill(known[rank].hello.pid, SIGKILL);
            }
        }
        take_back(rank);
        if (i == n_kills / 10) {
            first = measure(n_fds);
        }
    }
    last = measure(n_fds);
    MPT_TRUE(last.n_fds <= n_fds);
    MPT_LT(last.kib, first.kib + most_growth_kib(n_kills));
    for (int rank = 1; rank < nixl_size(); rank++) {
        MPT_OK(nixl_notify(rank, TAG_END, NULL, 0, MPT_PATIENCE));
    }
    qsort(times, (size_t)n_times, sizeof(*times), compare_times);
    printf("%d kills and returns: first bytes after %.3f ms (median), %.3f ms (of 99 %%), %.3f ms "
           "at most; descriptors %d, then %d; memory %ld KiB, then %ld\n",
           n_kills, time_of(0.5), time_of(0.99), time_of(1), first.n_fds, last.n_fds, first.kib,
           last.kib);
    free(times);
}

/* nixlrun must not start a rank again that has found a fault. */
static void end_job(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    nixl_abort(1, "a check has failed");
}

int main(int argc, char **argv)
{
    struct hello hello = {.pid = getpid()};

    mpt_start();
    mpt_on_fail = end_job;
    MPT_OK(nixl_init(NULL));
    hello.joined_at = mpt_now_ns();
    hello.incarnation = (uint32_t)nixl_incarnation();
    MPT_OK(nixl_region_alloc("work", SLOT_NBYTES, NULL, &work));
    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_alloc("home", MOST_RANKS * SLOT_NBYTES, NULL, &home));
        boss(argc > 1 ? atoi(argv[1]) : 1);
    } else {
        MPT_OK(nixl_region_open("home", &home));
        worker(&hello);
    }
    mpt_finalize();
    return mpt_passed();
}
