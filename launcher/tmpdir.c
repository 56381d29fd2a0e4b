/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private temporary directory: PMIx keeps the job's shared data in it. Its path is in memory that
 * nixlrun shares with its guardian, and is written there before the directory is made: whenever
 * nixlrun dies, the guardian removes the directory. The owner holds a flock on the directory, which
 * the kernel drops at its death. So a directory whose lock can be taken has no owner, whatever PID
 * namespace the owner ran in; if the guardian was killed too, the next nixlrun of the same user
 * removes it.
 *
 * The places are public, and users have directories there whose names begin like ours. So each
 * directory of ours contains a mark, an empty file of the directory's own name. It is made first
 * and removed last: what has no mark is removed only if it is empty.
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

/* Write the name of a directory; returns its length. */
static int tmpdir_print_name(char *name, size_t room, int pid, unsigned long long ns)
{
    return snprintf(name, room, TMPDIR_PREFIX "%d.%llx", pid, ns);
}

/* Is it exactly a name that tmpdir_print_name() writes? */
static bool tmpdir_has_made_name(const char *name)
{
    char printed[NAME_MAX + 1];
    unsigned long long ns;
    int pid;

    if (sscanf(name, TMPDIR_PREFIX "%d.%llx", &pid, &ns) != 2) {
        return false;
    }
    tmpdir_print_name(printed, sizeof(printed), pid, ns);
    return pid > 0 && strcmp(name, printed) == 0;
}

/* Remove everything but the file `mark` ("": none) inside the directory `fd`, which is closed. */
static void tmpdir_empty(int fd, const char *mark)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;

    if (dir == NULL) {
        close(fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strcmp(entry->d_name, mark) == 0) {
            continue;
        }
        if (unlinkat(fd, entry->d_name, 0) != 0 && (errno == EISDIR || errno == EPERM)) {
            int sub = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

            if (sub >= 0) {
                tmpdir_empty(sub, "");
            }
            unlinkat(fd, entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(dir);
}

/* Remove everything inside the directory `fd`, whose name is `name`, the mark at the end. */
static void tmpdir_clear(int fd, const char *name)
{
    int dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (dup_fd >= 0) {
        tmpdir_empty(dup_fd, name);
        unlinkat(fd, name, 0);
    }
}

/* May a directory of this name, opened as `fd`, have been made by a nixlrun of this user? */
static bool tmpdir_may_be_ours(int fd, const char *name)
{
    struct stat st;

    return tmpdir_has_made_name(name) && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
           (st.st_mode & 0777) == 0700;
}

static bool tmpdir_has_mark(int fd, const char *name)
{
    struct stat st;

    return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid() && st.st_size == 0;
}

/* Remove one directory if it is ours and its owner is gone. */
static void tmpdir_sweep_one(int base_fd, const char *name)
{
    int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        return;
    }
    if (tmpdir_may_be_ours(fd, name) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (tmpdir_has_mark(fd, name)) {
            tmpdir_clear(fd, name);
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
        if (tmpdir_has_made_name(entry->d_name)) {
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
    char path[PATH_MAX], name[NAME_MAX + 1];
    int n;

    do {
        tmpdir_print_name(name, sizeof(name), (int)getpid(), (unsigned long long)nxr_now_ns());
        n = snprintf(path, sizeof(path), "%s/%s", base, name);
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

static const char *tmpdir_name(void)
{
    return strrchr(tmpdir_path, '/') + 1;
}

static bool tmpdir_add_mark(int dir_fd)
{
    int fd = openat(dir_fd, tmpdir_name(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* Make, lock and mark a directory under `base`. A sweeper may remove it before that: then retry. */
static bool tmpdir_make_in(const char *base)
{
    int fd, error;

    for (;;) {
        if (tmpdir_make_named(base) != 0) {
            return false;
        }
        fd = open(tmpdir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && tmpdir_add_mark(fd)) {
            tmpdir_lock = fd;
            return true;
        }
        error = errno;
        if (fd >= 0) {
            close(fd);
        }
        if (error != ENOENT && error != EWOULDBLOCK) {
            rmdir(tmpdir_path);
            return false;
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
        tmpdir_clear(fd, tmpdir_name());
        close(fd);
    }
    rmdir(tmpdir_path);
}
