/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are being written: without a name, where the file system can, else with one that
 * begins with NXR_UNFINISHED, which its writer has locked. So one whose writer was killed is known,
 * and removed when the directory is opened next. No state.
 */
#include "config.h"

#include "storage/directory/beneath.h"
#include "storage/directory/directory.h"
#include "util/random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_TRIES 100

/* ---- making ---------------------------------------------------------------------------------- */

static void path_of_descriptor(int fd, char path[32])
{
    snprintf(path, 32, "/proc/self/fd/%d", fd);
}

bool nxr_unfinished_can_be_unnamed(int root)
{
    char path[32];
    int fd = openat(root, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    bool can = fd >= 0;

    if (fd >= 0) {
        path_of_descriptor(fd, path); /* it gets a name by that */
        can = access(path, F_OK) == 0;
        close(fd);
    }
    return can;
}

#define N_DIGITS 16 /* of the number behind NXR_UNFINISHED, hexadecimal */

static int name_invent(char name[32])
{
    uint64_t number;

    if (!nxr_random(&number, sizeof(number))) {
        return errno;
    }
    snprintf(name, 32, NXR_UNFINISHED "%0*llx", N_DIGITS, (unsigned long long)number);
    return 0;
}

static bool name_was_invented(const char *name)
{
    size_t n = strlen(NXR_UNFINISHED);

    return strncmp(name, NXR_UNFINISHED, n) == 0 &&
           strspn(name + n, "0123456789abcdef") == N_DIGITS && name[n + N_DIGITS] == '\0';
}

/*
 * Nobody else has it, and it was not taken for the rest of a dead process before it was locked. On
 * a file system without locks nobody can lock it, and so nobody removes it.
 */
static bool is_kept(int fd)
{
    bool is_locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    struct stat stat;

    return is_locked && fstat(fd, &stat) == 0 && stat.st_nlink > 0;
}

static int make_named(struct nxr_object_store *store, struct nxr_unfinished *unfinished)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        int error = name_invent(unfinished->name);

        if (error != 0) {
            return error;
        }
        unfinished->file.fd = nxr_beneath_open_entry(store->root, unfinished->name,
                                                     O_CREAT | O_EXCL | O_RDWR, store->file_mode);
        if (unfinished->file.fd >= 0 && is_kept(unfinished->file.fd)) {
            return 0;
        }
        if (unfinished->file.fd >= 0) {
            (void)unlinkat(store->root, unfinished->name, 0);
            close(unfinished->file.fd);
        } else if (unfinished->file.fd != -EEXIST) {
            return -unfinished->file.fd;
        }
    }
    return EBUSY;
}

static int make_unnamed(struct nxr_object_store *store, struct nxr_unfinished *unfinished)
{
    unfinished->file.fd =
        nxr_beneath_open_entry(store->root, ".", O_TMPFILE | O_RDWR, store->file_mode);
    return unfinished->file.fd < 0 ? -unfinished->file.fd : 0;
}

int nxr_unfinished_make(struct nxr_object_store *store, struct nxr_unfinished *unfinished)
{
    int error;

    *unfinished = (struct nxr_unfinished){.file = NXR_STORAGE_FILE_NONE};
    unfinished->file.engine = store->opened.engine;
    error = store->has_unnamed ? make_unnamed(store, unfinished) : make_named(store, unfinished);
    if (error == 0 && store->opened.is_direct) { /* without, it goes through the page cache */
        unfinished->file.direct_fd = nxr_opened_open_direct(unfinished->file.fd, true);
    }
    return error;
}

void nxr_unfinished_drop(struct nxr_object_store *store, struct nxr_unfinished *unfinished)
{
    if (unfinished->name[0] != '\0') {
        (void)unlinkat(store->root, unfinished->name, 0);
    }
    if (unfinished->file.direct_fd >= 0) {
        close(unfinished->file.direct_fd);
    }
    close(unfinished->file.fd);
    unfinished->file.fd = unfinished->file.direct_fd = -1;
}

/* ---- uploads --------------------------------------------------------------------------------- */

void nxr_unfinished_to_upload(const struct nxr_unfinished *unfinished, char *upload)
{
    snprintf(upload, NXR_OBJECT_UPLOAD_NBYTES, "%d/%d/%s", unfinished->file.fd,
             unfinished->file.direct_fd, unfinished->name);
}

void nxr_unfinished_of_upload(const struct nxr_object_store *store, const char *upload,
                              struct nxr_unfinished *unfinished)
{
    *unfinished = (struct nxr_unfinished){.file = NXR_STORAGE_FILE_NONE};
    unfinished->file.engine = store->opened.engine;
    (void)sscanf(upload, "%d/%d/%31s", &unfinished->file.fd, &unfinished->file.direct_fd,
                 unfinished->name);
}

/* ---- directories ----------------------------------------------------------------------------- */

struct parent_making {
    struct nxr_beneath_making making;
    struct nxr_object_store *store;
};

static void parent_made(const struct nxr_beneath_making *making, const char *path,
                        size_t path_nbytes)
{
    const struct parent_making *parent = (const struct parent_making *)making; /* first member */

    nxr_unsynced_add_parent(&parent->store->unsynced, path, path_nbytes);
}

int nxr_directory_parent(struct nxr_object_store *store, const char *name, const char **base_p)
{
    const struct parent_making making = {{store->directory_mode, parent_made}, store};

    return nxr_beneath_parent(store->root, name, &making.making, base_p);
}

void nxr_directory_parent_close(const struct nxr_object_store *store, int parent)
{
    if (parent != store->root) {
        close(parent);
    }
}

/* ---- publishing ------------------------------------------------------------------------------ */

/* Give it a name that nobody looks for. 0 or an errno. */
static int give_name(struct nxr_object_store *store, struct nxr_unfinished *unfinished)
{
    char path[32];
    int error;

    path_of_descriptor(unfinished->file.fd, path);
    (void)flock(unfinished->file.fd, LOCK_EX | LOCK_NB);
    do {
        error = name_invent(unfinished->name);
        if (error == 0 &&
            linkat(AT_FDCWD, path, store->root, unfinished->name, AT_SYMLINK_FOLLOW) != 0) {
            error = errno;
        }
    } while (error == EEXIST);
    if (error != 0) {
        unfinished->name[0] = '\0';
    }
    return error;
}

/* As the first file of that name. EEXIST: there is one; others: an errno. */
static int publish_first(struct nxr_object_store *store, struct nxr_unfinished *unfinished,
                         int parent, const char *base)
{
    char path[32];
    int outcome;

    if (unfinished->name[0] == '\0') {
        path_of_descriptor(unfinished->file.fd, path);
        outcome = linkat(AT_FDCWD, path, parent, base, AT_SYMLINK_FOLLOW);
    } else {
        outcome = renameat2(store->root, unfinished->name, parent, base, RENAME_NOREPLACE);
        if (outcome != 0 && (errno == EINVAL || errno == ENOSYS)) {
            return EEXIST; /* the file system does not tell: replace it, to be safe */
        }
    }
    return outcome == 0 ? 0 : errno;
}

static int publish_over(struct nxr_object_store *store, struct nxr_unfinished *unfinished,
                        int parent, const char *base)
{
    int error = fdatasync(unfinished->file.fd) == 0 ? 0 : errno;

    if (error == 0 && unfinished->name[0] == '\0') {
        error = give_name(store, unfinished);
    }
    if (error == 0 && renameat(store->root, unfinished->name, parent, base) != 0) {
        error = errno;
    }
    return error;
}

int nxr_unfinished_publish(struct nxr_object_store *store, struct nxr_unfinished *unfinished,
                           const char *name)
{
    const char *base;
    int parent = nxr_directory_parent(store, name, &base), error;

    if (parent < 0) {
        return -parent;
    }
    error = publish_first(store, unfinished, parent, base);
    if (error == EEXIST) {
        error = publish_over(store, unfinished, parent, base);
    }
    nxr_directory_parent_close(store, parent);
    if (error == 0) {
        unfinished->name[0] = '\0';
        nxr_unsynced_heal(&store->unsynced, name);
        nxr_unsynced_add_file(&store->unsynced, name);
        nxr_unsynced_add_parent(&store->unsynced, name, strlen(name));
        nxr_opened_drop(&store->opened, name);
    }
    return error;
}

/* ---- cleaning -------------------------------------------------------------------------------- */

/* For writing: NFS gives an exclusive lock to no other descriptor. */
static void clean_one(int root, const char *name)
{
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = openat(root, name, O_RDWR | flags);
    struct stat stat;

    if (fd < 0 && errno == EACCES) {
        fd = openat(root, name, O_RDONLY | flags);
    }
    if (fd >= 0) {
        if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
            (void)unlinkat(root, name, 0);
        }
        close(fd);
    }
}

void nxr_unfinished_clean(int root)
{
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (directory == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        if (name_was_invented(entry->d_name)) {
            clean_one(root, entry->d_name);
        }
    }
    closedir(directory);
}
