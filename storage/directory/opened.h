/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are used again and again, and stay open: a table by name with a limit, from which the
 * one that was used least recently is closed. A file that was replaced, removed or renamed
 * meanwhile, by whomever, is opened anew. With direct I/O each has two descriptors. Lock:
 * cache->lock, a leaf.
 */
#ifndef NXR_DIRECTORY_OPENED_H
#define NXR_DIRECTORY_OPENED_H

#include "storage/move.h"
#include "storage/object.h"
#include "util/list.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#define NXR_OPENED_BUCKETS 256

struct nxr_opened {
    struct nxr_list by_name, by_use; /* not in them: it was dropped */
    struct nxr_storage_file file;
    unsigned n_users;
    bool is_writable;
    struct timespec changed; /* its inode, when it was opened */
    char name[];
};

struct nxr_opened_cache {
    pthread_mutex_t lock;
    pthread_cond_t was_released; /* `turn` has changed */
    unsigned turn;               /* counts when somebody has released a descriptor */
    int n_working, n_waiting;    /* requests that are under way; that wait for a descriptor */
    int root;
    unsigned n, max;
    unsigned n_in_use;    /* files that have users, those that were dropped, too */
    bool writes_in_place; /* then a change of an inode says nothing of its name */
    bool is_direct;
    const struct nxr_storage_engine *engine;
    struct nxr_list by_use;
    struct nxr_list by_name[NXR_OPENED_BUCKETS];
};

void nxr_opened_cache_init(struct nxr_opened_cache *cache, int root,
                           const struct nxr_object_settings *settings);
void nxr_opened_cache_end(struct nxr_opened_cache *cache); /* nobody uses one */

/* The file of that name, if it is open and still has that name; NULL: no. It is to be released. */
struct nxr_opened *nxr_opened_find(struct nxr_opened_cache *cache, const char *name,
                                   bool is_writable);

/* Take a regular file into the table that was opened just now. NULL, with errno; fd is closed. */
struct nxr_opened *nxr_opened_add(struct nxr_opened_cache *cache, const char *name, int fd,
                                  bool is_writable);
void nxr_opened_release(struct nxr_opened_cache *cache, struct nxr_opened *opened);

/* The name means another file now, or none. */
void nxr_opened_drop(struct nxr_opened_cache *cache, const char *name);

/*
 * As nxr_beneath_open_direct(), for the second descriptor of a file. If none is left, those that
 * nobody uses are closed, but nobody is waited for: without it, the file goes through the page
 * cache.
 */
int nxr_opened_open_direct(struct nxr_opened_cache *cache, int fd, bool is_writable);

/*
 * A request begins and ends that opens what it closes, or leaves in the table. What it waits for
 * between them must not depend on another one, so that those that wait for descriptors may wait
 * for it.
 */
void nxr_opened_work_begin(struct nxr_opened_cache *cache);
void nxr_opened_work_end(struct nxr_opened_cache *cache);

/*
 * Descriptors have run out, after that turn: close all that nobody uses, or else wait until
 * somebody has released one. False: all who have one wait, too, or nobody has.
 */
unsigned nxr_opened_turn(struct nxr_opened_cache *cache);
bool nxr_opened_shrink(struct nxr_opened_cache *cache, unsigned turn);

/*
 * Evaluate an expression that opens something; it returns -errno on failure. If the process has no
 * descriptor left, the macro frees one or waits for one, and evaluates it again. A store opens
 * everything this way. A failed expression must hold no descriptor: a request that waits must not
 * hold what other requests wait for.
 */
#define NXR_OPENED_TRY(_cache, _open)                                                              \
    __extension__({                                                                                \
        unsigned nxr_opened_at;                                                                    \
        int nxr_opened_fd;                                                                         \
        do {                                                                                       \
            nxr_opened_at = nxr_opened_turn(_cache);                                               \
            nxr_opened_fd = (_open);                                                               \
        } while ((nxr_opened_fd == -EMFILE || nxr_opened_fd == -ENFILE) &&                         \
                 nxr_opened_shrink((_cache), nxr_opened_at));                                      \
        nxr_opened_fd;                                                                             \
    })

#endif
