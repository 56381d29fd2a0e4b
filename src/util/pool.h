/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads for calls that block. Items wait in a list of their own links; threads are
 * started while there is more to do than idle ones take, and stay until nxr_pool_stop(). They block
 * signals, as every thread of the library (util/thread.h), so that a file beyond RLIMIT_FSIZE is an
 * EFBIG and no SIGXFSZ. Lock: pool->lock, a leaf, which is not held while an item runs.
 */
#ifndef NXR_UTIL_POOL_H
#define NXR_UTIL_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define NXR_POOL_MAX_THREADS 32 /* so many items are under way at once */

struct nxr_pool {
    void (*run)(void *item); /* in any thread of the pool; the item may be gone afterwards */
    size_t next_at;          /* offset of an item's pointer to the next one */
    size_t stack_nbytes;     /* of a thread; 0: enough for system calls */
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    void *first, *last; /* items that no thread has taken */
    unsigned n_waiting; /* of them */
    unsigned n_idle;    /* threads that have none; a new one, too */
    unsigned n_threads;
    bool is_stopping;
    pthread_t threads[NXR_POOL_MAX_THREADS];
};
#define NXR_POOL_INIT(_run, _next_at)                                                              \
    {                                                                                              \
        .run = (_run), .next_at = (_next_at), .lock = PTHREAD_MUTEX_INITIALIZER,                   \
        .has_work = PTHREAD_COND_INITIALIZER                                                       \
    }

/* Start the first thread. 0, or an errno: nothing was started. One thread at a time. */
int nxr_pool_start(struct nxr_pool *pool);

/* Nothing is waiting or under way. Ends all threads; the pool may be started again. */
void nxr_pool_stop(struct nxr_pool *pool);

/* Have a list of items run, of which the last one's pointer is NULL. Any thread. */
void nxr_pool_submit(struct nxr_pool *pool, void *list);

#endif
