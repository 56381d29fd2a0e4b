/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on sleeping and on events: the descriptor for epoll, wake-ups, reports about peers.
 */
#include "conformance.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TAG_PING 0xe401
#define TAG_PONG 0xe402

static _Thread_local struct nixl_note note;

static int open_epoll(void)
{
    struct epoll_event want = {.events = EPOLLIN};
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    MPT_GE(epoll, 0);
    MPT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, nixl_event_fd(), &want), 0);
    return epoll;
}

static bool is_readable(int epoll, int timeout_ms)
{
    struct epoll_event event;

    return epoll_wait(epoll, &event, 1, timeout_ms) == 1;
}

static void drop_events(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    while (nixl_event_recv(0, &event) == NIXL_OK) {
    }
}

static bool take(int rank, uint64_t tag)
{
    int status;

    nixl_note_init(&note);
    status = nixl_notify_recv(rank, tag, UINT64_MAX, 0, &note);
    if (status != NIXL_INPROGRESS) {
        MPT_OK(status);
    }
    return status == NIXL_OK;
}

/* The loop of every program with an event loop: take what is there, arm, sleep. */
static void sleep_until(int epoll, int rank, uint64_t tag)
{
    while (!take(rank, tag)) {
        int status;

        drop_events();
        status = nixl_event_arm();
        if (status == NIXL_INPROGRESS) {
            continue;
        }
        MPT_OK(status);
        MPT_TRUE(is_readable(epoll, (int)(MPT_PATIENCE / MPT_MS)));
    }
}

/*
 * Arm. Something that waits keeps it from that: the notification, which is then taken, or an event
 * about what came before, which may be late and is dropped. Returns whether the notification came.
 */
static bool arm_or_take(int rank, uint64_t tag)
{
    int status;

    do {
        drop_events();
        status = nixl_event_arm();
        if (status == NIXL_INPROGRESS && take(rank, tag)) {
            return true;
        }
    } while (status == NIXL_INPROGRESS);
    MPT_OK(status);
    return false;
}

static void the_event_fd_is_level_triggered(void)
{
    int fd = nixl_event_fd(), epoll = open_epoll();

    MPT_GE(fd, 0);
    MPT_EQ(nixl_event_fd(), fd);
    MPT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    mpt_barrier();
    for (int round = 0; round < 100 && conf.partner >= 0; round++) {
        if (conf.rank % 2 == 0) {
            conf_hear(conf.partner, TAG_PONG);
            conf_tell(conf.partner, TAG_PING);
            continue;
        }
        do {
            drop_events();
        } while (nixl_event_arm() == NIXL_INPROGRESS);
        conf_tell(conf.partner, TAG_PONG);
        do { /* it may be readable for nothing: then it is armed again */
            MPT_TRUE(is_readable(epoll, (int)(MPT_PATIENCE / MPT_MS)));
            MPT_TRUE(is_readable(epoll, 0));
            MPT_TRUE(is_readable(epoll, 0));
        } while (!arm_or_take(conf.partner, TAG_PING));
    }
    mpt_barrier();
    close(epoll);
}

/* Half of the pair sends at random moments around the other's arming. */
static void no_wake_up_is_lost(void)
{
    unsigned rounds = conf_rounds(3000);
    uint64_t state = (uint64_t)conf.rank;
    int epoll = open_epoll();

    mpt_barrier();
    for (unsigned round = 0; round < rounds && conf.partner >= 0; round++) {
        if (conf.rank % 2 == 0) {
            for (unsigned spin = (unsigned)(mpt_random(&state) % 2000); spin > 0; spin--) {
                __asm__ volatile("" ::: "memory");
            }
            conf_tell(conf.partner, TAG_PING);
            sleep_until(epoll, conf.partner, TAG_PONG);
        } else {
            sleep_until(epoll, conf.partner, TAG_PING);
            conf_tell(conf.partner, TAG_PONG);
        }
    }
    mpt_barrier();
    close(epoll);
}

/* The same for waits inside of the library, which spin and then sleep. */
static void no_wake_up_of_a_waiter_is_lost(void)
{
    unsigned rounds = conf_rounds(1500);
    uint64_t state = (uint64_t)conf.rank + 99;

    mpt_barrier();
    for (unsigned round = 0; round < rounds && conf.partner >= 0; round++) {
        int64_t pause_ns = (int64_t)(mpt_random(&state) % 100) * MPT_US;

        if (conf.rank % 2 == 0) {
            for (int64_t end_ns = mpt_now_ns() + pause_ns; mpt_now_ns() < end_ns;) {
            }
            conf_tell(conf.partner, TAG_PING);
            conf_hear(conf.partner, TAG_PONG);
        } else {
            conf_hear(conf.partner, TAG_PING);
            conf_tell(conf.partner, TAG_PONG);
        }
    }
    mpt_barrier();
}

static void notifications_to_oneself_wake_too(void)
{
    int epoll = open_epoll();

    for (int round = 0; round < 100; round++) {
        int status;

        drop_events();
        status = nixl_event_arm();
        conf_tell(conf.rank, TAG_PING);
        if (status == NIXL_INPROGRESS) {
            /* A rank that was faster is at the barrier already: its notification waits. */
            MPT_TRUE(take(conf.rank, TAG_PING));
            continue;
        }
        MPT_OK(status);
        MPT_TRUE(is_readable(epoll, (int)(MPT_PATIENCE / MPT_MS)));
        MPT_TRUE(take(conf.rank, TAG_PING));
    }
    close(epoll);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Events about what came before may be late: what counts is what comes behind them. */
/* A wait that is over when it begins makes an armed descriptor of its queue readable. */
static void a_wait_that_is_over_wakes_an_armed_queue(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    const uint64_t word = 5;
    struct nixl_cq_entry entry;
    struct pollfd poll_fd = {.events = POLLIN};
    size_t n;

    MPT_OK(nixl_cq_open(NULL, &op.cq));
    poll_fd.fd = nixl_cq_fd(op.cq);
    MPT_GE(poll_fd.fd, 0);
    for (uint64_t round = 0; round < 3; round++) {
        MPT_OK(nixl_cq_arm(op.cq));
        op.user_data = round;
        MPT_EQ(nixl_signal_wait_x(&word, NIXL_COMPARE_GE, 5, &op, NULL), NIXL_INPROGRESS);
        MPT_EQ(poll(&poll_fd, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
        MPT_OK(nixl_cq_wait(op.cq, &entry, 1, 0, &n));
        MPT_EQ(entry.kind, NIXL_CQ_SIGNAL);
        MPT_EQ(entry.user_data, round);
        MPT_EQ(entry.value, 5);
    }
    MPT_OK(nixl_cq_close(op.cq));
}

/* As a request has: when its time is over, the queue says so, also to those who sleep in poll. */
static void a_wait_of_a_queue_has_a_deadline(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    const uint64_t word = 5;
    struct nixl_cq_entry entry;
    struct pollfd poll_fd = {.events = POLLIN};
    size_t n;
    int status;

    MPT_OK(nixl_cq_open(NULL, &op.cq));
    poll_fd.fd = nixl_cq_fd(op.cq);
    MPT_GE(poll_fd.fd, 0);
    for (op.user_data = 0; op.user_data < 3; op.user_data++) {
        op.timeout_ns = op.user_data == 2 ? NIXL_AT_ONCE : 50 * MPT_MS;
        MPT_EQ(nixl_signal_wait_x(&word, NIXL_COMPARE_GT, 5, &op, NULL), NIXL_INPROGRESS);
        status = nixl_cq_wait(op.cq, &entry, 1, op.user_data > 0 ? 0 : MPT_PATIENCE, &n);
        while (status == NIXL_INPROGRESS) {
            if (nixl_cq_arm(op.cq) == NIXL_OK) {
                MPT_EQ(poll(&poll_fd, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
            }
            status = nixl_cq_wait(op.cq, &entry, 1, 0, &n);
        }
        MPT_OK(status);
        MPT_EQ(entry.kind, NIXL_CQ_SIGNAL);
        MPT_EQ(entry.status, NIXL_E_TIMEOUT);
        MPT_EQ(entry.user_data, op.user_data);
    }
    MPT_OK(nixl_cq_close(op.cq));
}

/* A thread that reads the event fd takes nothing away from one that sleeps on a queue. */
static void a_reader_of_the_event_fd_leaves_queues_their_news(void)
{
    struct nixl_cq_params params = NIXL_CQ_PARAMS_INIT;
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_cq_entry entry;
    struct nixl_cq *cq;
    struct pollfd poll_fd = {.events = POLLIN};
    size_t n;

    MPT_OK(nixl_context_open("conformance readers", NULL, &op.context));
    params.context = op.context;
    params.flags = NIXL_CQ_NOTES;
    MPT_OK(nixl_cq_open(&params, &cq));
    poll_fd.fd = nixl_cq_fd(cq);
    MPT_GE(poll_fd.fd, 0);
    for (uint64_t round = 0; round < 3; round++) {
        MPT_OK(nixl_cq_arm(cq));
        MPT_OK(nixl_notify_x(conf.rank, TAG_PING + round, NULL, 0, &op, NULL));
        MPT_GE(nixl_event_arm(), NIXL_OK);
        MPT_EQ(poll(&poll_fd, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
        MPT_OK(nixl_cq_wait(cq, &entry, 1, 0, &n));
        MPT_EQ(entry.value, TAG_PING + round);
    }
    MPT_OK(nixl_cq_close(cq));
    MPT_OK(nixl_context_close(op.context));
}

static void expect_no_event(int64_t timeout_ns, int expected)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int status;

    do {
        status = nixl_event_recv(timeout_ns, &event);
    } while (status == NIXL_OK);
    MPT_STATUS(status, expected);
}

static void timeouts_of_events_hold(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int64_t start_ns;

    mpt_barrier();
    drop_events();
    MPT_STATUS(nixl_event_recv(-1, &event), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_event_recv(0, NULL), NIXL_E_INVALID_ARG);
    start_ns = mpt_now_ns();
    while (nixl_event_recv(5 * MPT_MS, &event) == NIXL_OK) {
        start_ns = mpt_now_ns();
    }
    MPT_GE(mpt_now_ns() - start_ns, 5 * MPT_MS);
    expect_no_event(1, NIXL_E_TIMEOUT);
    expect_no_event(0, NIXL_INPROGRESS);
}

static void users_of_a_region_hear_that_it_was_closed(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_region *peers = NULL;
    struct segment segment = conf_segment("announced", 64);
    int epoll = open_epoll();
    char byte = 1;

    MPT_OK(nixl_region_open("announced", &peers));
    MPT_OK(nixl_put(conf.next, peers, 0, &byte, 1));
    conf_end(&segment);
    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (conf.next != conf.rank && strcmp(event.name, "announced") != 0);
    MPT_EQ(event.type, NIXL_EVENT_REGION_CLOSED);
    MPT_EQ(event.rank, conf.next);
    MPT_OK(nixl_region_close(peers, MPT_PATIENCE));
    mpt_barrier();
    close(epoll);
}

static void living_peers_are_alive(void)
{
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_EQ(nixl_peer_state(rank), NIXL_PEER_ALIVE);
    }
    MPT_EQ(nixl_peer_state(conf.size), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_peer_state(-1), NIXL_E_INVALID_ARG);
    mpt_barrier();
}

const struct guarantee conf_event[] = {
    {"event", NULL, 0},
    {"the_event_fd_is_level_triggered", the_event_fd_is_level_triggered, CONF_PEERS},
    {"no_wake_up_is_lost", no_wake_up_is_lost, CONF_PEERS},
    {"no_wake_up_of_a_waiter_is_lost", no_wake_up_of_a_waiter_is_lost, CONF_PEERS},
    {"notifications_to_oneself_wake_too", notifications_to_oneself_wake_too, 0},
    {"a_wait_of_a_queue_has_a_deadline", a_wait_of_a_queue_has_a_deadline, 0},
    {"a_wait_that_is_over_wakes_an_armed_queue", a_wait_that_is_over_wakes_an_armed_queue, 0},
    {"a_reader_of_the_event_fd_leaves_queues_their_news",
     a_reader_of_the_event_fd_leaves_queues_their_news, 0},
    {"timeouts_of_events_hold", timeouts_of_events_hold, 0},
    {"users_of_a_region_hear_that_it_was_closed", users_of_a_region_hear_that_it_was_closed,
     CONF_PEERS},
    {"living_peers_are_alive", living_peers_are_alive, 0},
    {0},
};
