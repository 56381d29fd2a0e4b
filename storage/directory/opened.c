/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that stay open: see opened.h, also for the lock. */
#include "config.h"

#include "storage/directory/beneath.h"
#include "storage/directory/opened.h"
#include "util/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct nxr_opened_scarce nxr_opened_scarce = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                              .was_released = PTHREAD_COND_INITIALIZER};

void nxr_opened_cache_init(struct nxr_opened_cache *cache, int root,
                           const struct nxr_object_settings *settings)
{
    pthread_mutex_init(&cache->lock, NULL);
    cache->root = root;
    cache->n = 0;
    cache->max = settings->n_descriptors;
    cache->writes_in_place = settings->writes_in_place;
    cache->is_direct = settings->is_direct;
    cache->engine = settings->files;
    nxr_list_init(&cache->by_use);
    for (int i = 0; i < NXR_OPENED_BUCKETS; i++) {
        nxr_list_init(&cache->by_name[i]);
    }
    pthread_mutex_lock(&nxr_opened_scarce.lock);
    cache->next = nxr_opened_scarce.caches;
    nxr_opened_scarce.caches = cache;
    pthread_mutex_unlock(&nxr_opened_scarce.lock);
}

static void opened_free(struct nxr_opened *opened)
{
    if (opened->file.direct_fd >= 0) {
        close(opened->file.direct_fd);
    }
    close(opened->file.fd);
    free(opened);
}

static void opened_use(struct nxr_opened *opened)
{
    if (opened->n_users++ == 0) {
        atomic_fetch_add(&nxr_opened_scarce.n_in_use, 1);
    }
}

/* Take it out; it is closed when its last user has released it. Caller holds the lock. */
static void opened_remove(struct nxr_opened_cache *cache, struct nxr_opened *opened)
{
    nxr_list_remove(&opened->by_name);
    nxr_list_remove(&opened->by_use);
    cache->n--;
    if (opened->n_users == 0) {
        opened_free(opened);
    }
}

static bool opened_is_dropped(const struct nxr_opened *opened)
{
    return nxr_list_is_empty(&opened->by_use);
}

static struct nxr_list *bucket_of(struct nxr_opened_cache *cache, const char *name)
{
    return &cache->by_name[nxr_hash(name, strlen(name)) % NXR_OPENED_BUCKETS];
}

/* Caller holds the lock. */
static struct nxr_opened *opened_look(struct nxr_opened_cache *cache, const char *name)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, bucket_of(cache, name)) {
        struct nxr_opened *opened = nxr_list_entry(link, struct nxr_opened, by_name);

        if (strcmp(opened->name, name) == 0) {
            return opened;
        }
    }
    return NULL;
}

/* When an inode would be changed now, as the kernel writes it: by a clock that ticks. */
static struct timespec change_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

static bool is_later(struct timespec time, struct timespec than)
{
    return time.tv_sec != than.tv_sec ? time.tv_sec > than.tv_sec : time.tv_nsec > than.tv_nsec;
}

static bool opened_has_name(const struct nxr_opened_cache *cache, const struct nxr_opened *opened,
                            const struct stat *stat)
{
    struct stat named;

    return fstatat(cache->root, opened->name, &named, 0) == 0 && named.st_ino == stat->st_ino &&
           named.st_dev == stat->st_dev;
}

/*
 * Does the file still have its name? Replacing or removing it takes its last link, and renaming it
 * changes its inode. So does writing: for files that are written in place, the name is looked up.
 * It is, too, while a change would have the same time as the one before.
 */
static bool opened_is_current(const struct nxr_opened_cache *cache, struct nxr_opened *opened)
{
    struct timespec now;
    struct stat stat;

    if (fstat(opened->file.fd, &stat) != 0 || stat.st_nlink == 0) {
        return false;
    }
    if (cache->writes_in_place) {
        return opened_has_name(cache, opened, &stat);
    }
    if (is_later(stat.st_ctim, opened->changed) || is_later(opened->changed, stat.st_ctim)) {
        return false;
    }
    if (!opened->is_settled) {
        now = change_now(); /* before the look: a change behind it is no earlier */
        if (!opened_has_name(cache, opened, &stat)) {
            return false;
        }
        opened->is_settled = is_later(now, opened->changed);
    }
    return true;
}

struct nxr_opened *nxr_opened_find(struct nxr_opened_cache *cache, const char *name,
                                   bool is_writable)
{
    struct nxr_opened *opened;

    pthread_mutex_lock(&cache->lock);
    opened = opened_look(cache, name);
    if (opened != NULL &&
        ((is_writable && !opened->is_writable) || !opened_is_current(cache, opened))) {
        opened_remove(cache, opened);
        opened = NULL;
    }
    if (opened != NULL) {
        opened_use(opened);
        nxr_list_remove(&opened->by_use);
        nxr_list_append(&cache->by_use, &opened->by_use);
    }
    pthread_mutex_unlock(&cache->lock);
    return opened;
}

/* Close those that were used least recently, as far as nobody does. Caller holds the lock. */
static unsigned cache_trim(struct nxr_opened_cache *cache, unsigned max)
{
    struct nxr_list *link, *after;
    unsigned n = 0;

    nxr_list_for_each (link, after, &cache->by_use) {
        struct nxr_opened *opened = nxr_list_entry(link, struct nxr_opened, by_use);

        if (cache->n <= max) {
            break;
        }
        if (opened->n_users == 0) {
            opened_remove(cache, opened);
            n++;
        }
    }
    return n;
}

/* Close all files of the process that nobody uses. Caller holds nxr_opened_scarce.lock. */
static unsigned scarce_trim(void)
{
    unsigned n = 0;

    for (struct nxr_opened_cache *at = nxr_opened_scarce.caches; at != NULL; at = at->next) {
        pthread_mutex_lock(&at->lock);
        n += cache_trim(at, 0);
        pthread_mutex_unlock(&at->lock);
    }
    return n;
}

int nxr_opened_open_direct(int fd, bool is_writable)
{
    int direct_fd = nxr_beneath_open_direct(fd, is_writable);
    unsigned n_closed;

    if (direct_fd == -EMFILE || direct_fd == -ENFILE) {
        pthread_mutex_lock(&nxr_opened_scarce.lock);
        n_closed = scarce_trim();
        pthread_mutex_unlock(&nxr_opened_scarce.lock);
        direct_fd = n_closed > 0 ? nxr_beneath_open_direct(fd, is_writable) : direct_fd;
    }
    return direct_fd;
}

/* A file that nobody uses. NULL, with errno; fd is closed. */
static struct nxr_opened *opened_new(struct nxr_opened_cache *cache, const char *name, int fd,
                                     bool is_writable)
{
    struct nxr_opened *opened = NULL;
    struct stat stat;
    int error = fstat(fd, &stat) != 0 ? errno : 0;

    if (error == 0 && !S_ISREG(stat.st_mode)) {
        error = S_ISDIR(stat.st_mode) ? EISDIR : ENXIO;
    }
    if (error == 0) {
        opened = calloc(1, sizeof(*opened) + strlen(name) + 1);
        error = opened == NULL ? ENOMEM : 0;
    }
    if (opened == NULL) {
        close(fd);
        errno = error;
        return NULL;
    }
    /* With O_NONBLOCK, io_uring ends a request that would have to wait with EAGAIN. */
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    opened->file = (struct nxr_storage_file)NXR_STORAGE_FILE_NONE;
    opened->file.engine = cache->engine;
    opened->file.fd = fd;
    if (cache->is_direct) { /* without, it goes through the page cache */
        opened->file.direct_fd = nxr_opened_open_direct(fd, is_writable);
    }
    opened->is_writable = is_writable;
    opened->changed = stat.st_ctim;
    memcpy(opened->name, name, strlen(name) + 1);
    return opened;
}

struct nxr_opened *nxr_opened_add(struct nxr_opened_cache *cache, const char *name, int fd,
                                  bool is_writable)
{
    struct nxr_opened *opened = opened_new(cache, name, fd, is_writable), *former;

    if (opened == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&cache->lock);
    opened_use(opened);
    former = opened_look(cache, name);
    if (former != NULL) {
        opened_remove(cache, former);
    }
    nxr_list_append(bucket_of(cache, name), &opened->by_name);
    nxr_list_append(&cache->by_use, &opened->by_use);
    cache->n++;
    (void)cache_trim(cache, cache->max);
    pthread_mutex_unlock(&cache->lock);
    return opened;
}

/* Something was closed, or can be: all who wait go on. Caller holds nxr_opened_scarce.lock. */
static void scarce_go_on(void)
{
    struct nxr_opened_scarce *scarce = &nxr_opened_scarce;

    scarce->round++;
    scarce->n_working += atomic_exchange(&scarce->n_waiting, 0);
    pthread_cond_broadcast(&scarce->was_released);
}

void nxr_opened_release(struct nxr_opened_cache *cache, struct nxr_opened *opened)
{
    struct nxr_opened_scarce *scarce = &nxr_opened_scarce;
    bool is_last;

    pthread_mutex_lock(&cache->lock);
    is_last = --opened->n_users == 0;
    if (is_last && opened_is_dropped(opened)) {
        opened_free(opened);
    }
    (void)cache_trim(cache, cache->max);
    pthread_mutex_unlock(&cache->lock);
    if (!is_last) {
        return;
    }
    atomic_fetch_add(&scarce->turn, 1); /* first: who sees that none is in use sees that, too */
    atomic_fetch_sub(&scarce->n_in_use, 1);
    if (atomic_load(&scarce->n_waiting) > 0) {
        pthread_mutex_lock(&scarce->lock);
        scarce_go_on();
        pthread_mutex_unlock(&scarce->lock);
    }
}

void nxr_opened_drop(struct nxr_opened_cache *cache, const char *name)
{
    struct nxr_opened *opened;

    pthread_mutex_lock(&cache->lock);
    opened = opened_look(cache, name);
    if (opened != NULL) {
        opened_remove(cache, opened);
    }
    pthread_mutex_unlock(&cache->lock);
}

/* ---- when descriptors have run out ----------------------------------------------------------- */

void nxr_opened_work_begin(void)
{
    pthread_mutex_lock(&nxr_opened_scarce.lock);
    nxr_opened_scarce.n_working++;
    pthread_mutex_unlock(&nxr_opened_scarce.lock);
}

void nxr_opened_work_end(void)
{
    pthread_mutex_lock(&nxr_opened_scarce.lock);
    nxr_opened_scarce.n_working--;
    atomic_fetch_add(&nxr_opened_scarce.turn, 1);
    scarce_go_on();
    pthread_mutex_unlock(&nxr_opened_scarce.lock);
}

unsigned nxr_opened_turn(void)
{
    return atomic_load(&nxr_opened_scarce.turn);
}

/*
 * Wait, if somebody may release one. Caller holds the lock, and is counted as waiting before it
 * looks: who releases one looks for those that wait last.
 */
static bool scarce_wait(unsigned turn)
{
    struct nxr_opened_scarce *scarce = &nxr_opened_scarce;
    unsigned round = scarce->round;
    bool is_any;

    scarce->n_working--;
    atomic_fetch_add(&scarce->n_waiting, 1);
    is_any = atomic_load(&scarce->n_in_use) > 0 || scarce->n_working > 0;
    if (atomic_load(&scarce->turn) != turn || !is_any) {
        is_any = is_any || atomic_load(&scarce->turn) != turn;
        atomic_fetch_sub(&scarce->n_waiting, 1);
        scarce->n_working++;
        return is_any;
    }
    while (scarce->round == round) {
        pthread_cond_wait(&scarce->was_released, &scarce->lock);
    }
    return true;
}

bool nxr_opened_shrink(unsigned turn)
{
    bool is_any;

    pthread_mutex_lock(&nxr_opened_scarce.lock);
    is_any = scarce_trim() > 0 || atomic_load(&nxr_opened_scarce.turn) != turn || scarce_wait(turn);
    pthread_mutex_unlock(&nxr_opened_scarce.lock);
    return is_any;
}

void nxr_opened_cache_end(struct nxr_opened_cache *cache)
{
    struct nxr_opened_cache **link = &nxr_opened_scarce.caches;

    pthread_mutex_lock(&nxr_opened_scarce.lock);
    while (*link != cache) {
        link = &(*link)->next;
    }
    *link = cache->next;
    pthread_mutex_unlock(&nxr_opened_scarce.lock);
    (void)cache_trim(cache, 0);
    pthread_mutex_destroy(&cache->lock);
}
