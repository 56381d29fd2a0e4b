/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library. They block all signals, since signals belong to the application, except
 * those that their own faults raise, such as SIGSEGV.
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
 * Between these two calls the calling thread, which may be the application's, receives no signals
 * but those of its own faults. A write to a closed pipe or socket fails with EPIPE, and one beyond
 * the limit of file sizes with EFBIG; SIGPIPE and SIGXFSZ would end the program.
 */
struct nxr_signal_guard {
    sigset_t before;
    sigset_t dropped; /* of these two those that were not pending already, and so stay */
};
void nxr_signal_guard_begin(struct nxr_signal_guard *guard);
void nxr_signal_guard_end(const struct nxr_signal_guard *guard);

/*
 * The calling thread runs rarely and briefly: when it wakes, it should not wait some milliseconds
 * for the end of another thread's time slice. Has no effect before Linux 6.12. False: the thread
 * has a scheduling policy other than the normal one, and keeps it.
 */
bool nxr_thread_hurry(void);

/*
 * The calling thread works for long and its start is not urgent: when it wakes, it does not preempt
 * the thread that woke it. Only yields if the thread has a scheduling policy other than the normal
 * one.
 */
void nxr_thread_stand_back(void);

/*
 * Get and set the nice value of the calling thread, -20 or more; false: a lower value is not
 * permitted. The limit is the lowest value that RLIMIT_NICE permits without privileges; 20: none.
 */
#define NXR_LEAST_NICE (-20)
int nxr_thread_nice(void);
bool nxr_thread_set_nice(int nice);
int nxr_thread_nice_limit(void);

#endif
