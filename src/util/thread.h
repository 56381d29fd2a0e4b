/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library: small, and with all signals blocked, since those are the application's.
 */
#ifndef NXR_UTIL_THREAD_H
#define NXR_UTIL_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Start a joinable thread with a stack of that size that runs run(arg). 0 or an errno. */
int nxr_thread_start(pthread_t *thread, size_t stack_nbytes, void *(*run)(void *), void *arg);

/*
 * The calling thread runs seldom and briefly: when it wakes, it shall not wait for the end of
 * another's time slice of some milliseconds. Where the kernel cannot do that (before Linux 6.12),
 * or another policy than the normal one was chosen, nothing happens. Its nice value is lowered by
 * so much, 0 to 20: false if that was not permitted (CAP_SYS_NICE, RLIMIT_NICE), and then it keeps
 * the one it has.
 */
bool nxr_thread_hurry(int less_nice);

#endif
