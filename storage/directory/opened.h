/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of files that are used again and again: a table by name with a limit, from which the
 * one that was used least recently is closed. A file that was replaced, removed or renamed
 * meanwhile, by whomever, is opened anew. Lock: cache->lock, a leaf.
 */
#ifndef NXR_DIRECTORY_OPENED_H
#define NXR_DIRECTORY_OPENED_H

#include "util/list.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#define NXR_OPENED_BUCKETS 256

struct nxr_opened {
    struct nxr_list by_name, by_use; /* not in them: it was dropped */
    int fd;
    unsigned n_users;
    bool is_writable;
    struct timespec changed; /* its inode, when it was opened */
    char name[];
};

struct nxr_opened_cache {
    pthread_mutex_t lock;
    int root;
    unsigned n, max;
    bool writes_in_place; /* then a change of an inode says nothing of its name */
    struct nxr_list by_use;
    struct nxr_list by_name[NXR_OPENED_BUCKETS];
};

void nxr_opened_cache_init(struct nxr_opened_cache *cache, int root, unsigned max,
                           bool writes_in_place);
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

/* Close all that nobody uses: descriptors have run out. How many there were. */
unsigned nxr_opened_shrink(struct nxr_opened_cache *cache);

#endif
