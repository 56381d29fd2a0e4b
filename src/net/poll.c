/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polling the networks. Progress belongs to one side at a time: while user threads wait and poll,
 * they make it, and the service thread does not watch the networks' descriptors, since each
 * message would wake it for nothing. A thread that polls takes progress over. One that goes to
 * sleep gives it back at once; after any other return from a wait, a timer of the service thread
 * takes it back. Setting a timer can cost more than a message if a hypervisor does it, so polling
 * does not set it again and again: as long as the timer finds that a user thread has polled
 * meanwhile, its interval doubles, and only the end of a long wait sets it to the short interval.
 * When nobody polls, a passive target is served by the service thread, which sleeps in epoll.
 *
 * Lock: watch_lock for who owns progress; nxr_net.lock for a round.
 */
#include "config.h"

#include "core/service.h"
#include "net/clients.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "util/clock.h"
#include "util/log.h"
#include "core/wait.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define OWNED_NS     (75 * NXR_US) /* how long progress stays with it after a poll, at least */
#define MAX_OWNED_NS (1 * NXR_MS)  /* ... and at most */

#define IDLE_ROUNDS 64

/* A kernel may keep some megabytes of a peer that has ended, and a round reads 64 KiB of it. */
#define MAX_N_HEAR_ROUNDS 256

/* Two of them let a thread go on that holds the lock and shares this core. */
#define LOOKS_TO_ASK (NXR_SPIN_PAUSES + 2)

/* To pass that many bytes to a network takes some ten microseconds, within the lock. */
#define LARGE_NBYTES ((size_t)128 << 10)

/* How long peers that send without a pause may keep the service thread from all other work. */
#define TURN_NS (2 * NXR_MS)

/*
 * How long the service thread polls for more incoming bulk before it sleeps, since sleeping costs
 * a wake-up; but no longer than it has worked, so that a slow network costs little.
 */
#define LINGER_NS (50 * NXR_US)

static struct nxr_spin watch_lock;
static int networks_fd = -1;       /* an epoll descriptor over those of the networks */
static int net_poll_timer_fd = -1; /* checks whether a user thread still polls */
static bool net_poll_is_watched;   /* watch_lock: networks_fd is in the service thread's epoll */
static bool expects_more;          /* the service thread's: bulk is landing and no one else polls */
static _Atomic int64_t polled_at;  /* when a user thread last polled */
static _Atomic int64_t started_at; /* when one last started a large operation */
static _Atomic int64_t owned_ns;   /* the interval that the timer was set to */

/* ---- one round ------------------------------------------------------------------------------- */

/* Retry everything that had no room. */
static bool pump_busy(void)
{
    struct nxr_list *link, *after;
    bool has_moved = false;

    nxr_list_for_each (link, after, &nxr_net.busy) {
        struct net_peer *np = nxr_list_entry(link, struct net_peer, busy_link);

        has_moved |= nxr_net_pump(np);
        has_moved |= nxr_net_moves_pump(np);
        if (nxr_list_is_empty(&np->queue) && nxr_list_is_empty(&np->waiting)) {
            nxr_list_remove(&np->busy_link);
        }
    }
    return has_moved;
}

/*
 * Waiting threads rarely poll a network that no peer is reached over so far: a peer may still
 * greet over it.
 */
static bool is_due(const struct net *net, bool is_thorough)
{
    return net->is_open && (is_thorough || net->n_peers > 0 || nxr_net.n_rounds % IDLE_ROUNDS == 0);
}

/* The part of a round that is done without the lock. */
static void finish_round(void)
{
    nxr_net_tell_ended();
    nxr_net_run_later();
    nxr_net_clients_run();
}

/* The part that is done under the lock; rounds of the service thread are thorough. */
static bool round_under_lock(bool is_thorough, int64_t now)
{
    bool has_moved = false;

    nxr_net.is_in_round = true;
    nxr_net.now = now;
    nxr_net.n_rounds++;
    if (!is_thorough) {
        nxr_net.n_user_rounds++;
        atomic_store_explicit(&polled_at, nxr_net.now, memory_order_relaxed);
    }
    nxr_net.is_for_passive = is_thorough && nxr_nobody_waits();
    NXR_ASSERT(!nxr_net.is_receiving);
    nxr_net.is_receiving = true;
    for (size_t i = 0; i < nxr_net.n_nets; i++) {
        if (is_due(&nxr_net.nets[i], is_thorough)) {
            nxr_net.receiver = &nxr_net.nets[i];
            has_moved |= net_module(&nxr_net.nets[i])->progress() > 0;
        }
    }
    nxr_net.receiver = NULL;
    nxr_net.is_receiving = false;
    nxr_net_uncork_all();
    has_moved |= pump_busy();
    if (is_thorough) {
        expects_more = nxr_net.is_for_passive && nxr_net.n_landings > 0;
    }
    nxr_net.is_in_round = false;
    if (atomic_load_explicit(&nxr_net.is_round_wanted, memory_order_relaxed)) {
        atomic_store(&nxr_net.is_round_wanted, false);
    }
    return has_moved;
}

/* Was anything delivered in that round? */
static bool unlock_after_round(void)
{
    bool must_wake = nxr_net.must_wake;

    nxr_net.must_wake = false;
    net_unlock();
    if (must_wake) {
        nxr_wake_self();
    }
    return must_wake;
}

/* One round. Caller holds the lock; it is released here. */
static bool net_poll_do_round(bool is_thorough, int64_t now)
{
    bool has_moved = round_under_lock(is_thorough, now);

    (void)unlock_after_round();
    finish_round();
    return has_moved;
}

void nxr_net_started(size_t nbytes)
{
    if (nbytes >= LARGE_NBYTES) {
        atomic_store_explicit(&started_at, nxr_now_ns(), memory_order_relaxed);
    }
    if (!atomic_load_explicit(&nxr_net.is_round_wanted, memory_order_relaxed) ||
        !nxr_spin_try(&nxr_net.lock)) {
        return;
    }
    (void)round_under_lock(false, nxr_now_ns());
    if (unlock_after_round() || atomic_load(&nxr_net.has_later)) {
        nxr_service_kick(); /* it finishes the round: the caller may hold job.lock */
    }
}

void nxr_net_hear_out(struct net_peer *np)
{
    uint64_t heard_nbytes;
    int n_rounds = 0;

    net_lock();
    do {
        heard_nbytes = np->heard_nbytes;
        (void)round_under_lock(false, nxr_now_ns());
    } while (np->heard_nbytes != heard_nbytes && ++n_rounds < MAX_N_HEAR_ROUNDS);
    (void)unlock_after_round();
    nxr_service_kick(); /* it finishes the rounds: the caller holds job.lock */
}

/*
 * Take the lock for a round of the service thread, or to end its rounds. A thread that sends large
 * pieces, one behind the other, holds it nearly always, and each look at the lock takes its core
 * away from it: it is asked to make the round itself. False: it has, or will when it sends again;
 * if it does not, the timer brings the service thread back.
 */
static bool lock_for_round(void)
{
    for (int i = 0; !nxr_spin_try(&nxr_net.lock); i++) {
        if (i == 0) {
            atomic_store(&nxr_net.is_round_wanted, true);
        } else if (!atomic_load(&nxr_net.is_round_wanted) ||
                   (i >= LOOKS_TO_ASK && atomic_load(&nxr_net_is_polled))) {
            return false;
        }
        nxr_spin_wait(i);
    }
    atomic_store(&nxr_net.is_round_wanted, false);
    return true;
}

/* Is it safe to sleep on the networks' descriptors? */
static bool net_poll_arm(void)
{
    bool is_armed = true;

    if (!lock_for_round()) {
        return false;
    }
    for (size_t i = 0; i < nxr_net.n_nets && is_armed; i++) {
        is_armed = !nxr_net.nets[i].is_open || net_module(&nxr_net.nets[i])->arm() == NIXL_OK;
    }
    net_unlock();
    return is_armed;
}

/* ---- who makes progress ---------------------------------------------------------------------- */

static void became_ready(struct nxr_watch *watch, uint32_t events)
{
    (void)watch; /* nxr_net_serve() follows, without job.lock */
    (void)events;
}

static struct nxr_watch networks_watch = {became_ready};

static void net_poll_set_timer(int64_t ns)
{
    const struct itimerspec once = {.it_value = nxr_timespec(ns)};

    atomic_store_explicit(&owned_ns, ns, memory_order_relaxed);
    timerfd_settime(net_poll_timer_fd, 0, &once, NULL);
}

static void progress_take(void)
{
    nxr_spin_lock(&watch_lock);
    if (net_poll_is_watched) {
        nxr_service_unwatch(networks_fd);
        net_poll_is_watched = false;
        atomic_store(&nxr_net_is_polled, true);
        net_poll_set_timer(OWNED_NS);
    }
    nxr_spin_unlock(&watch_lock);
}

static void progress_give_back(void)
{
    nxr_spin_lock(&watch_lock);
    if (!net_poll_is_watched && networks_fd >= 0) {
        net_poll_is_watched = nxr_service_watch(networks_fd, EPOLLIN, &networks_watch) == NIXL_OK;
        atomic_store(&nxr_net_is_polled, !net_poll_is_watched);
    }
    nxr_spin_unlock(&watch_lock);
}

static bool is_recent(const _Atomic int64_t *when, int64_t now)
{
    return now - atomic_load_explicit(when, memory_order_relaxed) < OWNED_NS;
}

/* Give progress back to the service thread, unless a user thread still polls. */
static void progress_timer_fired(struct nxr_watch *watch, uint32_t events)
{
    int64_t now = nxr_now_ns();
    uint64_t count;

    (void)watch;
    (void)events;
    if (read(net_poll_timer_fd, &count, sizeof(count)) < 0 && errno != EAGAIN) {
        nxr_warn(NET, "cannot read the progress timer: %m");
    }
    if (!atomic_load(&nxr_net_is_polled)) {
        return;
    }
    /* A user thread that sends large pieces, or waits for the lock, will poll after that. */
    if (nxr_spin_is_taken(&nxr_net.lock) || is_recent(&polled_at, now) ||
        is_recent(&started_at, now)) {
        int64_t ns = 2 * atomic_load_explicit(&owned_ns, memory_order_relaxed);

        net_poll_set_timer(ns < MAX_OWNED_NS ? ns : MAX_OWNED_NS);
    } else {
        progress_give_back();
    }
}

static struct nxr_watch net_poll_timer_watch = {progress_timer_fired};

bool nxr_net_poll(int64_t now)
{
    if (!atomic_load_explicit(&nxr_net_is_polled, memory_order_relaxed)) {
        progress_take();
    }
    return nxr_spin_try(&nxr_net.lock) &&
           net_poll_do_round(false, now); /* else another thread runs a round */
}

void nxr_net_long_wait_ended(void)
{
    if (atomic_load(&nxr_net_is_polled)) {
        net_poll_set_timer(OWNED_NS);
    }
}

void nxr_net_hand_over(void)
{
    if (!atomic_load(&nxr_net_is_open)) {
        return;
    }
    progress_give_back();
    if (!net_poll_arm()) {
        nxr_service_kick();
    }
}

/*
 * Has a user thread polled the networks just now? It will poll again, and competing with it for
 * the lock would cost both threads time. Corked batches are sent at once all the same.
 */
static bool leave_it(int64_t now)
{
    if (!atomic_load(&nxr_net_is_polled) || !is_recent(&polled_at, now)) {
        return false;
    }
    if (atomic_load_explicit(&nxr_net.is_kicked, memory_order_relaxed)) {
        net_lock();
        nxr_net_uncork_all();
        net_unlock();
    }
    finish_round();
    return true;
}

/* Poll for more rather than sleep, after work from `start` to `moved_at`? */
static bool may_linger(int64_t start, int64_t moved_at)
{
    int64_t worked_ns = moved_at - start;

    return expects_more &&
           nxr_now_ns() - moved_at < (worked_ns < LINGER_NS ? worked_ns : LINGER_NS);
}

/* A round of the service thread, or what another thread has left of one. */
static bool net_poll_try_round(int64_t now)
{
    if (lock_for_round()) {
        return net_poll_do_round(true, now);
    }
    finish_round();
    return false;
}

void nxr_net_serve(void)
{
    int64_t start, moved_at;

    if (!atomic_load(&nxr_net_is_open)) {
        return;
    }
    start = moved_at = nxr_now_ns();
    do {
        bool has_moved;

        do {
            int64_t now = nxr_now_ns();

            if (now > start + TURN_NS) {
                nxr_service_kick(); /* continue after timers and connections */
                return;
            }
            if (leave_it(now)) {
                return;
            }
            has_moved = net_poll_try_round(now);
            moved_at = has_moved && expects_more ? nxr_now_ns() : moved_at;
        } while ((has_moved || may_linger(start, moved_at)) && !atomic_load(&nxr_net_is_polled));
    } while (!atomic_load(&nxr_net_is_polled) && !net_poll_arm());
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Other threads make rounds already, in a process that opens networks late. */
static bool net_poll_watch_network(const struct net *net)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd;

    net_lock();
    fd = net_module(net)->event_fd();
    net_unlock();
    return epoll_ctl(networks_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

int nxr_net_watch_start(void)
{
    if (!atomic_load(&nxr_net_is_open)) {
        return NIXL_OK;
    }
    networks_fd = epoll_create1(EPOLL_CLOEXEC);
    net_poll_timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (networks_fd < 0 || net_poll_timer_fd < 0) {
        nxr_error(NET, "cannot create descriptors to watch networks: %m");
        nxr_net_watch_stop();
        return NIXL_E_LIMIT;
    }
    for (size_t i = 0; i < nxr_net.n_nets; i++) {
        if (nxr_net.nets[i].is_open && !net_poll_watch_network(&nxr_net.nets[i])) {
            nxr_error(NET, "cannot watch network %s: %m", nxr_net.nets[i].name);
            nxr_net_watch_stop();
            return NIXL_E_LIMIT;
        }
    }
    if (nxr_service_watch(net_poll_timer_fd, EPOLLIN, &net_poll_timer_watch) != NIXL_OK) {
        nxr_net_watch_stop();
        return NIXL_E_LIMIT;
    }
    progress_give_back();
    return NIXL_OK;
}

void nxr_net_watch_stop(void)
{
    nxr_spin_lock(&watch_lock);
    net_poll_is_watched = false;
    atomic_store(&nxr_net_is_polled, false);
    if (networks_fd >= 0) {
        close(networks_fd);
    }
    if (net_poll_timer_fd >= 0) {
        close(net_poll_timer_fd);
    }
    networks_fd = net_poll_timer_fd = -1;
    nxr_spin_unlock(&watch_lock);
}
