/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting and waking. A waiter spins briefly, then sleeps on the doorbell of its own control page.
 *
 * Sleeping: set NXR_SLEEP_FUTEX in sleep_flags, heavy barrier, check again, sleep. Waking: publish
 * (release store), light barrier, check sleep_flags. Of these two store-then-load pairs at least
 * one sees the other (util/barrier.h), so no wake-up is lost, and a sender pays nothing for a
 * receiver that is awake. The waker clears the flags and rings the doorbell: all sleepers check
 * again.
 */
#ifndef NXR_CORE_WAIT_H
#define NXR_CORE_WAIT_H

#include "core/job.h"
#include "core/observe.h"
#include "core/poll.h"
#include "util/symbol.h"

/*
 * Has what the caller waits for happened? Called often, by the waiting thread, and never again once
 * it has returned true, so it may consume what it found. Must not block.
 */
typedef bool nxr_ready_fn(void *arg);

/*
 * Wait until ready_fn(arg) is true. NIXL_OK; NIXL_INPROGRESS if timeout_ns is 0 and it is not;
 * NIXL_E_TIMEOUT. Holds no lock while waiting.
 */
int nxr_wait(nxr_ready_fn *ready_fn, void *arg, int64_t timeout_ns);

/* The same, where others may see what for once it sleeps: describe(about) says so. */
int nxr_wait_as(nxr_ready_fn *ready_fn, void *arg, int64_t timeout_ns, nxr_describe_fn *describe,
                const void *about);

/* A wait of several turns, each an nxr_wait(): it is recorded from the first nxr_turn() on. */
static inline void nxr_turn(struct nxr_waiting *waiting)
{
    (void)nxr_waiting_sleeps(waiting, 0);
}

/*
 * How long this thread spins before it sleeps: the configured time, or longer if its last sleep
 * ended soon. nxr_wait() learns that by itself; another kind of wait that has slept reports how
 * long it took in all.
 */
int64_t nxr_wait_spin_time(void);
void nxr_wait_learn(int64_t waited_ns);

/*
 * May a wait begin with back-to-back checks, doing nothing in between? Not if others need this
 * core, or if peers may need this thread to change words meanwhile.
 */
static inline bool nxr_wait_looks_closely(void)
{
    return !nxr_job.is_oversubscribed &&
           !atomic_load_explicit(&nxr_atomics_are_used, memory_order_relaxed);
}

/* Is no user thread polling a network or asleep in a wait? */
bool nxr_nobody_waits(void);

/*
 * How a thread sleeps while storage moves something: until something there has ended, the futex
 * `word` is woken, or the time is over; not at all if *word is not `value`. False: not so, sleep
 * otherwise. Set by the memory folder; called without locks.
 */
#define NXR_RING_BITS 2u /* what it waits for the futex with */
typedef bool nxr_sleep_fn(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns);
extern NXR_HIDDEN nxr_sleep_fn *_Atomic nxr_sleep_at_storage;
/* What it moves, and would wake them for; and threads that sleep so, or are about to. */
extern NXR_HIDDEN _Atomic uint32_t nxr_n_at_storage, nxr_n_look_at_storage;

/*
 * The slow path of waking: sleep_flags are set in that page. `peer` is its owner; NULL: this rank.
 */
void nxr_wake_sleepers(struct nxr_control *control, struct nxr_peer *peer);

/* Wake a peer after something was published in its page. */
static inline void nxr_wake_peer(struct nxr_peer *peer)
{
    if (__builtin_expect(peer->control == NULL, 0)) {
        return; /* on another host: its own library wakes it */
    }
    nxr_barrier_light(peer->full_fence);
    if (__builtin_expect(
            atomic_load_explicit(&peer->control->sleep_flags, memory_order_relaxed) != 0, 0)) {
        nxr_wake_sleepers(peer->control, peer);
    }
}

/* Wake only the threads of that page's owner that sleep in a wait. False: none was asleep. */
bool nxr_wake_waiters(struct nxr_control *control);

/* Wake the other threads of this process, including those that poll the event fd. */
void nxr_wake_self(void);

#endif
