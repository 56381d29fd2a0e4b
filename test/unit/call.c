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
#include <sys/mman.h>
#include <sys/wait.h>
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

/* Threads cannot be made afterwards: they would be in another PID namespace than their process. */
static bool leave_for_a_namespace(void)
{
    return unshare(CLONE_NEWPID) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
}

struct report {
    struct outcome outcome;
    pmix_status_t status;
    bool has_left, is_same_thread, is_pending, is_blocked;
};

/*
 * In a process that ends without exit(): there AddressSanitizer looks for leaks in a process that
 * it clones, and waits forever for one that is born in another PID namespace.
 */
Test(call, it_is_made_without_a_thread_where_none_can_be)
{
    struct report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    pid_t pid;

    cr_assert(report != MAP_FAILED);
    pid = fork();
    cr_assert_neq(pid, -1);
    if (pid == 0) {
        report->has_left = leave_for_a_namespace();
        if (report->has_left) {
            report->status = nxr_call_blocking(break_pipe, &report->outcome, PATIENCE_NS);
            report->is_same_thread = pthread_equal(report->outcome.thread, pthread_self()) != 0;
            report->is_pending = is_pending(SIGPIPE);
            report->is_blocked = is_blocked(SIGPIPE);
        }
        _exit(0);
    }
    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    cr_assert(eq(int, status, 0));
    if (!report->has_left) {
        cr_skip("this user cannot make a PID namespace");
    }
    cr_expect(eq(int, report->status, PMIX_ERR_UNREACH));
    cr_expect(eq(int, report->outcome.error, EPIPE));
    cr_expect(report->is_same_thread);
    cr_expect(not(report->is_pending));
    cr_expect(not(report->is_blocked));
    munmap(report, sizeof(*report));
}

/* A call that is answered too late is given up at its deadline, and not before. */
Test(call, a_call_without_an_answer_ends_at_its_deadline)
{
    struct nxr_call *call = nxr_call_new();
    int64_t begin = nxr_now_ns();

    cr_assert(call != NULL);
    cr_expect(eq(int, nxr_call_wait(call, 20 * NXR_MS), PMIX_ERR_TIMEOUT));
    cr_expect(nxr_now_ns() - begin >= 20 * NXR_MS);
    nxr_call_finish(call, PMIX_SUCCESS);
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
