/* SPDX-License-Identifier: Apache-2.0 */
/* What is not on the medium yet: see unsynced.h, also for the locks. */
#include "config.h"

#include "storage/directory/beneath.h"
#include "storage/directory/unsynced.h"
#include "util/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void nxr_unsynced_init(struct nxr_unsynced *unsynced, int root)
{
    memset(unsynced, 0, sizeof(*unsynced));
    pthread_mutex_init(&unsynced->lock, NULL);
    pthread_mutex_init(&unsynced->sync_lock, NULL);
    unsynced->root = root;
}

static void names_clear(struct nxr_unsynced_names *names)
{
    for (unsigned i = 0; i < 2 * NXR_UNSYNCED_MAX && names->n > 0; i++) {
        free(names->names[i]);
    }
    memset(names, 0, sizeof(*names));
}

void nxr_unsynced_end(struct nxr_unsynced *unsynced)
{
    names_clear(&unsynced->files);
    names_clear(&unsynced->directories);
    pthread_mutex_destroy(&unsynced->sync_lock);
    pthread_mutex_destroy(&unsynced->lock);
}

/* Caller holds the lock. */
static void names_add(struct nxr_unsynced_names *names, const char *name, size_t nbytes)
{
    uint64_t slot = nxr_hash(name, nbytes) % (2 * NXR_UNSYNCED_MAX);

    while (names->names[slot] != NULL) {
        if (strncmp(names->names[slot], name, nbytes) == 0 && names->names[slot][nbytes] == '\0') {
            return;
        }
        slot = (slot + 1) % (2 * NXR_UNSYNCED_MAX);
    }
    if (names->n < NXR_UNSYNCED_MAX) {
        names->names[slot] = strndup(name, nbytes);
    }
    if (names->names[slot] != NULL) {
        names->n++;
    } else {
        names->is_beyond = true;
    }
}

void nxr_unsynced_add_file(struct nxr_unsynced *unsynced, const char *name)
{
    pthread_mutex_lock(&unsynced->lock);
    names_add(&unsynced->files, name, strlen(name));
    pthread_mutex_unlock(&unsynced->lock);
}

void nxr_unsynced_add_parent(struct nxr_unsynced *unsynced, const char *name, size_t name_nbytes)
{
    while (name_nbytes > 0 && name[name_nbytes - 1] != '/') {
        name_nbytes--;
    }
    pthread_mutex_lock(&unsynced->lock);
    names_add(&unsynced->directories, name, name_nbytes > 0 ? name_nbytes - 1 : 0);
    pthread_mutex_unlock(&unsynced->lock);
}

/* ---- making durable -------------------------------------------------------------------------- */

/* One that is gone needs nothing. 0 or an errno. */
static int sync_one(int root, const char *name, bool is_directory)
{
    int fd, error;

    if (is_directory && name[0] == '\0') {
        return fsync(root) == 0 ? 0 : errno;
    }
    fd = nxr_beneath_open(root, name, is_directory ? O_RDONLY | O_DIRECTORY : O_RDONLY | O_NONBLOCK,
                          0);
    if (fd < 0) {
        return fd == -ENOENT ? 0 : -fd;
    }
    error = (is_directory ? fsync(fd) : fdatasync(fd)) == 0 ? 0 : errno;
    close(fd);
    return error;
}

/* Let the medium begin with all, so that none waits for the ones before. */
static void begin_all(int root, const struct nxr_unsynced_names *names)
{
    for (unsigned i = 0; i < 2 * NXR_UNSYNCED_MAX && names->n > 1; i++) {
        int fd = names->names[i] != NULL
                     ? nxr_beneath_open(root, names->names[i], O_RDONLY | O_NONBLOCK, 0)
                     : -1;

        if (fd >= 0) {
            (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
            close(fd);
        }
    }
}

static int sync_all(int root, const struct nxr_unsynced_names *names, bool is_directory, char *what,
                    size_t what_nbytes)
{
    int first = 0;

    for (unsigned i = 0; i < 2 * NXR_UNSYNCED_MAX; i++) {
        int error = names->names[i] != NULL ? sync_one(root, names->names[i], is_directory) : 0;

        if (error != 0 && first == 0) {
            first = error;
            snprintf(what, what_nbytes, "%s of '%.120s'", is_directory ? "fsync" : "fdatasync",
                     names->names[i]);
        }
    }
    return first;
}

/* Names must not reach the medium before their bytes do. */
static int sync_names(int root, const struct nxr_unsynced_names *files,
                      const struct nxr_unsynced_names *directories, char *what, size_t what_nbytes)
{
    int error;

    if (files->is_beyond || directories->is_beyond) {
        error = syncfs(root) == 0 ? 0 : errno;
        snprintf(what, what_nbytes, "syncfs");
        return error;
    }
    begin_all(root, files);
    error = sync_all(root, files, false, what, what_nbytes);
    return error != 0 ? error : sync_all(root, directories, true, what, what_nbytes);
}

/* They failed, or were not tried: the next call tries them again. Caller holds the lock. */
static void names_return(struct nxr_unsynced_names *to, const struct nxr_unsynced_names *from)
{
    for (unsigned i = 0; i < 2 * NXR_UNSYNCED_MAX; i++) {
        if (from->names[i] != NULL) {
            names_add(to, from->names[i], strlen(from->names[i]));
        }
    }
    to->is_beyond = to->is_beyond || from->is_beyond;
}

int nxr_unsynced_sync(struct nxr_unsynced *unsynced, char *what, size_t what_nbytes)
{
    struct nxr_unsynced_names *taken = malloc(2 * sizeof(*taken));
    int error;

    if (taken == NULL) {
        snprintf(what, what_nbytes, "sync");
        return ENOMEM;
    }
    pthread_mutex_lock(&unsynced->sync_lock);
    pthread_mutex_lock(&unsynced->lock);
    taken[0] = unsynced->files;
    taken[1] = unsynced->directories;
    memset(&unsynced->files, 0, sizeof(unsynced->files));
    memset(&unsynced->directories, 0, sizeof(unsynced->directories));
    pthread_mutex_unlock(&unsynced->lock);
    error = sync_names(unsynced->root, &taken[0], &taken[1], what, what_nbytes);
    if (error != 0) {
        pthread_mutex_lock(&unsynced->lock);
        names_return(&unsynced->files, &taken[0]);
        names_return(&unsynced->directories, &taken[1]);
        pthread_mutex_unlock(&unsynced->lock);
    }
    pthread_mutex_unlock(&unsynced->sync_lock);
    names_clear(&taken[0]);
    names_clear(&taken[1]);
    free(taken);
    return error;
}
