/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library: small, and with all signals blocked, since those are the application's.
 */
#ifndef NXR_UTIL_THREAD_H
#define NXR_UTIL_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Was the calling thread started by nxr_thread_start()? */
bool nxr_thread_is_own(void);

/*
 * Start a joinable thread that runs run(arg), with a stack of that size, or the system's usual one
 * for 0. Returns 0 or an errno.
 */
int nxr_thread_start(pthread_t *thread, size_t stack_nbytes, void *(*run)(void *), void *arg);

/*
 * Between these two calls the calling thread, which may be the application's, gets no signal, and
 * a write whose reader has gone fails with EPIPE: SIGPIPE would end the program.
 */
struct nxr_signal_guard {
    sigset_t before;
    bool had_pipe; /* SIGPIPE was pending already, and stays so */
};
void nxr_signal_guard_begin(struct nxr_signal_guard *guard);
void nxr_signal_guard_end(const struct nxr_signal_guard *guard);

/*
 * The calling thread runs seldom and briefly: when it wakes, it shall not wait for the end of
 * another's time slice of some milliseconds. Where the kernel cannot do that (before Linux 6.12)
 * nothing happens. False: another policy than the normal one was chosen for it, and stays.
 */
bool nxr_thread_hurry(void);

/*
 * The calling thread works for long and nobody waits for its start: when it wakes, it does not take
 * the core of the thread that woke it. Nothing happens where another policy than the normal one was
 * chosen for it.
 */
void nxr_thread_stand_back(void);

/*
 * The nice value of the calling thread, from -20 on; false: a lower one is not permitted. The limit
 * is what everybody may have (RLIMIT_NICE), 20 or more for nothing lower than it is.
 */
#define NXR_LEAST_NICE (-20)
int nxr_thread_nice(void);
bool nxr_thread_set_nice(int nice);
int nxr_thread_nice_limit(void);

#endif
