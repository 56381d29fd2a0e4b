/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files beneath a directory: see beneath.h. No state, but that openat2() is not there. */
#include "config.h"

#include "storage/directory/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_NBYTES 2048 /* more than a key has */

static atomic_bool has_no_openat2;

/* ---- names ----------------------------------------------------------------------------------- */

bool nxr_beneath_is_name(const char *name, char *why, size_t why_nbytes)
{
    const char *part = name;
    size_t n;

    if (strncmp(name, NXR_UNFINISHED, strlen(NXR_UNFINISHED)) == 0) {
        snprintf(why, why_nbytes,
                 "'%.80s' begins with " NXR_UNFINISHED ", as files do that are "
                 "not complete",
                 name);
        return false;
    }
    for (;;) {
        n = strcspn(part, "/");
        if (n == 0 || n > NAME_MAX || (n == 1 && part[0] == '.') ||
            (n == 2 && part[0] == '.' && part[1] == '.')) {
            snprintf(why, why_nbytes,
                     "'%.80s'; allowed: a path beneath the directory, whose parts have 1 to %d "
                     "bytes and are not '.' or '..'",
                     name, NAME_MAX);
            return false;
        }
        if (part[n] == '\0') {
            return true;
        }
        part += n + 1;
    }
}

const char *nxr_beneath_why(int error)
{
    return error == EXDEV    ? "the path leads out of the directory, or to another file system"
           : error == ELOOP  ? "a symbolic link is in the path, which cannot be followed safely"
           : error == EISDIR ? "it is a directory"
           : error == ENOENT ? "no such file"
           : error == ENXIO  ? "it is no regular file"
                             : strerror(error);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_safely(int root, const char *path, int flags, mode_t mode)
{
    const int others = (flags & O_PATH) != 0 ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY;
    const struct open_how how = {.flags = (uint64_t)(unsigned)(flags | others),
                                 .mode = (flags & O_CREAT) != 0 ? mode : 0,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd;

    do { /* EAGAIN: something was renamed meanwhile, and ".." cannot be judged */
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    } while (fd < 0 && (errno == EAGAIN || errno == EINTR));
    return fd < 0 ? -errno : fd;
}

static bool is_link(int at, const char *part)
{
    struct stat stat;

    return fstatat(at, part, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(stat.st_mode);
}

/* The same by steps, none of which follows a symbolic link. */
static int open_by_steps(int root, const char *path, int flags, mode_t mode)
{
    char part[NAME_MAX + 1];
    int at = root, next, error = 0;

    for (;;) {
        size_t n = strcspn(path, "/");

        if (n == 0 || n > NAME_MAX) {
            error = n == 0 ? EINVAL : ENAMETOOLONG;
            break;
        }
        memcpy(part, path, n);
        part[n] = '\0';
        if (path[n] == '\0') {
            next = openat(at, part, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, mode);
        } else {
            next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        error = next < 0 ? errno : 0;
        if (error == ENOTDIR && is_link(at, part)) {
            error = ELOOP;
        }
        if (at != root) {
            close(at);
        }
        if (next < 0 || path[n] == '\0') {
            return next < 0 ? -error : next;
        }
        at = next;
        path += n + 1;
    }
    if (at != root) {
        close(at);
    }
    return -error;
}

int nxr_beneath_open(int root, const char *path, int flags, mode_t mode)
{
    int fd;

    if (!atomic_load_explicit(&has_no_openat2, memory_order_relaxed)) {
        fd = open_safely(root, path, flags, mode);
        if (fd != -ENOSYS && fd != -EPERM) {
            return fd;
        }
        if (fd == -ENOSYS) { /* EPERM may be the file's, or that of a container's filter */
            atomic_store(&has_no_openat2, true);
        }
    }
    return open_by_steps(root, path, flags, mode);
}

int nxr_beneath_open_entry(int at, const char *entry, int flags, mode_t mode)
{
    int fd = openat(at, entry, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, mode);

    return fd < 0 ? -errno : fd;
}

int nxr_beneath_open_direct(int fd, bool is_writable)
{
    char path[32];
    int direct_fd;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    direct_fd = open(path, (is_writable ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC | O_NOCTTY);
    return direct_fd < 0 ? -errno : direct_fd;
}

/* ---- directories ----------------------------------------------------------------------------- */

/* Make the directories of a path, as far as they are not there. 0 or an errno. */
static int make_all(int root, const char *path, const struct nxr_beneath_making *making)
{
    char begin[PATH_NBYTES];
    const char *part = path;
    int at = root, next, error = 0;

    for (;;) {
        size_t n = strcspn(part, "/"), end = (size_t)(part - path) + n;

        snprintf(begin, sizeof(begin), "%.*s", (int)n, part);
        if (mkdirat(at, begin, making->mode) == 0) {
            making->made(making, path, end);
        } else if (errno != EEXIST) {
            error = errno;
            break;
        }
        if (part[n] == '\0') {
            break;
        }
        snprintf(begin, sizeof(begin), "%.*s", (int)end, path);
        next = nxr_beneath_open(root, begin, O_RDONLY | O_DIRECTORY, 0);
        if (at != root) {
            close(at);
        }
        if (next < 0) {
            return -next;
        }
        at = next;
        part += n + 1;
    }
    if (at != root) {
        close(at);
    }
    return error;
}

int nxr_beneath_parent(int root, const char *name, const struct nxr_beneath_making *making,
                       const char **base_p)
{
    const char *slash = strrchr(name, '/');
    char path[PATH_NBYTES];
    int fd, error;

    *base_p = slash != NULL ? slash + 1 : name;
    if (slash == NULL) {
        return root;
    }
    snprintf(path, sizeof(path), "%.*s", (int)(slash - name), name);
    fd = nxr_beneath_open(root, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd != -ENOENT || making == NULL) {
        return fd;
    }
    error = make_all(root, path, making);
    return error != 0 ? -error : nxr_beneath_open(root, path, O_RDONLY | O_DIRECTORY, 0);
}
