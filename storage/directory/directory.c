/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of objects that are files of a directory. Calls that may block run in a pool of
 * threads, bytes.c reads and writes. An object that is put is written without its name, and gets it
 * when it is complete. No lock of its own: see directory.h.
 */
#include "config.h"

#include "storage/directory/beneath.h"
#include "storage/directory/directory.h"
#include "util/parent.h"
#include "util/pool.h"
#include "nixlrun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void request_run(void *item);

static struct nxr_pool request_pool =
    NXR_POOL_INIT(request_run, offsetof(struct nxr_object_io, next));

void nxr_directory_fail(struct nxr_object_io *io, const char *what, int error)
{
    io->error = error;
    if (error != 0) {
        snprintf(io->why, sizeof(io->why), "%s%s%s", what, what[0] != '\0' ? ": " : "",
                 nxr_beneath_why(error));
    }
}

void nxr_directory_end(struct nxr_object_io *io)
{
    io->next = NULL;
    io->ended(io);
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

/* 0 or -errno; `what` is what has failed. */
static int put_whole(struct nxr_object_io *io, const char **what_p)
{
    struct nxr_unfinished unfinished;
    int error = nxr_unfinished_make(io->store, &unfinished);

    *what_p = error != 0 ? "cannot make a file" : "";
    if (error != 0) {
        return -error;
    }
    error = nxr_bytes_write(io, &unfinished);
    if (error == 0) {
        error = nxr_unfinished_publish(io->store, &unfinished, io->key);
    }
    if (error == 0) {
        tell_found(io, unfinished.file.fd);
    }
    nxr_unfinished_drop(io->store, &unfinished);
    return -error;
}

static void do_put(struct nxr_object_io *io)
{
    const char *what = "";
    int error = -NXR_OPENED_TRY(put_whole(io, &what));

    nxr_directory_fail(io, what, error);
}

/* Are two descriptors left? Making the directories of a path takes so many. 0, or -errno. */
static int have_two(int root)
{
    int first = fcntl(root, F_DUPFD_CLOEXEC, 0), error = first < 0 ? errno : 0, second;

    if (first >= 0) {
        second = fcntl(root, F_DUPFD_CLOEXEC, 0);
        error = second < 0 ? errno : 0;
        close(first);
        if (second >= 0) {
            close(second);
        }
    }
    return -error;
}

/*
 * Uploads stay open for long. None takes the last descriptors, which those that are complete need
 * to get their names.
 */
static int make_upload(struct nxr_object_store *store, struct nxr_unfinished *unfinished)
{
    int error = -nxr_unfinished_make(store, unfinished);

    if (error == 0) {
        error = have_two(store->root);
        if (error != 0) {
            nxr_unfinished_drop(store, unfinished);
        }
    }
    return error;
}

static void do_create(struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished;
    int error = -NXR_OPENED_TRY(make_upload(io->store, &unfinished));

    if (error == 0) {
        nxr_unfinished_to_upload(&unfinished, io->upload);
    }
    nxr_directory_fail(io, "cannot make a file", error);
}

/* If it fails, ABORT follows. */
static void do_complete(struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished;
    int error;

    nxr_unfinished_of_upload(io->store, io->upload, &unfinished);
    error = -NXR_OPENED_TRY(-nxr_unfinished_publish(io->store, &unfinished, io->key));
    if (error == 0) {
        tell_found(io, unfinished.file.fd);
        nxr_unfinished_drop(io->store, &unfinished);
    } else {
        nxr_unfinished_to_upload(&unfinished, io->upload);
    }
    nxr_directory_fail(io, "", error);
}

static void do_abort(struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished;

    nxr_unfinished_of_upload(io->store, io->upload, &unfinished);
    nxr_unfinished_drop(io->store, &unfinished);
    nxr_directory_fail(io, "", 0);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void do_head(struct nxr_object_io *io)
{
    int fd = NXR_OPENED_TRY(nxr_beneath_open(io->store->root, io->key, O_PATH, 0));
    int error = fd < 0 ? -fd : 0;
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
    nxr_directory_fail(io, "", error == ENOTDIR ? ENOENT : error);
}

static void do_delete(struct nxr_object_io *io)
{
    const char *base;
    int parent = NXR_OPENED_TRY(nxr_beneath_parent(io->store->root, io->key, NULL, &base));
    int error = parent < 0 ? -parent : 0;

    if (parent >= 0) {
        error = unlinkat(parent, base, 0) == 0 ? 0 : errno;
        nxr_directory_parent_close(io->store, parent);
        if (error == 0) {
            nxr_unsynced_heal(&io->store->unsynced, io->key);
            nxr_unsynced_add_parent(&io->store->unsynced, io->key, strlen(io->key));
            nxr_opened_drop(&io->store->opened, io->key);
        }
    }
    nxr_directory_fail(io, "", error == ENOENT || error == ENOTDIR ? 0 : error);
}

static void do_sync(struct nxr_object_io *io)
{
    char what[200] = "";
    int error = nxr_unsynced_sync(&io->store->unsynced, what, sizeof(what));

    nxr_directory_fail(io, what, error);
}

static void do_list(struct nxr_object_io *io)
{
    nxr_directory_fail(io, "cannot list", nxr_directory_walk(io->store, io));
}

static void do_nothing(struct nxr_object_io *io)
{
    nxr_directory_fail(io, "", 0);
}

/* ---- running --------------------------------------------------------------------------------- */

static void request_run(void *item)
{
    static void (*const actions[])(struct nxr_object_io *) = {
        [NXR_OBJECT_GET] = nxr_bytes_move,   [NXR_OBJECT_PUT] = do_put,
        [NXR_OBJECT_CREATE] = do_create,     [NXR_OBJECT_PART] = nxr_bytes_move,
        [NXR_OBJECT_COMPLETE] = do_complete, [NXR_OBJECT_ABORT] = do_abort,
        [NXR_OBJECT_HEAD] = do_head,         [NXR_OBJECT_DELETE] = do_delete,
        [NXR_OBJECT_LIST] = do_list,         [NXR_OBJECT_PROBE] = do_nothing,
        [NXR_OBJECT_DELAY] = do_nothing,     [NXR_OBJECT_WRITE] = nxr_bytes_move,
        [NXR_OBJECT_SYNC] = do_sync};
    struct nxr_object_io *io = item;

    if (io->is_canceled != NULL && atomic_load(io->is_canceled)) {
        io->error = ECANCELED;
    } else if (io->action == NXR_OBJECT_SYNC) { /* it may have to wait for another one */
        actions[io->action](io);
    } else {
        nxr_opened_work_begin();
        actions[io->action](io);
        nxr_opened_work_end();
    }
    nxr_directory_end(io);
}

/* Begin those that may block, then do at once what does not. */
static void directory_submit(struct nxr_object_io *list)
{
    struct nxr_object_io *slow = NULL, **slow_end = &slow, *done = NULL, **done_end = &done;

    while (list != NULL) {
        struct nxr_object_io *io = list;
        enum nxr_bytes_begun begun;

        list = io->next;
        io->next = NULL;
        if (io->action == NXR_OBJECT_DELAY) {
            nxr_delay_begin(io);
            continue;
        }
        begun = nxr_bytes_begin(io);
        if (begun == NXR_BYTES_OVER) {
            *done_end = io;
            done_end = &io->next;
        } else if (begun == NXR_BYTES_BLOCK) {
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
        nxr_directory_end(io);
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

/*
 * Without its name on the medium, no file in it is durable, whoever has made it: another process
 * may just have, or one that was killed then.
 */
static int root_make(const struct nxr_object_settings *settings, char *why, size_t why_nbytes)
{
    const char *path = settings->path, *what;
    bool is_made = mkdir(path, mode_of_directories((mode_t)settings->mode)) == 0;
    int error;

    if (!is_made && errno != EEXIST) {
        return store_fail(errno, path, "cannot make the directory", why, why_nbytes);
    }
    error = nxr_parent_sync(path, &what);
    if (error != 0 && is_made) {
        (void)rmdir(path);
    }
    return error != 0 ? store_fail(error, path, what, why, why_nbytes) : NIXL_OK;
}

static int root_open(const struct nxr_object_settings *settings, int *root_p, char *why,
                     size_t why_nbytes)
{
    const char *path = settings->path;
    int status = settings->must_make ? root_make(settings, why, why_nbytes) : NIXL_OK;

    if (status != NIXL_OK) {
        return status;
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

/* Can a file that is made there have direct I/O? 0, or an errno. */
static int direct_try(struct nxr_object_store *store)
{
    struct nxr_unfinished unfinished;
    int error = nxr_unfinished_make(store, &unfinished);

    if (error == 0) {
        error = unfinished.file.direct_fd < 0 ? -unfinished.file.direct_fd : 0;
        nxr_unfinished_drop(store, &unfinished);
    }
    return error;
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
    nxr_opened_cache_init(&store->opened, store->root, settings);
    nxr_unsynced_init(&store->unsynced, &store->opened);
    if (!settings->is_read_only) {
        store->has_unnamed = nxr_unfinished_can_be_unnamed(store->root);
        nxr_unfinished_clean(store->root);
        store->direct_error = settings->is_direct ? direct_try(store) : 0;
    }
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
    int n = snprintf(text, text_nbytes, "%.60s%s%s", store->path,
                     store->is_read_only             ? ", only read"
                     : store->opened.writes_in_place ? ", written in place"
                     : store->has_unnamed            ? ", written as a whole"
                                          : ", written as a whole, by files of other names",
                     store->opened.is_direct && store->direct_error == 0 ? ", by direct I/O" : "");

    if (store->direct_error != 0 && n > 0 && (size_t)n < text_nbytes) {
        snprintf(text + n, text_nbytes - (size_t)n,
                 ", through the page cache: this file system has no direct I/O (%s)",
                 strerror(store->direct_error));
    }
}

static const char *directory_libraries(void)
{
    return "";
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
