/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service thread's loop. It owns the epoll descriptor, the kick and the robust mutex of the
 * control page; subsystems own what they watch.
 */
#include "config.h"

#include "core/service.h"
#include "core/subsystem.h"
#include "core/carrier.h"
#include "core/progress.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/thread_priority.h"
#include "util/status.h"
#include "util/thread.h"
#include "core/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define EVENTS_PER_WAKE 32
#define TURN_NS         (200 * NXR_US)
#define STILL_TURNS     8u
#define STACK_NBYTES    (256 * 1024)

static int epoll_fd = -1;
static int kick_fd = -1;
static pthread_t service_thread;
static atomic_bool service_is_stopping;
static atomic_bool is_broken;     /* the program has closed the library's descriptors */
static atomic_bool must_ring_any; /* some peer's must_ring_fd is set */

static void kicked(struct nxr_watch *watch, uint32_t events)
{
    uint64_t count;

    (void)watch;
    (void)events;
    if (read(kick_fd, &count, sizeof(count)) < 0 && errno != EAGAIN) {
        nxr_warn(HOST, "cannot read the wake-up descriptor: %m");
    }
}

static struct nxr_watch kick_watch = {kicked};

int nxr_service_watch(int fd, uint32_t events, struct nxr_watch *watch)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        nxr_warn(HOST, "cannot watch descriptor %d: %m", fd);
        return NIXL_E_LIMIT;
    }
    return NIXL_OK;
}

void nxr_service_rewatch(int fd, uint32_t events, struct nxr_watch *watch)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0) {
        nxr_warn(HOST, "cannot change the watch on descriptor %d: %m", fd);
    }
}

void nxr_service_unwatch(int fd)
{
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

bool nxr_service_may_keep_fd(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd < limit.rlim_cur / 2;
}

bool nxr_service_is_broken(void)
{
    if (!atomic_load(&is_broken) && (fcntl(epoll_fd, F_GETFD) < 0 || fcntl(kick_fd, F_GETFD) < 0)) {
        atomic_store(&is_broken, true);
        nxr_error(HOST, "the program has closed descriptors of the library, as closefrom() does; "
                        "this rank can only leave the job");
    }
    return atomic_load(&is_broken);
}

void nxr_service_kick(void)
{
    const uint64_t one = 1;

    if (atomic_load_explicit(&is_broken, memory_order_relaxed) || kick_fd < 0) {
        return; /* there is none, as when requests end in the last finalize */
    }
    if (write(kick_fd, &one, sizeof(one)) < 0 && errno != EAGAIN) {
        nxr_warn(HOST, "cannot wake the service thread: %m");
    }
}

int nxr_service_kick_fd(void)
{
    return kick_fd;
}

void nxr_service_signal_event_fd(struct nxr_peer *peer)
{
    const uint64_t one = 1;
    int fd = peer != NULL ? peer->event_fd : nxr_job.event_fd;

    if (fd >= 0) {
        if (write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN) {
            nxr_warn(HOST, "cannot signal an event fd: %m");
        }
        return;
    }
    /*
     * This rank keeps no descriptor of the peer's: our service thread asks the peer's to signal it.
     */
    atomic_store(&peer->must_ring_fd, true);
    atomic_store(&must_ring_any, true);
    nxr_service_kick();
}

static void ring_fds(void)
{
    if (!atomic_exchange(&must_ring_any, false)) {
        return;
    }
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        if (atomic_exchange(&peer->must_ring_fd, false)) {
            peer->carrier->ring(peer);
        }
    }
}

/* Do everything that is due. Returns the milliseconds until something is due again, -1: never. */
static int run_due(void)
{
    int64_t now = nxr_now_ns();
    int64_t due = nxr_subsystems_tick(now);

    if (due == INT64_MAX) {
        return -1;
    }
    now = nxr_now_ns();
    due = due <= now ? 0 : (due - now + NXR_MS - 1) / NXR_MS;
    return due > 60000 ? 60000 : (int)due;
}

/*
 * Drive what the user has started and does not drive itself, for a short turn. When nothing has
 * moved for some turns, all that is pending waits for something slow, and a turn is one round.
 */
static void drive_operations(void)
{
    static uint32_t n_seen_rounds, n_still_turns;
    uint32_t n_rounds = atomic_load_explicit(&nxr_n_user_rounds, memory_order_relaxed);
    int64_t until = nxr_now_ns() + (n_still_turns < STILL_TURNS ? TURN_NS : 0);
    bool has_moved = false;

    if (n_rounds != n_seen_rounds) {
        n_seen_rounds = n_rounds;
        n_still_turns = 0;
        return;
    }
    while (nxr_must_drive()) {
        has_moved |= nxr_progress_all();
        if (nxr_now_ns() >= until) {
            break;
        }
    }
    n_still_turns = has_moved || !nxr_must_drive() ? 0 : n_still_turns + 1;
    nxr_subsystems_drive();
}

/* Raise the priority only for peers on other hosts; those on this host reach memory themselves. */
static void get_ready(void)
{
    int less_nice = atomic_load(&nxr_net_is_open) ? (int)nxr_env.service_priority : 0;

    if (!nxr_thread_priority_start(less_nice, nxr_now_ns())) {
        nxr_debug(HOST, "NIXLRUN_SERVICE_PRIORITY has no effect: lowering nice is not permitted");
    }
}

/*
 * If the program has closed this thread's descriptors, nothing wakes it any more. So it may be
 * canceled here, and nowhere else.
 */
static int wait_for_events(struct epoll_event *events, int timeout_ms)
{
    int n_events, state;

    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    n_events = epoll_wait(epoll_fd, events, EVENTS_PER_WAKE, timeout_ms);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (n_events < 0 && errno != EINTR && nxr_service_is_broken()) {
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        for (;;) {
            pause(); /* until nxr_service_stop() */
        }
    }
    return n_events;
}

static void *service_serve(void *arg)
{
    struct epoll_event events[EVENTS_PER_WAKE];
    int n_events, timeout_ms, state;

    (void)arg;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    get_ready();
    pthread_mutex_lock(&nxr_job.control->alive);
    atomic_store_explicit(&nxr_job.control->life, NXR_LIFE_RUNNING, memory_order_release);
    nxr_wake_self();
    while (!atomic_load_explicit(&service_is_stopping, memory_order_acquire)) {
        pthread_mutex_lock(&nxr_job.lock);
        ring_fds();
        timeout_ms = run_due();
        pthread_mutex_unlock(&nxr_job.lock);
        nxr_thread_priority_rests(nxr_now_ns());
        n_events = wait_for_events(events, timeout_ms);
        nxr_thread_priority_woke(nxr_now_ns(), nxr_nobody_waits());
        pthread_mutex_lock(&nxr_job.lock);
        for (int i = 0; i < n_events; i++) {
            struct nxr_watch *watch = events[i].data.ptr;

            watch->fn(watch, events[i].events);
        }
        pthread_mutex_unlock(&nxr_job.lock);
        nxr_subsystems_serve();
        drive_operations();
    }
    pthread_mutex_unlock(&nxr_job.control->alive);
    return NULL;
}

static bool service_is_running(void *arg)
{
    (void)arg;
    return atomic_load_explicit(&nxr_job.control->life, memory_order_acquire) == NXR_LIFE_RUNNING;
}

/* The thread has ended or was never started. */
static void end_served(void)
{
    nxr_subsystems_halt();
    pthread_mutex_lock(&nxr_job.lock);
    nxr_subsystems_close();
    pthread_mutex_unlock(&nxr_job.lock);
}

int nxr_service_start(void)
{
    int status;

    atomic_store(&service_is_stopping, false);
    atomic_store(&is_broken, false);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_fd < 0 || kick_fd < 0) {
        status = nxr_status_of_errno(errno);
        nxr_error(HOST, "cannot create the service thread's descriptors: %m");
        goto err_close;
    }
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_service_watch(kick_fd, EPOLLIN, &kick_watch);
    if (status == NIXL_OK) {
        status = nxr_subsystems_listen();
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (status != NIXL_OK) {
        goto err_end;
    }
    status =
        nxr_status_of_errno(nxr_thread_start(&service_thread, STACK_NBYTES, service_serve, NULL));
    if (status != NIXL_OK) {
        nxr_error(HOST, "cannot start the service thread");
        goto err_end;
    }
    return nxr_wait(service_is_running, NULL, NIXL_FOREVER);

err_end:
    end_served();
err_close:
    if (epoll_fd >= 0) {
        close(epoll_fd);
    }
    if (kick_fd >= 0) {
        close(kick_fd);
    }
    epoll_fd = kick_fd = -1;
    return status;
}

void nxr_service_stop(void)
{
    atomic_store_explicit(&service_is_stopping, true, memory_order_release);
    if (nxr_service_is_broken()) {
        pthread_cancel(service_thread);
    } else {
        nxr_service_kick();
    }
    pthread_join(service_thread, NULL);
    end_served();
    close(epoll_fd);
    close(kick_fd);
    epoll_fd = kick_fd = -1;
}
