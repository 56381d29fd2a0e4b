/* SPDX-License-Identifier: Apache-2.0 */
/* Starting threads and blocking their signals. No state. */
#include "config.h"

#include "util/thread.h"
#include "util/lock.h"
#include "util/signals.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SHORT_SLICE_NS 100000 /* the minimum of Linux */

/* The kernel's struct sched_attr (sched_setattr(2)), which not all C libraries declare. */
struct scheduling {
    uint32_t nbytes;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* the slice, for SCHED_OTHER */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

static __thread bool is_own;

#ifdef NXR_DEBUG
bool nxr_mutex_is_mine(const pthread_mutex_t *mutex)
{
    return mutex->__data.__owner == (int)syscall(SYS_gettid);
}
#endif

/* What a new thread runs. */
struct start {
    void *(*run)(void *);
    void *arg;
};

bool nxr_thread_is_own(void)
{
    return is_own;
}

static void *run_own(void *arg)
{
    const struct start start = *(const struct start *)arg;

    free(arg);
    is_own = true;
    return start.run(start.arg);
}

int nxr_thread_start(pthread_t *thread, size_t stack_nbytes, void *(*run)(void *), void *arg)
{
    struct start *start = malloc(sizeof(*start));
    const sigset_t sent = nxr_signals_sent();
    pthread_attr_t attributes;
    sigset_t before;
    int error;

    if (start == NULL) {
        return ENOMEM;
    }
    *start = (struct start){run, arg};
    pthread_attr_init(&attributes);
    if (stack_nbytes > 0) {
        pthread_attr_setstacksize(&attributes, stack_nbytes);
    }
    pthread_sigmask(SIG_SETMASK, &sent, &before);
    error = pthread_create(thread, &attributes, run_own, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        free(start);
    }
    return error;
}

void nxr_signal_guard_begin(struct nxr_signal_guard *guard)
{
    static const int of_writes[] = {SIGPIPE, SIGXFSZ};
    const sigset_t sent = nxr_signals_sent();
    sigset_t pending;

    pthread_sigmask(SIG_BLOCK, &sent, &guard->before);
    sigpending(&pending);
    sigemptyset(&guard->dropped);
    for (size_t i = 0; i < sizeof(of_writes) / sizeof(*of_writes); i++) {
        if (sigismember(&pending, of_writes[i]) == 0) {
            sigaddset(&guard->dropped, of_writes[i]);
        }
    }
}

void nxr_signal_guard_end(const struct nxr_signal_guard *guard)
{
    const struct timespec now = {0, 0};
    int saved_errno = errno, number;

    do {
        number = sigtimedwait(&guard->dropped, NULL, &now);
    } while (number > 0 || (number < 0 && errno == EINTR));
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = saved_errno;
}

bool nxr_thread_hurry(void)
{
    struct scheduling scheduling = {.nbytes = sizeof(scheduling)};

    if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof(scheduling), 0) != 0 ||
        scheduling.policy != SCHED_OTHER) {
        return false;
    }
    scheduling.runtime_ns = SHORT_SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &scheduling, 0);
    return true;
}

void nxr_thread_stand_back(void)
{
    const struct sched_param none = {0};

    if (sched_getscheduler(0) == SCHED_OTHER) {
        (void)sched_setscheduler(0, SCHED_BATCH, &none);
    }
    sched_yield();
}

int nxr_thread_nice(void)
{
    return getpriority(PRIO_PROCESS, 0);
}

/* On Linux each thread has its own nice value. */
bool nxr_thread_set_nice(int nice)
{
    return setpriority(PRIO_PROCESS, 0, nice) == 0;
}

int nxr_thread_nice_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NICE, &limit) != 0) {
        return 20;
    }
    return limit.rlim_cur > 40 ? NXR_LEAST_NICE : 20 - (int)limit.rlim_cur;
}
