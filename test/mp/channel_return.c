/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel for any rank outlives its producers: channel_return KILLS. Rank 0 receives. The others
 * publish items of changing size, whose bytes depend on the rank, the incarnation and the item's
 * number, and close and open their ends again now and then. Rank 0 kills one of them in the midst,
 * mostly while it fills or publishes a slot, and readmits the next process. No item may be torn,
 * and those of each process arrive in order and without a gap; its loss is reported once, behind
 * the last of them and before the first one of the next process.
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOT_NBYTES 20000
#define N_SLOTS     4
#define MOST_RANKS  16
#define N_UNTIL_NEW 37 /* items until a producer closes its end and opens it again */
#define TAG_END     1  /* from rank 0: leave */
#define TAG_ENDED   2

struct head {
    int32_t pid;
    uint32_t incarnation;
    uint64_t number; /* from 0 in each process */
};

static uint64_t seed_of(int rank, const struct head *head)
{
    return ((uint64_t)(unsigned)rank << 56) ^ ((uint64_t)head->incarnation << 32) ^ head->number;
}

static size_t size_of(const struct head *head)
{
    return sizeof(*head) + head->number * 7919 % (SLOT_NBYTES - sizeof(*head));
}

/* ---- the ranks that die ---------------------------------------------------------------------- */

static struct nixl_channel *open_end(void)
{
    struct nixl_channel *channel;

    MPT_OK(
        nixl_channel_open("items", 0, NIXL_CHANNEL_PRODUCER, SLOT_NBYTES, N_SLOTS, NULL, &channel));
    return channel;
}

static bool is_told_to_end(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    return nixl_notify_recv(0, TAG_END, UINT64_MAX, 0, &note) == NIXL_OK;
}

static void produce(void)
{
    struct head head = {.pid = getpid(), .incarnation = (uint32_t)nixl_incarnation()};
    struct nixl_channel *channel = open_end();

    while (!is_told_to_end()) {
        size_t nbytes = size_of(&head);
        void *slot;
        int status = nixl_channel_acquire(channel, 10000000, &slot);

        if (status == NIXL_E_TIMEOUT) {
            continue; /* rank 0 may have received its last item */
        }
        MPT_OK(status);
        memcpy(slot, &head, sizeof(head));
        mpt_fill((unsigned char *)slot + sizeof(head), nbytes - sizeof(head),
                 seed_of(nixl_rank(), &head));
        MPT_OK(nixl_channel_publish(channel, nbytes));
        head.number++;
        if (head.number % N_UNTIL_NEW == 0) {
            MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
            channel = open_end();
        }
    }
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
    MPT_OK(nixl_notify(0, TAG_ENDED, NULL, 0, MPT_PATIENCE));
}

/* ---- the rank that stays --------------------------------------------------------------------- */

static struct head due[MOST_RANKS]; /* the item that is next */
static bool is_lost[MOST_RANKS];    /* reported by the channel, and nothing has come since */
static unsigned n_items[MOST_RANKS];

/* The first item of another process, which is not its first one's if that had closed its end. */
static void meet(int rank, const struct head *head)
{
    if (!is_lost[rank]) {
        MPT_EQ((long)(due[rank].number % N_UNTIL_NEW), 0);
        due[rank].incarnation++;
        due[rank].number = 0;
    }
    MPT_EQ(head->incarnation, due[rank].incarnation);
    due[rank].pid = head->pid;
    is_lost[rank] = false;
}

static void check_item(int rank, const unsigned char *bytes, size_t nbytes)
{
    struct head head;

    memcpy(&head, bytes, sizeof(head));
    if (is_lost[rank] || head.incarnation != due[rank].incarnation) {
        meet(rank, &head);
    }
    MPT_EQ((long)head.number, (long)due[rank].number);
    MPT_EQ((long)nbytes, (long)size_of(&head));
    MPT_CHECK(bytes + sizeof(head), nbytes - sizeof(head), seed_of(rank, &head));
    due[rank].pid = head.pid;
    due[rank].number++;
    n_items[rank]++;
}

/* Receive one item, or a loss. False: there is neither. */
static bool take(struct nixl_channel *channel, int64_t timeout_ns)
{
    size_t nbytes;
    void *slot;
    int rank, status = nixl_channel_recv(channel, timeout_ns, &slot, &nbytes, &rank);

    if (status == NIXL_E_PEER_LOST) {
        rank = nixl_last_error()->rank;
        MPT_TRUE(!is_lost[rank]);
        is_lost[rank] = true;
        due[rank].incarnation++;
        due[rank].number = 0;
        return true;
    }
    if (timeout_ns == 0 && status == NIXL_INPROGRESS) {
        return false;
    }
    MPT_OK(status);
    check_item(rank, slot, nbytes);
    MPT_OK(nixl_channel_release(channel, slot));
    return true;
}

/* Wait for the process that comes in the place of a killed one. */
static uint32_t wait_for(int rank)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (event.type != NIXL_EVENT_PEER_JOINED);
    MPT_EQ(event.rank, rank);
    return event.incarnation;
}

/* Kill a rank's process, and receive until items of the next one have come. */
static void replace(struct nixl_channel *channel, int rank, bool is_drained_first)
{
    unsigned n_before;
    uint32_t incarnation;

    kill(due[rank].pid, SIGKILL);
    incarnation = wait_for(rank);
    for (int n = 0; is_drained_first && n < MOST_RANKS * N_SLOTS && !is_lost[rank]; n++) {
        if (!take(channel, 0)) {
            break;
        }
    }
    MPT_OK(nixl_peer_readmit(rank, incarnation));
    while (due[rank].incarnation != incarnation || is_lost[rank]) {
        take(channel, MPT_PATIENCE);
    }
    n_before = n_items[rank];
    while (n_items[rank] == n_before) {
        take(channel, MPT_PATIENCE);
    }
}

static void consume(int n_kills)
{
    struct nixl_channel *channel;
    uint64_t random = 23;

    MPT_OK(nixl_channel_open("items", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT_NBYTES, N_SLOTS,
                             NULL, &channel));
    for (int rank = 1; rank < nixl_size(); rank++) {
        while (n_items[rank] == 0) {
            take(channel, MPT_PATIENCE);
        }
    }
    for (int i = 0; i < n_kills; i++) {
        int rank = 1 + (int)(mpt_random(&random) % (uint64_t)(nixl_size() - 1));

        for (int n = (int)(mpt_random(&random) % 60); n > 0; n--) {
            take(channel, MPT_PATIENCE);
        }
        replace(channel, rank, mpt_random(&random) % 2 == 0);
    }
    for (int rank = 1; rank < nixl_size(); rank++) {
        MPT_OK(nixl_notify(rank, TAG_END, NULL, 0, MPT_PATIENCE));
        printf("%u items of rank %d\n", n_items[rank], rank);
    }
    for (int n = 1; n < nixl_size(); n++) {
        struct nixl_note note;

        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_ENDED, UINT64_MAX, MPT_PATIENCE, &note));
    }
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
}

/* nixlrun must not start a rank again that has found a fault. */
static void end_job(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    nixl_abort(1, "a check has failed");
}

int main(int argc, char **argv)
{
    mpt_start();
    mpt_on_fail = end_job;
    MPT_OK(nixl_init(NULL));
    if (nixl_rank() == 0) {
        consume(argc > 1 ? atoi(argv[1]) : 1);
    } else {
        produce();
    }
    mpt_finalize();
    return mpt_passed();
}
