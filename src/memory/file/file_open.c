/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening files and block devices as memory, and closing them. A file that is opened in vain is
 * left as it was: one that was made is removed, one that was extended is cut again. No lock.
 */
#include "config.h"

#include "memory/file/file.h"
#include "memory/file/file_gpu.h"
#include "memory/file/kind.h"
#include "util/log.h"
#include "util/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_TRIES 10 /* of making a file that others make and remove meanwhile */

/* A file that is being opened, and where to say what is wrong. */
struct opening {
    struct nxr_file *file;
    const struct nixl_file_params *params;
    char *why;
    size_t why_nbytes;
    int error; /* errno of what failed, or 0 */
};

static int status_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return NIXL_E_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return NIXL_E_ACCESS;
    case EEXIST:
    case EBUSY:
    case ETXTBSY:
    case EWOULDBLOCK:
        return NIXL_E_IN_USE;
    case EMFILE:
    case ENFILE:
    case EFBIG:
        return NIXL_E_LIMIT;
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return NIXL_E_INVALID_ARG;
    case ENOMEM:
        return NIXL_E_NO_MEMORY;
    default:
        return NIXL_E_STORAGE;
    }
}

/* A call has failed, with errno. */
static int opening_fail(struct opening *opening, const char *what)
{
    int error = errno;

    opening->error = error;
    snprintf(opening->why, opening->why_nbytes, "%.120s: %s: %s", opening->file->path, what,
             strerror(error));
    return status_of(error);
}

NIXL_PRINTF(3, 4)
static int opening_refuse(struct opening *opening, int status, const char *format, ...)
{
    char text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(opening->why, opening->why_nbytes, "%.120s: %s", opening->file->path, text);
    return status;
}

static bool opening_wants(const struct opening *opening, uint32_t flag)
{
    return (opening->params->flags & flag) != 0;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

struct nxr_file *nxr_file_new(const char *path)
{
    struct nxr_file *file = calloc(1, sizeof(*file) + strlen(path) + 1);

    if (file != NULL) {
        file->opened = (struct nxr_storage_file)NXR_STORAGE_FILE_NONE;
        atomic_init(&file->cufile_slot, NXR_FILE_UNTRIED);
        memcpy(file->path, path, strlen(path) + 1);
    }
    return file;
}

void nxr_file_path_of(int fd, char *path, size_t path_nbytes)
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, path_nbytes - 1);
    if (n < 0) {
        n = snprintf(path, path_nbytes, "descriptor %d", fd);
    }
    path[n] = '\0';
}

static int flags_of(const struct nxr_file *file)
{
    return (file->is_read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY;
}

int nxr_file_reopen(int fd, int flags)
{
    char link[64];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return open(link, flags);
}

/* The same, or another descriptor for the same if there is no /proc. */
static int reopen(int fd, int flags)
{
    int again = nxr_file_reopen(fd, flags);

    return again < 0 && errno == ENOENT && (flags & O_DIRECT) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
                                                                   : again;
}

static int open_given(struct opening *opening)
{
    struct nxr_file *file = opening->file;
    int flags = fcntl(opening->params->fd, F_GETFL);

    if (flags < 0) {
        return opening_fail(opening, "params->fd");
    }
    if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_PATH) != 0) {
        return opening_refuse(opening, NIXL_E_INVALID_ARG,
                              "params->fd is not open for reading; allowed: O_RDWR, or O_RDONLY");
    }
    file->is_read_only = file->is_read_only || (flags & O_ACCMODE) == O_RDONLY;
    file->opened.fd = reopen(opening->params->fd, flags_of(file));
    return file->opened.fd >= 0 ? NIXL_OK
                                : opening_fail(opening, "cannot open the descriptor again");
}

/* Behind a symbolic link, to a file that is not there yet, it is made there. False: it is none. */
static bool follow_link(char path[PATH_MAX])
{
    char target[PATH_MAX];
    ssize_t nbytes = readlink(path, target, sizeof(target));
    const char *slash = strrchr(path, '/');
    size_t kept = nbytes > 0 && target[0] != '/' && slash != NULL ? (size_t)(slash - path) + 1 : 0;

    if (nbytes <= 0 || kept + (size_t)nbytes >= PATH_MAX) {
        return false;
    }
    memcpy(path + kept, target, (size_t)nbytes);
    path[kept + (size_t)nbytes] = '\0';
    return true;
}

/* Make the file, if none is there. As open(2); EEXIST: one is. */
static int open_new(struct nxr_file *file, const char *path, mode_t mode)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, mode);

    if (fd >= 0) {
        file->was_made = true;
        file->made_as = strdup(path);
    }
    return fd;
}

/* The path of a file, without links at its end if it was made. */
static const char *made_as(const struct nxr_file *file)
{
    return file->made_as != NULL ? file->made_as : file->path;
}

/* Without O_NONBLOCK, a FIFO without a writer would block the call. */
static int open_path(struct opening *opening)
{
    struct nxr_file *file = opening->file;
    int flags = flags_of(file) | O_NONBLOCK;
    mode_t mode = opening->params->mode != 0 ? (mode_t)opening->params->mode : 0600;
    bool is_new = opening_wants(opening, NIXL_FILE_NEW);
    char path[PATH_MAX];

    if (strlen(file->path) >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return opening_fail(opening, "cannot open");
    }
    memcpy(path, file->path, strlen(file->path) + 1);
    for (int i = 0; i < MAX_TRIES; i++) {
        file->opened.fd = is_new ? -1 : open(path, flags);
        errno = is_new ? ENOENT : errno;
        if (file->opened.fd >= 0 || errno != ENOENT || !opening_wants(opening, NIXL_FILE_CREATE)) {
            break;
        }
        file->opened.fd = open_new(file, path, mode);
        if (file->opened.fd >= 0 || errno != EEXIST || is_new) {
            break;
        }
        (void)follow_link(path);
    }
    if (file->opened.fd < 0) {
        return opening_fail(opening, errno == ENOENT && !opening_wants(opening, NIXL_FILE_CREATE)
                                         ? "cannot open (NIXL_FILE_CREATE would make it)"
                                         : "cannot open");
    }
    (void)fcntl(file->opened.fd, F_SETFL, fcntl(file->opened.fd, F_GETFL) & ~O_NONBLOCK);
    return NIXL_OK;
}

/*
 * The name of a file that may be made is durable, so that no fdatasync of its bytes is in vain:
 * also if another process has made it just now, or one that was killed then.
 */
static int sync_name(struct opening *opening)
{
    const char *what = "";

    errno = opening_wants(opening, NIXL_FILE_CREATE)
                ? nxr_parent_sync(made_as(opening->file), &what)
                : 0;
    return errno == 0 ? NIXL_OK : opening_fail(opening, what);
}

/* ---- size ------------------------------------------------------------------------------------ */

static int file_size(struct opening *opening)
{
    struct nxr_file *file = opening->file;
    struct stat stat;
    uint64_t nbytes;

    if (fstat(file->opened.fd, &stat) != 0) {
        return opening_fail(opening, "fstat");
    }
    if (S_ISREG(stat.st_mode)) {
        file->first_nbytes = (uint64_t)stat.st_size;
        return NIXL_OK;
    }
    if (!S_ISBLK(stat.st_mode)) {
        return opening_refuse(opening, NIXL_E_INVALID_ARG,
                              "it is %s; allowed: a regular file or a block device",
                              S_ISDIR(stat.st_mode)    ? "a directory"
                              : S_ISFIFO(stat.st_mode) ? "a FIFO"
                              : S_ISSOCK(stat.st_mode) ? "a socket"
                                                       : "a character device");
    }
    if (ioctl(file->opened.fd, BLKGETSIZE64, &nbytes) != 0) {
        return opening_fail(opening, "BLKGETSIZE64");
    }
    file->first_nbytes = nbytes;
    file->is_block_device = true;
    return NIXL_OK;
}

/* Others that ask for the same are refused from here on. */
static int file_lock(struct opening *opening)
{
    struct nxr_file *file = opening->file;

    if (!opening_wants(opening, NIXL_FILE_EXCLUSIVE)) {
        return NIXL_OK;
    }
    if (file->is_block_device) {
        int fd = reopen(file->opened.fd, flags_of(file) | O_EXCL);

        if (fd < 0) {
            return opening_fail(opening, "NIXL_FILE_EXCLUSIVE");
        }
        close(file->opened.fd);
        file->opened.fd = fd;
    }
    if (flock(file->opened.fd, LOCK_EX | LOCK_NB) != 0) {
        file->was_made = false; /* the holder of the lock uses it */
        return opening_fail(opening, "NIXL_FILE_EXCLUSIVE: another has it");
    }
    file->is_locked = true;
    return file_size(opening); /* another process may have changed it before the lock */
}

/* Is the region in the file, or can the file be extended to hold it? */
static int file_place(struct opening *opening)
{
    const struct nixl_file_params *params = opening->params;
    struct nxr_file *file = opening->file;
    uint64_t has = file->first_nbytes, end;

    file->start = params->offset;
    file->nbytes = params->nbytes != 0    ? params->nbytes
                   : has > params->offset ? has - params->offset
                                          : 0;
    if (file->nbytes == 0) {
        return opening_refuse(opening, NIXL_E_INVALID_ARG,
                              "it has %llu bytes, and none from offset %llu on; allowed: an "
                              "offset before its end, or params->nbytes",
                              (unsigned long long)has, (unsigned long long)params->offset);
    }
    if (file->nbytes > INT64_MAX || file->start > INT64_MAX - file->nbytes) {
        return opening_refuse(opening, NIXL_E_RANGE, "no file ends at offset %llu + %llu",
                              (unsigned long long)file->start, (unsigned long long)file->nbytes);
    }
    end = file->start + file->nbytes;
    if (end > has && (file->is_block_device || file->is_read_only)) {
        return opening_refuse(
            opening, NIXL_E_RANGE, "it has %llu bytes%s, and the region ends at offset %llu",
            (unsigned long long)has, file->is_block_device ? "" : " and is only read",
            (unsigned long long)end);
    }
    return NIXL_OK;
}

static int file_extend(struct opening *opening)
{
    struct nxr_file *file = opening->file;
    uint64_t end = file->start + file->nbytes;
    struct rlimit limit;
    int error;

    if (file->is_block_device || file->is_read_only) {
        return NIXL_OK;
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < end) {
        opening->error = EFBIG;
        return opening_refuse(opening, NIXL_E_LIMIT,
                              "the region ends at offset %llu; files may have %llu bytes (ulimit "
                              "-f)",
                              (unsigned long long)end, (unsigned long long)limit.rlim_cur);
    }
    if (end > file->first_nbytes) {
        error = nxr_file_grow(file->opened.fd, end, &file->first_nbytes);
        if (error != 0) {
            errno = error;
            return opening_fail(opening, "cannot extend");
        }
        file->was_extended = end > file->first_nbytes;
    }
    if (opening_wants(opening, NIXL_FILE_PREALLOCATE)) {
        error = posix_fallocate(file->opened.fd, (off_t)file->start, (off_t)file->nbytes);
        if (error != 0) {
            errno = error;
            return opening_fail(opening, "NIXL_FILE_PREALLOCATE: cannot reserve the space");
        }
    }
    return NIXL_OK;
}

bool nxr_file_open_direct(struct nxr_file *file, int flags)
{
    int sector = 0;

    file->opened.direct_fd = nxr_file_reopen(file->opened.fd, flags);
    if (file->opened.direct_fd >= 0 && file->is_block_device &&
        ioctl(file->opened.fd, BLKSSZGET, &sector) == 0 && sector > (int)NXR_STORAGE_BLOCK_NBYTES) {
        file->opened.block_nbytes = (uint32_t)sector;
    }
    return file->opened.direct_fd >= 0;
}

static void open_direct(const struct opening *opening, struct nxr_memory *memory)
{
    if (opening_wants(opening, NIXL_FILE_DIRECT) &&
        !nxr_file_open_direct(opening->file, flags_of(opening->file) | O_DIRECT)) {
        snprintf(memory->note, sizeof(memory->note),
                 "through the page cache: this file system has no direct I/O (%s)",
                 strerror(errno));
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int file_reserve(struct opening *opening)
{
    struct nxr_file *file = opening->file;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *base;

    file->reserved_nbytes = (file->nbytes + page - 1) / page * page;
    base = mmap(NULL, file->reserved_nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (base == MAP_FAILED) {
        opening->error = errno;
        return opening_refuse(opening, NIXL_E_LIMIT,
                              "no addresses are left for %llu bytes (ulimit -v)",
                              (unsigned long long)file->nbytes);
    }
    file->base = base;
    return nxr_range_add((uintptr_t)base, file->nbytes, &nxr_memory_file, file, &file->range) ==
                   NIXL_OK
               ? NIXL_OK
               : opening_refuse(opening, NIXL_E_NO_MEMORY, "no memory");
}

static int file_open_steps(struct opening *opening, bool is_path, struct nxr_memory *memory)
{
    int status = is_path ? open_path(opening) : open_given(opening);

    if (status == NIXL_OK) {
        status = file_size(opening);
    }
    if (status == NIXL_OK) {
        status = file_lock(opening);
    }
    if (status == NIXL_OK) {
        status = file_place(opening);
    }
    if (status == NIXL_OK) {
        status = file_extend(opening);
    }
    if (status == NIXL_OK) {
        status = sync_name(opening);
    }
    if (status == NIXL_OK) {
        open_direct(opening, memory);
        status = file_reserve(opening);
    }
    return status;
}

static void file_free(struct nxr_file *file)
{
    if (file->range != NULL) {
        nxr_range_remove(file->range);
    }
    if (file->base != NULL) {
        munmap(file->base, file->reserved_nbytes);
    }
    if (file->opened.direct_fd >= 0) {
        close(file->opened.direct_fd);
    }
    if (file->is_locked) { /* a child of the program has the same open file */
        (void)flock(file->opened.fd, LOCK_UN);
    }
    if (file->opened.fd >= 0) {
        close(file->opened.fd);
    }
    free(file->made_as);
    free(file);
}

/* Remove a file that this open has made, unless another one has its name by now. */
static void remove_made(const struct nxr_file *file)
{
    struct stat made, there;

    if (fstat(file->opened.fd, &made) == 0 && lstat(made_as(file), &there) == 0 &&
        made.st_dev == there.st_dev && made.st_ino == there.st_ino) {
        unlink(made_as(file));
    }
}

/* Leave the file as it was. */
static void file_undo(const struct nxr_file *file)
{
    int error = 0;

    if (file->was_made) {
        remove_made(file);
    } else if (file->was_extended) {
        error = nxr_file_cut(file->opened.fd, file->start + file->nbytes, file->first_nbytes);
    }
    if (error != 0) {
        nxr_warn(MEMORY, "%s: cannot cut it to the %llu bytes that it had: %s", file->path,
                 (unsigned long long)file->first_nbytes, strerror(error));
    }
}

void nxr_file_use_engine(struct nxr_file *file)
{
    struct nxr_storage_file *opened = &file->opened;

    opened->engine = nxr_file_engine(NULL);
    opened->slot = opened->engine->file_add(opened->fd);
    opened->direct_slot = opened->direct_fd >= 0 ? opened->engine->file_add(opened->direct_fd) : -1;
}

void nxr_file_leave_engine(const struct nxr_file *file)
{
    const struct nxr_storage_engine *engine = nxr_file_engine(NULL);

    if (engine != NULL) {
        engine->file_remove(file->opened.slot);
        engine->file_remove(file->opened.direct_slot);
    }
}

static void memory_fill(struct nxr_memory *memory, struct nxr_file *file, uint32_t access)
{
    const char *why_not;
    const struct nxr_storage_engine *engine = nxr_file_engine(&why_not);

    memory->kind = &nxr_memory_file;
    memory->addr = file->base;
    memory->nbytes = file->nbytes;
    memory->mapped_nbytes = file->reserved_nbytes;
    memory->fd = -1;
    memory->access = access | (file->is_read_only ? NIXL_ACCESS_NO_PUT : 0);
    memory->range = file->range;
    memory->is_registered = true;
    snprintf(memory->device, sizeof(memory->device), "%s", engine->name);
    if (memory->note[0] == '\0') {
        if (why_not[0] == '\0' && engine->describe != NULL) {
            engine->describe(memory->note, sizeof(memory->note));
        } else {
            snprintf(memory->note, sizeof(memory->note), "%.150s", why_not);
        }
    }
    nxr_file_use_engine(file);
}

int nxr_file_open(const char *path, const struct nixl_file_params *params,
                  struct nxr_memory *memory_p, char *why, size_t why_nbytes, int *error_p)
{
    struct opening opening = {.params = params, .why = why, .why_nbytes = why_nbytes};
    char given[4096];
    int status;

    memset(memory_p, 0, sizeof(*memory_p));
    if (path == NULL) {
        nxr_file_path_of(params->fd, given, sizeof(given));
    }
    opening.file = nxr_file_new(path != NULL ? path : given);
    if (opening.file == NULL) {
        snprintf(why, why_nbytes, "no memory");
        *error_p = ENOMEM;
        return NIXL_E_NO_MEMORY;
    }
    opening.file->is_read_only = (params->flags & NIXL_FILE_READ_ONLY) != 0;
    opening.file->must_truncate = (params->flags & NIXL_FILE_TRUNCATE) != 0;
    status = file_open_steps(&opening, path != NULL, memory_p);
    *error_p = opening.error;
    if (status != NIXL_OK) {
        file_undo(opening.file);
        file_free(opening.file);
        return status;
    }
    memory_fill(memory_p, opening.file, params->access);
    return NIXL_OK;
}

/* ---- closing --------------------------------------------------------------------------------- */

/*
 * Cut a file behind what was put, or to what it had before; not where others have extended it, and
 * nothing that lies before the region.
 */
static void file_cut_end(const struct nxr_file *file)
{
    uint64_t region_end = file->start + file->nbytes, end = atomic_load(&file->written);
    int error;

    if (!file->must_truncate || !file->was_extended) {
        return;
    }
    end = end > file->first_nbytes ? end : file->first_nbytes;
    end = end > file->start ? end : file->start;
    error = nxr_file_cut(file->opened.fd, region_end, end);
    if (error != 0) {
        nxr_warn(MEMORY, "%s: cannot cut it to %llu bytes: %s", file->path, (unsigned long long)end,
                 strerror(error));
    }
}

void nxr_file_close(struct nxr_file *file)
{
    file_cut_end(file);
    nxr_file_gpu_close(file);
    nxr_file_leave_engine(file);
    file_free(file);
}

void nxr_file_discard(struct nxr_file *file)
{
    file_undo(file);
    file->must_truncate = false;
    nxr_file_close(file);
}
