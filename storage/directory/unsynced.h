/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a power failure would still undo: names of files whose bytes, and of directories whose
 * entries, are not on the medium. Beyond some of them, the whole file system is made durable
 * instead. Lock: unsynced->lock, a leaf, which is not held while the medium is waited for.
 */
#ifndef NXR_DIRECTORY_UNSYNCED_H
#define NXR_DIRECTORY_UNSYNCED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define NXR_UNSYNCED_MAX 1024

struct nxr_unsynced_names {
    unsigned n;
    bool is_beyond; /* there are more */
    char *names[2 * NXR_UNSYNCED_MAX];
};

struct nxr_unsynced {
    pthread_mutex_t lock;
    pthread_mutex_t sync_lock; /* one at a time makes them durable; outside of `lock` */
    int root;
    struct nxr_unsynced_names files, directories;
};

void nxr_unsynced_init(struct nxr_unsynced *unsynced, int root);
void nxr_unsynced_end(struct nxr_unsynced *unsynced);

void nxr_unsynced_add_file(struct nxr_unsynced *unsynced, const char *name);

/* The directory in which a name of so many bytes lies. */
void nxr_unsynced_add_parent(struct nxr_unsynced *unsynced, const char *name, size_t name_nbytes);

/* Make durable all that was added before. 0; or an errno, and what failed in `what`. */
int nxr_unsynced_sync(struct nxr_unsynced *unsynced, char *what, size_t what_nbytes);

#endif
