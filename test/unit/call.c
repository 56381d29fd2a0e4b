/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of PMIx on a thread of their own: what signals they get, and what if there is no thread. */
#include "config.h"

#include "boot/call.h"
#include "util/clock.h"
#include "util/thread.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define PATIENCE_NS (60 * NXR_S)

TestSuite(call, .timeout = 120);

/* Criterion's own processes ignore SIGPIPE; a program has the default, which ends it. */
static void write_to_nobody(pthread_t *thread_p, int *error_p)
{
    int fds[2];

    signal(SIGPIPE, SIG_DFL);
    cr_assert(eq(int, pipe(fds), 0));
    close(fds[0]);
    *thread_p = pthread_self();
    *error_p = write(fds[1], "x", 1) < 0 ? errno : 0;
    close(fds[1]);
}

struct outcome {
    pthread_t thread;
    int error;
};

static pmix_status_t break_pipe(void *arg)
{
    struct outcome *outcome = arg;

    write_to_nobody(&outcome->thread, &outcome->error);
    return PMIX_ERR_UNREACH;
}

static bool is_blocked(int signal)
{
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    return sigismember(&mask, signal) != 0;
}

static bool is_pending(int signal)
{
    sigset_t pending;

    sigpending(&pending);
    return sigismember(&pending, signal) != 0;
}

Test(call, a_broken_pipe_is_an_error_and_no_death)
{
    struct outcome outcome = {0};

    cr_expect(eq(int, nxr_call_blocking(break_pipe, &outcome, PATIENCE_NS), PMIX_ERR_UNREACH));
    cr_expect(eq(int, outcome.error, EPIPE));
    cr_expect(not(pthread_equal(outcome.thread, pthread_self())));
    cr_expect(not(is_blocked(SIGPIPE)));
}

/* Afterwards threads cannot be made: they would be in another PID namespace than their process. */
Test(call, it_is_made_without_a_thread_where_none_can_be)
{
    struct outcome outcome = {0};

    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
        cr_skip("this user cannot make a PID namespace");
    }
    cr_expect(eq(int, nxr_call_blocking(break_pipe, &outcome, PATIENCE_NS), PMIX_ERR_UNREACH));
    cr_expect(eq(int, outcome.error, EPIPE));
    cr_expect(pthread_equal(outcome.thread, pthread_self()));
    cr_expect(not(is_pending(SIGPIPE)));
    cr_expect(not(is_blocked(SIGPIPE)));
}

Test(call, a_guard_keeps_what_was_pending_before)
{
    struct nxr_signal_guard guard;
    struct outcome outcome = {0};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_DFL);
    cr_assert(eq(int, pthread_kill(pthread_self(), SIGPIPE), 0));
    nxr_signal_guard_begin(&guard);
    break_pipe(&outcome);
    nxr_signal_guard_end(&guard);
    cr_expect(eq(int, outcome.error, EPIPE));
    cr_expect(is_pending(SIGPIPE));
}
