/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel for any rank whose producers are attached processes, for test_channel.sh. Usage:
 *     attach_channel consume WHERE NAME N_PRODUCERS
 *     attach_channel produce WHERE NAME N_ITEMS close|finalize|die|detached [CYCLES]
 *     attach_channel narrow WHERE NAME         (a consumer without memory for slots, at first)
 *     attach_channel squeeze WHERE NAME        (its producer)
 * Rank 0 of the consuming job receives; its other ranks produce too. Items are of changing size,
 * and their bytes depend on the process and the item's number. A producer closes its end and opens
 * it again now and then, and ends as its word says: only one that ends without closing its end is
 * reported, once and behind its last item. `detached` is one that the consumer detaches. With
 * CHANNEL_CONTEXT=NAME the channel is in that context, and the consumer has one of the same name,
 * with smaller slots, in none.
 */
#include "attach_figures.h"
#include "test/mp/mptest.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SCHEMA      "items"
#define SLOT_NBYTES 20000
#define N_SLOTS     4
#define N_UNTIL_NEW 37
#define N_MANY      500 /* producers, whose peers and lanes must have been freed */
#define TAG_TURN    1
#define LITTLE      (64 << 10) /* less than N_SLOTS slots, and more than their ledger */

enum how { CLOSE, FINALIZE, DIE, DETACHED };
static const char *const words[] = {"close", "finalize", "die", "detached"};

struct head {
    int32_t pid;
    int32_t how;
    uint64_t number, n_items; /* `number` counts from 0 in each attachment */
};

/* What the consumer knows of a producer. */
struct seen {
    struct head head; /* of its latest item */
    bool is_known, has_ended;
};

static const char *where, *name;
static struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT; /* the context, if it is in one */

static size_t size_of(const struct head *head)
{
    return sizeof(*head) + head->number * 7919 % (SLOT_NBYTES - sizeof(*head));
}

static uint64_t seed_of(const struct head *head)
{
    return ((uint64_t)head->pid << 32) ^ head->number;
}

/* ---- producers ------------------------------------------------------------------------------- */

static struct nixl_channel *open_end(int rank)
{
    struct nixl_channel *channel;

    MPT_OK(nixl_channel_open("items", rank, NIXL_CHANNEL_PRODUCER, SLOT_NBYTES, N_SLOTS, &params,
                             &channel));
    return channel;
}

static struct nixl_channel *produce_items(int rank, struct head *head)
{
    struct nixl_channel *channel = open_end(rank);

    for (head->number = 0; head->number < head->n_items; head->number++) {
        size_t nbytes = size_of(head);
        void *slot;

        if (head->number % N_UNTIL_NEW == N_UNTIL_NEW - 1) {
            MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
            channel = open_end(rank);
        }
        MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
        memcpy(slot, head, sizeof(*head));
        mpt_fill((unsigned char *)slot + sizeof(*head), nbytes - sizeof(*head), seed_of(head));
        MPT_OK(nixl_channel_publish(channel, nbytes));
    }
    return channel;
}

/* The consumer detaches this process sooner or later. */
static void produce_until_detached(struct nixl_channel *channel)
{
    int status;
    void *slot;

    do {
        status = nixl_channel_acquire(channel, MPT_PATIENCE, &slot);
    } while (status == NIXL_OK && (status = nixl_channel_publish(channel, 1)) == NIXL_OK);
    MPT_TRUE(status == NIXL_E_PEER_LOST || status == NIXL_E_STALE);
}

static void produce(uint64_t n_items, enum how how, int n_cycles)
{
    struct nixl_channel *channel;
    void *slot;
    int rank;

    for (int i = 0; i < n_cycles; i++) {
        struct head head = {.pid = getpid(), .how = (int32_t)how, .n_items = n_items};

        MPT_OK(nixl_attach(where, name, SCHEMA, MPT_PATIENCE, &rank));
        channel = produce_items(rank, &head);
        if (how == DIE) {
            MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
            memset(slot, 0xee, SLOT_NBYTES / 2); /* the item that it dies in */
            MPT_OK(nixl_flush(rank, MPT_PATIENCE));
            kill(getpid(), SIGKILL);
        } else if (how == DETACHED) {
            produce_until_detached(channel);
        } else if (how == FINALIZE) {
            return;
        }
        MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
        MPT_OK(nixl_detach(rank, MPT_PATIENCE));
    }
}

/* ---- the consumer ---------------------------------------------------------------------------- */

static void say_published(void)
{
    char text[512];

    MPT_OK(nixl_publish_query(where, name, text, sizeof(text)));
    printf("published\nat %s\n", text);
    fflush(stdout);
}

/* An item has come. Is it the last one of its producer, of which nothing more is to be heard? */
static bool take_item(struct seen *seen, const void *slot, size_t nbytes)
{
    struct head head;

    if (seen->has_ended && seen->head.how == DETACHED) {
        return false;
    }
    MPT_TRUE(!seen->has_ended);
    memcpy(&head, slot, sizeof(head));
    MPT_EQ(head.number, seen->is_known ? seen->head.number + 1 : 0);
    MPT_TRUE(!seen->is_known || head.pid == seen->head.pid);
    MPT_EQ(nbytes, size_of(&head));
    MPT_CHECK((const unsigned char *)slot + sizeof(head), nbytes - sizeof(head), seed_of(&head));
    seen->head = head;
    seen->is_known = true;
    seen->has_ended =
        (head.how == CLOSE || head.how == DETACHED) && head.number + 1 == head.n_items;
    return seen->has_ended;
}

static void take_loss(struct seen *seen)
{
    MPT_TRUE(seen->is_known && !seen->has_ended);
    MPT_TRUE(seen->head.how == DIE || seen->head.how == FINALIZE);
    MPT_EQ(seen->head.number + 1, seen->head.n_items);
    seen->has_ended = true;
}

/* What the lanes of those that have ended took is free again, once the consumer receives. */
static void settle(struct nixl_channel *channel, const struct figures *goal)
{
    int64_t deadline = mpt_now_ns() + MPT_PATIENCE;
    void *slot;

    while (!figures_are_within(goal, 8) || !figures_heap_is_within(goal)) {
        int status = nixl_channel_recv(channel, 20 * MPT_MS, &slot, NULL, NULL);

        MPT_TRUE(status == NIXL_E_TIMEOUT || status == NIXL_OK); /* of one that was detached */
        if (status == NIXL_OK) {
            MPT_OK(nixl_channel_release(channel, slot));
        }
        if (mpt_now_ns() >= deadline) {
            figures_now("late");
        }
        MPT_TRUE(mpt_now_ns() < deadline);
    }
}

static void consume(int n_producers)
{
    int n_most = nixl_size() + n_producers + 1;
    struct nixl_event event = NIXL_EVENT_INIT;
    struct figures goal;
    struct seen *seen = calloc((size_t)n_most, sizeof(*seen));
    struct nixl_channel *channel, *other = NULL;

    MPT_TRUE(seen != NULL);
    if (params.context != NULL) {
        MPT_OK(
            nixl_channel_open("items", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, 8, 1, NULL, &other));
    }
    MPT_OK(nixl_channel_open("items", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT_NBYTES, N_SLOTS,
                             &params, &channel));
    MPT_OK(nixl_publish(where, name, SCHEMA));
    goal = figures_now("before");
    say_published();
    n_producers += nixl_size() - 1;
    for (int n_ended = 0; n_ended < n_producers;) {
        size_t nbytes;
        bool has_ended;
        int rank, status;
        void *slot;

        status = nixl_channel_recv(channel, MPT_PATIENCE, &slot, &nbytes, &rank);
        if (status == NIXL_E_PEER_LOST) {
            rank = nixl_last_error()->rank;
            MPT_TRUE(rank >= nixl_size() && rank < n_most);
            take_loss(&seen[rank]);
            has_ended = true;
        } else {
            MPT_OK(status);
            MPT_TRUE(rank >= 0 && rank < n_most);
            has_ended = take_item(&seen[rank], slot, nbytes);
            MPT_OK(nixl_channel_release(channel, slot));
        }
        n_ended += has_ended;
        while (nixl_event_recv(0, &event) == NIXL_OK) { /* else they are kept */
        }
        if (has_ended && rank >= nixl_size()) { /* which the producer may do at the same time */
            MPT_OK(nixl_detach(rank, MPT_PATIENCE));
        }
    }
    goal.descriptors += 4; /* of ranks of this job */
    /*
     * Handles are kept for reuse, as many as were in use at once; networks keep more. A number
     * costs less than 128 bytes: its place in the table of peers, of which former ones are kept, in
     * the list of deaths, and in the tables of regions.
     */
    goal.kib = n_producers < N_MANY ? LONG_MAX : goal.kib + 320 + n_producers / 8;
    settle(channel, &goal);
    figures_now("after");
    MPT_OK(nixl_unpublish(where, name));
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
    if (other != NULL) {
        MPT_OK(nixl_channel_close(other, MPT_PATIENCE));
    }
    free(seen);
}

/* ---- no memory for slots --------------------------------------------------------------------- */

static void wait_turn(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_TURN, UINT64_MAX, MPT_PATIENCE, &note));
}

static void set_largest_file(rlim_t nbytes)
{
    struct rlimit limit;

    MPT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = nbytes;
    MPT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void narrow(void)
{
    struct nixl_channel *channel;
    size_t nbytes;
    void *slot;
    int rank;

    signal(SIGXFSZ, SIG_IGN);
    MPT_OK(nixl_channel_open("items", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT_NBYTES, N_SLOTS,
                             &params, &channel));
    set_largest_file(LITTLE);
    MPT_OK(nixl_publish(where, name, SCHEMA));
    say_published();
    wait_turn(); /* the producer was refused */
    set_largest_file(RLIM_INFINITY);
    MPT_EQ(nixl_channel_recv(channel, 0, &slot, &nbytes, &rank), NIXL_INPROGRESS);
    MPT_OK(nixl_notify(nixl_size(), TAG_TURN, NULL, 0, MPT_PATIENCE));
    MPT_OK(nixl_channel_recv(channel, MPT_PATIENCE, &slot, &nbytes, &rank));
    MPT_EQ(rank, nixl_size());
    MPT_OK(nixl_channel_release(channel, slot));
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
    MPT_OK(nixl_unpublish(where, name));
}

static void squeeze(void)
{
    struct nixl_channel *channel;
    struct head head = {.pid = getpid(), .n_items = 1};
    int rank;

    MPT_OK(nixl_attach(where, name, SCHEMA, MPT_PATIENCE, &rank));
    MPT_EQ(nixl_channel_open("items", rank, NIXL_CHANNEL_PRODUCER, SLOT_NBYTES + 1, N_SLOTS,
                             &params, &channel),
           NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_channel_open("items", rank, NIXL_CHANNEL_PRODUCER, SLOT_NBYTES, N_SLOTS, &params,
                             &channel),
           NIXL_E_NO_MEMORY);
    puts(nixl_last_error()->text);
    MPT_OK(nixl_notify(rank, TAG_TURN, NULL, 0, MPT_PATIENCE));
    wait_turn();
    MPT_OK(nixl_channel_close(produce_items(rank, &head), MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_TRUE(argc >= 4);
    where = argv[2];
    name = argv[3];
    MPT_OK(nixl_init(NULL));
    if (getenv("CHANNEL_CONTEXT") != NULL) {
        MPT_OK(nixl_context_open(getenv("CHANNEL_CONTEXT"), NULL, &params.context));
    }
    if (strcmp(argv[1], "consume") == 0 && nixl_rank() > 0) {
        struct head head = {.pid = getpid(), .how = CLOSE, .n_items = 200};

        MPT_OK(nixl_channel_close(produce_items(0, &head), MPT_PATIENCE));
    } else if (strcmp(argv[1], "consume") == 0 && argc > 4) {
        consume(atoi(argv[4]));
    } else if (strcmp(argv[1], "produce") == 0 && argc > 5) {
        enum how how = CLOSE;

        while (strcmp(argv[5], words[how]) != 0) {
            MPT_TRUE(how < DETACHED);
            how++;
        }
        produce((uint64_t)atoi(argv[4]), how, argc > 6 ? atoi(argv[6]) : 1);
    } else if (strcmp(argv[1], "narrow") == 0) {
        narrow();
    } else {
        squeeze();
    }
    mpt_finalize();
    return mpt_passed();
}
