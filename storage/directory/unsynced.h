/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a power failure would still undo: names of files whose bytes, and of directories whose
 * entries, are not on the medium. Beyond some of them, the whole file system is made durable
 * instead. Lock: unsynced->lock, a leaf, which is not held while the medium is waited for.
 *
 * Linux reports once that it could not write pages, and throws them away: the next fdatasync() of
 * the file succeeds without these bytes. So what has failed stays failed, until the name means
 * another file, or none.
 */
#ifndef NXR_DIRECTORY_UNSYNCED_H
#define NXR_DIRECTORY_UNSYNCED_H

#include "storage/directory/opened.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define NXR_UNSYNCED_MAX 1024

struct nxr_unsynced_names {
    unsigned n;
    bool is_beyond; /* there are more */
    char *names[2 * NXR_UNSYNCED_MAX];
};

/* One that failed to sync. Both locks are held when it enters or leaves the list. */
struct nxr_unsynced_failed {
    struct nxr_unsynced_failed *next;
    int error;
    bool is_directory;
    bool is_healed; /* the name means another file now; by `lock` */
    dev_t device;
    ino_t inode;
    char name[];
};

struct nxr_unsynced {
    pthread_mutex_t lock;
    pthread_mutex_t sync_lock;       /* one at a time makes them durable; outside of `lock` */
    struct nxr_opened_cache *opened; /* what else of the store has descriptors, and its root */
    struct nxr_unsynced_names files, directories;
    struct nxr_unsynced_failed *failed; /* in the order in which they failed; by sync_lock */
    int lost_error;                     /* not 0: nobody knows whose bytes are lost; likewise */
    const char *lost_what;
};

void nxr_unsynced_init(struct nxr_unsynced *unsynced, struct nxr_opened_cache *opened);
void nxr_unsynced_end(struct nxr_unsynced *unsynced);

void nxr_unsynced_add_file(struct nxr_unsynced *unsynced, const char *name);

/* The directory in which a name of so many bytes lies. */
void nxr_unsynced_add_parent(struct nxr_unsynced *unsynced, const char *name, size_t name_nbytes);

/* The file of that name was removed, or replaced by a new one: what failed does not count now. */
void nxr_unsynced_heal(struct nxr_unsynced *unsynced, const char *name);

/*
 * Make durable all that was added before. 0; or an errno, and what failed in `what`: the same as
 * before while that has not healed. What could not be opened is tried again by the next call.
 */
int nxr_unsynced_sync(struct nxr_unsynced *unsynced, char *what, size_t what_nbytes);

#endif
