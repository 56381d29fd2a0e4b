/* SPDX-License-Identifier: Apache-2.0 */
/* Starting threads. No state. */
#include "config.h"

#include "util/thread.h"

#include <signal.h>

int nxr_thread_start(pthread_t *thread, size_t stack_nbytes, void *(*run)(void *))
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_nbytes);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}
