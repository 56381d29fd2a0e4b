/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock for a few dozen instructions on the message path: one exchange to take it, one store to
 * release it. A waiter spins briefly, then yields its core so that a preempted holder can continue,
 * and then sleeps for short times, since yielding helps little if the holder has a higher nice
 * value. Anything that may block or take long uses a pthread mutex.
 *
 * Builds with --enable-debug know which thread holds a lock, so that assertions can say who must:
 * nxr_spin_is_mine(), nxr_mutex_is_mine(). Other builds have neither.
 */
#ifndef NXR_UTIL_LOCK_H
#define NXR_UTIL_LOCK_H

#include "util/debug.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#define NXR_SPIN_PAUSES 64
#define NXR_SPIN_YIELDS 256 /* some hundred microseconds */
#define NXR_SPIN_NAP_NS 20000

struct nxr_spin {
    atomic_bool is_taken;
#ifdef NXR_DEBUG
    _Atomic(pthread_t) holder; /* 0: none */
#endif
};

#ifdef NXR_DEBUG
/* Does the calling thread hold the lock? */
static inline bool nxr_spin_is_mine(struct nxr_spin *lock)
{
    return atomic_load_explicit(&lock->holder, memory_order_relaxed) == pthread_self();
}

static inline void nxr_spin_note_taken(struct nxr_spin *lock)
{
    atomic_store_explicit(&lock->holder, pthread_self(), memory_order_relaxed);
}

static inline void nxr_spin_note_free(struct nxr_spin *lock)
{
    NXR_ASSERT(nxr_spin_is_mine(lock));
    atomic_store_explicit(&lock->holder, 0, memory_order_relaxed);
}

/* The same for a mutex, as the C library notes it (thread.c). */
bool nxr_mutex_is_mine(const pthread_mutex_t *mutex);
#else
#define nxr_spin_note_taken(_lock) ((void)0)
#define nxr_spin_note_free(_lock)  ((void)0)
#endif

/* Tell the core that this is a spin loop. */
static inline void nxr_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/*
 * Let another thread have the core, as sched_yield() does. Where many processes share a core, a
 * waiter does so at every turn, and finds no page of its own in the core's TLB: the three that a
 * call through the C library touches (its entry, the pointer to it, and itself) take as long as the
 * system call.
 */
static inline void nxr_yield(void)
{
#if defined(__x86_64__)
    long result = SYS_sched_yield;

    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
#else
    sched_yield();
#endif
}

/* Checks for peers that answer at once: with nxr_look_again(), one to two microseconds. */
#define NXR_CLOSE_LOOKS 512

/*
 * Between two checks of a word that another core is about to write. The core does not run ahead
 * with further checks, which it would have to discard when the cache line arrives. nxr_pause() may
 * take longer than the line.
 */
static inline void nxr_look_again(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#endif
}

/* What a waiter does after `n_looks` checks. */
static inline void nxr_spin_wait(int n_looks)
{
    const struct timespec nap = {.tv_nsec = NXR_SPIN_NAP_NS};

    if (n_looks < NXR_SPIN_PAUSES) {
        nxr_pause();
    } else if (n_looks < NXR_SPIN_PAUSES + NXR_SPIN_YIELDS) {
        nxr_yield();
    } else {
        nanosleep(&nap, NULL);
    }
}

static inline void nxr_spin_lock(struct nxr_spin *lock)
{
    NXR_ASSERT(!nxr_spin_is_mine(lock));
    while (atomic_exchange_explicit(&lock->is_taken, true, memory_order_acquire)) {
        for (int i = 0; atomic_load_explicit(&lock->is_taken, memory_order_relaxed); i++) {
            nxr_spin_wait(i);
        }
    }
    nxr_spin_note_taken(lock);
}

/* Take it if it is free. */
static inline bool nxr_spin_try(struct nxr_spin *lock)
{
    bool is_taken = !atomic_exchange_explicit(&lock->is_taken, true, memory_order_acquire);

    if (is_taken) {
        nxr_spin_note_taken(lock);
    }
    return is_taken;
}

/* Was it taken at this moment? A hint. */
static inline bool nxr_spin_is_taken(struct nxr_spin *lock)
{
    return atomic_load_explicit(&lock->is_taken, memory_order_relaxed);
}

static inline void nxr_spin_unlock(struct nxr_spin *lock)
{
    nxr_spin_note_free(lock);
    atomic_store_explicit(&lock->is_taken, false, memory_order_release);
}

#endif
