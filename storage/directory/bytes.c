/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of files: what the kernel has in its page cache is read at once, by whoever asks for it;
 * else the storage engine moves them, straight from the thread that asks if the file is open. A
 * file that is not is opened by a thread of the pool, which moves the bytes then. Locks: none but
 * that of byte_requests, a leaf.
 */
#include "config.h"

#include "storage/directory/beneath.h"
#include "storage/directory/directory.h"
#include "util/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define AT_ONCE_NBYTES ((uint64_t)128 << 10) /* larger ones are read in parallel */

/* A request that the engine works on. */
struct byte_request {
    struct nxr_object_io *io;
    struct nxr_opened *opened;        /* NULL: the file of a part */
    struct nxr_unfinished unfinished; /* of a part */
    _Atomic size_t left;
    _Atomic int error; /* the first */
    size_t n, room;
    struct nxr_storage_move moves[];
};

static struct nxr_spares byte_requests; /* of one move */

/* ---- files ----------------------------------------------------------------------------------- */

/* Make a file that is not there, and the directories that it lies in. A descriptor, or -errno. */
static int file_make(struct nxr_object_store *store, const char *name)
{
    const char *base;
    int parent = nxr_directory_parent(store, name, &base), fd;

    if (parent < 0) {
        return parent;
    }
    fd = nxr_beneath_open(parent, base, O_RDWR | O_CREAT | O_NONBLOCK, store->file_mode);
    nxr_directory_parent_close(store, parent);
    if (fd >= 0) {
        nxr_unsynced_add_parent(&store->unsynced, name, strlen(name));
    }
    return fd;
}

/* O_NONBLOCK: a FIFO of that name would block the thread. nxr_opened_add() takes it off a file. */
static int file_open(struct nxr_object_store *store, const char *name, bool is_writable)
{
    int flags = (is_writable ? O_RDWR : O_RDONLY) | O_NONBLOCK;
    int fd = nxr_beneath_open(store->root, name, flags, 0);

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
    fd = NXR_OPENED_TRY(file_open(store, io->key, is_writable));
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    return nxr_opened_add(&store->opened, io->key, fd, is_writable);
}

/*
 * Does a write end beyond what files of this process may have? It would raise SIGXFSZ in whatever
 * thread submits it.
 */
static bool is_beyond_limit(const struct nxr_object_io *io)
{
    struct rlimit limit;

    return io->action != NXR_OBJECT_GET && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           limit.rlim_cur != RLIM_INFINITY && io->offset + io->nbytes > limit.rlim_cur;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The bytes have been moved, or not. */
static void bytes_tell(struct nxr_object_io *io, int fd, int error)
{
    struct stat stat;

    nxr_directory_fail(io, "", error);
    if (error == ENODATA && fstat(fd, &stat) == 0) {
        snprintf(io->why, sizeof(io->why), "the file ends at %llu: it is shorter, or was truncated",
                 (unsigned long long)stat.st_size);
    }
    if (io->action == NXR_OBJECT_WRITE && fd >= 0) {
        nxr_unsynced_add_file(&io->store->unsynced, io->key); /* after the last byte */
    }
}

static void byte_request_free(struct byte_request *request)
{
    nxr_storage_clear(request->moves, request->n);
    if (request->room == 1) {
        nxr_spare_give(&byte_requests, request);
    } else {
        free(request);
    }
}

static void byte_move_ended(struct nxr_storage_move *move, int error)
{
    struct byte_request *request = move->owner;
    struct nxr_object_io *io = request->io;
    int none = 0, fd = move->file->fd;

    if (error != 0) {
        atomic_compare_exchange_strong(&request->error, &none, error);
    }
    if (atomic_fetch_sub(&request->left, 1) > 1) {
        return;
    }
    bytes_tell(io, fd, atomic_load(&request->error));
    if (request->opened != NULL) {
        nxr_opened_release(&io->store->opened, request->opened);
    }
    byte_request_free(request);
    nxr_directory_end(io);
}

/* ---- moving without blocking ----------------------------------------------------------------- */

/* Read what is in the page cache. False: nothing is done. */
static bool get_at_once(struct nxr_object_io *io, const struct nxr_opened *opened)
{
    const struct iovec into = {io->memory, io->nbytes};

    io->error = 0;
    return io->action == NXR_OBJECT_GET && opened->file.direct_fd < 0 &&
           io->nbytes <= AT_ONCE_NBYTES &&
           preadv2(opened->file.fd, &into, 1, (off_t)io->offset, RWF_NOWAIT) == (ssize_t)io->nbytes;
}

/* Have the engine move the bytes. False: no memory. */
static bool byte_request_begin(struct nxr_object_io *io, struct nxr_opened *opened)
{
    struct nxr_unfinished unfinished;
    const struct nxr_storage_file *file;
    struct byte_request *request;
    size_t n, nbytes;

    if (opened != NULL) {
        file = &opened->file;
    } else {
        nxr_unfinished_of_upload(io->store, io->upload, &unfinished);
        file = &unfinished.file;
    }
    n = nxr_storage_count(file, io->offset, io->nbytes);
    nbytes = sizeof(*request) + n * sizeof(request->moves[0]);
    request = n == 1 ? nxr_spare_take(&byte_requests, nbytes) : malloc(nbytes);
    if (request == NULL) {
        return false;
    }
    request->io = io;
    request->opened = opened;
    if (opened == NULL) {
        request->unfinished = unfinished;
        file = &request->unfinished.file;
    }
    atomic_init(&request->left, n);
    atomic_init(&request->error, 0);
    request->n = 0;
    request->room = n;
    const struct nxr_storage_moving moving = {file, io->action != NXR_OBJECT_GET, request,
                                              byte_move_ended};
    if (!nxr_storage_cut(&moving, io->offset, io->memory, io->nbytes, request->moves,
                         &request->n)) {
        byte_request_free(request);
        return false;
    }
    nxr_storage_begin(request->moves, n, false);
    return true;
}

enum nxr_bytes_begun nxr_bytes_begin(struct nxr_object_io *io)
{
    bool is_part = io->action == NXR_OBJECT_PART;
    struct nxr_opened *opened = NULL;
    bool is_over;

    if ((!is_part && io->action != NXR_OBJECT_GET && io->action != NXR_OBJECT_WRITE) ||
        io->nbytes == 0 || is_beyond_limit(io) ||
        (io->is_canceled != NULL && atomic_load(io->is_canceled))) {
        return NXR_BYTES_BLOCK;
    }
    if (!is_part) {
        opened = nxr_opened_find(&io->store->opened, io->key, io->action == NXR_OBJECT_WRITE);
        if (opened == NULL) {
            return NXR_BYTES_BLOCK;
        }
    }
    is_over = opened != NULL && get_at_once(io, opened);
    if (!is_over && byte_request_begin(io, opened)) {
        return NXR_BYTES_BEGUN;
    }
    if (opened != NULL) {
        nxr_opened_release(&io->store->opened, opened);
    }
    return is_over ? NXR_BYTES_OVER : NXR_BYTES_BLOCK;
}

/* ---- moving by a thread that may block ------------------------------------------------------- */

/*
 * Through the page cache this thread reads and writes itself, which takes no other thread; past it,
 * the engine has many requests under way.
 */
static int bytes_run(const struct nxr_storage_file *file, const struct nxr_object_io *io)
{
    struct nxr_storage_file by = *file;

    if (file->direct_fd < 0) {
        by.engine = &nxr_storage_blocking;
    }
    return is_beyond_limit(io) ? EFBIG
                               : nxr_storage_run(&by, io->action != NXR_OBJECT_GET, io->offset,
                                                 io->memory, io->nbytes);
}

void nxr_bytes_move(struct nxr_object_io *io)
{
    struct nxr_unfinished unfinished;
    struct nxr_opened *opened;

    if (io->action == NXR_OBJECT_PART) {
        nxr_unfinished_of_upload(io->store, io->upload, &unfinished);
        bytes_tell(io, unfinished.file.fd, bytes_run(&unfinished.file, io));
        return;
    }
    opened = file_of(io, io->action == NXR_OBJECT_WRITE);
    if (opened == NULL) {
        bytes_tell(io, -1, errno);
        return;
    }
    bytes_tell(io, opened->file.fd, bytes_run(&opened->file, io));
    nxr_opened_release(&io->store->opened, opened);
}

int nxr_bytes_write(const struct nxr_object_io *io, const struct nxr_unfinished *unfinished)
{
    return bytes_run(&unfinished->file, io);
}
