/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that never end, one of each kind, for test_waits.sh, which looks at them from outside and
 * ends them: stuck KIND [WHERE]. Two ranks, or as many as there are: the others act as rank 1.
 */
#include "mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct nixl_team *world;
static struct nixl_region *words;
static struct nixl_channel *items;
static const char *where; /* another job is to be met */
static int rank;

static void await_tag(int from, uint64_t tag)
{
    static _Thread_local struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(from, tag, UINT64_MAX, NIXL_FOREVER, &note));
}

static void await_word(uint64_t value)
{
    const uint64_t *word = nixl_region_addr(words);

    while (nixl_signal_wait(word, NIXL_COMPARE_EQ, value, NIXL_FOREVER, NULL) == NIXL_E_PEER_LOST) {
    }
}

static void meet(void)
{
    MPT_OK(nixl_barrier(world, NIXL_FOREVER));
}

/* No rank sends what rank 0 waits for. */
static void missing(void)
{
    if (rank == 0) {
        await_tag(1, 42);
    }
    meet();
}

/* Any of a set of tags would do. */
static void masked(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    if (rank == 0) {
        MPT_OK(nixl_notify_recv(1, 0x4200, 0xff00, NIXL_FOREVER, &note));
    }
    meet();
}

static void wrong_tag(void)
{
    if (rank == 1) {
        MPT_OK(nixl_notify(0, 41, "late", 4, MPT_PATIENCE));
    }
    missing();
}

/* Nobody looks for notifications: it stays where the sender has put it. */
static void unseen(void)
{
    if (rank == 1) {
        MPT_OK(nixl_notify(0, 43, "late", 4, MPT_PATIENCE));
    }
    if (rank == 0) {
        await_word(5);
    }
    meet();
}

static void wrong_signal(void)
{
    if (rank == 1) {
        MPT_OK(nixl_signal_set(0, words, 0, 3));
    }
    if (rank == 0) {
        await_word(5);
    }
    meet();
}

/* All but rank 1 call the team. */
static void some_of_team(void)
{
    if (rank == 1) {
        await_tag(0, 7);
    }
    meet();
}

/* Both send, and none receives. */
static void full_queues(void)
{
    static const char bytes[1024];

    while (nixl_notify(1 - rank, 9, bytes, sizeof(bytes), NIXL_FOREVER) == NIXL_OK) {
    }
}

/* From that rank to the next one. */
static void fill_channel(int first)
{
    void *slot;

    MPT_OK(nixl_channel_open("items", rank == first ? first + 1 : first,
                             rank == first ? NIXL_CHANNEL_PRODUCER : NIXL_CHANNEL_CONSUMER, 64, 4,
                             NULL, &items));
    while (rank == first && nixl_channel_acquire(items, NIXL_FOREVER, &slot) == NIXL_OK) {
        MPT_OK(nixl_channel_publish(items, 8));
    }
    meet();
}

static void full_channel(void)
{
    fill_channel(0);
}

static void stopped_peer(void)
{
    if (rank == 1) {
        raise(SIGSTOP);
    }
    await_tag(1, 42);
}

/* Rank 0 has heard of the death, and waits for a word that nobody sets. */
static void dead_peer(void)
{
    if (rank == 1) {
        raise(SIGKILL);
    }
    await_word(5);
}

static void outside(void)
{
    while (rank == 1) {
        pause();
    }
    meet();
}

static void finalize(void)
{
    if (rank == 1) {
        await_tag(0, 42);
    }
}

/* Each waits for the next one. */
static void ring(void)
{
    await_tag((rank + 1) % nixl_size(), 42);
}

/* A ring of which each link is another call. */
static void mixed_ring(void)
{
    if (rank == 0) {
        await_tag(1, 42);
    }
    if (rank > 0) {
        fill_channel(1);
    }
}

static void *await_first(void *arg)
{
    (void)arg;
    await_tag(1, 1);
    return NULL;
}

/* Two threads of rank 0 wait, one for rank 1, which waits for rank 0, the other one for rank 2. */
static void threads(void)
{
    pthread_t thread;

    if (rank == 0) {
        MPT_EQ(pthread_create(&thread, NULL, await_first, NULL), 0);
        await_tag(2, 2);
        MPT_EQ(pthread_join(thread, NULL), 0);
    }
    if (rank == 1) {
        await_tag(0, 7);
    }
    while (rank == 2) {
        pause();
    }
}

/* Rank 0 waits for rank 0 of another job, and that one for it; rank 1 for rank 0. */
static void published(void)
{
    if (rank == 0) {
        MPT_OK(nixl_publish(where, "stuck", NULL));
        await_tag(NIXL_ANY_RANK, 1);
        await_tag(nixl_size(), 42);
    }
    await_tag(0, 7);
}

static void attached(void)
{
    int peer;

    if (rank == 0) {
        while (nixl_attach(where, "stuck", NULL, MPT_PATIENCE, &peer) == NIXL_E_NOT_FOUND) {
            usleep(1000);
        }
        MPT_OK(nixl_notify(peer, 1, "here", 4, MPT_PATIENCE));
        await_tag(peer, 42);
    }
    await_tag(0, 7);
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"missing", missing},           {"wrong_tag", wrong_tag},     {"wrong_signal", wrong_signal},
    {"some_of_team", some_of_team}, {"full_queues", full_queues}, {"full_channel", full_channel},
    {"stopped_peer", stopped_peer}, {"dead_peer", dead_peer},     {"outside", outside},
    {"finalize", finalize},         {"unseen", unseen},           {"ring", ring},
    {"mixed_ring", mixed_ring},     {"threads", threads},         {"published", published},
    {"attached", attached},         {"masked", masked},
};

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    const char *number = getenv("PMIX_RANK");

    where = argc > 2 ? argv[2] : NULL;
    mpt_start();
    while (strcmp(kind, "init") == 0 && number != NULL && strcmp(number, "1") == 0) {
        pause();
    }
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    MPT_OK(nixl_region_alloc("words", 64, NULL, &words));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    MPT_OK(nixl_barrier(world, MPT_PATIENCE));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, kind) == 0) {
            kinds[i].run();
        }
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
