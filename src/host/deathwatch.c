/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that sleeps on the robust mutexes of all connected peers at once (futex_waitv). When the
 * owner of a robust futex dies and its waiters bit is set, the kernel wakes one sleeper, which
 * wakes the others. If futex_waitv does not exist (before Linux 5.16) or is forbidden (seccomp),
 * and for peers beyond its 128 words, the pidfds of liveness.c report the death, only later.
 *
 * Each new sleep costs the kernel a step for each word. So while peers connect one after the other,
 * the thread lets several come before it adds them, the longer the more words it has: all ranks of
 * a large job can connect to all at a cost that does not grow with their number for each pair.
 * Meanwhile the pidfds report deaths, too.
 *
 * Lock: job.lock guards the thread's start; the thread takes it to read the peers.
 */
#include "config.h"

#include "host/deathwatch.h"
#include "core/subsystem.h"
#include "core/life.h"
#include "core/job.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_WORDS    128 /* of one futex_waitv; the first is our own */
#define STACK_NBYTES (64 * 1024)
#define SETTLE_NS    (1 * NXR_MS) /* for each word, since the last peer came */
#define SETTLED_NS   (1 * NXR_S)  /* peers are added at least so often */

static pthread_t deathwatch_thread;
static bool is_started;                         /* job.lock */
static _Atomic uint32_t deathwatch_is_stopping; /* release; 0 or 1, a futex */
static _Atomic uint32_t n_changes;              /* the thread sleeps on it, too */

static void wake_all(void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * Set the waiters bit of a robust mutex, so that the kernel wakes a sleeper when its owner dies.
 * Returns the value to sleep on; 0: nobody holds the mutex, or its owner has died.
 */
static uint32_t deathwatch_arm(_Atomic uint32_t *word)
{
    uint32_t value = atomic_load_explicit(word, memory_order_acquire);

    do {
        if ((value & FUTEX_OWNER_DIED) != 0 || (value & FUTEX_TID_MASK) == 0) {
            return 0;
        }
    } while (!atomic_compare_exchange_weak(word, &value, value | FUTEX_WAITERS));
    return value | FUTEX_WAITERS;
}

static struct futex_waitv wait_on(const _Atomic uint32_t *word, uint32_t value)
{
    return (struct futex_waitv){.val = value, .uaddr = (uintptr_t)word, .flags = FUTEX_32};
}

/* Ranks of this job say it themselves when they leave, attached peers only unlock their mutex. */
static bool deathwatch_has_ended(const struct nxr_peer *peer)
{
    return nxr_control_is_dead(peer->control) ||
           (nxr_peer_is_attached(peer) &&
            atomic_load_explicit(&peer->control->life, memory_order_acquire) == NXR_LIFE_FINISHED);
}

/*
 * Collect the words of all connected peers that are alive, and report those that have ended.
 * Returns the number of words.
 */
static unsigned deathwatch_collect(struct futex_waitv *words)
{
    unsigned n_words = 1;

    words[0] = wait_on(&n_changes, atomic_load_explicit(&n_changes, memory_order_acquire));
    pthread_mutex_lock(&nxr_job.lock);
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL && n_words < MAX_WORDS;
         peer = nxr_peers_next(peer)) {
        _Atomic uint32_t *word;
        uint32_t value;

        if (peer->rank == nxr_job.rank || !nxr_peer_is_local(peer)) {
            continue;
        }
        word = nxr_control_alive_word(peer->control);
        if (nxr_peer_is_lost(peer)) {
            wake_all(word); /* a pidfd was faster; the kernel woke only this thread */
            continue;
        }
        value = deathwatch_arm(word);
        if (value != 0) {
            words[n_words++] = wait_on(word, value);
            continue;
        }
        wake_all(word); /* one that leaves wakes only one thread, too */
        if (deathwatch_has_ended(peer)) {
            nxr_life_lost_locked(peer->rank);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return n_words;
}

/* Until no peer has come for a while: peers that connect one after the other are added together. */
static void deathwatch_settle(unsigned n_words)
{
    struct timespec pause = nxr_timespec(SETTLE_NS * n_words);
    int64_t until = nxr_now_ns() + SETTLED_NS;
    uint32_t seen;

    do {
        seen = atomic_load_explicit(&n_changes, memory_order_acquire);
        syscall(SYS_futex, &deathwatch_is_stopping, FUTEX_WAIT, 0, &pause, NULL, 0);
    } while (atomic_load_explicit(&n_changes, memory_order_acquire) != seen &&
             nxr_now_ns() < until);
}

static void *deathwatch_watch(void *arg)
{
    struct futex_waitv words[MAX_WORDS];

    for (;;) {
        unsigned n_words = deathwatch_collect(words);
        long woken;

        /*
         * Check this after n_changes was read: nxr_deathwatch_stop() sets the flag first, then
         * changes it.
         */
        if (atomic_load_explicit(&deathwatch_is_stopping, memory_order_acquire) != 0) {
            break;
        }
        woken = syscall(SYS_futex_waitv, words, n_words, 0, NULL, CLOCK_MONOTONIC);
        if (woken < 0 && errno != EAGAIN && errno != EINTR) {
            nxr_debug(HOST, "no futex_waitv: detecting deaths by pidfd only: %m");
            break;
        }
        if (atomic_load_explicit(&n_changes, memory_order_acquire) != words[0].val) {
            deathwatch_settle(n_words);
        }
    }
    return arg;
}

void nxr_deathwatch_changed(void)
{
    int error;

    atomic_fetch_add_explicit(&n_changes, 1, memory_order_release);
    if (is_started) {
        wake_all(&n_changes);
        return;
    }
    atomic_store(&deathwatch_is_stopping, 0);
    error = nxr_thread_start(&deathwatch_thread, STACK_NBYTES, deathwatch_watch, NULL);
    if (error != 0) {
        nxr_debug(HOST, "no thread to watch for deaths: %s; using pidfds", strerror(error));
        return;
    }
    is_started = true;
}

void nxr_deathwatch_stop(void)
{
    bool was_started;

    pthread_mutex_lock(&nxr_job.lock);
    was_started = is_started;
    is_started = false;
    pthread_mutex_unlock(&nxr_job.lock);
    if (was_started) {
        atomic_store_explicit(&deathwatch_is_stopping, 1, memory_order_release);
        wake_all(&deathwatch_is_stopping);
        atomic_fetch_add_explicit(&n_changes, 1, memory_order_release);
        wake_all(&n_changes);
        pthread_join(deathwatch_thread, NULL);
    }
}

const struct nxr_subsystem nxr_deathwatch_subsystem = {
    .name = "deathwatch",
    .halt = nxr_deathwatch_stop,
};
