/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between files and host memory: as many requests as storage/move.h cuts them into, and
 * their end. A copy is freed by nxr_file_copy_test(), once no request is left. Requests end in any
 * thread. Lock: that of file_copies, a leaf.
 */
#include "config.h"

#include "memory/file/file.h"
#include "memory/file/kind.h"
#include "util/spare.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#define ARMED (1u << 31) /* in file_copy.left: wake the library at the end */

struct file_copy {
    struct nxr_file *file;
    _Atomic uint32_t left; /* requests; and ARMED */
    _Atomic int status;    /* the first failure */
    size_t n_moves, room;
    struct nxr_storage_move moves[];
};

static struct nxr_spares file_copies; /* of one request */

/* ---- the end of a request -------------------------------------------------------------------- */

/* Bytes up to that place of the file have been put. */
static void file_note_end(struct nxr_file *file, uint64_t end)
{
    uint64_t written = atomic_load_explicit(&file->written, memory_order_relaxed);

    while (written < end && !atomic_compare_exchange_weak(&file->written, &written, end)) {
    }
}

static void file_move_ended(struct nxr_storage_move *move, int error)
{
    struct file_copy *copy = move->owner;
    const struct nxr_storage_io *io = &move->io;
    int none = NIXL_OK;

    if (error != 0) {
        nxr_file_fail(copy->file, error, nxr_storage_action_name(io->action), io->nbytes,
                      io->offset);
        atomic_compare_exchange_strong(&copy->status, &none, NIXL_E_STORAGE);
    } else if (io->action == NXR_STORAGE_WRITE) {
        file_note_end(copy->file, io->offset + io->nbytes);
    }
    /* With the last one, the copy may be freed. */
    if (atomic_fetch_sub(&copy->left, 1) == (ARMED | 1)) {
        nxr_device_ended();
    }
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* Where a piece lies in the file, and in memory. */
struct file_place {
    uint64_t offset;
    char *memory;
};

static struct file_place file_place_of(const struct nxr_file *file,
                                       const struct nxr_device_piece *piece, bool is_put)
{
    const char *there = is_put ? piece->dst : piece->src;

    return (struct file_place){file->start + (uint64_t)(there - file->base),
                               is_put ? (char *)(uintptr_t)piece->src : piece->dst};
}

static size_t file_count(const struct nxr_file *file, const struct nxr_device_copy *copy,
                         bool is_put)
{
    size_t n = 0;

    for (size_t i = 0; i < copy->n_pieces; i++) {
        n += nxr_storage_count(&file->opened, file_place_of(file, &copy->pieces[i], is_put).offset,
                               copy->pieces[i].nbytes);
    }
    return n;
}

static void file_copy_free(struct file_copy *made)
{
    nxr_storage_clear(made->moves, made->n_moves);
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
    size_t nbytes = sizeof(*made) + n * sizeof(made->moves[0]);

    made = n == 1 ? nxr_spare_take(&file_copies, nbytes) : malloc(nbytes);
    if (made != NULL) {
        made->room = n;
        made->file = file;
        atomic_init(&made->left, (uint32_t)n);
        atomic_init(&made->status, NIXL_OK);
        made->n_moves = 0;
    }
    return made;
}

static struct nxr_storage_moving file_moving(struct file_copy *made, bool is_put)
{
    return (struct nxr_storage_moving){&made->file->opened, is_put, made, file_move_ended};
}

static struct file_copy *file_copy_cut(struct nxr_file *file, const struct nxr_device_copy *copy,
                                       bool is_put)
{
    struct file_copy *made = file_copy_new(file, file_count(file, copy, is_put));

    for (size_t i = 0; made != NULL && i < copy->n_pieces; i++) {
        const struct nxr_storage_moving moving = file_moving(made, is_put);
        struct file_place place = file_place_of(file, &copy->pieces[i], is_put);

        if (!nxr_storage_cut(&moving, place.offset, place.memory, copy->pieces[i].nbytes,
                             made->moves, &made->n_moves)) {
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
        const struct nxr_storage_moving moving = file_moving(made, true);

        nxr_storage_cut_sync(&moving, &made->moves[0]);
        made->n_moves = 1;
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
    if (made->n_moves == 0) {
        file_copy_free(made);
        return NIXL_OK;
    }
    copy->state[0] = made;
    nxr_storage_begin(made->moves, made->n_moves, nxr_device_gathers(&nxr_memory_file));
    return NIXL_INPROGRESS;
}

int nxr_file_copy_test(struct nxr_device_copy *copy)
{
    struct file_copy *made = copy->state[0];
    uint32_t left = atomic_load(&made->left);
    int status;

    if ((left & ~ARMED) != 0) {
        return NIXL_INPROGRESS;
    }
    if ((left & ARMED) != 0) {
        nxr_file_engine_disarm();
    }
    status = atomic_load(&made->status);
    file_copy_free(made);
    return status;
}

void nxr_file_copy_arm(struct nxr_device_copy *copy)
{
    struct file_copy *made = copy->state[0];

    if ((atomic_fetch_or(&made->left, ARMED) & ~ARMED) == 0) {
        nxr_device_ended();
    }
    nxr_file_engine_arm();
}
