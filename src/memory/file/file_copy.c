/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between files and host memory, and by cuFile those between files and memory of GPUs: as
 * many requests as storage/move.h cuts them into, and their end. Behind the last one of a durable
 * put its fdatasync is begun at once, by the thread that sees this end. A copy is freed by
 * nxr_file_copy_test(), once no request is left. Requests end in any thread. Lock: that of
 * file_copies, a leaf.
 */
#include "config.h"

#include "core/wait.h"
#include "memory/file/file.h"
#include "memory/file/file_gpu.h"
#include "memory/file/kind.h"
#include "storage/cufile/cufile.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#define ARMED (1u << 31) /* in file_copy.left: wake the library at the end */

struct file_copy {
    struct nxr_file *file;
    struct nxr_file_choice
        *choice;           /* of a GPU's, by cuFile; NULL: by the engine, with host memory */
    uint64_t nbytes;       /* of a GPU's */
    _Atomic uint32_t left; /* requests; and ARMED */
    _Atomic int status;    /* the first failure */
    bool is_durable;       /* a fdatasync follows the others: it is in moves[n_moves] */
    bool has_synced;       /* ... it was begun */
    size_t n_moves;
    bool is_in_room; /* of the copy, as one with a single request */
    struct nxr_storage_move moves[];
};
_Static_assert(sizeof(struct file_copy) + sizeof(struct nxr_storage_move) <= NXR_COPY_ROOM_NBYTES,
               "room for a single request");

/* ---- the end of a request -------------------------------------------------------------------- */

/* Bytes up to that place of the file have been put. */
static void file_note_end(struct nxr_file *file, uint64_t end)
{
    uint64_t written = atomic_load_explicit(&file->written, memory_order_relaxed);

    while (written < end && !atomic_compare_exchange_weak(&file->written, &written, end)) {
    }
}

static void file_move_ended(struct nxr_storage_move *move, int error);

/*
 * The kernel tells of bytes that it could not write once, and takes them for written then: a later
 * fdatasync, of whoever asks next, would succeed without them. So the first failure stays.
 */
static void file_note_unsynced(struct nxr_file *file, int error)
{
    int none = 0;

    if (error != ECANCELED && error != EINTR && error != EAGAIN && error != ENOMEM) {
        atomic_compare_exchange_strong(&file->sync_error, &none, error);
    }
}

/* May a fdatasync say that all bytes are on the medium? */
static int file_check_sync(struct nxr_file *file)
{
    int error = atomic_load(&file->sync_error);

    if (error == 0) {
        return NIXL_OK;
    }
    nxr_file_fail(file, error, "an earlier fdatasync", 0, 0);
    return NIXL_E_STORAGE;
}

/* All bytes of a durable put are in the file. */
static void file_copy_then_sync(struct file_copy *copy)
{
    const struct nxr_storage_moving moving = {&copy->file->opened, true, copy, file_move_ended};
    struct nxr_storage_move *move = &copy->moves[copy->n_moves];

    copy->has_synced = true;
    nxr_storage_cut_sync(&moving, move);
    nxr_storage_begin(move, 1, false);
}

static void file_move_ended(struct nxr_storage_move *move, int error)
{
    struct file_copy *copy = move->owner;
    const struct nxr_storage_io *io = &move->io;
    bool must_wake = copy->choice != NULL; /* no engine does, in which a thread may sleep */
    bool is_durable = copy->is_durable;    /* then it is not freed before its fdatasync has ended */
    int none = NIXL_OK;
    uint32_t left;

    if (error != 0) {
        nxr_file_fail(copy->file, error, nxr_storage_action_name(io->action), io->nbytes,
                      io->offset);
        atomic_compare_exchange_strong(&copy->status, &none, NIXL_E_STORAGE);
        if (io->action == NXR_STORAGE_SYNC) {
            file_note_unsynced(copy->file, error);
        }
    } else if (io->action == NXR_STORAGE_WRITE) {
        file_note_end(copy->file, io->offset + io->nbytes);
    }
    /* With the last one, the copy may be freed. */
    left = atomic_fetch_sub(&copy->left, 1);
    if ((left & ~ARMED) == 2 && is_durable) {
        if (atomic_load(&copy->status) == NIXL_OK) {
            file_copy_then_sync(copy);
            return;
        }
        left = atomic_fetch_sub(&copy->left, 1);
    }
    if (left == (ARMED | 1)) {
        nxr_device_ended();
    } else if (left == 1) {
        nxr_device_tell_end();
        if (must_wake) {
            nxr_wake_self();
        }
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

static size_t file_count(const struct nxr_file *file, const struct nxr_storage_file *opened,
                         const struct nxr_device_copy *copy, bool is_put)
{
    size_t n = 0;

    for (size_t i = 0; i < copy->n_pieces; i++) {
        n += nxr_storage_count(opened, file_place_of(file, &copy->pieces[i], is_put).offset,
                               copy->pieces[i].nbytes);
    }
    return n;
}

static void file_copy_free(struct file_copy *made)
{
    nxr_storage_clear(made->moves, made->n_moves);
    if (!made->is_in_room) {
        free(made);
    }
}

/* A copy of n requests, and of one more if it is durable. */
static struct file_copy *file_copy_new(struct nxr_file *file, struct nxr_device_copy *copy,
                                       size_t n, bool is_durable)
{
    struct file_copy *made;

    n += is_durable;
    made = n == 1 ? (struct file_copy *)copy->room
                  : malloc(sizeof(*made) + n * sizeof(made->moves[0]));
    if (made != NULL) {
        made->is_in_room = n == 1;
        made->file = file;
        made->choice = NULL;
        made->is_durable = is_durable;
        made->has_synced = false;
        atomic_init(&made->left, (uint32_t)n);
        atomic_init(&made->status, NIXL_OK);
        made->n_moves = 0;
    }
    return made;
}

static struct nxr_storage_moving file_moving(struct file_copy *made, bool is_put)
{
    const struct nxr_file *file = made->file;

    return (struct nxr_storage_moving){made->choice != NULL ? &file->by_cufile : &file->opened,
                                       is_put, made, file_move_ended};
}

static struct file_copy *file_copy_cut(struct nxr_file *file, struct nxr_file_choice *choice,
                                       struct nxr_device_copy *copy, bool is_put)
{
    const struct nxr_storage_file *opened = choice != NULL ? &file->by_cufile : &file->opened;
    struct file_copy *made = file_copy_new(file, copy, file_count(file, opened, copy, is_put),
                                           copy->is_durable && is_put && choice == NULL);

    if (made != NULL) {
        made->choice = choice;
    }
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

static struct file_copy *file_copy_sync(struct nxr_file *file, struct nxr_device_copy *copy)
{
    struct file_copy *made = file_copy_new(file, copy, 1, false);

    if (made != NULL) {
        const struct nxr_storage_moving moving = file_moving(made, true);

        nxr_storage_cut_sync(&moving, &made->moves[0]);
        made->n_moves = 1;
    }
    return made;
}

/* ---- limits ---------------------------------------------------------------------------------- */

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

/* ---- memory of GPUs -------------------------------------------------------------------------- */

/* Does it consist of whole blocks? */
static bool copy_is_of_blocks(const struct nxr_file *file, const struct nxr_device_copy *copy,
                              bool is_put)
{
    for (size_t i = 0; i < copy->n_pieces; i++) {
        const struct nxr_device_piece *piece = &copy->pieces[i];
        const char *there = is_put ? piece->dst : piece->src;

        if ((file->start + (uint64_t)(there - file->base)) % file->opened.block_nbytes != 0 ||
            piece->nbytes % file->opened.block_nbytes != 0) {
            return false;
        }
    }
    return true;
}

/* Begin a copy by cuFile. NIXL_E_UNSUPPORTED: it goes through host memory, by staging. */
static int gpu_copy_start(struct nxr_device_copy *copy, bool is_put)
{
    const struct nxr_range *range = is_put ? copy->dst : copy->src;
    struct nxr_file *file = nxr_file_of(range);
    struct nxr_memory_between between = {.storage = range,
                                         .device = is_put ? copy->src : copy->dst,
                                         .memory =
                                             is_put ? copy->pieces[0].src : copy->pieces[0].dst,
                                         .is_put = is_put};
    struct nxr_file_choice *choice;
    struct file_copy *made;
    char why[1];

    for (size_t i = 0; i < copy->n_pieces; i++) {
        between.nbytes += copy->pieces[i].nbytes;
    }
    choice = nxr_file_choice_of(&between, why, sizeof(why));
    if (choice == NULL || !copy_is_of_blocks(file, copy, is_put) ||
        (is_put && file_check_put(file, copy) != NIXL_OK) || !nxr_file_choice_take(choice)) {
        return NIXL_E_UNSUPPORTED;
    }
    made = file_copy_cut(file, choice, copy, is_put);
    if (made == NULL) {
        nxr_file_choice_end(choice, NXR_FILE_BY_CUFILE, 0);
        return NIXL_E_NO_MEMORY;
    }
    made->nbytes = between.nbytes;
    copy->by = NXR_METHOD_CUFILE;
    copy->state[0] = made;
    nxr_storage_begin(made->moves, made->n_moves, false);
    return NIXL_INPROGRESS;
}

/* The last request of a copy by cuFile has ended. */
static void gpu_copy_end(const struct file_copy *made, int status)
{
    char why[sizeof(made->file->cufile_why)];

    nxr_file_choice_end(made->choice, NXR_FILE_BY_CUFILE, status == NIXL_OK ? made->nbytes : 0);
    if (nxr_cufile_has_failed(atomic_load(&made->file->cufile_slot), why, sizeof(why))) {
        nxr_file_choice_refuse(made->choice, why);
    }
}

/* ---- the kind's functions -------------------------------------------------------------------- */

int nxr_file_copy_start(struct nxr_device_copy *copy)
{
    bool is_put = copy->dst != NULL && copy->dst->kind->kind == NIXL_MEM_FILE;
    struct nxr_file *file = nxr_file_of(is_put ? copy->dst : copy->src);
    struct file_copy *made;
    int status;

    if (copy->reduction != NULL || copy->stream != NULL) {
        return NIXL_E_UNSUPPORTED; /* staging waits for the stream */
    }
    if (copy->dst != NULL && copy->src != NULL) {
        return gpu_copy_start(copy, is_put);
    }
    status = copy->is_sync || (is_put && copy->is_durable) ? file_check_sync(file) : NIXL_OK;
    if (status == NIXL_OK && is_put && !copy->is_sync) {
        status = file_check_put(file, copy);
    }
    if (status != NIXL_OK) {
        return status;
    }
    made = copy->is_sync ? file_copy_sync(file, copy) : file_copy_cut(file, NULL, copy, is_put);
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
    copy->has_synced = made->has_synced;
    if (made->choice != NULL) {
        gpu_copy_end(made, status);
    }
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
