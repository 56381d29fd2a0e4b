/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank dies while others wait for it in every way there is.
 *
 *     fault_wait [exit|together]
 *
 * Rank 1 (and 2 with `together`) dies by SIGKILL, or leaves by _exit(0) without nixl_finalize with
 * `exit`. Threads of rank 0 wait without end in each blocking call; the others wait for any rank.
 * All must come back within a bound.
 */
#include "mptest.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG_NEVER 0xfb01
#define TAG_FILL  0xfb02

#define BOUND (2 * MPT_S)

static struct nixl_region *region, *unknown, *words;
static uint64_t memory[8];
static bool is_exit;
static int n_victims = 1;
static _Atomic int64_t died_ns; /* in the survivors: when the victims were told to die */

static _Thread_local struct nixl_note note;

static int wait_for_note(int rank)
{
    nixl_note_init(&note);
    return nixl_notify_recv(rank, TAG_NEVER, UINT64_MAX, NIXL_FOREVER, &note);
}

static int wait_for_note_of_the_dead(void)
{
    return wait_for_note(1);
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
        status = nixl_notify(1, TAG_FILL, message, sizeof(message), NIXL_FOREVER);
    } while (status == NIXL_OK);
    return status;
}

static int wait_for_region(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    return nixl_region_query(unknown, 1, NIXL_FOREVER, &info);
}

/* A call without a timeout argument, that waits for the name within NIXLRUN_RESOLVE_TIMEOUT. */
static int put_to_unknown(void)
{
    char byte = 0;

    return nixl_put(1, unknown, 0, &byte, 1);
}

/* The event fd is readable when a peer dies, if it was armed. */
static int wait_for_event_fd(void)
{
    struct pollfd poll_fd = {.fd = nixl_event_fd(), .events = POLLIN};
    int status = nixl_event_arm();

    if (status == NIXL_OK && poll(&poll_fd, 1, (int)(MPT_PATIENCE / MPT_MS)) == 1) {
        return NIXL_ERR_PEER_LOST;
    }
    return status == NIXL_INPROGRESS ? NIXL_ERR_PEER_LOST : NIXL_ERR_TIMEOUT;
}

static int wait_for_signal(void)
{
    static const uint64_t never;

    return nixl_signal_wait(&never, NIXL_NE, 0, NIXL_FOREVER, NULL);
}

/* Registered memory of the dead: the owner is asked, again and again. */
static int change_words(void)
{
    uint64_t one = 1;
    int status;

    do {
        status = nixl_atomic(1, words, 0, NIXL_UINT64, NIXL_ATOMIC_ADD, &one, NULL);
    } while (status == NIXL_OK);
    return status;
}

static int (*const waits[])(void) = {
    wait_for_note_of_the_dead, wait_for_any_note, wait_for_room, wait_for_region, put_to_unknown,
    wait_for_event_fd,         wait_for_signal,   change_words,
};
#define N_WAITS ((int)(sizeof(waits) / sizeof(waits[0])))

static void *wait_in_a_thread(void *arg)
{
    int index = (int)(intptr_t)arg;
    int status = waits[index]();

    if (status != NIXL_ERR_PEER_LOST) {
        mpt_fail(__FILE__, __LINE__, "wait %d ended with %d '%s' (%s)", index, status,
                 nixl_strerror(status), nixl_last_error()->text);
    }
    MPT_LT(mpt_now_ns() - died_ns, BOUND);
    return NULL;
}

static void pause_for(long ms)
{
    const struct timespec time = {.tv_nsec = ms * MPT_MS};

    nanosleep(&time, NULL);
}

/* Rank 0: all waits at once, each in a thread; then the victims are told to die. */
static void wait_in_all_ways(void)
{
    pthread_t threads[N_WAITS];
    char byte = 0;

    MPT_OK(nixl_put(1, region, 0, &byte, 1));
    died_ns = INT64_MAX;
    for (int i = 0; i < N_WAITS; i++) {
        MPT_EQ(pthread_create(&threads[i], NULL, wait_in_a_thread, (void *)(intptr_t)i), 0);
    }
    pause_for(50); /* so that most of them sleep by then; right either way */
    died_ns = mpt_now_ns();
    for (int victim = 1; victim <= n_victims; victim++) {
        MPT_OK(nixl_put(victim, region, 8, "die", 4));
    }
    for (int i = 0; i < N_WAITS; i++) {
        MPT_EQ(pthread_join(threads[i], NULL), 0);
    }
}

/* One PEER_LOST per death for those that wait for signals, in each thread; then they wait on. */
static void signals_tell_each_death_once(void)
{
    unsigned told = 0;

    for (int i = 0; i < n_victims; i++) {
        MPT_STATUS(wait_for_signal(), NIXL_ERR_PEER_LOST);
        told |= 1u << nixl_last_error()->rank;
    }
    MPT_EQ(told, n_victims == 2 ? 6 : 2);
    MPT_STATUS(nixl_signal_wait(memory, NIXL_NE, 0, MPT_MS, NULL), NIXL_ERR_TIMEOUT);
    MPT_OK(nixl_signal_wait(memory, NIXL_EQ, 0, MPT_MS, NULL));
}

/* One PEER_LOST per death for those that wait for any rank, and one event. */
static void hear_of_all_deaths(int n_heard)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    unsigned told = 0;

    for (; n_heard < n_victims; n_heard++) {
        MPT_STATUS(wait_for_any_note(), NIXL_ERR_PEER_LOST);
        MPT_TRUE(nixl_last_error()->rank >= 1 && nixl_last_error()->rank <= n_victims);
    }
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, TAG_NEVER, UINT64_MAX, 0, &note), NIXL_INPROGRESS);
    for (int i = 0; i < n_victims; i++) {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
        MPT_TRUE(event.rank >= 1 && event.rank <= n_victims && !(told & 1u << event.rank));
        told |= 1u << event.rank;
    }
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
}

/* Wait for the order in own memory, with no call, so that nobody takes the victim's notifications.
 */
static void die(void)
{
    const volatile char *order = (const char *)nixl_region_addr(region) + 8;

    for (int64_t end_ns = mpt_now_ns() + MPT_PATIENCE; order[0] == 0;) {
        MPT_LT(mpt_now_ns(), end_ns);
    }
    if (is_exit) {
        _exit(0);
    }
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    mpt_start();
    is_exit = argc > 1 && strcmp(argv[1], "exit") == 0;
    n_victims = argc > 1 && strcmp(argv[1], "together") == 0 ? 2 : 1;
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("wait", 64, NULL, &region));
    MPT_OK(nixl_region_open("unknown", &unknown));
    MPT_OK(nixl_region_register("words", memory, sizeof(memory), NULL, &words));
    mpt_barrier();
    if (nixl_rank() == 0) {
        wait_in_all_ways();
        hear_of_all_deaths(1);
        signals_tell_each_death_once();
    } else if (nixl_rank() <= n_victims) {
        die();
    } else {
        hear_of_all_deaths(0);
        signals_tell_each_death_once();
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
