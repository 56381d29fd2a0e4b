/* SPDX-License-Identifier: Apache-2.0 */
/* The library's threads: how they are scheduled, and what signals they get. */
#include "config.h"

#include "util/thread.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Each test is a process: it changes the nice value of its only thread. */
#define START_NICE 10

static void start(void)
{
    cr_assert(nxr_thread_set_nice(START_NICE), "a higher one is always permitted");
}

TestSuite(thread, .timeout = 60, .init = start);

Test(thread, hurry_keeps_the_nice_value)
{
    cr_expect(nxr_thread_hurry());
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
    cr_expect(eq(int, sched_getscheduler(0), SCHED_OTHER));
}

Test(thread, hurry_keeps_another_policy)
{
    const struct sched_param none = {.sched_priority = 0};

    cr_assert(eq(int, sched_setscheduler(0, SCHED_BATCH, &none), 0));
    cr_expect(not(nxr_thread_hurry()));
    cr_expect(eq(int, sched_getscheduler(0), SCHED_BATCH));
}

Test(thread, the_nice_value_is_of_the_thread)
{
    cr_expect(nxr_thread_set_nice(START_NICE + 2));
    cr_expect(eq(int, nxr_thread_nice(), START_NICE + 2));
    cr_expect(eq(int, getpriority(PRIO_PROCESS, (id_t)gettid()), START_NICE + 2));
}

Test(thread, a_lower_nice_value_may_be_forbidden)
{
    const struct rlimit none = {0, 0};

    cr_assert(eq(int, setrlimit(RLIMIT_NICE, &none), 0));
    if (setegid(65534) != 0 || seteuid(65534) != 0) {
        cr_skip("this user cannot become another one, and may be allowed to lower nice");
    }
    cr_expect(not(nxr_thread_set_nice(START_NICE - 1)));
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}

/* ---- signals --------------------------------------------------------------------------------- */

#define CAUGHT 17

static void leave(int number)
{
    _exit(number == SIGSEGV ? CAUGHT : 1);
}

static void *fault(void *arg)
{
    *(volatile int *)arg = 1;
    return NULL;
}

/* Blocked, SIGSEGV would end the program without a word. */
Test(thread, the_programs_handler_hears_of_a_fault, .exit_code = CAUGHT)
{
    void *forbidden = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;

    cr_assert(forbidden != MAP_FAILED);
    signal(SIGSEGV, leave);
    cr_assert(eq(int, nxr_thread_start(&thread, 0, fault, forbidden), 0));
    pthread_join(thread, NULL);
}

static void *ask_mask(void *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    return NULL;
}

Test(thread, signals_that_are_sent_are_blocked)
{
    pthread_t thread;
    sigset_t mask;

    cr_assert(eq(int, nxr_thread_start(&thread, 0, ask_mask, &mask), 0));
    pthread_join(thread, NULL);
    cr_expect(eq(int, sigismember(&mask, SIGTERM), 1));
    cr_expect(eq(int, sigismember(&mask, SIGPIPE), 1));
    cr_expect(eq(int, sigismember(&mask, SIGCHLD), 1));
    cr_expect(eq(int, sigismember(&mask, SIGBUS), 0));
}

static void write_beyond_limit(void)
{
    const struct rlimit none = {0, RLIM_INFINITY};
    FILE *file = tmpfile();

    cr_assert(file != NULL);
    cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &none), 0));
    cr_expect(write(fileno(file), "x", 1) < 0 && errno == EFBIG);
}

/* A log file that is full must not end the program. */
Test(thread, a_write_beyond_the_limit_of_files_is_an_error)
{
    struct nxr_signal_guard guard;
    sigset_t xfsz, pending;

    nxr_signal_guard_begin(&guard);
    write_beyond_limit();
    nxr_signal_guard_end(&guard);
    sigemptyset(&xfsz);
    sigaddset(&xfsz, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &xfsz, NULL);
    cr_assert(eq(int, pthread_kill(pthread_self(), SIGXFSZ), 0));
    nxr_signal_guard_begin(&guard);
    write_beyond_limit();
    nxr_signal_guard_end(&guard);
    sigpending(&pending);
    cr_expect(eq(int, sigismember(&pending, SIGXFSZ), 1)); /* the program's own */
}
