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
#include <sys/stat.h>
#include <unistd.h>

void nxr_unsynced_init(struct nxr_unsynced *unsynced, struct nxr_opened_cache *opened)
{
    memset(unsynced, 0, sizeof(*unsynced));
    pthread_mutex_init(&unsynced->lock, NULL);
    pthread_mutex_init(&unsynced->sync_lock, NULL);
    unsynced->opened = opened;
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
    while (unsynced->failed != NULL) {
        struct nxr_unsynced_failed *failed = unsynced->failed;

        unsynced->failed = failed->next;
        free(failed);
    }
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

static int unsynced_open(struct nxr_unsynced *unsynced, const char *name, int flags)
{
    return NXR_OPENED_TRY(nxr_beneath_open(unsynced->opened->root, name, flags, 0));
}

/* ---- what has failed ------------------------------------------------------------------------- */

void nxr_unsynced_heal(struct nxr_unsynced *unsynced, const char *name)
{
    pthread_mutex_lock(&unsynced->lock);
    for (struct nxr_unsynced_failed *failed = unsynced->failed; failed != NULL;
         failed = failed->next) {
        failed->is_healed =
            failed->is_healed || (!failed->is_directory && strcmp(failed->name, name) == 0);
    }
    pthread_mutex_unlock(&unsynced->lock);
}

/* The link to the one of that name, or to the end of the list. */
static struct nxr_unsynced_failed **failed_find(struct nxr_unsynced *unsynced, const char *name,
                                                bool is_directory)
{
    struct nxr_unsynced_failed **link = &unsynced->failed;

    while (*link != NULL &&
           ((*link)->is_directory != is_directory || strcmp((*link)->name, name) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

/* Until the end. Caller holds sync_lock. */
static void lost_set(struct nxr_unsynced *unsynced, const char *what, int error)
{
    if (unsynced->lost_error == 0) {
        unsynced->lost_error = error;
        unsynced->lost_what = what;
    }
}

/* Caller holds sync_lock, and has the file or directory open that the name meant. */
static void failed_add(struct nxr_unsynced *unsynced, const char *name, bool is_directory, int fd,
                       int error)
{
    struct nxr_unsynced_failed **link = failed_find(unsynced, name, is_directory);
    struct nxr_unsynced_failed *failed = *link;
    struct stat stat = {.st_ino = 0};
    bool is_known = fstat(fd, &stat) == 0;

    if (failed == NULL) {
        failed = calloc(1, sizeof(*failed) + strlen(name) + 1);
    }
    if (failed == NULL || !is_known) { /* it must not be forgotten */
        lost_set(unsynced, is_directory ? "fsync" : "fdatasync", error);
        if (failed != *link) {
            free(failed);
        }
        return;
    }
    pthread_mutex_lock(&unsynced->lock);
    failed->error = error;
    failed->is_directory = is_directory;
    failed->is_healed = false;
    failed->device = stat.st_dev;
    failed->inode = stat.st_ino;
    memcpy(failed->name, name, strlen(name) + 1);
    *link = failed;
    pthread_mutex_unlock(&unsynced->lock);
}

/* Others may have replaced or removed it, of which nobody tells. Caller holds sync_lock. */
static bool failed_has_healed(struct nxr_unsynced *unsynced,
                              const struct nxr_unsynced_failed *failed)
{
    struct stat stat;
    bool has_healed;
    int fd;

    pthread_mutex_lock(&unsynced->lock);
    has_healed = failed->is_healed;
    pthread_mutex_unlock(&unsynced->lock);
    if (has_healed || failed->name[0] == '\0') {
        return has_healed;
    }
    fd = unsynced_open(unsynced, failed->name, O_PATH);
    if (fd < 0) {
        return fd == -ENOENT || fd == -ENOTDIR;
    }
    has_healed =
        fstat(fd, &stat) == 0 && (stat.st_ino != failed->inode || stat.st_dev != failed->device);
    close(fd);
    return has_healed;
}

/* Forget those that have healed. 0, or what failed first of the others. Caller holds sync_lock. */
static int failed_tell(struct nxr_unsynced *unsynced, char *what, size_t what_nbytes)
{
    struct nxr_unsynced_failed **link = &unsynced->failed, *failed;

    while ((failed = *link) != NULL) {
        if (failed_has_healed(unsynced, failed)) {
            pthread_mutex_lock(&unsynced->lock);
            *link = failed->next;
            pthread_mutex_unlock(&unsynced->lock);
            free(failed);
        } else {
            link = &failed->next;
        }
    }
    failed = unsynced->failed;
    if (failed != NULL) {
        snprintf(what, what_nbytes, "%s of '%.120s'", failed->is_directory ? "fsync" : "fdatasync",
                 failed->name);
        return failed->error;
    }
    if (unsynced->lost_error != 0) {
        snprintf(what, what_nbytes, "%s", unsynced->lost_what);
    }
    return unsynced->lost_error;
}

/* ---- making durable -------------------------------------------------------------------------- */

/*
 * The kernel tells each descriptor that was open when it lost bytes, but one that was opened later
 * only if nobody was told before. So that by which the bytes were written is asked, if it is still
 * there. False: it is not.
 */
static bool sync_opened(struct nxr_unsynced *unsynced, const char *name)
{
    struct nxr_opened *opened = nxr_opened_find(unsynced->opened, name, false);

    if (opened == NULL) {
        return false;
    }
    if (fdatasync(opened->file.fd) != 0) {
        failed_add(unsynced, name, false, opened->file.fd, errno);
    }
    nxr_opened_release(unsynced->opened, opened);
    return true;
}

/* One that is gone needs nothing. 0; or an errno: it could not even be opened. */
static int sync_one(struct nxr_unsynced *unsynced, const char *name, bool is_directory)
{
    int flags = is_directory ? O_RDONLY | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
    int root = unsynced->opened->root;
    int fd;

    if (!is_directory && sync_opened(unsynced, name)) {
        return 0;
    }
    fd = name[0] == '\0' ? root : unsynced_open(unsynced, name, flags);
    if (fd < 0) {
        return fd == -ENOENT || fd == -ENOTDIR ? 0 : -fd;
    }
    if ((is_directory ? fsync(fd) : fdatasync(fd)) != 0) {
        failed_add(unsynced, name, is_directory, fd, errno);
    }
    if (fd != root) {
        close(fd);
    }
    return 0;
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

/* What cannot be opened stays in the table. 0; or an errno, and which it is. */
static int sync_all(struct nxr_unsynced *unsynced, struct nxr_unsynced_names *names,
                    bool is_directory, char *what, size_t what_nbytes)
{
    int first = 0;

    for (unsigned i = 0; i < 2 * NXR_UNSYNCED_MAX; i++) {
        char *name = names->names[i];
        int error = name != NULL ? sync_one(unsynced, name, is_directory) : 0;

        if (error == 0) {
            free(name);
            names->names[i] = NULL;
        } else if (first == 0) {
            first = error;
            snprintf(what, what_nbytes, "%s of '%.120s'", is_directory ? "fsync" : "fdatasync",
                     name);
        }
    }
    return first;
}

/* All of the file system. Which files have failed if it does, the kernel does not tell. */
static void sync_beyond(struct nxr_unsynced *unsynced, struct nxr_unsynced_names *files,
                        struct nxr_unsynced_names *directories)
{
    if (syncfs(unsynced->opened->root) != 0) {
        lost_set(unsynced, "syncfs", errno);
    }
    names_clear(files);
    names_clear(directories);
}

/* Names must not reach the medium before their bytes do. */
static int sync_names(struct nxr_unsynced *unsynced, struct nxr_unsynced_names *files,
                      struct nxr_unsynced_names *directories, char *what, size_t what_nbytes)
{
    int error = 0, failed;

    if (files->is_beyond || directories->is_beyond) {
        sync_beyond(unsynced, files, directories);
    } else {
        begin_all(unsynced->opened->root, files);
        error = sync_all(unsynced, files, false, what, what_nbytes);
    }
    failed = failed_tell(unsynced, what, what_nbytes);
    if (error == 0 && failed == 0) {
        error = sync_all(unsynced, directories, true, what, what_nbytes);
        failed = failed_tell(unsynced, what, what_nbytes);
    }
    return failed != 0 ? failed : error;
}

/* They could not be opened, or were not tried: the next call tries them. Caller holds the lock. */
static void names_return(struct nxr_unsynced_names *to, const struct nxr_unsynced_names *from)
{
    for (unsigned i = 0; i < 2 * NXR_UNSYNCED_MAX; i++) {
        if (from->names[i] != NULL) {
            names_add(to, from->names[i], strlen(from->names[i]));
        }
    }
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
    nxr_opened_work_begin(); /* from here on it waits for none that does */
    pthread_mutex_lock(&unsynced->lock);
    taken[0] = unsynced->files;
    taken[1] = unsynced->directories;
    memset(&unsynced->files, 0, sizeof(unsynced->files));
    memset(&unsynced->directories, 0, sizeof(unsynced->directories));
    pthread_mutex_unlock(&unsynced->lock);
    error = sync_names(unsynced, &taken[0], &taken[1], what, what_nbytes);
    if (error != 0) {
        pthread_mutex_lock(&unsynced->lock);
        names_return(&unsynced->files, &taken[0]);
        names_return(&unsynced->directories, &taken[1]);
        pthread_mutex_unlock(&unsynced->lock);
    }
    nxr_opened_work_end();
    pthread_mutex_unlock(&unsynced->sync_lock);
    names_clear(&taken[0]);
    names_clear(&taken[1]);
    free(taken);
    return error;
}
