/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one event loop of nixlrun: file descriptors and timers. Main thread only. The structs belong
 * to the caller and are embedded in what they serve.
 */
#ifndef NIXLRUN_LAUNCHER_LOOP_H
#define NIXLRUN_LAUNCHER_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/* A watched descriptor. `ready` may remove any watch, its own included. */
struct loop_fd {
    int fd;
    uint32_t events; /* what is watched now; 0: nothing */
    void (*ready)(struct loop_fd *watch, uint32_t events);
};

struct loop_timer {
    int64_t at_ns; /* of nxr_now_ns() */
    bool is_set;
    void (*fire)(struct loop_timer *timer);
    struct loop_timer *next;
};

/* The struct that contains the member passed to a handler. */
#define LOOP_OWNER(_member_ptr, _type, _member)                                                    \
    ((_type *)(void *)((char *)(_member_ptr)-offsetof(_type, _member)))

/* Returns 0 or -errno. */
int loop_open(void);

/* Watch for `events` (EPOLLIN, EPOLLOUT), or stop with 0. Returns 0 or -errno: EPERM for a file. */
int loop_watch(struct loop_fd *watch, uint32_t events);

void loop_timer_set(struct loop_timer *timer, int64_t at_ns);
void loop_timer_clear(struct loop_timer *timer);

/* Wait for the next events or timer and serve them. */
void loop_step(void);

#endif
