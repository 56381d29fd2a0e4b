/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the network waits for: descriptors, in one epoll instance whose own descriptor is the
 * network's event fd; and timers, all driven by one timerfd in that instance. Few timers run at
 * once: those of connections that are being made and of endpoints that are being closed. A watch
 * must stay valid until the end of the round in which it is removed. Other files are called only by
 * the pointers in watches and timers. The core's lock.
 */
#include "config.h"

#include "connection.h"
#include "util/clock.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MAX_EVENTS 32

/* ---- descriptors ----------------------------------------------------------------------------- */

/* progress() reads the clock itself. */
static void timer_is_ready(struct nxr_tcp_watch *watch, uint32_t events)
{
    (void)watch;
    (void)events;
}

static struct nxr_tcp_watch tcp_events_timer_watch = {timer_is_ready, -1};

int nxr_tcp_events_open(void)
{
    nxr_tcp.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    tcp_events_timer_watch.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return nxr_tcp.epoll_fd >= 0 && tcp_events_timer_watch.fd >= 0
               ? nxr_tcp_watch(&tcp_events_timer_watch, EPOLLIN)
               : NIXL_E_LIMIT;
}

void nxr_tcp_events_close(void)
{
    if (tcp_events_timer_watch.fd >= 0) {
        close(tcp_events_timer_watch.fd);
    }
    if (nxr_tcp.epoll_fd >= 0) {
        close(nxr_tcp.epoll_fd);
    }
    tcp_events_timer_watch.fd = nxr_tcp.epoll_fd = -1;
}

static int control(struct nxr_tcp_watch *watch, int what, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.ptr = watch}};

    return epoll_ctl(nxr_tcp.epoll_fd, what, watch->fd, &event) == 0 ? NIXL_OK : NIXL_E_LIMIT;
}

int nxr_tcp_watch(struct nxr_tcp_watch *watch, uint32_t events)
{
    return control(watch, EPOLL_CTL_ADD, events);
}

void nxr_tcp_watch_change(struct nxr_tcp_watch *watch, uint32_t events)
{
    (void)control(watch, EPOLL_CTL_MOD, events);
}

void nxr_tcp_unwatch(struct nxr_tcp_watch *watch)
{
    (void)control(watch, EPOLL_CTL_DEL, 0);
}

int nxr_tcp_handle_events(int timeout_ms)
{
    struct epoll_event events[MAX_EVENTS];
    int n = epoll_wait(nxr_tcp.epoll_fd, events, MAX_EVENTS, timeout_ms);

    for (int i = 0; i < n; i++) {
        struct nxr_tcp_watch *watch = events[i].data.ptr;

        if (watch->fd >= 0) { /* an earlier event may have closed it */
            watch->ready(watch, events[i].events);
        }
    }
    return n > 0 ? n : 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void change_events(struct nxr_tcp_conn *conn)
{
    nxr_tcp_watch_change(&conn->watch,
                         (conn->is_muted ? 0 : EPOLLIN) | (conn->wants_room ? EPOLLOUT : 0));
}

void nxr_tcp_conn_wants_room(struct nxr_tcp_conn *conn, bool wants_room)
{
    if (conn->wants_room != wants_room) {
        conn->wants_room = wants_room;
        nxr_tcp.n_blocked += wants_room ? 1 : -1;
        change_events(conn);
    }
}

void nxr_tcp_conn_mute(struct nxr_tcp_conn *conn, bool is_muted)
{
    if (conn->is_muted != is_muted) {
        conn->is_muted = is_muted;
        change_events(conn);
    }
}

/* ---- times ----------------------------------------------------------------------------------- */

static void set(int64_t at)
{
    const struct itimerspec when = {.it_value = nxr_timespec(at)};

    nxr_tcp.timer_at = at;
    (void)timerfd_settime(tcp_events_timer_watch.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void nxr_tcp_timer_set(struct nxr_tcp_timer *timer, int64_t after_ns)
{
    nxr_list_remove(&timer->link);
    nxr_list_append(&nxr_tcp.timers, &timer->link);
    timer->at = nxr_now_ns() + after_ns;
    if (nxr_tcp.timer_at == 0 || timer->at < nxr_tcp.timer_at) {
        set(timer->at);
    }
}

void nxr_tcp_timer_end(struct nxr_tcp_timer *timer)
{
    nxr_list_remove(&timer->link);
}

int nxr_tcp_ring(void)
{
    int64_t now = nxr_now_ns(), next = 0;
    struct nxr_list due, *link, *after;
    int n = 0;

    nxr_list_init(&due);
    nxr_list_for_each (link, after, &nxr_tcp.timers) {
        if (nxr_list_entry(link, struct nxr_tcp_timer, link)->at <= now) {
            nxr_list_remove(link);
            nxr_list_append(&due, link);
        }
    }
    while ((link = nxr_list_pop(&due)) != NULL) {
        struct nxr_tcp_timer *timer = nxr_list_entry(link, struct nxr_tcp_timer, link);

        timer->rings(timer);
        n++;
    }
    nxr_list_for_each (link, after, &nxr_tcp.timers) {
        const struct nxr_tcp_timer *timer = nxr_list_entry(link, struct nxr_tcp_timer, link);

        next = next == 0 || timer->at < next ? timer->at : next;
    }
    set(next);
    return n;
}
