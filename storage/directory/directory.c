/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of objects that are files of a directory. Calls that may block run in a pool of
 * threads; bytes that the kernel has in memory are read at once, by whoever asks for them. An
 * object that is put is written without its name, and gets it when it is complete. No lock of its
 * own: see directory.h.
 */
#include "config.h"

#include "storage/directory/beneath.h"
#include "storage/directory/directory.h"
#include "util/pool.h"
#include "nixlrun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define AT_ONCE_NBYTES ((uint64_t)128 << 10) /* larger ones are read by several threads */

static void request_run(void *item);

static struct nxr_pool request_pool =
    NXR_POOL_INIT(request_run, offsetof(struct nxr_object_io, next));

/* A request has failed, or not. */
static void request_fail(struct nxr_object_io *io, const char *what, int error)
{
    io->error = error;
    if (error != 0) {
        snprintf(io->why, sizeof(io->why), "%s%s%s", what, what[0] != '\0' ? ": " : "",
                 nxr_beneath_why(error));
    }
}

static void request_end(struct nxr_object_io *io)
{
    io->next = NULL;
    io->ended(io);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Make a file that is not there, and the directories that it lies in. A descriptor, or -errno. */
static int file_make(struct nxr_object_store *store, const char *name)
{
    const char *base;
    int parent = nxr_directory_parent(store, name, &base), fd;

    if (parent < 0) {
        return parent;
    }
    fd = nxr_beneath_open(parent, base, O_RDWR | O_CREAT | O_NONBLOCK, store->file_mode);
    close(parent);
    if (fd >= 0) {
        nxr_unsynced_add_parent(&store->unsynced, name, strlen(name));
    }
    return fd;
}

/* O_NONBLOCK: a FIFO of that name would block the thread. */
static int file_open(struct nxr_object_store *store, const char *name, bool is_writable)
{
    int flags = (is_writable ? O_RDWR : O_RDONLY) | O_NONBLOCK;
    int fd = nxr_beneath_open(store->root, name, flags, 0);

    if ((fd == -EMFILE || fd == -ENFILE) && nxr_opened_shrink(&store->opened) > 0) {
        fd = nxr_beneath_open(store->root, name, flags, 0);
    }
    return fd == -ENOENT && is_writable ? file_make(store, name) : fd;
}

/* The file of a request; NULL: errno says why. */
static struct nxr_opened *file_of(struct nxr_object_io *io, bool is_writable)
{
    struct nxr_object_store *store = io->store;
    struct nxr_opened *opened = nxr_opened_find(&store->opened, io->key, is_writable);
    int fd;

    if (opened != NULL) {
        return opened;
    }
    fd = file_open(store, io->key, is_writable);
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    return nxr_opened_add(&store->opened, io->key, fd, is_writable);
}

static void do_get(struct nxr_object_io *io)
{
    struct nxr_opened *opened = file_of(io, false);
    uint64_t done = 0;
    int error = opened == NULL ? errno : 0;

    while (opened != NULL && error == 0 && done < io->nbytes) {
        ssize_t n = pread(opened->fd, (char *)io->memory + done, io->nbytes - done,
                          (off_t)(io->offset + done));

        if (n > 0) {
            done += (uint64_t)n;
        } else if (n == 0) {
            error = ENODATA;
        } else if (errno != EINTR) {
            error = errno;
        }
    }
    if (opened != NULL) {
        nxr_opened_release(&io->store->opened, opened);
    }
    request_fail(io, "", error);
    if (error == ENODATA) {
        done += io->offset;
        snprintf(io->why, sizeof(io->why), "the file ends at %llu: it is shorter, or was truncated",
                 (unsigned long long)done);
    }
}

/* Read what is in the page cache. False: nothing is done. */
static bool get_at_once(struct nxr_object_io *io)
{
    const struct iovec into = {io->memory, io->nbytes};
    struct nxr_opened *opened;
    ssize_t n;

    if (io->nbytes > AT_ONCE_NBYTES) {
        return false;
    }
    opened = nxr_opened_find(&io->store->opened, io->key, false);
    if (opened == NULL) {
        return false;
    }
    n = preadv2(opened->fd, &into, 1, (off_t)io->offset, RWF_NOWAIT);
    nxr_opened_release(&io->store->opened, opened);
    io->error = 0;
    return n == (ssize_t)io->nbytes;
}

static void do_write(struct nxr_object_io *io)
{
    struct nxr_opened *opened = file_of(io, true);
    int error = opened == NULL ? errno : 0;

    if (opened != NULL) {
        const struct nxr_unfinished file = {.fd = opened->fd};

        error = nxr_unfinished_write(&file, io->memory, io->nbytes, io->offset);
        nxr_unsynced_add_file(&io->store->unsynced, io->key);
        nxr_opened_release(&io->store->opened, opened);
    }
    request_fail(io, "", error);
}

/* ---- whole objects --------------------------------------------------------------------------- */

/* What the store says of an object that is complete: the etag. */
static void tell_found(struct nxr_object_io *io, int fd)
{
    struct stat stat;

    if (fstat(fd, &stat) == 0) {
        nxr_directory_found(&stat, &io->found);
    }
}

static void do_put(struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished;
    int error = nxr_unfinished_make(io->store, &unfinished);

    if (error != 0) {
        request_fail(io, "cannot make a file", error);
        return;
    }
    error = nxr_unfinished_write(&unfinished, io->memory, io->nbytes, 0);
    if (error == 0) {
        error = nxr_unfinished_publish(io->store, &unfinished, io->key);
    }
    if (error == 0) {
        tell_found(io, unfinished.fd);
    }
    nxr_unfinished_drop(io->store, &unfinished);
    request_fail(io, "", error);
}

/* An upload's name is its descriptor, and the name of the file if it has one. */
static void upload_name(struct nxr_object_io *io, const struct nxr_unfinished *unfinished)
{
    snprintf(io->upload, NXR_OBJECT_UPLOAD_NBYTES, "%d/%s", unfinished->fd, unfinished->name);
}

static struct nxr_unfinished upload_of(const struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished = {.fd = -1, .name = ""};
    char *end;

    unfinished.fd = (int)strtol(io->upload, &end, 10);
    snprintf(unfinished.name, sizeof(unfinished.name), "%.31s", *end == '/' ? end + 1 : "");
    return unfinished;
}

static void do_create(struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished;
    int error = nxr_unfinished_make(io->store, &unfinished);

    if (error == 0) {
        upload_name(io, &unfinished);
    }
    request_fail(io, "cannot make a file", error);
}

static void do_part(struct nxr_object_io *io)
{
    const struct nxr_unfinished unfinished = upload_of(io);

    request_fail(io, "", nxr_unfinished_write(&unfinished, io->memory, io->nbytes, io->offset));
}

/* If it fails, ABORT follows. */
static void do_complete(struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished = upload_of(io);
    int error = nxr_unfinished_publish(io->store, &unfinished, io->key);

    if (error == 0) {
        tell_found(io, unfinished.fd);
        nxr_unfinished_drop(io->store, &unfinished);
    } else {
        upload_name(io, &unfinished);
    }
    request_fail(io, "", error);
}

static void do_abort(struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished = upload_of(io);

    nxr_unfinished_drop(io->store, &unfinished);
    request_fail(io, "", 0);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void do_head(struct nxr_object_io *io)
{
    int fd = nxr_beneath_open(io->store->root, io->key, O_PATH, 0), error = fd < 0 ? -fd : 0;
    struct stat stat;

    if (fd >= 0) {
        error = fstat(fd, &stat) != 0   ? errno
                : S_ISREG(stat.st_mode) ? 0
                : S_ISLNK(stat.st_mode) ? ELOOP
                : S_ISDIR(stat.st_mode) ? EISDIR
                                        : ENXIO;
        if (error == 0) {
            nxr_directory_found(&stat, &io->found);
        }
        close(fd);
    }
    request_fail(io, "", error == ENOTDIR ? ENOENT : error);
}

static void do_delete(struct nxr_object_io *io)
{
    const char *base;
    int parent = nxr_beneath_parent(io->store->root, io->key, NULL, &base);
    int error = parent < 0 ? -parent : 0;

    if (parent >= 0) {
        error = unlinkat(parent, base, 0) == 0 ? 0 : errno;
        close(parent);
        if (error == 0) {
            nxr_unsynced_add_parent(&io->store->unsynced, io->key, strlen(io->key));
            nxr_opened_drop(&io->store->opened, io->key);
        }
    }
    request_fail(io, "", error == ENOENT || error == ENOTDIR ? 0 : error);
}

static void do_sync(struct nxr_object_io *io)
{
    char what[200] = "";
    int error = nxr_unsynced_sync(&io->store->unsynced, what, sizeof(what));

    request_fail(io, what, error);
}

static void do_list(struct nxr_object_io *io)
{
    request_fail(io, "cannot list", nxr_directory_walk(io->store, io));
}

static void do_nothing(struct nxr_object_io *io)
{
    request_fail(io, "", 0);
}

/* ---- running --------------------------------------------------------------------------------- */

static void request_run(void *item)
{
    static void (*const actions[])(struct nxr_object_io *) = {
        [NXR_OBJECT_GET] = do_get,           [NXR_OBJECT_PUT] = do_put,
        [NXR_OBJECT_CREATE] = do_create,     [NXR_OBJECT_PART] = do_part,
        [NXR_OBJECT_COMPLETE] = do_complete, [NXR_OBJECT_ABORT] = do_abort,
        [NXR_OBJECT_HEAD] = do_head,         [NXR_OBJECT_DELETE] = do_delete,
        [NXR_OBJECT_LIST] = do_list,         [NXR_OBJECT_PROBE] = do_nothing,
        [NXR_OBJECT_DELAY] = do_nothing,     [NXR_OBJECT_WRITE] = do_write,
        [NXR_OBJECT_SYNC] = do_sync};
    struct nxr_object_io *io = item;

    if (io->is_canceled != NULL && atomic_load(io->is_canceled)) {
        io->error = ECANCELED;
    } else {
        actions[io->action](io);
    }
    request_end(io);
}

/* Begin those that may block, then do at once what does not. */
static void directory_submit(struct nxr_object_io *list)
{
    struct nxr_object_io *slow = NULL, **slow_end = &slow, *done = NULL, **done_end = &done;

    while (list != NULL) {
        struct nxr_object_io *io = list;

        list = io->next;
        io->next = NULL;
        if (io->action == NXR_OBJECT_DELAY) {
            nxr_delay_begin(io);
        } else if (io->action == NXR_OBJECT_GET && get_at_once(io)) {
            *done_end = io;
            done_end = &io->next;
        } else {
            *slow_end = io;
            slow_end = &io->next;
        }
    }
    if (slow != NULL) {
        nxr_pool_submit(&request_pool, slow);
    }
    while (done != NULL) {
        struct nxr_object_io *io = done;

        done = io->next;
        request_end(io);
    }
}

/* ---- stores ---------------------------------------------------------------------------------- */

static int store_fail(int error, const char *path, const char *what, char *why, size_t why_nbytes)
{
    snprintf(why, why_nbytes, "%.120s: %s: %s", path, what, strerror(error));
    errno = error;
    switch (error) {
    case ENOENT:
        return NIXL_E_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return NIXL_E_ACCESS;
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return NIXL_E_INVALID_ARG;
    case EMFILE:
    case ENFILE:
        return NIXL_E_LIMIT;
    case ENOMEM:
        return NIXL_E_NO_MEMORY;
    default:
        return NIXL_E_STORAGE;
    }
}

/* Those who may read a file may look for it. */
static mode_t mode_of_directories(mode_t mode)
{
    return mode | ((mode & 0444) >> 2) | 0300;
}

static int root_open(const struct nxr_object_settings *settings, int *root_p, char *why,
                     size_t why_nbytes)
{
    const char *path = settings->path;

    if (settings->must_make && mkdir(path, mode_of_directories((mode_t)settings->mode)) != 0 &&
        errno != EEXIST) {
        return store_fail(errno, path, "cannot make the directory", why, why_nbytes);
    }
    *root_p = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*root_p < 0) {
        return store_fail(errno, path,
                          errno == ENOENT ? "cannot open (NIXL_DIRECTORY_CREATE would make it)"
                                          : "cannot open the directory",
                          why, why_nbytes);
    }
    if (!settings->is_read_only && faccessat(*root_p, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        int error = errno;

        close(*root_p);
        return store_fail(error, path, "cannot write there (NIXL_DIRECTORY_READ_ONLY would not)",
                          why, why_nbytes);
    }
    return NIXL_OK;
}

static int directory_open(const struct nxr_object_settings *settings,
                          struct nxr_object_store **store_p, char *why, size_t why_nbytes)
{
    size_t path_nbytes = strlen(settings->path) + 1;
    struct nxr_object_store *store = calloc(1, sizeof(*store) + path_nbytes);
    int status;

    if (store == NULL) {
        return store_fail(ENOMEM, settings->path, "open", why, why_nbytes);
    }
    status = root_open(settings, &store->root, why, why_nbytes);
    if (status != NIXL_OK) {
        int error = errno;

        free(store);
        errno = error;
        return status;
    }
    memcpy(store->path, settings->path, path_nbytes);
    store->file_mode = (mode_t)settings->mode;
    store->directory_mode = mode_of_directories((mode_t)settings->mode);
    store->is_read_only = settings->is_read_only;
    if (!settings->is_read_only) {
        store->has_unnamed = nxr_unfinished_can_be_unnamed(store->root);
        nxr_unfinished_clean(store->root);
    }
    nxr_opened_cache_init(&store->opened, store->root, settings->n_descriptors,
                          settings->writes_in_place);
    nxr_unsynced_init(&store->unsynced, store->root);
    *store_p = store;
    return NIXL_OK;
}

static void directory_close(struct nxr_object_store *store)
{
    nxr_opened_cache_end(&store->opened);
    nxr_unsynced_end(&store->unsynced);
    close(store->root);
    free(store);
}

static const char *directory_path(const struct nxr_object_store *store)
{
    (void)store;
    return "";
}

static void directory_describe(const struct nxr_object_store *store, char *text, size_t text_nbytes)
{
    snprintf(text, text_nbytes, "%.90s%s", store->path,
             store->is_read_only             ? ", only read"
             : store->opened.writes_in_place ? ", written in place"
             : store->has_unnamed            ? ", written as a whole"
                                             : ", written as a whole, by files of other names");
}

static const char *directory_libraries(void)
{
    return "threads";
}

static int directory_start(char *why, size_t why_nbytes)
{
    int error = nxr_pool_start(&request_pool);

    if (error != 0) {
        snprintf(why, why_nbytes, "no thread can be started: %s", strerror(error));
        return NIXL_E_LIMIT;
    }
    return NIXL_OK;
}

static void directory_stop(void)
{
    nxr_delay_stop();
    nxr_pool_stop(&request_pool);
}

const struct nxr_object_engine nxr_object_directory = {
    .abi = NXR_OBJECT_ABI,
    .name = "directory",
    .has_sync = true,
    .libraries = directory_libraries,
    .start = directory_start,
    .stop = directory_stop,
    .open = directory_open,
    .close = directory_close,
    .path = directory_path,
    .describe = directory_describe,
    .is_key = nxr_beneath_is_name,
    .submit = directory_submit,
    .wake = nxr_delay_wake,
};
