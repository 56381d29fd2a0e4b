/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails, for programs that are started with this library in LD_PRELOAD. BAD_DISK says
 * how: "read", "write": requests that touch the second MiB of any file end with EIO; "quota":
 * writes there with EDQUOT; "sync": fdatasync() ends with EIO; "sync-once": the first does, as the
 * kernel tells of lost bytes once; "hold": fdatasync() first reads a byte from the FIFO that
 * BAD_DISK_HOLD names, if there is one, and makes a file of that name and ".held" before; "slow":
 * so do writes that touch the second MiB, and fdatasync() ends with EIO meanwhile; "cut": so does
 * ftruncate() that makes a file shorter; "short": requests of more than 1000 bytes move only a part
 * of them; "append": write() to a file of the folder BAD_DISK_DIR ends with EIO; "close": so does
 * close() of such a file, as on NFS, where bytes are lost after write() has taken them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { FIRST_BAD = 1 << 20, END_BAD = 2 << 20, SHORT = 1000 };

typedef ssize_t pread_fn(int fd, void *bytes, size_t nbytes, off_t offset);
typedef ssize_t pwrite_fn(int fd, const void *bytes, size_t nbytes, off_t offset);
typedef int fdatasync_fn(int fd);
typedef int ftruncate_fn(int fd, off_t nbytes);
typedef ssize_t write_fn(int fd, const void *bytes, size_t nbytes);
typedef int close_fn(int fd);

static int n_held;     /* writes that wait */
static int n_unsynced; /* fdatasync() calls that were told of bytes that are lost */

static int does(const char *what)
{
    const char *how = getenv("BAD_DISK");

    return how != NULL && strcmp(how, what) == 0;
}

static int is_bad(const char *what, size_t nbytes, off_t offset)
{
    return does(what) && offset < END_BAD && offset + (off_t)nbytes > FIRST_BAD;
}

static size_t less(size_t nbytes)
{
    return does("short") && nbytes > SHORT ? nbytes / 2 + 1 : nbytes;
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void *bytes, size_t nbytes,
                                                     off_t offset)
{
    pread_fn *real = (pread_fn *)dlsym(RTLD_NEXT, "pread");

    if (is_bad("read", nbytes, offset)) {
        errno = EIO;
        return -1;
    }
    return real(fd, bytes, less(nbytes), offset);
}

/* Tell the test that one waits, or is about to. */
static void tell_held(const char *path)
{
    char held[PATH_MAX];
    int n = snprintf(held, sizeof(held), "%s.held", path);
    int fd = n > 0 && n < PATH_MAX ? open(held, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd >= 0) {
        close(fd);
    }
}

static void wait_for_release(const char *path)
{
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char byte;

    while (fd >= 0 && read(fd, &byte, 1) < 0 && errno == EINTR) {
    }
    if (fd >= 0) {
        close(fd);
    }
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *bytes, size_t nbytes,
                                                      off_t offset)
{
    pwrite_fn *real = (pwrite_fn *)dlsym(RTLD_NEXT, "pwrite");

    if (is_bad("write", nbytes, offset) || is_bad("quota", nbytes, offset)) {
        errno = does("quota") ? EDQUOT : EIO;
        return -1;
    }
    if (is_bad("slow", nbytes, offset)) {
        ssize_t n;

        __atomic_add_fetch(&n_held, 1, __ATOMIC_SEQ_CST);
        wait_for_release(getenv("BAD_DISK_HOLD"));
        n = real(fd, bytes, nbytes, offset);
        __atomic_sub_fetch(&n_held, 1, __ATOMIC_SEQ_CST);
        return n;
    }
    return real(fd, bytes, less(nbytes), offset);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    fdatasync_fn *real = (fdatasync_fn *)dlsym(RTLD_NEXT, "fdatasync");

    if (does("sync-once") && __atomic_fetch_add(&n_unsynced, 1, __ATOMIC_SEQ_CST) == 0) {
        errno = EIO;
        return -1;
    }
    if (does("sync") || __atomic_load_n(&n_held, __ATOMIC_SEQ_CST) > 0) {
        errno = EIO;
        return -1;
    }
    if (does("hold")) {
        const char *path = getenv("BAD_DISK_HOLD");

        if (path != NULL && access(path, F_OK) == 0) {
            tell_held(path);
        }
        wait_for_release(path);
    }
    return real(fd);
}

__attribute__((visibility("default"))) int ftruncate(int fd, off_t nbytes)
{
    ftruncate_fn *real = (ftruncate_fn *)dlsym(RTLD_NEXT, "ftruncate");

    if (does("cut") && lseek(fd, 0, SEEK_END) > nbytes) {
        wait_for_release(getenv("BAD_DISK_HOLD"));
    }
    return real(fd, nbytes);
}

/* Does `fd` lead to a file in BAD_DISK_DIR? */
static int is_in_dir(int fd)
{
    const char *dir = getenv("BAD_DISK_DIR");
    char link[64], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = dir != NULL ? readlink(link, path, sizeof(path)) : -1;
    return n >= 0 && (size_t)n > strlen(dir) && strncmp(path, dir, strlen(dir)) == 0;
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t nbytes)
{
    write_fn *real = (write_fn *)dlsym(RTLD_NEXT, "write");

    if (does("append") && is_in_dir(fd)) {
        errno = EIO;
        return -1;
    }
    return real(fd, bytes, nbytes);
}

__attribute__((visibility("default"))) int close(int fd)
{
    close_fn *real = (close_fn *)dlsym(RTLD_NEXT, "close");
    int is_bad_one = does("close") && is_in_dir(fd), rc = real(fd);

    if (is_bad_one) {
        errno = EIO;
        rc = -1;
    }
    return rc;
}
