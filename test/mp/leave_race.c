/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls beside the last nixl_finalize(), which the program must not make, are refused; a library
 * that was built with --enable-debug ends the program there, from which this one returns.
 *
 *     leave_race
 *
 * Rank 0 is in nixl_finalize() and waits for rank 1, which comes when a second thread of rank 0 has
 * been refused.
 */
#include "mptest.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG_PID 0xab01

static pid_t other;
static sigjmp_buf after_abort;

static void leave_abort(int signal_number)
{
    siglongjmp(after_abort, signal_number);
}

static void expect_refusal(int status)
{
    MPT_STATUS(status, NIXL_E_NOT_INIT);
    MPT_TRUE(strstr(nixl_last_error()->text, "another thread is in nixl_finalize") != NULL);
    MPT_STATUS(nixl_rank(), NIXL_E_NOT_INIT);
}

static void call_until_ended(void)
{
    static struct nixl_note note;
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int status;

    do {
        nixl_note_init(&note);
        status = nixl_notify_recv(1, TAG_PID, UINT64_MAX, 0, &note);
        MPT_LT(mpt_now_ns(), end_ns);
        sched_yield();
    } while (status == NIXL_INPROGRESS);
    expect_refusal(status);
}

static void *call_until_refused(void *arg)
{
    (void)arg;
    if (sigsetjmp(after_abort, 1) == 0) {
        call_until_ended();
    }
    MPT_EQ(kill(other, SIGUSR1), 0);
    return NULL;
}

int main(void)
{
    const struct timespec patience = {.tv_sec = MPT_PATIENCE / MPT_S};
    static struct nixl_note note;
    pid_t pid = getpid();
    pthread_t thread;
    sigset_t wanted;

    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &wanted, NULL);
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_notify(1 - nixl_rank(), TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1 - nixl_rank(), TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&other, note.payload, sizeof(other));
    if (nixl_rank() == 0) {
        MPT_TRUE(signal(SIGABRT, leave_abort) != SIG_ERR);
        MPT_EQ(pthread_create(&thread, NULL, call_until_refused, NULL), 0);
        MPT_OK(nixl_finalize());
        MPT_EQ(pthread_join(thread, NULL), 0);
    } else {
        MPT_EQ(sigtimedwait(&wanted, NULL, &patience), SIGUSR1);
        MPT_OK(nixl_finalize());
    }
    return mpt_passed();
}
