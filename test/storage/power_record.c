/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records what a program does to the files beneath POWER_DIR, for programs that are started with
 * this library in LD_PRELOAD: writes, syncs and changes of names go to the file POWER_LOG, in their
 * order, each when it begins and when it has ended. power.py says what a failure of power at any
 * point may leave of that. POWER_LIES=1 forgets the syncs of files, =2 those of directories. A
 * program tells by power_ack() what it believes to be durable.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* One record; the name and the bytes follow. power.py has the same. */
struct record {
    char what; /* w: write, s: sync, n: a name of an inode, d: a name is gone, a: acknowledged */
    char is_end;
    uint16_t name_nbytes;
    uint32_t nbytes;
    uint64_t number; /* of the call */
    uint64_t inode;
    uint64_t directory;
    uint64_t offset;
};

static atomic_uint_fast64_t last_number;
static atomic_int log_fd; /* 0: not open yet */

#define REAL(_name) ((__typeof__(_name) *)dlsym(RTLD_NEXT, #_name))

static int log_open(void)
{
    const char *path = getenv("POWER_LOG");
    int fd = atomic_load(&log_fd), none = 0;

    if (fd == 0 && path != NULL) {
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0600);
        if (fd > 0 && !atomic_compare_exchange_strong(&log_fd, &none, fd)) {
            close(fd);
            fd = none;
        }
    }
    return fd;
}

static void say(struct record record, const char *name, const void *bytes)
{
    int fd = log_open();
    struct iovec parts[3] = {{&record, sizeof(record)},
                             {(void *)(uintptr_t)name, name != NULL ? strlen(name) : 0},
                             {(void *)(uintptr_t)bytes, record.nbytes}};

    record.name_nbytes = (uint16_t)parts[1].iov_len;
    if (fd > 0 && writev(fd, parts, 3) < 0) {
        abort();
    }
}

static uint64_t next_number(void)
{
    return ((uint64_t)getpid() << 32) + atomic_fetch_add(&last_number, 1);
}

/* The inode of a file beneath POWER_DIR; 0: it is another. */
static uint64_t watched(int fd)
{
    const char *dir = getenv("POWER_DIR");
    char link[40], path[4096];
    struct stat stat;
    ssize_t n;

    if (dir == NULL || fd < 0) {
        return 0;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0 || strncmp(path, dir, strlen(dir)) != 0 || fstat(fd, &stat) != 0) {
        return 0;
    }
    return stat.st_ino;
}

static int lies_of(int fd)
{
    const char *lies = getenv("POWER_LIES");
    struct stat stat;

    return lies != NULL && fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode) == (lies[0] == '2');
}

EXPORTED void power_ack(uint64_t what);

EXPORTED void power_ack(uint64_t what)
{
    say((struct record){.what = 'a', .is_end = 1, .offset = what}, NULL, NULL);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

EXPORTED ssize_t pwrite(int fd, const void *bytes, size_t nbytes, off_t offset)
{
    struct record record = {.what = 'w', .inode = watched(fd), .offset = (uint64_t)offset};
    ssize_t n;

    record.number = next_number();
    record.nbytes = (uint32_t)nbytes;
    if (record.inode != 0) {
        say(record, NULL, bytes);
    }
    n = REAL(pwrite)(fd, bytes, nbytes, offset);
    if (record.inode != 0 && n == (ssize_t)nbytes) {
        record.nbytes = 0;
        record.is_end = 1;
        say(record, NULL, NULL);
    }
    return n;
}

static int sync_with(int (*real)(int), int fd)
{
    struct record record = {.what = 's', .inode = watched(fd)};
    int outcome;

    record.number = next_number();
    if (record.inode != 0 && !lies_of(fd)) {
        say(record, NULL, NULL);
    }
    outcome = real(fd);
    if (record.inode != 0 && !lies_of(fd) && outcome == 0) {
        record.is_end = 1;
        say(record, NULL, NULL);
    }
    return outcome;
}

EXPORTED int fdatasync(int fd)
{
    return sync_with(REAL(fdatasync), fd);
}

EXPORTED int fsync(int fd)
{
    return sync_with(REAL(fsync), fd);
}

/* ---- names ----------------------------------------------------------------------------------- */

static uint64_t directory_of(int dir, const char *path, const char **name_p)
{
    const char *slash = strrchr(path, '/');
    char parent[4096];
    uint64_t inode;
    int fd;

    *name_p = slash != NULL ? slash + 1 : path;
    if (slash == NULL && dir != AT_FDCWD) {
        return watched(dir);
    }
    snprintf(parent, sizeof(parent), "%.*s", slash != NULL ? (int)(slash - path) : 1,
             slash != NULL ? path : ".");
    fd = (int)syscall(SYS_openat, dir, parent[0] != '\0' ? parent : "/", O_PATH | O_CLOEXEC, 0);
    inode = watched(fd);
    if (fd >= 0) {
        close(fd);
    }
    return inode;
}

/* A name has come to be, or is gone: it may reach the medium from now on. */
static void say_name(char what, int dir, const char *path)
{
    struct record record = {.what = what, .is_end = 1};
    const char *name;
    struct stat stat;

    record.directory = directory_of(dir, path, &name);
    if (record.directory == 0 ||
        (what == 'n' && fstatat(dir, path, &stat, AT_SYMLINK_NOFOLLOW) != 0)) {
        return;
    }
    record.inode = what == 'n' ? stat.st_ino : 0;
    say(record, name, NULL);
}

EXPORTED int linkat(int from, const char *name, int to, const char *new_name, int flags)
{
    int outcome = REAL(linkat)(from, name, to, new_name, flags);

    if (outcome == 0) {
        say_name('n', to, new_name);
    }
    return outcome;
}

EXPORTED int renameat(int from, const char *name, int to, const char *new_name)
{
    int outcome = REAL(renameat)(from, name, to, new_name);

    if (outcome == 0) {
        say_name('d', from, name);
        say_name('n', to, new_name);
    }
    return outcome;
}

EXPORTED int renameat2(int from, const char *name, int to, const char *new_name, unsigned flags)
{
    int outcome = REAL(renameat2)(from, name, to, new_name, flags);

    if (outcome == 0) {
        say_name('d', from, name);
        say_name('n', to, new_name);
    }
    return outcome;
}

EXPORTED int unlinkat(int dir, const char *name, int flags)
{
    int outcome = REAL(unlinkat)(dir, name, flags);

    if (outcome == 0) {
        say_name('d', dir, name);
    }
    return outcome;
}

EXPORTED int mkdirat(int dir, const char *name, mode_t mode)
{
    int outcome = REAL(mkdirat)(dir, name, mode);

    if (outcome == 0) {
        say_name('n', dir, name);
    }
    return outcome;
}

EXPORTED int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}

static mode_t mode_of(int flags, va_list list)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

/* All that opens with O_CREAT names a file, new or not; saying that it has its name is harmless. */
EXPORTED int openat(int dir, const char *path, int flags, ...)
{
    va_list list;
    mode_t mode;
    int fd;

    va_start(list, flags);
    mode = mode_of(flags, list);
    va_end(list);
    fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0 && (flags & O_CREAT) != 0) {
        say_name('n', dir, path);
    }
    return fd;
}

EXPORTED int open(const char *path, int flags, ...)
{
    va_list list;
    mode_t mode;

    va_start(list, flags);
    mode = mode_of(flags, list);
    va_end(list);
    return openat(AT_FDCWD, path, flags, mode);
}
