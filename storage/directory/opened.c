/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that stay open: see opened.h, also for the lock. */
#include "config.h"

#include "storage/directory/opened.h"
#include "util/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void nxr_opened_cache_init(struct nxr_opened_cache *cache, int root, unsigned max,
                           bool writes_in_place)
{
    pthread_mutex_init(&cache->lock, NULL);
    cache->root = root;
    cache->n = 0;
    cache->max = max;
    cache->writes_in_place = writes_in_place;
    nxr_list_init(&cache->by_use);
    for (int i = 0; i < NXR_OPENED_BUCKETS; i++) {
        nxr_list_init(&cache->by_name[i]);
    }
}

static void opened_free(struct nxr_opened *opened)
{
    close(opened->fd);
    free(opened);
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
 * changes its inode; so does writing, but only files that are written in place are written at all.
 */
static bool opened_is_current(const struct nxr_opened_cache *cache, const struct nxr_opened *opened)
{
    struct stat stat;

    return fstat(opened->fd, &stat) == 0 && stat.st_nlink > 0 &&
           (cache->writes_in_place || (stat.st_ctim.tv_sec == opened->changed.tv_sec &&
                                       stat.st_ctim.tv_nsec == opened->changed.tv_nsec));
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
        opened->n_users++;
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

struct nxr_opened *nxr_opened_add(struct nxr_opened_cache *cache, const char *name, int fd,
                                  bool is_writable)
{
    struct nxr_opened *opened = NULL, *former;
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
    opened->fd = fd;
    opened->n_users = 1;
    opened->is_writable = is_writable;
    opened->changed = stat.st_ctim;
    memcpy(opened->name, name, strlen(name) + 1);
    pthread_mutex_lock(&cache->lock);
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

void nxr_opened_release(struct nxr_opened_cache *cache, struct nxr_opened *opened)
{
    pthread_mutex_lock(&cache->lock);
    if (--opened->n_users == 0 && opened_is_dropped(opened)) {
        opened_free(opened);
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

unsigned nxr_opened_shrink(struct nxr_opened_cache *cache)
{
    unsigned n;

    pthread_mutex_lock(&cache->lock);
    n = cache_trim(cache, 0);
    pthread_mutex_unlock(&cache->lock);
    return n;
}

void nxr_opened_cache_end(struct nxr_opened_cache *cache)
{
    (void)nxr_opened_shrink(cache);
    pthread_mutex_destroy(&cache->lock);
}
