/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broadcast between two hosts whose network stands still in the midst of the data: it fails on
 * both sides when its time is over, and what comes afterwards is not written into the receiver's
 * buffer.
 *
 * Rank 1 has the relay in its link stall when it sees the first bytes in its buffer, until both
 * calls have failed. Rank 0 then sends a notification behind the data: once that is there, all data
 * is.
 */
#include "test/net/bed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG_BEHIND 0x1a7e

/* The calls' timeout, and how long after their begin they have to be over. */
#define TIMEOUT_NS (2 * MPT_S)
#define OVER_NS    (10 * MPT_S)

enum { NBYTES = 64 << 20, PAGE_NBYTES = 4096 };

static unsigned char *buffer;
static atomic_bool has_begun;

/* Rank 1: let nothing more pass as soon as the data comes. */
static void *stall(void *arg)
{
    static const struct timespec while_waiting = {.tv_nsec = 100 * 1000};
    const volatile unsigned char *first = buffer;
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    (void)arg;
    while (*first == 0) {
        MPT_LT(mpt_now_ns(), end_ns);
        nanosleep(&while_waiting, NULL);
    }
    bed_link("tell h%d stall", mpt_host_of(1));
    atomic_store(&has_begun, true);
    return NULL;
}

static void send_it(struct nixl_team *team)
{
    int64_t began_ns;

    memset(buffer, 1, NBYTES);
    began_ns = mpt_now_ns();
    MPT_STATUS(nixl_broadcast(team, 0, buffer, NBYTES, TIMEOUT_NS), NIXL_E_TIMEOUT);
    MPT_LT(mpt_now_ns(), began_ns + OVER_NS);
    memset(buffer, 2, NBYTES);
    bed_mark("sent", 0);
    MPT_OK(nixl_notify(1, TAG_BEHIND, NULL, 0, MPT_PATIENCE));
}

static void receive_it(struct nixl_team *team)
{
    unsigned char *before = malloc(NBYTES);
    static struct nixl_note note;
    pthread_t thread;

    nixl_note_init(&note);
    MPT_EQ(before != NULL, 1);
    MPT_EQ(pthread_create(&thread, NULL, stall, NULL), 0);
    MPT_STATUS(nixl_broadcast(team, 0, buffer, NBYTES, TIMEOUT_NS), NIXL_E_TIMEOUT);
    memcpy(before, buffer, NBYTES);
    MPT_EQ(pthread_join(thread, NULL), 0);
    MPT_EQ((int)has_begun, 1);
    MPT_EQ(before[NBYTES - 1], 0); /* it did not all come before */
    bed_await_mark("sent", 0);
    bed_link("tell h%d resume", mpt_host_of(1));
    MPT_OK(nixl_notify_recv(0, TAG_BEHIND, UINT64_MAX, MPT_PATIENCE, &note));
    for (size_t at = 0; at < NBYTES; at += PAGE_NBYTES) {
        MPT_EQ(memcmp(buffer + at, before + at, PAGE_NBYTES), 0);
    }
    free(before);
}

int main(void)
{
    struct nixl_team *team = NULL;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    buffer = calloc(1, NBYTES);
    MPT_EQ(buffer != NULL, 1);
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    if (nixl_rank() == 0) {
        send_it(team);
    } else {
        receive_it(team);
    }
    bed_meet("done");
    nixl_team_free(team);
    free(buffer);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
