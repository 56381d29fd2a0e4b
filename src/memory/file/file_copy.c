/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between files and host memory: cutting them into requests, and ending them.
 *
 * With direct I/O, whole blocks go past the page cache and the bytes at unaligned ends through it;
 * blocks are at least as large as pages, so that the two never meet in a page of one copy. Host
 * memory that is not aligned for direct I/O is copied to or from memory that is.
 *
 * A copy is freed by nxr_file_copy_test(), once no request is left. Requests end in any thread.
 * Lock: that of file_copies, a leaf; copy.c lets one thread at a time test and arm.
 */
#include "config.h"

#include "memory/file/file.h"
#include "memory/file/kind.h"
#include "util/copy.h"
#include "util/spare.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#define IO_NBYTES ((uint64_t)1 << 20) /* of one request: long ones are served in parallel */
#define ARMED     (1u << 31)          /* in file_copy.left: wake the library at the end */

struct file_copy;

struct file_io {
    struct nxr_storage_io io;
    struct file_copy *copy;
    char *local;     /* where the bytes come from or go to */
    char *aligned;   /* memory that stands in for it; NULL: none */
    uint64_t nbytes; /* of the whole request; io.nbytes: what is left of it */
    bool is_direct;
};

struct file_copy {
    struct nxr_file *file;
    _Atomic uint32_t left; /* requests; and ARMED */
    _Atomic int status;    /* the first failure */
    size_t n_ios, room;
    struct file_io ios[];
};

static struct nxr_spares file_copies; /* of one request */

static int n_armed_files; /* copies, of those that are armed and not yet tested; lock: see above */

/* ---- the end of a request -------------------------------------------------------------------- */

static void file_io_aim(struct file_io *io, bool is_direct)
{
    const struct nxr_file *file = io->copy->file;

    io->is_direct = is_direct;
    io->io.fd = is_direct ? file->direct_fd : file->fd;
    io->io.slot = is_direct ? file->direct_slot : file->slot;
}

static void file_io_again(struct file_io *io)
{
    io->io.next = NULL;
    nxr_file_engine(NULL)->submit(&io->io, false);
}

/* Its last byte has been moved. */
static void file_io_complete(struct file_io *io)
{
    struct nxr_file *file = io->copy->file;
    uint64_t end = io->io.offset + io->io.nbytes, written;

    if (io->io.action == NXR_STORAGE_READ && io->aligned != NULL) {
        nxr_copy(io->local, io->aligned, io->nbytes);
    }
    if (io->io.action == NXR_STORAGE_WRITE) {
        written = atomic_load_explicit(&file->written, memory_order_relaxed);
        while (written < end && !atomic_compare_exchange_weak(&file->written, &written, end)) {
        }
    }
}

static const char *action_name(enum nxr_storage_action action)
{
    return action == NXR_STORAGE_READ    ? "read"
           : action == NXR_STORAGE_WRITE ? "write"
                                         : "fdatasync";
}

/* What went wrong, or 0: some bytes were moved, or it is to be tried again. */
static int file_io_error(const struct file_io *io)
{
    int64_t result = io->io.result;

    if (result == -ECANCELED || result == -EAGAIN || result == -EINTR ||
        (result == -EINVAL && io->is_direct)) {
        return 0;
    }
    if (result == 0 && io->io.action != NXR_STORAGE_SYNC) {
        return io->io.action == NXR_STORAGE_READ ? ENODATA : EIO;
    }
    return result < 0 ? (int)-result : 0;
}

/* Is it not over yet? Then it is begun again, with what is left. */
static bool file_io_goes_on(struct file_io *io)
{
    int64_t result = io->io.result;

    if (result < 0) {
        file_io_aim(io, io->is_direct && result != -EINVAL);
        file_io_again(io);
        return true;
    }
    if ((uint64_t)result >= io->io.nbytes) {
        return false;
    }
    io->io.offset += (uint64_t)result;
    io->io.memory = (char *)io->io.memory + result;
    io->io.nbytes -= (size_t)result;
    file_io_aim(io, io->is_direct && (uint64_t)result % io->copy->file->block_nbytes == 0);
    file_io_again(io);
    return true;
}

static void file_io_ended(struct nxr_storage_io *ended)
{
    struct file_io *io = (struct file_io *)ended; /* its first member */
    struct file_copy *copy = io->copy;
    int error = file_io_error(io), none = NIXL_OK;

    if (error != 0) {
        nxr_file_fail(copy->file, error, action_name(io->io.action), io->io.nbytes, io->io.offset);
        atomic_compare_exchange_strong(&copy->status, &none, NIXL_E_STORAGE);
    } else if (file_io_goes_on(io)) {
        return;
    } else {
        file_io_complete(io);
    }
    /* With the last one, the copy may be freed. */
    if (atomic_fetch_sub(&copy->left, 1) == (ARMED | 1)) {
        nxr_device_ended();
    }
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* The first part of these bytes that one request can move. */
static uint64_t file_cut(const struct nxr_file *file, uint64_t offset, uint64_t nbytes,
                         bool *is_direct_p)
{
    uint64_t block = file->block_nbytes, beyond = offset % block;

    *is_direct_p = false;
    if (file->direct_fd >= 0 && beyond != 0) {
        nbytes = nbytes < block - beyond ? nbytes : block - beyond;
    } else if (file->direct_fd >= 0 && nbytes >= block) {
        *is_direct_p = true;
        nbytes -= nbytes % block;
    }
    return nbytes < IO_NBYTES ? nbytes : IO_NBYTES;
}

static size_t file_count(const struct nxr_file *file, const struct nxr_device_copy *copy,
                         bool is_put)
{
    size_t n = 0;
    bool is_direct;

    for (size_t i = 0; i < copy->n_pieces; i++) {
        const struct nxr_device_piece *piece = &copy->pieces[i];
        const char *there = is_put ? piece->dst : piece->src;
        uint64_t offset = file->start + (uint64_t)(there - file->base), left = piece->nbytes;

        for (; left > 0; n++) {
            uint64_t part = file_cut(file, offset, left, &is_direct);

            offset += part;
            left -= part;
        }
    }
    return n;
}

/* Provide memory that direct I/O can take. */
static bool file_io_align(struct file_io *io)
{
    void *aligned;

    if (!io->is_direct || (uintptr_t)io->local % NXR_FILE_MEMORY_NBYTES == 0) {
        return true;
    }
    if (posix_memalign(&aligned, NXR_FILE_BLOCK_NBYTES, io->nbytes) != 0) {
        return false;
    }
    io->aligned = aligned;
    io->io.memory = aligned;
    if (io->io.action == NXR_STORAGE_WRITE) {
        nxr_copy(aligned, io->local, io->nbytes);
    }
    return true;
}

/* Fill the requests of one piece from *n_p on. False: no memory. */
static bool file_copy_fill(struct file_copy *made, const struct nxr_device_piece *piece,
                           bool is_put, size_t *n_p)
{
    const struct nxr_file *file = made->file;
    const char *there = is_put ? piece->dst : piece->src;
    char *local = is_put ? (char *)(uintptr_t)piece->src : piece->dst;
    uint64_t offset = file->start + (uint64_t)(there - file->base), left = piece->nbytes;

    while (left > 0) {
        struct file_io *io = &made->ios[(*n_p)++];
        bool is_direct;
        uint64_t part = file_cut(file, offset, left, &is_direct);

        *io = (struct file_io){.io = {.action = is_put ? NXR_STORAGE_WRITE : NXR_STORAGE_READ,
                                      .offset = offset,
                                      .memory = local,
                                      .nbytes = part,
                                      .ended = file_io_ended},
                               .copy = made,
                               .local = local,
                               .nbytes = part};
        file_io_aim(io, is_direct);
        if (!file_io_align(io)) {
            return false;
        }
        offset += part;
        local += part;
        left -= part;
    }
    return true;
}

static void file_copy_free(struct file_copy *made)
{
    for (size_t i = 0; i < made->n_ios; i++) {
        free(made->ios[i].aligned);
    }
    if (made->room == 1) {
        nxr_spare_give(&file_copies, made);
    } else {
        free(made);
    }
}

/* A copy with room for n requests. */
static struct file_copy *file_copy_new(struct nxr_file *file, size_t n)
{
    struct file_copy *made;
    size_t nbytes = sizeof(*made) + n * sizeof(made->ios[0]);

    made = n == 1 ? nxr_spare_take(&file_copies, nbytes) : malloc(nbytes);
    if (made != NULL) {
        made->room = n;
        made->file = file;
        atomic_init(&made->left, (uint32_t)n);
        atomic_init(&made->status, NIXL_OK);
        made->n_ios = 0;
    }
    return made;
}

static struct file_copy *file_copy_cut(struct nxr_file *file, const struct nxr_device_copy *copy,
                                       bool is_put)
{
    struct file_copy *made = file_copy_new(file, file_count(file, copy, is_put));

    for (size_t i = 0; made != NULL && i < copy->n_pieces; i++) {
        if (!file_copy_fill(made, &copy->pieces[i], is_put, &made->n_ios)) {
            file_copy_free(made);
            return NULL;
        }
    }
    return made;
}

static struct file_copy *file_copy_sync(struct nxr_file *file)
{
    struct file_copy *made = file_copy_new(file, 1);

    if (made != NULL) {
        made->ios[0] = (struct file_io){.io = {.action = NXR_STORAGE_SYNC, .ended = file_io_ended},
                                        .copy = made};
        file_io_aim(&made->ios[0], false);
        made->n_ios = 1;
    }
    return made;
}

/* ---- the kind's functions -------------------------------------------------------------------- */

/*
 * May the file be changed there? A write beyond RLIMIT_FSIZE would raise SIGXFSZ in whatever thread
 * submits it.
 */
static int file_check_put(struct nxr_file *file, const struct nxr_device_copy *copy)
{
    struct rlimit limit;

    if (file->is_read_only) {
        nxr_file_fail(file, EBADF, "write to a file that is open for reading only", 0, 0);
        return NIXL_E_STORAGE;
    }
    if (file->is_block_device || getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= file->start + file->nbytes) {
        return NIXL_OK;
    }
    for (size_t i = 0; i < copy->n_pieces; i++) {
        const struct nxr_device_piece *piece = &copy->pieces[i];
        uint64_t offset = file->start + (uint64_t)((const char *)piece->dst - file->base);

        if (offset + piece->nbytes > limit.rlim_cur) {
            nxr_file_fail(file, EFBIG, "write", piece->nbytes, offset);
            return NIXL_E_STORAGE;
        }
    }
    return NIXL_OK;
}

/* All requests as one list. */
static void file_copy_submit(struct file_copy *made)
{
    for (size_t i = 0; i + 1 < made->n_ios; i++) {
        made->ios[i].io.next = &made->ios[i + 1].io;
    }
    made->ios[made->n_ios - 1].io.next = NULL;
    nxr_file_engine(NULL)->submit(&made->ios[0].io, nxr_device_gathers(&nxr_memory_file));
}

void nxr_file_copy_go(void)
{
    const struct nxr_storage_engine *engine = nxr_file_engine(NULL);

    if (engine != NULL) {
        engine->submit(NULL, false);
    }
}

int nxr_file_copy_start(struct nxr_device_copy *copy)
{
    bool is_put = copy->dst != NULL && copy->dst->kind->kind == NIXL_MEM_FILE;
    struct nxr_file *file = nxr_file_of(is_put ? copy->dst : copy->src);
    struct file_copy *made;
    int status;

    if ((copy->dst != NULL && copy->src != NULL) || copy->reduction != NULL ||
        copy->stream != NULL) {
        return NIXL_E_UNSUPPORTED; /* staging goes through host memory */
    }
    status = is_put && !copy->is_sync ? file_check_put(file, copy) : NIXL_OK;
    if (status != NIXL_OK) {
        return status;
    }
    made = copy->is_sync ? file_copy_sync(file) : file_copy_cut(file, copy, is_put);
    if (made == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    if (made->n_ios == 0) {
        file_copy_free(made);
        return NIXL_OK;
    }
    copy->state[0] = made;
    file_copy_submit(made);
    return NIXL_INPROGRESS;
}

void nxr_file_copy_poll(void)
{
    (void)nxr_file_engine(NULL)->poll();
}

bool nxr_file_copy_sleep(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns)
{
    const struct nxr_storage_engine *engine = nxr_file_engine(NULL);

    return engine != NULL && engine->sleep != NULL && engine->sleep(word, value, timeout_ns);
}

int nxr_file_copy_test(struct nxr_device_copy *copy)
{
    struct file_copy *made = copy->state[0];
    uint32_t left = atomic_load(&made->left);
    int status;

    if ((left & ~ARMED) != 0) {
        return NIXL_INPROGRESS;
    }
    if ((left & ARMED) != 0 && --n_armed_files == 0) {
        nxr_file_engine(NULL)->disarm();
    }
    status = atomic_load(&made->status);
    file_copy_free(made);
    return status;
}

void nxr_file_copy_arm(struct nxr_device_copy *copy)
{
    struct file_copy *made = copy->state[0];

    n_armed_files++;
    if ((atomic_fetch_or(&made->left, ARMED) & ~ARMED) == 0) {
        nxr_device_ended();
        return;
    }
    nxr_file_engine(NULL)->arm();
}
