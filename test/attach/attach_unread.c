/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process detaches another one, of which it has not received everything. Usage:
 *
 *     attach_unread take|send WHERE NAME
 *
 * Two notifications are left: a receive for another tag has put one aside, and no call has looked
 * at the other. After nixl_detach() no call returns either.
 */
#include "test/mp/mptest.h"

#include <stdio.h>
#include <string.h>

enum { TAG_PASSED_OVER = 1, TAG_WANTED, TAG_UNSEEN };

static struct nixl_region *words;
static struct nixl_note note;

/* Until all that the other process sends has arrived. */
static int await_all(void)
{
    const uint64_t *word = nixl_region_addr(words);
    struct nixl_event event = NIXL_EVENT_INIT;

    MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_JOINED);
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(event.rank, TAG_WANTED, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_OK(nixl_signal_wait(word, NIXL_COMPARE_EQ, 1, MPT_PATIENCE, NULL));
    return event.rank;
}

static void take(const char *where, const char *name)
{
    int rank;

    MPT_OK(nixl_publish(where, name, NULL));
    puts("published");
    fflush(stdout);
    rank = await_all();
    MPT_OK(nixl_detach(rank, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(rank, 0, 0, 0, &note), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_notify_recv(rank, TAG_UNSEEN, UINT64_MAX, 0, &note), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, 0, 0, 0, &note), NIXL_INPROGRESS);
}

static void send(const char *where, const char *name)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int rank;

    MPT_OK(nixl_attach(where, name, NULL, MPT_PATIENCE, &rank));
    for (uint64_t tag = TAG_PASSED_OVER; tag <= TAG_UNSEEN; tag++) {
        MPT_OK(nixl_notify(rank, tag, NULL, 0, MPT_PATIENCE));
    }
    MPT_OK(nixl_signal_set(rank, words, 0, 1));
    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (event.type != NIXL_EVENT_PEER_LEFT);
    MPT_OK(nixl_detach(rank, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_EQ(argc, 4);
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("attach.unread", sizeof(uint64_t), NULL, &words));
    if (strcmp(argv[1], "take") == 0) {
        take(argv[2], argv[3]);
    } else {
        send(argv[2], argv[3]);
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
