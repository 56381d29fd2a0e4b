/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are used again and again, and stay open: a table by name with a limit, from which the
 * one that was used least recently is closed. A file that was replaced, removed or renamed
 * meanwhile, by whomever, is opened anew. With direct I/O each has two descriptors.
 *
 * Descriptors are the process's. So when none is left, whoever needs one has the tables of all
 * directories closed that nobody uses, and waits for the requests of all.
 *
 * Locks: nxr_opened_scarce.lock, then cache->lock, a leaf.
 */
#ifndef NXR_DIRECTORY_OPENED_H
#define NXR_DIRECTORY_OPENED_H

#include "storage/move.h"
#include "storage/object.h"
#include "util/list.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#define NXR_OPENED_BUCKETS 256

struct nxr_opened {
    struct nxr_list by_name, by_use; /* not in them: it was dropped */
    struct nxr_storage_file file;
    unsigned n_users;
    bool is_writable;
    bool is_settled;         /* a change of its inode has a later time than that: */
    struct timespec changed; /* its inode, when it was opened */
    char name[];
};

struct nxr_opened_cache {
    pthread_mutex_t lock;
    struct nxr_opened_cache *next; /* of all in the process; by nxr_opened_scarce.lock */
    int root;
    unsigned n, max;
    bool writes_in_place; /* then a change of an inode says nothing of its name */
    bool is_direct;
    const struct nxr_storage_engine *engine;
    struct nxr_list by_use;
    struct nxr_list by_name[NXR_OPENED_BUCKETS];
};

/* What those wait for that have found no descriptor, in whatever directory. */
struct nxr_opened_scarce {
    pthread_mutex_t lock;
    pthread_cond_t was_released; /* `round` has changed */
    atomic_uint turn;            /* counts when somebody has released a descriptor */
    atomic_int n_in_use;         /* files that have users, those that were dropped, too */
    atomic_int n_waiting;        /* requests that wait for a descriptor; written with the lock */
    int n_working;               /* others that are under way */
    unsigned round;              /* counts when all who wait go on */
    struct nxr_opened_cache *caches;
};
extern struct nxr_opened_scarce nxr_opened_scarce;

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
int nxr_opened_open_direct(int fd, bool is_writable);

/*
 * A request begins and ends that opens what it closes, or leaves in the table. What it waits for
 * between them must not depend on another one, so that those that wait for descriptors may wait
 * for it.
 */
void nxr_opened_work_begin(void);
void nxr_opened_work_end(void);

/*
 * Descriptors have run out, after that turn: close all that nobody uses, or else wait until
 * somebody has released one. False: all who have one wait, too, or nobody has.
 */
unsigned nxr_opened_turn(void);
bool nxr_opened_shrink(unsigned turn);

/*
 * Evaluate an expression that opens something; it returns -errno on failure. If the process has no
 * descriptor left, the macro frees one or waits for one, and evaluates it again. A store opens
 * everything this way. A failed expression must hold no descriptor: a request that waits must not
 * hold what other requests wait for.
 */
#define NXR_OPENED_TRY(_open)                                                                      \
    __extension__({                                                                                \
        unsigned nxr_opened_at;                                                                    \
        int nxr_opened_fd;                                                                         \
        do {                                                                                       \
            nxr_opened_at = nxr_opened_turn();                                                     \
            nxr_opened_fd = (_open);                                                               \
        } while ((nxr_opened_fd == -EMFILE || nxr_opened_fd == -ENFILE) &&                         \
                 nxr_opened_shrink(nxr_opened_at));                                                \
        nxr_opened_fd;                                                                             \
    })

#endif
