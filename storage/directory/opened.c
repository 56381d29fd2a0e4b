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

void nxr_opened_cache_init(struct nxr_opened_cache *cache, int root,
                           const struct nxr_object_settings *settings)
{
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->was_released, NULL);
    cache->root = root;
    cache->n = cache->n_in_use = cache->turn = 0;
    cache->n_working = cache->n_waiting = 0;
    cache->max = settings->n_descriptors;
    cache->writes_in_place = settings->writes_in_place;
    cache->is_direct = settings->is_direct;
    cache->engine = settings->files;
    nxr_list_init(&cache->by_use);
    for (int i = 0; i < NXR_OPENED_BUCKETS; i++) {
        nxr_list_init(&cache->by_name[i]);
    }
}

static void opened_free(struct nxr_opened *opened)
{
    if (opened->file.direct_fd >= 0) {
        close(opened->file.direct_fd);
    }
    close(opened->file.fd);
    free(opened);
}

static void opened_use(struct nxr_opened_cache *cache, struct nxr_opened *opened)
{
    cache->n_in_use += opened->n_users == 0;
    opened->n_users++;
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

/*
 * Does the file still have its name? Replacing or removing it takes its last link, and renaming it
 * changes its inode. So does writing: for files that are written in place, the name is looked up.
 */
static bool opened_is_current(const struct nxr_opened_cache *cache, const struct nxr_opened *opened)
{
    struct stat stat, named;

    if (fstat(opened->file.fd, &stat) != 0 || stat.st_nlink == 0) {
        return false;
    }
    if (cache->writes_in_place) {
        return fstatat(cache->root, opened->name, &named, 0) == 0 && named.st_ino == stat.st_ino &&
               named.st_dev == stat.st_dev;
    }
    return stat.st_ctim.tv_sec == opened->changed.tv_sec &&
           stat.st_ctim.tv_nsec == opened->changed.tv_nsec;
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
        opened_use(cache, opened);
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

int nxr_opened_open_direct(struct nxr_opened_cache *cache, int fd, bool is_writable)
{
    int direct_fd = nxr_beneath_open_direct(fd, is_writable);
    unsigned n_closed;

    if (direct_fd == -EMFILE || direct_fd == -ENFILE) {
        pthread_mutex_lock(&cache->lock);
        n_closed = cache_trim(cache, 0);
        pthread_mutex_unlock(&cache->lock);
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
        opened->file.direct_fd = nxr_opened_open_direct(cache, fd, is_writable);
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
    opened_use(cache, opened);
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

/* Something was closed, or can be: all who wait go on. Caller holds the lock. */
static void cache_turn(struct nxr_opened_cache *cache)
{
    cache->turn++;
    cache->n_working += cache->n_waiting;
    cache->n_waiting = 0;
    pthread_cond_broadcast(&cache->was_released);
}

void nxr_opened_release(struct nxr_opened_cache *cache, struct nxr_opened *opened)
{
    pthread_mutex_lock(&cache->lock);
    if (--opened->n_users == 0) {
        cache->n_in_use--;
        if (opened_is_dropped(opened)) {
            opened_free(opened);
        }
        cache_turn(cache);
    }
    (void)cache_trim(cache, cache->max);
    pthread_mutex_unlock(&cache->lock);
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

void nxr_opened_work_begin(struct nxr_opened_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    cache->n_working++;
    pthread_mutex_unlock(&cache->lock);
}

void nxr_opened_work_end(struct nxr_opened_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    cache->n_working--;
    cache_turn(cache);
    pthread_mutex_unlock(&cache->lock);
}

unsigned nxr_opened_turn(struct nxr_opened_cache *cache)
{
    unsigned turn;

    pthread_mutex_lock(&cache->lock);
    turn = cache->turn;
    pthread_mutex_unlock(&cache->lock);
    return turn;
}

bool nxr_opened_shrink(struct nxr_opened_cache *cache, unsigned turn)
{
    bool is_any;

    pthread_mutex_lock(&cache->lock);
    is_any = cache_trim(cache, 0) > 0 || cache->turn != turn;
    if (!is_any && (cache->n_in_use > 0 || cache->n_working > 1)) { /* this one works, too */
        cache->n_working--;
        cache->n_waiting++;
        while (cache->turn == turn) {
            pthread_cond_wait(&cache->was_released, &cache->lock);
        }
        is_any = true;
    }
    pthread_mutex_unlock(&cache->lock);
    return is_any;
}

void nxr_opened_cache_end(struct nxr_opened_cache *cache)
{
    (void)cache_trim(cache, 0);
    pthread_cond_destroy(&cache->was_released);
    pthread_mutex_destroy(&cache->lock);
}
