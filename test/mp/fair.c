/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many ranks on few cores: none starves while the others continue.
 *
 *     fair notes|channel|atomics|signals|teams
 *
 * All do the same until each has done so many, so that one that never gets its turn, although it
 * could, keeps the others at it until its call times out. How far they got by then is compared with
 * the median. The system may leave a rank aside for a while, or all others, but not the same one
 * each time: a rank starves if it is far behind in every one of N_EPOCHS, and where each step of a
 * rank waits for another one, a rank that is far ahead in every one starves the others.
 *
 * More ranks than there are cores share two of them: with more, a pair that has a core to itself is
 * as far ahead in every epoch as others are behind that share theirs, by the scheduler's choice of
 * places and not by the library's doing. For the same reason the halves of each pair run on
 * different ones: a pair that shares a core takes a turn of the scheduler for each of its own,
 * while another one takes thousands within a time slice.
 *
 * A sender of notifications or items that has a core to itself while the others sleep may be far
 * ahead each time: whether a woken process interrupts it is the scheduler's choice (Linux's EEVDF
 * does not). There, what every sender has sent before the receiver begins must be taken in
 * turn. And those who share the receiver's core send only while it does not take: ranks are
 * compared with those of their own core.
 */
#define _GNU_SOURCE /* cores */
#include "mptest.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_EPOCHS 10
#define FAR      16 /* so many times less, or more, than the median */
#define N_TEAMS  4
#define N_CORES  2
#define N_BUSY   4 /* one of so many ranks computes in the case of signals */
#define N_READY  4 /* notifications or items that each sender sends before; they fit into a ring */

#define TAG_WORK 0xfa00
#define TAG_END  0xfa01

#define SLOT_NBYTES 1024
#define N_SLOTS     8
#define TEAM_NBYTES 65536

#define SIGNAL_END (1ull << 62)

/* In the memory of rank 0: what each has done, of what it counts. */
struct tally {
    _Alignas(64) _Atomic uint64_t n_done;
};

struct board {
    _Atomic uint64_t n_over; /* epochs */
    struct tally tallies[];
};

struct fair_case {
    const char *name;
    void (*run)(void);
    bool (*is_counted)(int who);
    uint64_t n_least;
    void (*send)(void);    /* one notification or item, to rank 0; NULL: no rank can run ahead */
    int (*take)(void);     /* one, at rank 0: the rank of its sender */
    void (*prepare)(void); /* rank 0, before others send; may be NULL */
};

static struct nixl_region *region;
static struct board *board;
static const struct fair_case *current;
static int rank, size;
static uint64_t epoch; /* from 1 */
static _Thread_local struct nixl_note note;

/* ---- who has done what ---- */

static bool is_over(void)
{
    return atomic_load(&board->n_over) >= epoch;
}

static uint64_t done_by(int who)
{
    return atomic_load(&board->tallies[who].n_done);
}

/* Ends the epoch when all have done enough. */
static void count(int who)
{
    uint64_t before = epoch - 1;

    atomic_fetch_add(&board->tallies[who].n_done, 1);
    for (int i = 0; i < size; i++) {
        if (current->is_counted(i) && done_by(i) < current->n_least) {
            return;
        }
    }
    atomic_compare_exchange_strong(&board->n_over, &before, epoch);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int core_of(int who)
{
    return who % N_CORES;
}

/* Of the ranks of a core. */
static uint64_t find_median(int core)
{
    uint64_t *sorted = calloc((size_t)size, sizeof(*sorted)), median;
    size_t n = 0;

    for (int i = 0; i < size; i++) {
        if (current->is_counted(i) && core_of(i) == core) {
            sorted[n++] = done_by(i);
        }
    }
    MPT_TRUE(n > 0);
    qsort(sorted, n, sizeof(*sorted), compare);
    median = sorted[n / 2];
    if (rank == 0) {
        printf("epoch %" PRIu64 ", core %d: least %" PRIu64 ", median %" PRIu64 ", most %" PRIu64
               "\n",
               epoch, core, sorted[0], median, sorted[n - 1]);
    }
    free(sorted);
    return median;
}

/* What a rank has been in every epoch so far. */
struct suspect {
    bool was_behind;
    bool was_ahead;
};

/* How many are under suspicion still? */
static int judge(struct suspect *suspects)
{
    uint64_t medians[N_CORES];
    int n_left = 0;

    for (int core = 0; core < N_CORES; core++) {
        medians[core] = find_median(core);
    }
    for (int i = 0; i < size; i++) {
        bool is_counted = current->is_counted(i);
        uint64_t median = medians[core_of(i)];

        suspects[i].was_behind &= is_counted && done_by(i) * FAR < median;
        suspects[i].was_ahead &= is_counted && done_by(i) > median * FAR;
        n_left += suspects[i].was_behind || suspects[i].was_ahead;
    }
    return n_left;
}

static bool counts_all(int who)
{
    (void)who;
    return true;
}

static bool counts_others(int who)
{
    return who != 0;
}

/* ---- what is there is taken in turn ---------------------------------------------------------- */

/* Take one from each sender. */
static void take_round(void)
{
    bool *was_taken = calloc((size_t)size, sizeof(*was_taken));

    for (int i = 1; i < size; i++) {
        int from = current->take();

        MPT_LT(from, size);
        MPT_EQ(was_taken[from], false);
        was_taken[from] = true;
    }
    free(was_taken);
}

/* The barrier is a team's: mptest's would receive what is there. */
static void check_turns(void)
{
    struct nixl_team *world;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    if (rank == 0 && current->prepare != NULL) {
        current->prepare();
    }
    for (int i = 0; i < N_READY && rank != 0; i++) {
        current->send();
    }
    MPT_OK(nixl_barrier(world, MPT_PATIENCE));
    for (int i = 0; i < N_READY && rank == 0; i++) {
        take_round();
    }
    MPT_OK(nixl_team_free(world));
}

/* ---- notifications of all to one ---- */

static void send_note(void)
{
    static const char payload[SLOT_NBYTES];

    MPT_OK(nixl_notify(0, TAG_WORK, payload, sizeof(payload), MPT_PATIENCE));
}

static int take_note(void)
{
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_WORK, ~1ull, MPT_PATIENCE, &note));
    return note.rank;
}

static void flood(void)
{
    while (!is_over()) {
        send_note();
    }
    MPT_OK(nixl_notify(0, TAG_END, NULL, 0, MPT_PATIENCE));
}

static void take_notes(void)
{
    for (int n_ended = 0; n_ended < size - 1;) {
        int from = take_note();

        if (note.tag == TAG_END) {
            n_ended++;
        } else if (!is_over()) {
            count(from);
        }
    }
}

static void run_notes(void)
{
    if (rank == 0) {
        take_notes();
    } else {
        flood();
    }
}

/* ---- items of all for one ---- */

static struct nixl_channel *get_channel(void)
{
    static struct nixl_channel *channel;

    if (channel == NULL) {
        MPT_OK(nixl_channel_open("fair", rank == 0 ? NIXL_ANY_RANK : 0,
                                 rank == 0 ? NIXL_CHANNEL_CONSUMER : NIXL_CHANNEL_PRODUCER,
                                 SLOT_NBYTES, N_SLOTS, NULL, &channel));
    }
    return channel;
}

static void open_channel(void)
{
    (void)get_channel();
}

static void publish(size_t nbytes)
{
    void *slot;

    MPT_OK(nixl_channel_acquire(get_channel(), MPT_PATIENCE, &slot));
    MPT_OK(nixl_channel_publish(get_channel(), nbytes));
}

static void publish_item(void)
{
    publish(SLOT_NBYTES);
}

static size_t receive(int *from)
{
    size_t nbytes;
    void *slot;

    MPT_OK(nixl_channel_recv(get_channel(), MPT_PATIENCE, &slot, &nbytes, from));
    MPT_OK(nixl_channel_release(get_channel(), slot));
    return nbytes;
}

static int receive_item(void)
{
    int from;

    receive(&from);
    return from;
}

static void produce(void)
{
    while (!is_over()) {
        publish_item();
    }
    publish(0);
}

static void consume(void)
{
    for (int n_ended = 0, from; n_ended < size - 1;) {
        if (receive(&from) == 0) {
            n_ended++;
        } else if (!is_over()) {
            count(from);
        }
    }
}

static void run_channel(void)
{
    if (rank == 0) {
        consume();
    } else {
        produce();
    }
}

/* ---- words that one process changes for all others ---- */

static void run_atomics(void)
{
    static struct nixl_region *words;
    static uint64_t word;
    const uint64_t one = 1;

    if (words == NULL) {
        MPT_OK(nixl_region_register("fair.words", &word, sizeof(word), NULL, &words));
    }
    while (rank != 0 && !is_over()) {
        MPT_OK(nixl_atomic(0, words, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL));
        count(rank);
    }
}

/* ---- pairs that wait for each other, among ranks that compute ---- */

static bool counts_pairs(int who)
{
    return who / 2 % N_BUSY != 0;
}

/* The even one of a pair leads. A signal counts its turns, or says that it was the last. */
static void play(struct nixl_region *signals, const uint64_t *mine)
{
    static uint64_t turn;
    int other = rank ^ 1;
    uint64_t seen = 0;

    while (seen < SIGNAL_END) {
        turn++;
        if (rank % 2 == 0) {
            bool is_last = is_over();

            MPT_OK(nixl_signal_set(other, signals, 0, is_last ? turn + SIGNAL_END : turn));
            if (is_last) {
                break;
            }
        }
        MPT_OK(nixl_signal_wait(mine, NIXL_COMPARE_GE, turn, MPT_PATIENCE, &seen));
        if (rank % 2 != 0 && seen < SIGNAL_END) {
            MPT_OK(nixl_signal_set(other, signals, 0, turn));
        }
        count(rank);
    }
}

static void run_signals(void)
{
    static struct nixl_region *signals;
    static uint64_t *mine;

    if (signals == NULL) {
        MPT_OK(nixl_region_alloc("fair.signals", sizeof(uint64_t), NULL, &signals));
        mine = nixl_region_addr(signals);
    }
    atomic_store((_Atomic uint64_t *)(void *)mine, 0);
    mpt_barrier();
    if (counts_pairs(rank)) {
        play(signals, mine);
    }
    while (!is_over()) { /* computes */
    }
}

/* ---- teams beside each other ---- */

static void run_teams(void)
{
    static struct nixl_team *world, *team;
    static float from[TEAM_NBYTES / sizeof(float)], to[TEAM_NBYTES / sizeof(float)];
    struct nixl_reduce_args sum = NIXL_REDUCE_ARGS_INIT, most = NIXL_REDUCE_ARGS_INIT;
    uint64_t mine = 0, all = 0;

    if (team == NULL) {
        MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
        MPT_OK(nixl_team_split(world, rank % N_TEAMS, rank, MPT_PATIENCE, &team));
    }
    sum.src = from;
    sum.dst = to;
    sum.count = TEAM_NBYTES / sizeof(float);
    sum.type = NIXL_TYPE_FLOAT;
    sum.op = NIXL_REDUCE_SUM;
    most.src = &mine;
    most.dst = &all;
    most.count = 1;
    most.type = NIXL_TYPE_UINT64;
    most.op = NIXL_REDUCE_MAX;
    while (all == 0) {
        MPT_OK(nixl_allreduce(team, &sum, MPT_PATIENCE));
        count(rank);
        mine = is_over();
        MPT_OK(nixl_allreduce(team, &most, MPT_PATIENCE)); /* all of a team end together */
    }
}

/* ---- all ---- */

static const struct fair_case cases[] = {
    {"notes", run_notes, counts_others, 2000, send_note, take_note, NULL},
    {"channel", run_channel, counts_others, 2000, publish_item, receive_item, open_channel},
    {"atomics", run_atomics, counts_others, 300, NULL, NULL, NULL},
    {"signals", run_signals, counts_pairs, 100, NULL, NULL, NULL},
    {"teams", run_teams, counts_all, 500, NULL, NULL, NULL}};

static cpu_set_t few; /* the cores that ranks share; none, where each has one */

/* Before nixl_init(), which counts the cores. */
static void crowd(void)
{
    const char *n_ranks = getenv("WORLD_SIZE");
    cpu_set_t all;

    MPT_TRUE(n_ranks != NULL);
    MPT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    if (atol(n_ranks) <= CPU_COUNT(&all)) {
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < N_CORES; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &few);
        }
    }
    MPT_EQ(sched_setaffinity(0, sizeof(few), &few), 0);
}

/* The thread that calls has one of the few cores, others of the rank have all of them. */
static void take_core(void)
{
    int n_before = core_of(rank), cpu = 0;
    cpu_set_t mine;

    if (CPU_COUNT(&few) < N_CORES) {
        return;
    }
    while (!CPU_ISSET(cpu, &few) || n_before-- > 0) {
        cpu++;
    }
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    MPT_EQ(sched_setaffinity(0, sizeof(mine), &mine), 0);
}

int main(int argc, char **argv)
{
    struct suspect *suspects;
    size_t which = 0;
    int n_suspects;

    mpt_start();
    while (argc < 2 || strcmp(cases[which].name, argv[1]) != 0) {
        MPT_LT(++which, sizeof(cases) / sizeof(cases[0]));
    }
    current = &cases[which];
    crowd();
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    take_core();
    MPT_EQ(size % 2, 0); /* pairs */
    suspects = malloc((size_t)size * sizeof(*suspects));
    for (int i = 0; i < size; i++) {
        suspects[i] = (struct suspect){.was_behind = true, .was_ahead = current->send == NULL};
    }
    if (current->send != NULL) {
        check_turns();
    }
    MPT_OK(nixl_region_alloc("board", sizeof(*board) + (size_t)size * sizeof(struct tally), NULL,
                             &region));
    mpt_barrier();
    MPT_OK(nixl_region_map(0, region, (void **)&board));
    do {
        epoch++;
        atomic_store(&board->tallies[rank].n_done, 0);
        mpt_barrier();
        current->run();
        mpt_barrier();
        n_suspects = judge(suspects);
        mpt_barrier();
    } while (n_suspects > 0 && epoch < N_EPOCHS);
    MPT_EQ(n_suspects, 0);
    MPT_OK(nixl_region_unmap(0, region, board));
    MPT_OK(nixl_finalize());
    free(suspects);
    return mpt_passed();
}
