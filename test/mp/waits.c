/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a rank in every way there is: each call that blocks, in a thread of its own and
 * without end. When the rank dies all must come back with NIXL_E_PEER_LOST. One peer at a time.
 */
#include "mptest.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

#define TAG_NEVER 0xfb01
#define TAG_FILL  0xfb02

#define BULK_NBYTES (1u << 20)

#define SLOT_NBYTES 64

static struct nixl_region *bulk, *unknown, *words;
static struct nixl_channel *full; /* that is never received from */
static uint64_t memory[8];
static int peer;

static _Thread_local struct nixl_note note;

static int wait_for_note(int rank)
{
    nixl_note_init(&note);
    return nixl_notify_recv(rank, TAG_NEVER, UINT64_MAX, NIXL_FOREVER, &note);
}

static int wait_for_note_of_the_dead(void)
{
    return wait_for_note(peer);
}

static int wait_for_any_note(void)
{
    return wait_for_note(NIXL_ANY_RANK);
}

static int wait_for_room(void)
{
    static const char message[NIXL_NOTE_MAX];
    int status;

    do {
        status = nixl_notify(peer, TAG_FILL, message, sizeof(message), NIXL_FOREVER);
    } while (status == NIXL_OK);
    return status;
}

static int wait_for_region(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    return nixl_region_query(peer, unknown, NIXL_FOREVER, &info);
}

/* A call without a timeout argument, that waits for the name within NIXLRUN_RESOLVE_TIMEOUT. */
static int put_to_unknown(void)
{
    char byte = 0;

    return nixl_put(peer, unknown, 0, &byte, 1);
}

static int put_on_and_on(void)
{
    static char bytes[BULK_NBYTES];
    int status;

    do {
        status = nixl_put(peer, bulk, 0, bytes, sizeof(bytes));
    } while (status == NIXL_OK);
    return status;
}

static int get_on_and_on(void)
{
    static char bytes[BULK_NBYTES];
    int status;

    do {
        status = nixl_get(peer, bulk, BULK_NBYTES, bytes, sizeof(bytes));
    } while (status == NIXL_OK);
    return status;
}

static int flush_on_and_on(void)
{
    char byte = 0;
    int status;

    do {
        status = nixl_put(peer, bulk, 2 * BULK_NBYTES, &byte, 1);
        if (status == NIXL_OK) {
            status = nixl_flush(peer, NIXL_FOREVER);
        }
    } while (status == NIXL_OK);
    return status;
}

/* The event fd is readable when a peer dies, if it was armed. */
static int wait_for_event_fd(void)
{
    struct pollfd poll_fd = {.fd = nixl_event_fd(), .events = POLLIN};
    int status = nixl_event_arm();

    if (status == NIXL_OK && poll(&poll_fd, 1, (int)(MPT_PATIENCE / MPT_MS)) == 1) {
        return NIXL_E_PEER_LOST;
    }
    return status == NIXL_INPROGRESS ? NIXL_E_PEER_LOST : NIXL_E_TIMEOUT;
}

static int wait_for_signal(void)
{
    static const uint64_t never;

    return nixl_signal_wait(&never, NIXL_COMPARE_NE, 0, NIXL_FOREVER, NULL);
}

/* Registered memory of the dead: the owner is asked, again and again. */
static int change_words(void)
{
    uint64_t one = 1;
    int status;

    do {
        status = nixl_atomic(peer, words, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL);
    } while (status == NIXL_OK);
    return status;
}

/* ---- what is made of puts and notifications -------------------------------------------------- */

static int put_list_on_and_on(void)
{
    static char bytes[BULK_NBYTES];
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;
    int status;

    local.addr = bytes;
    remote.region = bulk;
    local.block_nbytes = remote.block_nbytes = BULK_NBYTES / 256;
    local.nblocks = remote.nblocks = 128;
    local.stride = local.block_nbytes;
    remote.offset = 2 * BULK_NBYTES + 64;
    remote.stride = 2 * local.stride; /* else they move as one */
    status = nixl_xfer_create(NIXL_XFER_PUT, peer, &local, 1, &remote, 1, &xfer);
    if (status != NIXL_OK) {
        return status;
    }
    do {
        status = nixl_xfer_start(xfer, NULL);
        status = status == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, NIXL_FOREVER) : status;
    } while (status == NIXL_OK);
    MPT_OK(nixl_xfer_free(xfer));
    return status;
}

/* The peer has opened the consumer's end, and never receives. */
static int wait_for_slot(void)
{
    struct nixl_channel *channel;
    void *slot;
    int status = nixl_channel_open("waits.full", peer, NIXL_CHANNEL_PRODUCER, SLOT_NBYTES, 1, NULL,
                                   &channel);

    if (status != NIXL_OK) {
        return status;
    }
    do {
        status = nixl_channel_acquire(channel, NIXL_FOREVER, &slot);
        status = status == NIXL_OK ? nixl_channel_publish(channel, SLOT_NBYTES) : status;
    } while (status == NIXL_OK);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
    return status;
}

/* The peer never opens the producer's end. */
static int wait_for_item(void)
{
    struct nixl_channel *channel;
    void *slot;
    int status;

    MPT_OK(nixl_channel_open("waits.empty", peer, NIXL_CHANNEL_CONSUMER, SLOT_NBYTES, 1, NULL,
                             &channel));
    status = nixl_channel_recv(channel, NIXL_FOREVER, &slot, NULL, NULL);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
    return status;
}

static int wait_for_channel(void)
{
    struct nixl_channel *channel;

    return nixl_channel_open("waits.unknown", peer, NIXL_CHANNEL_PRODUCER, SLOT_NBYTES, 1, NULL,
                             &channel);
}

static int wait_for_partner(void)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req;
    int status = nixl_pair_expose(peer, bulk, 0, 64, NIXL_PAIR_READ, NIXL_FOREVER, token,
                                  sizeof(token), &req);

    /* A thread that begins after the death is refused at once. */
    return status == NIXL_INPROGRESS ? nixl_req_wait(&req, NIXL_FOREVER) : status;
}

static int wait_for_team(void)
{
    int ranks[2] = {nixl_rank(), peer};
    struct nixl_team *team;

    return nixl_team_create(ranks, 2, NIXL_FOREVER, &team);
}

static struct wait {
    const char *name;
    int (*run)(void);
    pthread_t thread;
    int64_t ended_ns;
} waits[] = {
    {.name = "a notification", .run = wait_for_note_of_the_dead},
    {.name = "a notification, too", .run = wait_for_note_of_the_dead},
    {.name = "any notification", .run = wait_for_any_note},
    {.name = "room for notifications", .run = wait_for_room},
    {.name = "a name", .run = wait_for_region},
    {.name = "a name, too", .run = wait_for_region},
    {.name = "a name, in a put", .run = put_to_unknown},
    {.name = "puts", .run = put_on_and_on},
    {.name = "gets", .run = get_on_and_on},
    {.name = "flushes", .run = flush_on_and_on},
    {.name = "the event fd", .run = wait_for_event_fd},
    {.name = "a signal", .run = wait_for_signal},
    {.name = "a signal, too", .run = wait_for_signal},
    {.name = "atomics", .run = change_words},
    {.name = "transfers", .run = put_list_on_and_on},
    {.name = "a slot", .run = wait_for_slot},
    {.name = "an item", .run = wait_for_item},
    {.name = "a channel", .run = wait_for_channel},
    {.name = "a partner", .run = wait_for_partner},
    {.name = "a team", .run = wait_for_team},
};
#define N_WAITS (sizeof(waits) / sizeof(waits[0]))

static void *run_wait(void *arg)
{
    struct wait *wait = arg;
    int status = wait->run();

    wait->ended_ns = mpt_now_ns();
    if (status != NIXL_E_PEER_LOST) {
        mpt_fail(__FILE__, __LINE__, "waiting for %s ended with %d '%s' (%s)", wait->name, status,
                 nixl_strerror(status), nixl_last_error()->text);
    }
    return NULL;
}

void mpt_waits_prepare(void)
{
    /* Each call that moves bytes has an offset of its own. */
    MPT_OK(nixl_region_alloc("waits", 3 * BULK_NBYTES + 64, NULL, &bulk));
    MPT_OK(nixl_channel_open("waits.full", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT_NBYTES, 1,
                             NULL, &full));
    MPT_OK(nixl_region_open("waits.unknown", &unknown));
    MPT_OK(nixl_region_register("waits.words", memory, sizeof(memory), NULL, &words));
}

void mpt_waits_start(int rank)
{
    peer = rank;
    for (size_t i = 0; i < N_WAITS; i++) {
        MPT_EQ(pthread_create(&waits[i].thread, NULL, run_wait, &waits[i]), 0);
    }
}

void mpt_waits_join(int64_t until_ns)
{
    for (size_t i = 0; i < N_WAITS; i++) {
        MPT_EQ(pthread_join(waits[i].thread, NULL), 0);
        if (waits[i].ended_ns > until_ns) {
            mpt_fail(__FILE__, __LINE__, "waiting for %s ended %.1f ms too late", waits[i].name,
                     (double)(waits[i].ended_ns - until_ns) / MPT_MS);
        }
    }
}

void mpt_waits_close(void)
{
    MPT_OK(nixl_channel_close(full, MPT_PATIENCE));
    MPT_OK(nixl_region_close(words, MPT_PATIENCE));
    MPT_OK(nixl_region_close(unknown, MPT_PATIENCE));
    MPT_OK(nixl_region_close(bulk, MPT_PATIENCE));
}
