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

void nxr_directory_found(const struct stat *stat, struct nxr_object_found *found)
{
    found->nbytes = (uint64_t)stat->st_size;
    found->modified = stat->st_mtim.tv_sec;
    snprintf(found->etag, sizeof(found->etag), "%llx-%llx-%llx.%lx",
             (unsigned long long)stat->st_ino, (unsigned long long)stat->st_size,
             (unsigned long long)stat->st_mtim.tv_sec, (unsigned long)stat->st_mtim.tv_nsec);
}

/* Nobody wants the list any more. */
static bool list_is_canceled(const struct nxr_object_io *io)
{
    return io->is_canceled != NULL && atomic_load(io->is_canceled);
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

/* Takes the descriptor. 0 or an errno. */
static int entries_read(struct entries *entries, int fd, const struct nxr_object_io *io)
{
    DIR *directory = fdopendir(fd);
    const struct dirent *entry;
    int error = 0;

    if (directory == NULL) {
        error = errno;
        close(fd);
        return error;
    }
    while (error == 0 && (errno = 0, entry = readdir(directory)) != NULL) {
        error = list_is_canceled(io) ? ECANCELED : entries_look(entries, fd, entry->d_name);
    }
    error = error == 0 ? errno : error;
    closedir(directory);
    if (entries->n > 1) {
        qsort(entries->names, entries->n, sizeof(entries->names[0]), by_bytes);
    }
    return error;
}

/* ---- walking --------------------------------------------------------------------------------- */

/*
 * A directory that is walked. Others may make paths as deep as a key is long: so these are on the
 * heap, not on the small stacks of a pool's threads, and none keeps a descriptor.
 */
struct level {
    struct level *up;
    struct entries entries;
    size_t next;        /* of the entries */
    size_t name_nbytes; /* of the directory, with its slash */
};

struct walk {
    struct nxr_object_store *store;
    struct nxr_object_io *io;
    bool is_enough;
    struct level *deepest;
    char name[NXR_OBJECT_KEY_MAX + 2]; /* of the entry at hand; a directory's ends with a slash */
};

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

/* Open walk->name, a directory or "" for the root. A descriptor, or -errno. */
static int walk_open(struct walk *walk, size_t name_nbytes)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    int fd;

    if (name_nbytes == 0) {
        return NXR_OPENED_TRY(nxr_beneath_open_entry(walk->store->root, ".", flags, 0));
    }
    walk->name[name_nbytes - 1] = '\0'; /* behind a slash, a link would be followed */
    fd = NXR_OPENED_TRY(nxr_beneath_open(walk->store->root, walk->name, flags, 0));
    walk->name[name_nbytes - 1] = '/';
    return fd;
}

/* Go into the directory walk->name. 0 or an errno. */
static int walk_down(struct walk *walk)
{
    size_t name_nbytes = strlen(walk->name);
    int fd = walk_open(walk, name_nbytes);
    struct level *level;

    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV) {
        return 0; /* it was removed meanwhile, or replaced */
    }
    level = fd >= 0 ? calloc(1, sizeof(*level)) : NULL;
    if (level == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return fd < 0 ? -fd : ENOMEM;
    }
    level->up = walk->deepest;
    level->name_nbytes = name_nbytes;
    walk->deepest = level;
    return entries_read(&level->entries, fd, walk->io);
}

static void walk_up(struct walk *walk)
{
    struct level *level = walk->deepest;

    walk->deepest = level->up;
    entries_free(&level->entries);
    free(level);
}

/* Look at the next entry of the deepest directory. 0 or an errno. */
static int walk_next(struct walk *walk)
{
    struct level *level = walk->deepest;
    const char *entry = level->entries.names[level->next++];
    size_t n = strlen(entry);
    bool is_directory = entry[n - 1] == '/';

    if (list_is_canceled(walk->io)) {
        return ECANCELED;
    }
    if (level->name_nbytes + n > NXR_OBJECT_KEY_MAX) {
        return 0; /* no object has so long a name */
    }
    memcpy(walk->name + level->name_nbytes, entry, n + 1);
    if (!is_wanted(walk->io, walk->name, is_directory)) {
        return 0;
    }
    return is_directory ? walk_down(walk) : walk_file(walk);
}

int nxr_directory_walk(struct nxr_object_store *store, struct nxr_object_io *io)
{
    struct walk walk = {.store = store, .io = io};
    int error = walk_down(&walk);

    while (walk.deepest != NULL) {
        if (error != 0 || walk.is_enough || walk.deepest->next == walk.deepest->entries.n) {
            walk_up(&walk);
        } else {
            error = walk_next(&walk);
        }
    }
    return error;
}
