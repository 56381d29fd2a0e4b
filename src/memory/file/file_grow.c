/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The size of a file, which other regions, of this process and of others, may change at the same
 * time. Whoever looks at it and then sets it holds a lock meanwhile, on a byte that no file has: of
 * an open file description, so that it also keeps regions of one process apart. It is not that of
 * NIXL_FILE_EXCLUSIVE. File systems without such locks do without.
 */
#include "config.h"

#include "memory/file/file.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_OFFSET (INT64_MAX - 1)
#define LOCK_NS     (5 * NXR_S) /* longer than two system calls take: its holder is stopped */

/* 0 or an errno. */
static int size_lock(int fd, short type)
{
    const struct timespec pause = {.tv_nsec = 1 * NXR_MS};
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = LOCK_OFFSET, .l_len = 1};
    int64_t until_ns = nxr_now_ns() + LOCK_NS;

    while (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
            return 0;
        }
        if (nxr_now_ns() > until_ns) {
            return EBUSY;
        }
        nanosleep(&pause, NULL);
    }
    return 0;
}

static int size_of(int fd, uint64_t *nbytes_p)
{
    struct stat stat;

    if (fstat(fd, &stat) != 0) {
        return errno;
    }
    *nbytes_p = (uint64_t)stat.st_size;
    return 0;
}

int nxr_file_grow(int fd, uint64_t end, uint64_t *before_p)
{
    int error = size_lock(fd, F_WRLCK);

    if (error != 0) {
        return error;
    }
    error = size_of(fd, before_p);
    if (error == 0 && *before_p < end && ftruncate(fd, (off_t)end) != 0) {
        error = errno;
    }
    (void)size_lock(fd, F_UNLCK);
    return error;
}

int nxr_file_cut(int fd, uint64_t from, uint64_t to)
{
    uint64_t nbytes = 0;
    int error = size_lock(fd, F_WRLCK);

    if (error != 0) {
        return error;
    }
    error = size_of(fd, &nbytes);
    if (error == 0 && nbytes == from && to < from && ftruncate(fd, (off_t)to) != 0) {
        error = errno;
    }
    (void)size_lock(fd, F_UNLCK);
    return error;
}
