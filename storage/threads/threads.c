/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A storage engine of threads that call pread(), pwrite() and fdatasync(). Threads are started
 * while there is more to do than idle ones take, and stay until stop(). They block all signals, as
 * every thread of the library, so that a file beyond RLIMIT_FSIZE is an EFBIG and no SIGXFSZ. Lock:
 * pool.lock, a leaf.
 */
#include "config.h"

#include "storage/storage.h"
#include "nixlrun.h"
#include "util/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS  32 /* so many requests are under way at once */
#define STACK_NBYTES (128 * 1024)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    struct nxr_storage_io *first, **end; /* requests that no thread has taken */
    unsigned n_waiting;                  /* of them */
    unsigned n_idle;                     /* threads that have none; a new one, too */
    unsigned n_threads;
    bool is_stopping;
    pthread_t threads[MAX_THREADS];
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .has_work = PTHREAD_COND_INITIALIZER, .end = &pool.first};

static int64_t pool_do(const struct nxr_storage_io *io)
{
    ssize_t n;

    do {
        switch (io->action) {
        case NXR_STORAGE_READ:
            n = pread(io->fd, io->memory, io->nbytes, (off_t)io->offset);
            break;
        case NXR_STORAGE_WRITE:
            n = pwrite(io->fd, io->memory, io->nbytes, (off_t)io->offset);
            break;
        default:
            n = fdatasync(io->fd);
        }
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* Take the next request, or NULL: there will be no more. Caller holds the lock. */
static struct nxr_storage_io *pool_take(void)
{
    struct nxr_storage_io *io;

    while (pool.first == NULL && !pool.is_stopping) {
        pthread_cond_wait(&pool.has_work, &pool.lock);
    }
    io = pool.first;
    pool.n_idle--;
    if (io != NULL) {
        pool.first = io->next;
        pool.end = pool.first == NULL ? &pool.first : pool.end;
        pool.n_waiting--;
    }
    return io;
}

static void *pool_work(void *arg)
{
    struct nxr_storage_io *io;

    (void)arg;
    pthread_mutex_lock(&pool.lock);
    while ((io = pool_take()) != NULL) {
        pthread_mutex_unlock(&pool.lock);
        io->result = pool_do(io);
        io->ended(io);
        pthread_mutex_lock(&pool.lock);
        pool.n_idle++;
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* Start a thread. Caller holds the lock. Returns 0 or an errno. */
static int pool_add(void)
{
    int error = nxr_thread_start(&pool.threads[pool.n_threads], STACK_NBYTES, pool_work, NULL);

    if (error == 0) {
        pool.n_threads++;
        pool.n_idle++;
    }
    return error;
}

static int pool_start(const struct nxr_storage_core *core, char *why, size_t why_nbytes)
{
    int error;

    (void)core;
    pthread_mutex_lock(&pool.lock);
    pool.is_stopping = false;
    error = pool_add();
    pthread_mutex_unlock(&pool.lock);
    if (error != 0) {
        snprintf(why, why_nbytes, "no thread can be started: %s", strerror(error));
        return NIXL_E_UNSUPPORTED;
    }
    return NIXL_OK;
}

static void pool_stop(void)
{
    unsigned n_threads;

    pthread_mutex_lock(&pool.lock);
    pool.is_stopping = true;
    n_threads = pool.n_threads;
    pthread_cond_broadcast(&pool.has_work);
    pthread_mutex_unlock(&pool.lock);
    for (unsigned i = 0; i < n_threads; i++) {
        pthread_join(pool.threads[i], NULL);
    }
    pool.n_threads = 0;
}

static void pool_submit(struct nxr_storage_io *list)
{
    unsigned n = 0;

    pthread_mutex_lock(&pool.lock);
    *pool.end = list;
    while (*pool.end != NULL) {
        pool.end = &(*pool.end)->next;
        n++;
    }
    pool.n_waiting += n;
    while (pool.n_waiting > pool.n_idle && pool.n_threads < MAX_THREADS && pool_add() == 0) {
    }
    if (n > 1) {
        pthread_cond_broadcast(&pool.has_work);
    } else {
        pthread_cond_signal(&pool.has_work);
    }
    pthread_mutex_unlock(&pool.lock);
}

/* The threads end their requests themselves, and who submitted one is told by that. */
static int pool_poll(void)
{
    return 0;
}

static void pool_arm(void)
{
}

static int pool_file_add(int fd)
{
    (void)fd;
    return -1;
}

static void pool_file_remove(int slot)
{
    (void)slot;
}

static void pool_pin(void *addr, size_t nbytes)
{
    (void)addr;
    (void)nbytes;
}

static void pool_unpin(void *addr)
{
    (void)addr;
}

const struct nxr_storage_engine nxr_storage_threads = {
    .abi = NXR_STORAGE_ABI,
    .name = "threads",
    .start = pool_start,
    .stop = pool_stop,
    .submit = pool_submit,
    .poll = pool_poll,
    .arm = pool_arm,
    .disarm = pool_arm,
    .file_add = pool_file_add,
    .file_remove = pool_file_remove,
    .pin = pool_pin,
    .unpin = pool_unpin,
};
