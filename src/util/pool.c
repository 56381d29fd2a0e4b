/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads: see pool.h, also for the lock. */
#include "config.h"

#include "util/pool.h"
#include "util/thread.h"

#include <string.h>

#define STACK_NBYTES (128 * 1024)

static void *pool_next(const struct nxr_pool *pool, const void *item)
{
    void *next;

    memcpy(&next, (const char *)item + pool->next_at, sizeof(next));
    return next;
}

static void pool_link(const struct nxr_pool *pool, void *item, void *next)
{
    memcpy((char *)item + pool->next_at, &next, sizeof(next));
}

/* Take the next item, or NULL: there will be no more. Caller holds the lock. */
static void *pool_take(struct nxr_pool *pool)
{
    void *item;

    while (pool->first == NULL && !pool->is_stopping) {
        pthread_cond_wait(&pool->has_work, &pool->lock);
    }
    item = pool->first;
    pool->n_idle--;
    if (item != NULL) {
        pool->first = pool_next(pool, item);
        pool->n_waiting--;
    }
    return item;
}

static void *pool_work(void *arg)
{
    struct nxr_pool *pool = arg;
    void *item;

    pthread_mutex_lock(&pool->lock);
    while ((item = pool_take(pool)) != NULL) {
        pthread_mutex_unlock(&pool->lock);
        pool->run(item);
        pthread_mutex_lock(&pool->lock);
        pool->n_idle++;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Start a thread. Caller holds the lock. Returns 0 or an errno. */
static int pool_add(struct nxr_pool *pool)
{
    size_t stack_nbytes = pool->stack_nbytes != 0 ? pool->stack_nbytes : STACK_NBYTES;
    int error = nxr_thread_start(&pool->threads[pool->n_threads], stack_nbytes, pool_work, pool);

    if (error == 0) {
        pool->n_threads++;
        pool->n_idle++;
    }
    return error;
}

int nxr_pool_start(struct nxr_pool *pool)
{
    int error;

    pthread_mutex_lock(&pool->lock);
    pool->is_stopping = false;
    error = pool_add(pool);
    pthread_mutex_unlock(&pool->lock);
    return error;
}

void nxr_pool_stop(struct nxr_pool *pool)
{
    unsigned n_threads;

    pthread_mutex_lock(&pool->lock);
    pool->is_stopping = true;
    n_threads = pool->n_threads;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < n_threads; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pool->n_threads = 0;
    pool->n_idle = 0;
}

void nxr_pool_submit(struct nxr_pool *pool, void *list)
{
    unsigned n = 0;

    pthread_mutex_lock(&pool->lock);
    if (pool->first == NULL) {
        pool->first = list;
    } else {
        pool_link(pool, pool->last, list);
    }
    for (; list != NULL; list = pool_next(pool, list)) {
        pool->last = list;
        n++;
    }
    pool->n_waiting += n;
    while (pool->n_waiting > pool->n_idle && pool->n_threads < NXR_POOL_MAX_THREADS &&
           pool_add(pool) == 0) {
    }
    if (n > 1) {
        pthread_cond_broadcast(&pool->has_work);
    } else {
        pthread_cond_signal(&pool->has_work);
    }
    pthread_mutex_unlock(&pool->lock);
}
