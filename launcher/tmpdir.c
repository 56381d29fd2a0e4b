/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private temporary directory: PMIx keeps the job's shared data in it. Its path is in memory that
 * nixlrun shares with its guardian, and is written there before the directory is made: whenever
 * nixlrun dies, the guardian removes the directory. The owner holds a flock on the directory, which
 * the kernel drops at its death. So a directory whose lock can be taken has no owner, whatever PID
 * namespace the owner ran in; if the guardian was killed too, the next nixlrun of the same user
 * removes it.
 */
#include "config.h"

#include "launcher/tmpdir.h"
#include "util/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TMPDIR_PREFIX      "nixlrun."
#define TMPDIR_ROOM_NBYTES (32ull << 20)

static char *tmpdir_path;    /* [PATH_MAX], shared with the guardian; NULL: none is used */
static int tmpdir_lock = -1; /* holds the flock as long as the process lives */

/* Where the directory may be made, best first. "" if the environment names no place. */
#define TMPDIR_N_BASES 4
static const char *tmpdir_base(int i)
{
    const char *bases[TMPDIR_N_BASES] = {getenv("XDG_RUNTIME_DIR"), "/dev/shm", getenv("TMPDIR"),
                                         "/tmp"};

    return bases[i] != NULL && bases[i][0] == '/' ? bases[i] : "";
}

/* Remove everything inside the directory `fd`, which is closed. */
static void tmpdir_empty(int fd)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;

    if (dir == NULL) {
        close(fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(fd, entry->d_name, 0) != 0 && (errno == EISDIR || errno == EPERM)) {
            int sub = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

            if (sub >= 0) {
                tmpdir_empty(sub);
            }
            unlinkat(fd, entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(dir);
}

/* Remove one directory if it is ours and its owner is gone. */
static void tmpdir_sweep_one(int base_fd, const char *name)
{
    struct stat st;
    int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        return;
    }
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        int dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);

        if (dup_fd >= 0) {
            tmpdir_empty(dup_fd);
        }
        unlinkat(base_fd, name, AT_REMOVEDIR);
    }
    close(fd);
}

static void tmpdir_sweep(const char *base)
{
    DIR *dir = opendir(base);
    struct dirent *entry;

    if (dir == NULL) {
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, TMPDIR_PREFIX, strlen(TMPDIR_PREFIX)) == 0) {
            tmpdir_sweep_one(dirfd(dir), entry->d_name);
        }
    }
    closedir(dir);
}

/*
 * Give the directory a unique name, and make it. The first byte of the path is written last: with
 * half a path the guardian would empty another directory. Returns 0 or an errno.
 */
static int tmpdir_make_named(const char *base)
{
    char path[PATH_MAX];
    int n;

    do {
        n = snprintf(path, sizeof(path), "%s/" TMPDIR_PREFIX "%d.%llx", base, (int)getpid(),
                     (unsigned long long)nxr_now_ns());
        if (n >= (int)sizeof(path)) {
            return ENAMETOOLONG;
        }
        __atomic_store_n(&tmpdir_path[0], '\0', __ATOMIC_RELEASE);
        memcpy(tmpdir_path + 1, path + 1, (size_t)n);
        __atomic_store_n(&tmpdir_path[0], path[0], __ATOMIC_RELEASE);
        if (mkdir(tmpdir_path, 0700) == 0) {
            return 0;
        }
    } while (errno == EEXIST);
    return errno;
}

/* Make and lock a directory under `base`. A sweeper may remove it before the lock: then retry. */
static bool tmpdir_make_in(const char *base)
{
    struct stat by_path, by_fd;
    int fd;

    for (;;) {
        if (tmpdir_make_named(base) != 0) {
            return false;
        }
        fd = open(tmpdir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && stat(tmpdir_path, &by_path) == 0 &&
            fstat(fd, &by_fd) == 0 && by_path.st_ino == by_fd.st_ino) {
            tmpdir_lock = fd;
            return true;
        }
        if (fd < 0 && errno != ENOENT) {
            rmdir(tmpdir_path);
            return false;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

/* PMIx maps files of some MiB there, and a full file system would kill it by SIGBUS. */
static bool tmpdir_has_room(const char *base)
{
    struct statvfs fs;

    return base[0] != '\0' && statvfs(base, &fs) == 0 &&
           (uint64_t)fs.f_bavail * fs.f_frsize >= TMPDIR_ROOM_NBYTES;
}

bool tmpdir_share(void)
{
    tmpdir_path = mmap(NULL, PATH_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tmpdir_path == MAP_FAILED) {
        tmpdir_path = NULL;
    }
    return tmpdir_path != NULL;
}

const char *tmpdir_make(void)
{
    for (int i = 0; i < TMPDIR_N_BASES; i++) {
        tmpdir_sweep(tmpdir_base(i));
    }
    for (int i = 0; i < TMPDIR_N_BASES; i++) {
        if (tmpdir_has_room(tmpdir_base(i)) && tmpdir_make_in(tmpdir_base(i))) {
            return tmpdir_path;
        }
    }
    fprintf(stderr,
            "nixlrun: no place for a temporary directory: XDG_RUNTIME_DIR, /dev/shm, TMPDIR "
            "and /tmp have less than %llu MiB free or are not writable\n",
            TMPDIR_ROOM_NBYTES >> 20);
    tmpdir_path[0] = '\0';
    return NULL;
}

void tmpdir_remove(void)
{
    int fd;

    if (tmpdir_path == NULL || tmpdir_path[0] == '\0') {
        return;
    }
    fd = open(tmpdir_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        tmpdir_empty(fd);
    }
    rmdir(tmpdir_path);
}
