/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank dies while others wait for it in every way there is.
 *
 *     fault_wait [exit|together]
 *
 * Rank 1 (and 2 with `together`) dies by SIGKILL, or leaves by _exit(0) without nixl_finalize with
 * `exit`. Threads of rank 0 wait without end in each blocking call; the others wait for any rank.
 * All must come back.
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG_NEVER 0xfb01

#define TAG_LEAVE 0xfb03

static struct nixl_region *region;
static uint64_t word;
static bool is_exit;
static int n_victims = 1;

static _Thread_local struct nixl_note note;

static void pause_for(long ms)
{
    const struct timespec time = {.tv_nsec = ms * MPT_MS};

    nanosleep(&time, NULL);
}

/* Rank 0: all waits at once; then the victims are ordered to die. */
static void wait_in_all_ways(void)
{
    char byte = 0;
    int64_t died_ns;

    MPT_OK(nixl_put(1, region, 0, &byte, 1));
    mpt_waits_start(1);
    pause_for(50); /* so that most of them sleep by then; right either way */
    died_ns = mpt_now_ns();
    for (int victim = 1; victim <= n_victims; victim++) {
        MPT_OK(nixl_put(victim, region, 8, "die", 4));
    }
    mpt_waits_join(died_ns + MPT_PATIENCE);
}

/* One PEER_LOST per death for those that wait for signals, in each thread; then they wait on. */
static void signals_tell_each_death_once(void)
{
    unsigned told = 0;

    for (int i = 0; i < n_victims; i++) {
        MPT_STATUS(nixl_signal_wait(&word, NIXL_COMPARE_NE, 0, NIXL_FOREVER, NULL),
                   NIXL_E_PEER_LOST);
        told |= 1u << nixl_last_error()->rank;
    }
    MPT_EQ(told, n_victims == 2 ? 6 : 2);
    MPT_STATUS(nixl_signal_wait(&word, NIXL_COMPARE_NE, 0, MPT_MS, NULL), NIXL_E_TIMEOUT);
    MPT_OK(nixl_signal_wait(&word, NIXL_COMPARE_EQ, 0, MPT_MS, NULL));
}

/* One PEER_LOST per death for those that wait for any rank, and one event. */
static void hear_of_all_deaths(int n_heard)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    unsigned told = 0;

    for (; n_heard < n_victims; n_heard++) {
        nixl_note_init(&note);
        MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, TAG_NEVER, UINT64_MAX, NIXL_FOREVER, &note),
                   NIXL_E_PEER_LOST);
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

/* Wait for the order in own memory, without a call that takes the victim's notifications. */
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

/* The living leave together: a rank that leaves alone looks dead to one that connects to it. */
static void leave_together(void)
{
    for (int to_all = 0; to_all < 2; to_all++) {
        for (int other = n_victims + 1; other < nixl_size(); other++) {
            int from = to_all ? 0 : other, to = to_all ? other : 0;

            if (nixl_rank() == from) {
                MPT_OK(nixl_notify(to, TAG_LEAVE, NULL, 0, MPT_PATIENCE));
            } else if (nixl_rank() == to) {
                nixl_note_init(&note);
                MPT_OK(nixl_notify_recv(from, TAG_LEAVE, UINT64_MAX, MPT_PATIENCE, &note));
            }
        }
    }
}

int main(int argc, char **argv)
{
    mpt_start();
    is_exit = argc > 1 && strcmp(argv[1], "exit") == 0;
    n_victims = argc > 1 && strcmp(argv[1], "together") == 0 ? 2 : 1;
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("wait", 64, NULL, &region));
    mpt_waits_prepare();
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
    leave_together();
    mpt_waits_close();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    mpt_finalize();
    return mpt_passed();
}
