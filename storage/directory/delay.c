/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that only wait: a thread of their own, which is started with the first. Lock:
 * delay_lock, a leaf, which is not held while one ends.
 */
#include "config.h"

#include "storage/directory/directory.h"
#include "util/clock.h"
#include "util/thread.h"

#include <errno.h>

static pthread_mutex_t delay_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t delay_changed;
static pthread_t delay_thread;
static bool has_delay_thread, is_delay_stopping;
static struct nxr_object_io *delayed; /* `delay_ns` is when each ends */

/* Take one that is over, or say when the next one is. Caller holds the lock. */
static struct nxr_object_io *delay_take(int64_t *next_p)
{
    int64_t now = nxr_now_ns();

    *next_p = INT64_MAX;
    for (struct nxr_object_io **at = &delayed; *at != NULL; at = &(*at)->next) {
        struct nxr_object_io *io = *at;
        bool is_canceled = io->is_canceled != NULL && atomic_load(io->is_canceled);

        if (is_canceled || io->delay_ns <= now) {
            *at = io->next;
            io->next = NULL;
            io->error = is_canceled ? ECANCELED : 0;
            return io;
        }
        *next_p = io->delay_ns < *next_p ? io->delay_ns : *next_p;
    }
    return NULL;
}

static void *delay_work(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&delay_lock);
    while (!is_delay_stopping) {
        int64_t next;
        struct nxr_object_io *io = delay_take(&next);
        struct timespec time = {.tv_sec = next / NXR_S, .tv_nsec = next % NXR_S};

        if (io != NULL) {
            pthread_mutex_unlock(&delay_lock);
            io->ended(io);
            pthread_mutex_lock(&delay_lock);
        } else if (next == INT64_MAX) {
            pthread_cond_wait(&delay_changed, &delay_lock);
        } else {
            pthread_cond_timedwait(&delay_changed, &delay_lock, &time);
        }
    }
    pthread_mutex_unlock(&delay_lock);
    return NULL;
}

/* Caller holds the lock. Returns 0 or an errno. */
static int delay_start(void)
{
    pthread_condattr_t attributes;
    int error;

    if (has_delay_thread) {
        return 0;
    }
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&delay_changed, &attributes);
    pthread_condattr_destroy(&attributes);
    is_delay_stopping = false;
    error = nxr_thread_start(&delay_thread, 0, delay_work, NULL);
    has_delay_thread = error == 0;
    return error;
}

void nxr_delay_begin(struct nxr_object_io *io)
{
    int error;

    io->delay_ns += nxr_now_ns();
    pthread_mutex_lock(&delay_lock);
    error = delay_start();
    if (error == 0) {
        io->next = delayed;
        delayed = io;
        pthread_cond_signal(&delay_changed);
    }
    pthread_mutex_unlock(&delay_lock);
    if (error != 0) {
        io->error = error;
        io->ended(io);
    }
}

void nxr_delay_wake(void)
{
    pthread_mutex_lock(&delay_lock);
    if (has_delay_thread) {
        pthread_cond_signal(&delay_changed);
    }
    pthread_mutex_unlock(&delay_lock);
}

void nxr_delay_stop(void)
{
    bool must_join;

    pthread_mutex_lock(&delay_lock);
    must_join = has_delay_thread;
    is_delay_stopping = true;
    if (must_join) {
        pthread_cond_signal(&delay_changed);
    }
    pthread_mutex_unlock(&delay_lock);
    if (must_join) {
        pthread_join(delay_thread, NULL);
        pthread_cond_destroy(&delay_changed);
        has_delay_thread = false;
    }
}
