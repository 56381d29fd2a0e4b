/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of publications; directory.h describes them. Lock: claims_lock, a leaf, which keeps a
 * thread that reads a secret from closing what another one has just locked.
 */
#include "config.h"

#include "attach/directory.h"
#include "util/list.h"
#include "util/random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY_SUFFIX  ".entry"
#define SECRET_SUFFIX ".secret"
#define MAX_NAMED     8 /* names in a list for people */

struct path {
    char text[4096];
};

/* A secret that this process has locked. claims_lock. */
struct own_claim {
    struct nxr_list link;
    int fd;
};

static pthread_mutex_t claims_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list own_claims = {&own_claims, &own_claims};

/* The path of a file of a name; too long ones fail when they are opened. */
static struct path path_of(const char *dir, const char *name, const char *suffix)
{
    struct path path;

    snprintf(path.text, sizeof(path.text), "%s/%s%s", dir, name, suffix);
    return path;
}

/* The file alone, in an open folder: names have no slash. */
static const char *path_file(const struct path *path)
{
    return strrchr(path->text, '/') + 1;
}

/* errno as a status, and what failed as words. */
static int directory_fail(const char *what, const char *path, char why[NXR_DIRECTORY_WHY_NBYTES])
{
    int error = errno;

    snprintf(why, NXR_DIRECTORY_WHY_NBYTES, "cannot %s '%.200s': %s", what, path, strerror(error));
    switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
        return NIXL_E_ACCESS;
    case ENOENT:
    case ENOTDIR:
        return NIXL_E_NOT_FOUND;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
        return NIXL_E_LIMIT;
    default:
        return NIXL_E_TRANSPORT;
    }
}

/* ---- folders --------------------------------------------------------------------------------- */

int nxr_folder_open(const char *dir, struct nxr_folder *folder_p,
                    char why[NXR_DIRECTORY_WHY_NBYTES])
{
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), status;
    struct stat info;

    *folder_p = (struct nxr_folder){.fd = -1, .dir = dir};
    if (fd < 0 || fstat(fd, &info) != 0) {
        status = directory_fail("open the folder", dir, why);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    folder_p->fd = fd;
    folder_p->device = info.st_dev;
    folder_p->inode = info.st_ino;
    return NIXL_OK;
}

void nxr_folder_close(struct nxr_folder *folder)
{
    if (folder->fd >= 0) {
        close(folder->fd);
        folder->fd = -1;
    }
}

bool nxr_folder_is(const struct nxr_folder *a, const struct nxr_folder *b)
{
    return a->fd >= 0 && b->fd >= 0 && a->device == b->device && a->inode == b->inode;
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Is the secret this user's alone? */
static int secret_check_owner(const char *path, const struct stat *info,
                              char why[NXR_DIRECTORY_WHY_NBYTES])
{
    if (info->st_uid != geteuid()) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES,
                 "'%.200s' belongs to user %u, and this process runs as user %u", path,
                 info->st_uid, geteuid());
        return NIXL_E_ACCESS;
    }
    if (!S_ISREG(info->st_mode) || (info->st_mode & 077) != 0) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES,
                 "'%.200s' must be a file of mode 0600, which others cannot read; its mode is %04o",
                 path, info->st_mode & 07777);
        return NIXL_E_ACCESS;
    }
    return NIXL_OK;
}

/* Take the lock. NIXL_E_AGAIN: the file was replaced meanwhile, and the caller opens it again. */
static int secret_lock(const struct nxr_folder *folder, int fd, const struct path *path,
                       char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat ours, now;
    int status;

    if (fstat(fd, &ours) != 0) {
        return directory_fail("look at", path->text, why);
    }
    status = secret_check_owner(path->text, &ours, why);
    if (status != NIXL_OK) {
        return status;
    }
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        if (errno != EACCES && errno != EAGAIN) {
            return directory_fail("lock", path->text, why);
        }
        return NIXL_E_IN_USE;
    }
    return fstatat(folder->fd, path_file(path), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                   now.st_ino == ours.st_ino && now.st_dev == ours.st_dev
               ? NIXL_OK
               : NIXL_E_AGAIN;
}

/* Write all bytes to the beginning of a file, and have them on disk. */
static bool file_fill(int fd, const void *bytes, size_t nbytes)
{
    ssize_t written = ftruncate(fd, 0) == 0 ? pwrite(fd, bytes, nbytes, 0) : -1;

    if (written >= 0 && (size_t)written < nbytes) {
        errno = ENOSPC;
    }
    return written == (ssize_t)nbytes && fsync(fd) == 0;
}

/* Who has the name: what its entry says. The holder of a lock on another host has no pid here. */
static void claim_explain_use(const char *dir, const char *name, char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct nxr_entry entry;

    if (nxr_directory_read(dir, name, &entry, why) == NIXL_OK) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES,
                 "process %d has published the name and lives, on host '%s'", entry.pid,
                 entry.host);
    } else {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES,
                 "a process that publishes the name, or is about to, lives");
    }
}

/* Open and lock the secret of a name, and fill it. Caller holds claims_lock. */
static int claim_secret(const struct nxr_folder *folder, const struct path *path,
                        const unsigned char secret[NXR_PROOF_SECRET_NBYTES], int *lock_fd_p,
                        char why[NXR_DIRECTORY_WHY_NBYTES])
{
    int fd, status;

    do {
        fd = openat(folder->fd, path_file(path),
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (fd < 0) {
            return directory_fail("open", path->text, why);
        }
        status = secret_lock(folder, fd, path, why);
        if (status == NIXL_OK && !file_fill(fd, secret, NXR_PROOF_SECRET_NBYTES)) {
            status = directory_fail("write", path->text, why);
        }
        if (status != NIXL_OK) {
            close(fd);
        }
    } while (status == NIXL_E_AGAIN);
    *lock_fd_p = fd;
    return status;
}

int nxr_directory_claim(const struct nxr_folder *folder, const char *name,
                        unsigned char secret[NXR_PROOF_SECRET_NBYTES], int *lock_fd_p,
                        char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct path path = path_of(folder->dir, name, SECRET_SUFFIX);
    struct own_claim *claim = malloc(sizeof(*claim));
    int status;

    if (claim == NULL) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES, "no memory for a claim");
        return NIXL_E_LIMIT;
    }
    if (!nxr_random(secret, NXR_PROOF_SECRET_NBYTES)) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES, "no random numbers for a secret: getrandom: %s",
                 strerror(errno));
        free(claim);
        return NIXL_E_UNSUPPORTED;
    }
    pthread_mutex_lock(&claims_lock);
    status = claim_secret(folder, &path, secret, lock_fd_p, why);
    if (status == NIXL_OK) {
        claim->fd = *lock_fd_p;
        nxr_list_append(&own_claims, &claim->link);
    } else {
        free(claim);
    }
    pthread_mutex_unlock(&claims_lock);
    if (status == NIXL_E_IN_USE) {
        claim_explain_use(folder->dir, name, why);
    }
    return status;
}

/* Close the file of a claim, and with it end the claim. */
static void own_claim_end(int fd)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&claims_lock);
    nxr_list_for_each (link, after, &own_claims) {
        struct own_claim *claim = nxr_list_entry(link, struct own_claim, link);

        if (claim->fd == fd) {
            nxr_list_remove(link);
            free(claim);
        }
    }
    close(fd);
    pthread_mutex_unlock(&claims_lock);
}

/* Is the file a secret that this process has locked? Caller holds claims_lock. */
static bool claim_is_own(const char *path)
{
    struct nxr_list *link, *after;
    struct stat there, ours;

    if (lstat(path, &there) != 0) {
        return false;
    }
    nxr_list_for_each (link, after, &own_claims) {
        if (fstat(nxr_list_entry(link, struct own_claim, link)->fd, &ours) == 0 &&
            ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) {
            return true;
        }
    }
    return false;
}

int nxr_directory_write(const struct nxr_folder *folder, const struct nxr_entry *entry,
                        char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct path path = path_of(folder->dir, entry->name, ENTRY_SUFFIX);
    struct path aside = path_of(folder->dir, entry->name, ENTRY_SUFFIX ".new");
    int fd, status = NIXL_OK;

    (void)unlinkat(folder->fd, path_file(&aside),
                   0); /* of a process that was killed; this one has the claim */
    fd = openat(folder->fd, path_file(&aside), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                0644);
    if (fd < 0) {
        return directory_fail("make", aside.text, why);
    }
    if (!file_fill(fd, entry, sizeof(*entry))) {
        status = directory_fail("write", aside.text, why);
    }
    close(fd);
    if (status == NIXL_OK &&
        renameat(folder->fd, path_file(&aside), folder->fd, path_file(&path)) != 0) {
        status = directory_fail("rename a file to", path.text, why);
    }
    if (status != NIXL_OK) {
        (void)unlinkat(folder->fd, path_file(&aside), 0);
    }
    return status;
}

void nxr_directory_release(const struct nxr_folder *folder, const char *name, int lock_fd)
{
    const struct path entry = path_of(folder->dir, name, ENTRY_SUFFIX);
    const struct path secret = path_of(folder->dir, name, SECRET_SUFFIX);

    (void)unlinkat(folder->fd, path_file(&entry), 0);
    (void)unlinkat(folder->fd, path_file(&secret), 0);
    own_claim_end(lock_fd);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Read up to `room` bytes of a file. NIXL_OK or the failure. */
static int file_read(const char *path, void *bytes, size_t room, struct stat *info_p,
                     size_t *nbytes_p, char why[NXR_DIRECTORY_WHY_NBYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), status = NIXL_OK;
    ssize_t got = -1;

    memset(info_p, 0, sizeof(*info_p));
    *nbytes_p = 0;
    if (fd < 0) {
        return directory_fail("open", path, why);
    }
    if (fstat(fd, info_p) != 0 || (got = pread(fd, bytes, room, 0)) < 0) {
        status = directory_fail("read", path, why);
    }
    close(fd);
    *nbytes_p = got > 0 ? (size_t)got : 0;
    return status;
}

int nxr_directory_read(const char *dir, const char *name, struct nxr_entry *entry_p,
                       char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct path path = path_of(dir, name, ENTRY_SUFFIX);
    char bytes[sizeof(struct nxr_entry) + 1]; /* a longer one is noticed */
    const char *fault;
    struct stat info;
    size_t nbytes;
    int status = file_read(path.text, bytes, sizeof(bytes), &info, &nbytes, why);

    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_entry_parse(bytes, nbytes, name, entry_p, &fault);
    if (status != NIXL_OK) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES, "'%.200s': %s", path.text, fault);
    }
    return status;
}

int nxr_directory_read_secret(const char *dir, const char *name,
                              unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                              char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct path path = path_of(dir, name, SECRET_SUFFIX);
    unsigned char bytes[NXR_PROOF_SECRET_NBYTES + 1];
    struct stat info;
    size_t nbytes = 0;
    int status = NIXL_E_NOT_FOUND;

    pthread_mutex_lock(&claims_lock);
    if (claim_is_own(path.text)) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES, "this process is about to publish the name");
    } else {
        status = file_read(path.text, bytes, sizeof(bytes), &info, &nbytes, why);
    }
    pthread_mutex_unlock(&claims_lock);
    if (status == NIXL_OK) {
        status = secret_check_owner(path.text, &info, why);
    }
    if (status == NIXL_OK && nbytes != NXR_PROOF_SECRET_NBYTES) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES, "'%.200s' has no secret of %d bytes", path.text,
                 NXR_PROOF_SECRET_NBYTES);
        status = NIXL_E_TRANSPORT;
    }
    if (status == NIXL_OK) {
        memcpy(secret, bytes, NXR_PROOF_SECRET_NBYTES);
    }
    return status;
}

/* The length of the name that a file is the entry of; 0: of none. */
static size_t entry_name_nbytes(const char *file)
{
    size_t nbytes = strlen(file), suffix = strlen(ENTRY_SUFFIX);

    return nbytes > suffix && strcmp(file + nbytes - suffix, ENTRY_SUFFIX) == 0 ? nbytes - suffix
                                                                                : 0;
}

void nxr_directory_list(const char *dir, char *text, size_t nbytes)
{
    DIR *files = opendir(dir);
    const struct dirent *file;
    size_t used = 0;
    int n = 0;

    text[0] = '\0';
    while (files != NULL && (file = readdir(files)) != NULL) {
        size_t name_nbytes = entry_name_nbytes(file->d_name);

        if (name_nbytes > 0 && n++ < MAX_NAMED && used < nbytes) {
            used += (size_t)snprintf(text + used, nbytes - used, "%s'%.*s'", n > 1 ? ", " : "",
                                     (int)name_nbytes, file->d_name);
        }
    }
    if (files != NULL) {
        closedir(files);
    }
    if (n > MAX_NAMED && used < nbytes) {
        snprintf(text + used, nbytes - used, " and %d more", n - MAX_NAMED);
    } else if (n == 0) {
        snprintf(text, nbytes, "none");
    }
}

static int file_is_entry(const struct dirent *file)
{
    return entry_name_nbytes(file->d_name) > 0;
}

int nxr_directory_each(const char *dir, void (*each)(void *arg, const struct nxr_entry *entry),
                       void *arg, char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct dirent **files;
    int n = scandir(dir, &files, file_is_entry, alphasort);

    if (n < 0) {
        return directory_fail("read the folder", dir, why);
    }
    for (int i = 0; i < n; i++) {
        struct nxr_entry entry;

        files[i]->d_name[entry_name_nbytes(files[i]->d_name)] = '\0';
        if (nxr_directory_read(dir, files[i]->d_name, &entry, why) == NIXL_OK) {
            each(arg, &entry);
        }
        free(files[i]);
    }
    free(files);
    return NIXL_OK;
}
