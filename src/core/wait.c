/* SPDX-License-Identifier: Apache-2.0 */
/* Spinning, sleeping on the doorbell, and ringing it. No lock; wait.h describes the protocol. */
#include "config.h"

#include "core/carrier.h"
#include "core/wait.h"
#include "core/service.h"
#include "core/stats.h"
#include "core/subsystem.h"
#include "core/progress.h"
#include "util/clock.h"
#include "util/status.h"
#include "util/symbol.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Check again at least this often while asleep: a process that stops or dies between publishing and
 * waking must not leave this thread asleep.
 */
#define MAX_SLEEP_NS (1 * NXR_S)

/*
 * If a wait ended soon after falling asleep, this thread spins longer the next time, up to this
 * many times the spin time. A wake-up across cores costs 20 to 60 us, and the reply to a large put
 * often arrives after the spin time but too early for a sleep to pay. A long wait resets this to
 * the spin time.
 */
#define MAX_SPIN_FACTOR 8

/*
 * When a device's copy is expected to end, stay awake from this long, plus a sixteenth of the
 * remaining time, before that end until this long after it.
 */
#define AWAKE_NS (150 * NXR_US)

nxr_sleep_fn *_Atomic nxr_sleep_at_storage;
_Atomic uint32_t nxr_n_at_storage;
_Atomic uint32_t nxr_n_look_at_storage;

static atomic_int n_asleep;                           /* user threads asleep on the doorbell */
static atomic_int n_going_to_sleep;                   /* the same, from before they say so on */
static _Atomic int64_t look_from_ns, look_until_ns;   /* for the end of a device's copy */
static __thread int64_t longer_spin_ns NXR_TLS_MODEL; /* 0: the spin time */

/*
 * Checks without a pause, a clock or anything else in between. They take about a microsecond, for
 * peers that answer at once.
 */
#define FIRST_LOOKS 256

/*
 * Checks between two readings of the clock while spinning; a single one if networks or storage are
 * polled.
 */
#define LOOKS_PER_CLOCK 64
#define LOOKS_PER_PAUSE 16
#define LOOKS_PER_POLL  1

static void futex_sleep(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns)
{
    struct timespec timeout = nxr_timespec(timeout_ns);

    syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

/* Returns the number of threads woken. */
static long ring_doorbell(struct nxr_control *control)
{
    atomic_fetch_add_explicit(&control->doorbell, 1, memory_order_release);
    return syscall(SYS_futex, &control->doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * The same, but of the threads that sleep on the futex itself, which all bits wake. A ring that
 * waits for it (nxr_sleep_at_storage) has other bits, and may do so for nobody.
 */
static long ring_doorbell_of_threads(struct nxr_control *control)
{
    long n_woken;

    atomic_fetch_add_explicit(&control->doorbell, 1, memory_order_release);
    n_woken = syscall(SYS_futex, &control->doorbell, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL,
                      ~NXR_RING_BITS);
    syscall(SYS_futex, &control->doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return n_woken;
}

bool nxr_wake_waiters(struct nxr_control *control)
{
    return (atomic_load_explicit(&control->sleep_flags, memory_order_relaxed) & NXR_SLEEP_FUTEX) !=
               0 &&
           (atomic_fetch_and_explicit(&control->sleep_flags, ~(uint32_t)NXR_SLEEP_FUTEX,
                                      memory_order_acq_rel) &
            NXR_SLEEP_FUTEX) != 0 &&
           ring_doorbell_of_threads(control) > 0;
}

void nxr_wake_sleepers(struct nxr_control *control, struct nxr_peer *peer)
{
    uint32_t flags = atomic_exchange_explicit(&control->sleep_flags, 0, memory_order_acq_rel);

    if (flags != 0 && peer != NULL) {
        nxr_stats_count(nxr_stats_entry_of(peer, NXR_STATS_WAKE, nxr_peer_transport_name(peer),
                                           NXR_METHOD_NONE),
                        0);
    }
    if ((flags & NXR_SLEEP_FUTEX) != 0) {
        ring_doorbell(control);
    }
    if ((flags & NXR_SLEEP_EVENT_FD) != 0) {
        nxr_service_signal_event_fd(peer);
    }
}

void nxr_wake_self(void)
{
    nxr_barrier_light(nxr_barrier_is_full());
    if (atomic_load_explicit(&nxr_job.control->sleep_flags, memory_order_relaxed) != 0) {
        nxr_wake_sleepers(nxr_job.control, NULL);
    }
}

/*
 * A disk takes longer than a wake-up: while storage moves something whose end wakes this thread by
 * itself, it spins no longer than that, and not at all if its last waits there took much longer.
 */
#define STORAGE_SPIN_NS (5 * NXR_US)
#define STORAGE_LONG_NS (4 * STORAGE_SPIN_NS)
#define STORAGE_MEMORY  8 /* waits, about, that the mean reaches back */

static __thread int64_t storage_wait_ns NXR_TLS_MODEL; /* the mean of the last waits */

static bool is_at_storage(void)
{
    return atomic_load_explicit(&nxr_n_at_storage, memory_order_relaxed) > 0;
}

static int64_t spin_time(void)
{
    if (is_at_storage() && storage_wait_ns > STORAGE_LONG_NS) {
        return 0;
    }
    if (is_at_storage() && nxr_job.spin_ns > STORAGE_SPIN_NS) {
        return STORAGE_SPIN_NS;
    }
    return nxr_wait_spin_time();
}

int64_t nxr_wait_spin_time(void)
{
    return longer_spin_ns > nxr_job.spin_ns ? longer_spin_ns : nxr_job.spin_ns;
}

/* If the host is oversubscribed, leave the core to others. */
void nxr_wait_learn(int64_t waited_ns)
{
    int64_t longest = MAX_SPIN_FACTOR * nxr_job.spin_ns;

    if (waited_ns >= longest || nxr_job.is_oversubscribed) {
        longer_spin_ns = 0;
    } else {
        longer_spin_ns = 2 * waited_ns < longest ? 2 * waited_ns : longest;
    }
}

/* Does anything arrive only if this process polls a network? */
static bool is_polling(void)
{
    return atomic_load_explicit(&nxr_net_is_open, memory_order_relaxed);
}

static bool wait_look_closely(nxr_ready_fn *ready_fn, void *arg)
{
    bool is_busy = is_polling() || is_at_storage() || nxr_poll_has_copies();
    int n_looks = nxr_wait_looks_closely() && !is_busy ? FIRST_LOOKS : 1;

    for (int i = 0; i < n_looks; i++) {
        if (ready_fn(arg)) {
            return true;
        }
    }
    /* A disk that is as fast as memory has ended by now what was begun. */
    return is_at_storage() && storage_wait_ns < STORAGE_SPIN_NS && nxr_progress() && ready_fn(arg);
}

/* Time until this thread must look for the end of a device's copy; INT64_MAX: none is expected. */
static int64_t time_until_look(int64_t now)
{
    return now < atomic_load_explicit(&look_until_ns, memory_order_relaxed)
               ? atomic_load_explicit(&look_from_ns, memory_order_relaxed) - now
               : INT64_MAX;
}

/*
 * Is a large transfer presumably moving over a network, or does a device's copy end soon? False if
 * the host is oversubscribed: others need the core.
 */
static bool is_moving(int64_t now)
{
    bool is_at_network = atomic_load_explicit(&nxr_n_at_networks, memory_order_relaxed) > 0 &&
                         now < atomic_load_explicit(&nxr_net_expected_end, memory_order_relaxed);

    return (is_at_network || time_until_look(now) <= 0) && !nxr_job.is_oversubscribed;
}

/*
 * The earliest end is looked for first. A later one is announced again once the earlier copy has
 * ended.
 */
void nxr_device_ends_at(int64_t end_ns)
{
    int64_t now = nxr_now_ns(), left = end_ns > now ? end_ns - now : 0;
    int64_t known_ns = atomic_load_explicit(&look_until_ns, memory_order_relaxed) - AWAKE_NS;

    if (known_ns <= now + AWAKE_NS || end_ns < known_ns) {
        atomic_store_explicit(&look_from_ns, end_ns - AWAKE_NS - left / 16, memory_order_relaxed);
        atomic_store_explicit(&look_until_ns, end_ns + AWAKE_NS, memory_order_relaxed);
    }
}

/*
 * Spin until ready, until the deadline, or until the spin time is over and nothing moves that this
 * process drives itself. Yields the core if the host is oversubscribed.
 */
static bool spin_on(nxr_ready_fn *ready_fn, void *arg, int64_t deadline, bool *is_helper_p)
{
    bool has_moved = nxr_poll_copy(is_helper_p);
    int64_t now = nxr_now_ns(), spin_ns = spin_time(), until = now + spin_ns;
    int n_looks = is_polling() || is_at_storage() ? LOOKS_PER_POLL : LOOKS_PER_CLOCK;

    do {
        for (int i = 0; i < n_looks; i++) {
            if (ready_fn(arg)) {
                return true;
            }
            /*
             * Pause rarely: on some processors a pause takes as long as fetching a cache line from
             * another core.
             */
            if (i % LOOKS_PER_PAUSE == 0) {
                if (n_looks > LOOKS_PER_POLL) { /* otherwise the system calls are pause enough */
                    nxr_pause();
                }
                if (nxr_job.is_oversubscribed) {
                    nxr_yield();
                }
            }
        }
        now = nxr_now_ns();
        atomic_fetch_add_explicit(&nxr_n_user_rounds, 1, memory_order_relaxed);
        has_moved = nxr_progress_at(now);
        if (nxr_poll_copy(is_helper_p) || has_moved) {
            until = now + spin_ns;
        }
    } while ((now < until || is_moving(now)) && now < deadline);
    return ready_fn(arg);
}

/* Meanwhile this thread changes the words that peers ask for. */
static bool spin(nxr_ready_fn *ready_fn, void *arg, int64_t deadline)
{
    bool is_ready, is_helper = false;

    nxr_poll_asked_begin();
    is_ready = spin_on(ready_fn, arg, deadline, &is_helper);
    nxr_poll_asked_end();
    if (is_helper) {
        nxr_pollers.copy_end();
    }
    return is_ready;
}

/* Sleep until the doorbell rings, or until it is time to look for the end of a device's copy. */
static void sleep_on(struct nxr_control *control, uint32_t doorbell, int64_t left,
                     nxr_sleep_fn *sleep_at)
{
    int64_t until_look = nxr_job.is_oversubscribed ? INT64_MAX : time_until_look(nxr_now_ns());

    left = left < until_look ? left : until_look;
    if (left > 0) {
        atomic_fetch_add_explicit(&n_asleep, 1, memory_order_relaxed);
        if (sleep_at == NULL || !sleep_at(&control->doorbell, doorbell, left)) {
            if (sleep_at != NULL) {
                atomic_fetch_sub(&nxr_n_look_at_storage, 1);
                nxr_subsystems_hand_over(); /* to the service thread after all */
                atomic_fetch_add(&nxr_n_look_at_storage, 1);
            }
            futex_sleep(&control->doorbell, doorbell, left);
        }
        atomic_fetch_sub_explicit(&n_asleep, 1, memory_order_relaxed);
    }
}

/*
 * This thread is awake, and looks by itself: if no other sleeps, wakers need not ring. It ends what
 * storage has done, and would ring for itself. One that went to sleep meanwhile may have said so
 * just before: it is counted then, and checks again.
 */
static void say_awake(struct nxr_control *control)
{
    if (atomic_load(&n_going_to_sleep) != 1) {
        return;
    }
    atomic_fetch_and(&control->sleep_flags, ~(uint32_t)NXR_SLEEP_FUTEX);
    if (atomic_load(&n_going_to_sleep) != 1) {
        atomic_fetch_or(&control->sleep_flags, NXR_SLEEP_FUTEX);
        ring_doorbell(control);
    }
}

/*
 * Hand over to the service thread what this one has polled, but not storage if its end wakes this
 * thread; then sleep.
 */
static void hand_over_and_sleep(struct nxr_control *control, uint32_t doorbell, int64_t left)
{
    nxr_sleep_fn *sleep_at =
        atomic_load(&nxr_n_at_storage) > 0 ? atomic_load(&nxr_sleep_at_storage) : NULL;

    atomic_fetch_add(&nxr_n_look_at_storage, sleep_at != NULL);
    nxr_subsystems_hand_over();
    sleep_on(control, doorbell, left, sleep_at);
    if (sleep_at != NULL) {
        atomic_fetch_sub(&nxr_n_look_at_storage, 1);
        say_awake(control);
        (void)nxr_progress();
    }
}

bool nxr_nobody_waits(void)
{
    return atomic_load_explicit(&n_asleep, memory_order_relaxed) == 0 &&
           !atomic_load_explicit(&nxr_net_is_polled, memory_order_relaxed);
}

/* Sleep until the doorbell rings, unless something has arrived or moved meanwhile. Is it ready? */
static bool wait_sleep_once(nxr_ready_fn *ready_fn, void *arg, int64_t deadline,
                            struct nxr_waiting *waiting)
{
    struct nxr_control *control = nxr_job.control;
    uint32_t doorbell = atomic_load_explicit(&control->doorbell, memory_order_acquire);
    int64_t left = deadline == INT64_MAX ? MAX_SLEEP_NS : deadline - nxr_now_ns();
    int64_t longest = nxr_waiting_sleeps(waiting, MAX_SLEEP_NS);
    bool is_ready;

    atomic_fetch_add(&n_going_to_sleep, 1); /* before the flag: say_awake() of others */
    atomic_fetch_or(&control->sleep_flags, NXR_SLEEP_FUTEX);
    nxr_barrier_heavy();
    is_ready = ready_fn(arg);
    if (!is_ready && !nxr_progress() && left > 0) {
        hand_over_and_sleep(control, doorbell, left < longest ? left : longest);
    }
    atomic_fetch_sub(&n_going_to_sleep, 1);
    return is_ready || ready_fn(arg);
}

/* Sleep, and spin after each time. */
static int wait_long(nxr_ready_fn *ready_fn, void *arg, int64_t deadline,
                     struct nxr_waiting *waiting)
{
    do {
        if (wait_sleep_once(ready_fn, arg, deadline, waiting) || spin(ready_fn, arg, deadline)) {
            return NIXL_OK;
        }
    } while (nxr_now_ns() < deadline);
    return NIXL_E_TIMEOUT;
}

/* Nothing was there at the first checks. */
static int wait_slow(nxr_ready_fn *ready_fn, void *arg, int64_t timeout_ns,
                     nxr_describe_fn *describe, const void *about)
{
    struct nxr_waiting waiting = {.describe = describe, .about = about, .since_ns = nxr_now_ns()};
    bool was_at_storage = is_at_storage();
    int64_t deadline =
        timeout_ns > INT64_MAX - waiting.since_ns ? INT64_MAX : waiting.since_ns + timeout_ns;
    int status;

    if (spin(ready_fn, arg, deadline)) {
        storage_wait_ns -= storage_wait_ns / STORAGE_MEMORY;
        return NIXL_OK;
    }
    status = wait_long(ready_fn, arg, deadline, &waiting);
    nxr_waiting_ends(&waiting);
    if (status == NIXL_OK && was_at_storage) {
        storage_wait_ns += (nxr_now_ns() - waiting.since_ns - storage_wait_ns) / STORAGE_MEMORY;
    } else if (status == NIXL_OK) {
        nxr_wait_learn(nxr_now_ns() - waiting.since_ns);
    }
    if (status == NIXL_OK) {
        nxr_subsystems_long_wait_ended();
    }
    return status;
}

int nxr_wait_as(nxr_ready_fn *ready_fn, void *arg, int64_t timeout_ns, nxr_describe_fn *describe,
                const void *about)
{
    NXR_ASSERT(nxr_progress_is_allowed());
    if (timeout_ns == 0) {
        if (ready_fn(arg)) {
            return NIXL_OK;
        }
        nxr_progress();
        return ready_fn(arg) ? NIXL_OK : NIXL_INPROGRESS;
    }
    return wait_look_closely(ready_fn, arg) ? NIXL_OK
                                            : wait_slow(ready_fn, arg, timeout_ns, describe, about);
}

int nxr_wait(nxr_ready_fn *ready_fn, void *arg, int64_t timeout_ns)
{
    return nxr_wait_as(ready_fn, arg, timeout_ns, NULL, NULL);
}
