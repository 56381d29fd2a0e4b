/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx calls with a deadline of our own. The state of a call is on the heap, never on a stack, so
 * that a late answer can free it safely.
 *
 * Lock: each call has a lock for what its two holders share.
 */
#include "config.h"

#include "boot/call.h"
#include "util/clock.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* A call in progress. The caller and the answer each hold it; the last to release it frees it. */
struct nxr_call {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int holders;
    bool is_done;
    pmix_status_t status;
    nxr_call_fn *blocking_fn; /* for calls that have no _nb form */
    void *blocking_arg;
};

struct nxr_call *nxr_call_new(void)
{
    struct nxr_call *call = calloc(1, sizeof(*call));
    pthread_condattr_t attributes;

    if (call != NULL) {
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_mutex_init(&call->lock, NULL);
        pthread_cond_init(&call->ended, &attributes);
        pthread_condattr_destroy(&attributes);
        call->holders = 2;
    }
    return call;
}

static void call_release(struct nxr_call *call)
{
    bool is_last;

    pthread_mutex_lock(&call->lock);
    is_last = --call->holders == 0;
    pthread_mutex_unlock(&call->lock);
    if (is_last) {
        pthread_cond_destroy(&call->ended);
        pthread_mutex_destroy(&call->lock);
        free(call);
    }
}

void nxr_call_finish(struct nxr_call *call, pmix_status_t status)
{
    pthread_mutex_lock(&call->lock);
    call->is_done = true;
    call->status = status;
    pthread_cond_signal(&call->ended);
    pthread_mutex_unlock(&call->lock);
    call_release(call);
}

void nxr_call_ended(pmix_status_t status, void *arg)
{
    nxr_call_finish(arg, status);
}

pmix_status_t nxr_call_wait(struct nxr_call *call, int64_t timeout_ns)
{
    int64_t deadline = nxr_deadline(timeout_ns);
    struct timespec until = nxr_timespec(deadline);
    pmix_status_t status = PMIX_ERR_TIMEOUT;

    pthread_mutex_lock(&call->lock);
    while (!call->is_done) {
        if (deadline == INT64_MAX) {
            pthread_cond_wait(&call->ended, &call->lock);
        } else if (pthread_cond_timedwait(&call->ended, &call->lock, &until) != 0) {
            break;
        }
    }
    if (call->is_done) {
        status = call->status;
    }
    pthread_mutex_unlock(&call->lock);
    call_release(call);
    return status;
}

static void *run_blocking(void *arg)
{
    struct nxr_call *call = arg;

    nxr_call_finish(call, call->blocking_fn(call->blocking_arg));
    return NULL;
}

/* On the caller's thread, without a deadline: for want of memory or of a thread. */
static pmix_status_t run_here(nxr_call_fn *fn, void *arg)
{
    struct nxr_signal_guard guard;
    pmix_status_t status;

    nxr_signal_guard_begin(&guard);
    status = fn(arg);
    nxr_signal_guard_end(&guard);
    return status;
}

pmix_status_t nxr_call_blocking(nxr_call_fn *fn, void *arg, int64_t timeout_ns)
{
    struct nxr_call *call = nxr_call_new();
    pthread_t thread;

    if (call == NULL) {
        return run_here(fn, arg);
    }
    call->blocking_fn = fn;
    call->blocking_arg = arg;
    if (nxr_thread_start(&thread, 0, run_blocking, call) == 0) {
        pthread_detach(thread);
    } else {
        nxr_call_finish(call, run_here(fn, arg));
    }
    return nxr_call_wait(call, timeout_ns);
}
