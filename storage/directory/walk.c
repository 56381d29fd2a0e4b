/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of the files beneath a directory, in the order of the bytes of their names, as object
 * stores have it. Symbolic links to files are files; those to directories are not followed. No
 * state.
 */
#include "config.h"

#include "storage/directory/beneath.h"
#include "storage/directory/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct walk {
    struct nxr_object_store *store;
    struct nxr_object_io *io;
    bool is_enough;
    char name[NXR_OBJECT_KEY_MAX + 2]; /* of the directory that is walked, with its slash */
};

static int walk_in(struct walk *walk, int fd);

void nxr_directory_found(const struct stat *stat, struct nxr_object_found *found)
{
    found->nbytes = (uint64_t)stat->st_size;
    found->modified = stat->st_mtim.tv_sec;
    snprintf(found->etag, sizeof(found->etag), "%llx-%llx-%llx.%lx",
             (unsigned long long)stat->st_ino, (unsigned long long)stat->st_size,
             (unsigned long long)stat->st_mtim.tv_sec, (unsigned long)stat->st_mtim.tv_nsec);
}

/* ---- the entries of one directory ------------------------------------------------------------ */

/* Their names; those of directories end with a slash, by which they are in order, too. */
struct entries {
    size_t n, room;
    char **names;
};

static void entries_free(struct entries *entries)
{
    for (size_t i = 0; i < entries->n; i++) {
        free(entries->names[i]);
    }
    free(entries->names);
}

static int entries_add(struct entries *entries, const char *name, bool is_directory)
{
    if (entries->n == entries->room) {
        size_t room = entries->room != 0 ? 2 * entries->room : 64;
        char **names = realloc(entries->names, room * sizeof(names[0]));

        if (names == NULL) {
            return ENOMEM;
        }
        entries->names = names;
        entries->room = room;
    }
    if (asprintf(&entries->names[entries->n], "%s%s", name, is_directory ? "/" : "") < 0) {
        return ENOMEM;
    }
    entries->n++;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What is neither a file nor a directory is no object. */
static int entries_look(struct entries *entries, int fd, const char *name)
{
    struct stat stat;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        strncmp(name, NXR_UNFINISHED, strlen(NXR_UNFINISHED)) == 0 ||
        fstatat(fd, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return 0; /* the last: it was removed meanwhile */
    }
    if (S_ISDIR(stat.st_mode)) {
        return entries_add(entries, name, true);
    }
    return S_ISREG(stat.st_mode) || S_ISLNK(stat.st_mode) ? entries_add(entries, name, false) : 0;
}

/* 0 or an errno. */
static int entries_read(struct entries *entries, int fd)
{
    int copy = NXR_OPENED_TRY(nxr_beneath_open_entry(fd, ".", O_RDONLY | O_DIRECTORY, 0));
    DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    int error = 0;

    if (directory == NULL) {
        error = copy >= 0 ? errno : -copy;
        if (copy >= 0) {
            close(copy);
        }
        return error;
    }
    while (error == 0 && (errno = 0, entry = readdir(directory)) != NULL) {
        error = entries_look(entries, fd, entry->d_name);
    }
    error = error == 0 ? errno : error;
    closedir(directory);
    if (entries->n > 1) {
        qsort(entries->names, entries->n, sizeof(entries->names[0]), by_bytes);
    }
    return error;
}

/* ---- walking --------------------------------------------------------------------------------- */

/* Can a name that begins so be wanted? */
static bool is_wanted(const struct nxr_object_io *io, const char *begin, bool is_directory)
{
    size_t n = strlen(begin), prefix = io->key != NULL ? strlen(io->key) : 0;
    size_t common = n < prefix ? n : prefix;

    if ((prefix > 0 && strncmp(begin, io->key, common) != 0) || (!is_directory && n < prefix)) {
        return false;
    }
    if (io->after == NULL || strcmp(begin, io->after) > 0) {
        return true;
    }
    return is_directory && strncmp(begin, io->after, n) == 0;
}

/* 0 or an errno. */
static int walk_file(struct walk *walk)
{
    int fd = NXR_OPENED_TRY(nxr_beneath_open(walk->store->root, walk->name, O_PATH, 0));
    struct nxr_object_found found;
    struct stat stat;

    if (fd == -EMFILE || fd == -ENFILE) {
        return -fd; /* it may be there */
    }
    if (fd < 0) {
        return 0; /* it was removed meanwhile, or leads out of the directory */
    }
    if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode)) {
        nxr_directory_found(&stat, &found);
        walk->is_enough = !walk->io->each(walk->io, walk->name, &found);
    }
    close(fd);
    return 0;
}

/* walk->name is the entry's. 0 or an errno. */
static int walk_entry(struct walk *walk, int fd, const char *entry, bool is_directory)
{
    int child, error;

    if (!is_directory) {
        return walk_file(walk);
    }
    child = NXR_OPENED_TRY(nxr_beneath_open_entry(fd, entry, O_RDONLY | O_DIRECTORY, 0));
    if (child < 0) {
        return child == -ENOENT || child == -ENOTDIR || child == -ELOOP ? 0 : -child;
    }
    error = walk_in(walk, child);
    close(child);
    return error;
}

static int walk_in(struct walk *walk, int fd)
{
    struct entries entries = {0, 0, NULL};
    size_t end = strlen(walk->name);
    int error = entries_read(&entries, fd);

    for (size_t i = 0; i < entries.n && error == 0 && !walk->is_enough; i++) {
        size_t n = strlen(entries.names[i]);
        bool is_directory = entries.names[i][n - 1] == '/';

        if (end + n > NXR_OBJECT_KEY_MAX) {
            continue; /* no object has so long a name */
        }
        memcpy(walk->name + end, entries.names[i], n + 1);
        if (is_wanted(walk->io, walk->name, is_directory)) {
            entries.names[i][n - 1] = is_directory ? '\0' : entries.names[i][n - 1];
            error = walk_entry(walk, fd, entries.names[i], is_directory);
        }
        walk->name[end] = '\0';
    }
    entries_free(&entries);
    return error;
}

int nxr_directory_walk(struct nxr_object_store *store, struct nxr_object_io *io)
{
    struct walk walk = {.store = store, .io = io};

    return walk_in(&walk, store->root);
}
