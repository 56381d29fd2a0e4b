/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank is in its last nixl_finalize(), which waits for the others. These wait, without a limit of
 * time, for what it would have to do.
 *
 *     late_wait leave|work LEAVER [MATE]
 *
 * leave: signals from it, for a queue; notifications from it, and room for more to it; items of a
 * channel, and room in one; teams re-formed with it. All ends, on each rank with the same failure;
 * what it had sent before arrives, and the others make a team of their own. MATE has the channels,
 * so that it fails to re-form two teams with LEAVER while the others wait for it in the next one.
 * work: LEAVER has started to re-form a team, and not waited for that: it is made, however late the
 * others come.
 */
#include "mptest.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define N_SLOTS 4
#define N_SENT  500             /* more than a ring has room for */
#define LATE_NS (2500 * MPT_MS) /* a wait asks earlier whether its peer leaves */

static struct nixl_note note;
static int all[64], n_all, leaver;

static void hear_never(int status)
{
    MPT_STATUS(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, leaver);
    MPT_HAS("nixl_finalize");
    MPT_EQ(nixl_peer_state(leaver), NIXL_PEER_ALIVE);
}

static void send_all(void)
{
    for (int rank = 0; rank < n_all; rank++) {
        for (uint64_t i = 0; rank != leaver && i < N_SENT; i++) {
            MPT_OK(nixl_notify(rank, 1, &i, sizeof(i), MPT_PATIENCE));
        }
    }
}

/* A receive of a tag that never comes takes all others out of the way. */
static void receive_all(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    uint64_t number;

    nixl_note_init(&note);
    hear_never(nixl_notify_recv(leaver, 9, UINT64_MAX, NIXL_FOREVER, &note));
    for (uint64_t i = 0; i < N_SENT; i++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(leaver, 1, UINT64_MAX, 0, &note));
        memcpy(&number, note.payload, sizeof(number));
        MPT_EQ(number, i);
    }
    nixl_note_init(&note);
    op.timeout_ns = NIXL_FOREVER;
    hear_never(nixl_notify_recv_x(leaver, 0, 0, &op, &note));
    MPT_STATUS(nixl_notify_recv(leaver, 0, 0, 0, &note), NIXL_INPROGRESS);
    MPT_STATUS(nixl_notify_recv(leaver, 0, 0, 10 * MPT_MS, &note), NIXL_E_TIMEOUT);
}

/* Queues wait for its signals: one is waited for, and one has its descriptor polled. */
static void watch(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_cq_entry entry;
    static uint64_t word;
    struct pollfd polled;
    struct nixl_cq *cq;
    size_t n;

    MPT_OK(nixl_cq_open(NULL, &cq));
    polled = (struct pollfd){.fd = nixl_cq_fd(cq), .events = POLLIN};
    op.cq = cq;
    op.flags = NIXL_OP_RANK;
    op.rank = leaver;
    for (int i = 0; i < 2; i++) {
        MPT_STATUS(nixl_signal_wait_x(&word, NIXL_COMPARE_NE, 0, &op, NULL), NIXL_INPROGRESS);
        while (i == 1 && nixl_cq_arm(cq) == NIXL_OK) {
            MPT_TRUE(poll(&polled, 1, (int)(MPT_PATIENCE / MPT_MS)) == 1);
        }
        MPT_OK(nixl_cq_wait(cq, &entry, 1, MPT_PATIENCE, &n));
        MPT_EQ(entry.kind, NIXL_CQ_SIGNAL);
        MPT_EQ(entry.status, NIXL_E_PEER_LOST);
        MPT_EQ(entry.rank, leaver);
    }
    MPT_OK(nixl_cq_close(cq));
}

/* One of the others has a channel from the leaving rank, and one to it. */
static void open_both(int peer, struct nixl_channel **from_p, struct nixl_channel **to_p)
{
    bool leaves = nixl_rank() == leaver;

    MPT_OK(nixl_channel_open("up", peer, leaves ? NIXL_CHANNEL_PRODUCER : NIXL_CHANNEL_CONSUMER, 64,
                             N_SLOTS, NULL, leaves ? to_p : from_p));
    MPT_OK(nixl_channel_open("down", peer, leaves ? NIXL_CHANNEL_CONSUMER : NIXL_CHANNEL_PRODUCER,
                             64, N_SLOTS, NULL, leaves ? from_p : to_p));
}

static void fill(struct nixl_channel *channel)
{
    void *slot;

    for (int i = 0; i < N_SLOTS; i++) {
        MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
        MPT_OK(nixl_channel_publish(channel, 8));
    }
}

static void use_channels(struct nixl_channel *from, struct nixl_channel *to)
{
    void *slot;

    fill(to);
    hear_never(nixl_channel_acquire(to, NIXL_FOREVER, &slot));
    for (int i = 0; i < N_SLOTS; i++) {
        MPT_OK(nixl_channel_recv(from, MPT_PATIENCE, &slot, NULL, NULL));
        MPT_OK(nixl_channel_release(from, slot));
    }
    hear_never(nixl_channel_recv(from, NIXL_FOREVER, &slot, NULL, NULL));
    MPT_STATUS(nixl_channel_recv(from, 0, &slot, NULL, NULL), NIXL_INPROGRESS);
}

/* It takes no notification any more. */
static void send_in_vain(void)
{
    static char payload[NIXL_NOTE_MAX];
    int status;

    do {
        status = nixl_notify(leaver, 1, payload, sizeof(payload), NIXL_FOREVER);
    } while (status == NIXL_OK);
    hear_never(status);
}

static void reform_with(void)
{
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;

    hear_never(nixl_team_reform(all, (size_t)n_all, NIXL_FOREVER, &team));
    MPT_STATUS(nixl_team_reform_x(all, (size_t)n_all, NULL, &team, &req), NIXL_INPROGRESS);
    hear_never(nixl_req_wait(&req, NIXL_FOREVER));
    MPT_TRUE(team == NULL);
}

static void reform_without(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_team *rest;
    int ranks[64], n = 0;

    for (int rank = 0; rank < n_all; rank++) {
        ranks[n] = rank;
        n += rank != leaver;
    }
    MPT_OK(nixl_team_reform(ranks, (size_t)n, NIXL_FOREVER, &rest));
    mpt_check_team(rest, 5, 64);
    MPT_OK(nixl_team_free(rest));
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
}

static void come_late(void)
{
    struct nixl_team *team = NULL;
    static uint64_t word;

    MPT_STATUS(nixl_signal_wait(&word, NIXL_COMPARE_NE, 0, (nixl_rank() + 1) % 2 * LATE_NS, NULL),
               nixl_rank() % 2 == 0 ? NIXL_E_TIMEOUT : NIXL_INPROGRESS);
    MPT_OK(nixl_team_reform(all, (size_t)n_all, NIXL_FOREVER, &team));
    MPT_EQ(nixl_team_size(team), n_all);
}

int main(int argc, char **argv)
{
    static struct nixl_team *team;
    struct nixl_channel *from = NULL, *to = NULL;
    struct nixl_req *req = NULL;
    bool works;
    int mate;

    mpt_start();
    MPT_TRUE(argc == 3 || argc == 4);
    works = strcmp(argv[1], "work") == 0;
    leaver = atoi(argv[2]);
    mate = argc == 4 ? atoi(argv[3]) : leaver == 0 ? 1 : 0;
    MPT_OK(nixl_init(NULL));
    n_all = nixl_size();
    for (int rank = 0; rank < n_all; rank++) {
        all[rank] = rank;
    }
    if (nixl_rank() == leaver && works) {
        MPT_STATUS(nixl_team_reform_x(all, (size_t)n_all, NULL, &team, &req), NIXL_INPROGRESS);
    } else if (nixl_rank() == leaver) {
        open_both(mate, &from, &to);
        fill(to);
        send_all();
    } else if (works) {
        come_late();
    } else {
        if (nixl_rank() == mate) {
            open_both(leaver, &from, &to);
        }
        receive_all();
        watch();
        if (nixl_rank() == mate) {
            use_channels(from, to);
        }
        send_in_vain();
        reform_with();
        reform_without();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
