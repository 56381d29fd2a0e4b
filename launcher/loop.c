/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event loop: epoll for descriptors, a short sorted list for timers. Owned by the main thread, no
 * lock. A watch that is dropped while its batch is being served is removed from the batch, so a
 * handler never runs on something that an earlier handler has freed.
 */
#include "config.h"

#include "launcher/loop.h"
#include "util/clock.h"

#include <errno.h>
#include <stddef.h>

#define LOOP_BATCH 64

static int loop_epoll = -1;
static struct epoll_event loop_batch[LOOP_BATCH];
static int loop_n_batch;
static struct loop_timer *loop_timers; /* earliest first */

int loop_open(void)
{
    loop_epoll = epoll_create1(EPOLL_CLOEXEC);
    return loop_epoll < 0 ? -errno : 0;
}

int loop_watch(struct loop_fd *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    int op = watch->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    if (events == watch->events) {
        return 0;
    }
    if (events == 0) {
        op = EPOLL_CTL_DEL;
        for (int i = 0; i < loop_n_batch; i++) {
            if (loop_batch[i].data.ptr == watch) {
                loop_batch[i].data.ptr = NULL;
            }
        }
    }
    if (epoll_ctl(loop_epoll, op, watch->fd, &event) != 0) {
        return -errno;
    }
    watch->events = events;
    return 0;
}

void loop_timer_clear(struct loop_timer *timer)
{
    struct loop_timer **link = &loop_timers;

    while (*link != NULL && *link != timer) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = timer->next;
    }
    timer->is_set = false;
}

void loop_timer_set(struct loop_timer *timer, int64_t at_ns)
{
    struct loop_timer **link = &loop_timers;

    loop_timer_clear(timer);
    timer->at_ns = at_ns;
    timer->is_set = true;
    while (*link != NULL && (*link)->at_ns <= at_ns) {
        link = &(*link)->next;
    }
    timer->next = *link;
    *link = timer;
}

/* Milliseconds that epoll may sleep, rounded up so that a timer is due when it returns. */
static int loop_sleep_ms(void)
{
    int64_t left_ns;

    if (loop_timers == NULL) {
        return -1;
    }
    left_ns = loop_timers->at_ns - nxr_now_ns();
    if (left_ns <= 0) {
        return 0;
    }
    return left_ns > 3600 * NXR_S ? 3600000 : (int)((left_ns + NXR_MS - 1) / NXR_MS);
}

void loop_step(void)
{
    struct loop_timer *timer;

    loop_n_batch = epoll_wait(loop_epoll, loop_batch, LOOP_BATCH, loop_sleep_ms());
    for (int i = 0; i < loop_n_batch; i++) {
        struct loop_fd *watch = loop_batch[i].data.ptr;

        if (watch != NULL) {
            watch->ready(watch, loop_batch[i].events);
        }
    }
    loop_n_batch = 0;
    while ((timer = loop_timers) != NULL && timer->at_ns <= nxr_now_ns()) {
        loop_timer_clear(timer);
        timer->fire(timer);
    }
}
