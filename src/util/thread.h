/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library: small, and with all signals blocked, since those are the application's.
 */
#ifndef NXR_UTIL_THREAD_H
#define NXR_UTIL_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Start a joinable thread with a stack of that size. 0 or an errno. */
int nxr_thread_start(pthread_t *thread, size_t stack_nbytes, void *(*run)(void *));

#endif
