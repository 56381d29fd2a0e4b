/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an open file, moved by an engine: see move.h. */
#include "config.h"

#include "storage/move.h"
#include "util/copy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define IO_NBYTES ((uint64_t)1 << 20) /* of one request: long ones are served in parallel */

const char *nxr_storage_action_name(enum nxr_storage_action action)
{
    return action == NXR_STORAGE_READ    ? "read"
           : action == NXR_STORAGE_WRITE ? "write"
                                         : "fdatasync";
}

/* ---- the end of a request -------------------------------------------------------------------- */

static void move_aim(struct nxr_storage_move *move, bool is_direct)
{
    const struct nxr_storage_file *file = move->file;

    move->is_direct = is_direct;
    move->io.fd = is_direct ? file->direct_fd : file->fd;
    move->io.slot = is_direct ? file->direct_slot : file->slot;
}

static void move_again(struct nxr_storage_move *move)
{
    move->io.next = NULL;
    move->file->engine->submit(&move->io, false);
}

/* What went wrong, or 0: some bytes were moved, or it is to be tried again. */
static int move_error(const struct nxr_storage_move *move)
{
    int64_t result = move->io.result;

    if (result == -ECANCELED || result == -EAGAIN || result == -EINTR ||
        (result == -EINVAL && move->is_direct)) {
        return 0;
    }
    if (result == 0 && move->io.action != NXR_STORAGE_SYNC) {
        return move->io.action == NXR_STORAGE_READ ? ENODATA : EIO;
    }
    return result < 0 ? (int)-result : 0;
}

/* Is it not over yet? Then it is begun again, with what is left. */
static bool move_goes_on(struct nxr_storage_move *move)
{
    int64_t result = move->io.result;

    if (result < 0) {
        move_aim(move, move->is_direct && result != -EINVAL);
        move_again(move);
        return true;
    }
    if ((uint64_t)result >= move->io.nbytes) {
        return false;
    }
    move->io.offset += (uint64_t)result;
    move->io.memory = (char *)move->io.memory + result;
    move->io.nbytes -= (size_t)result;
    move_aim(move, move->is_direct && (uint64_t)result % move->file->block_nbytes == 0);
    move_again(move);
    return true;
}

static void move_ended(struct nxr_storage_io *ended)
{
    struct nxr_storage_move *move = (struct nxr_storage_move *)ended; /* its first member */
    int error = move_error(move);

    if (error == 0 && move_goes_on(move)) {
        return;
    }
    if (error == 0 && move->io.action == NXR_STORAGE_READ && move->aligned != NULL) {
        nxr_copy(move->local, move->aligned, move->nbytes);
    }
    move->ended(move, error);
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* The first part of these bytes that one request can move. */
static uint64_t cut_first(const struct nxr_storage_file *file, uint64_t offset, uint64_t nbytes,
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

size_t nxr_storage_count(const struct nxr_storage_file *file, uint64_t offset, uint64_t nbytes)
{
    size_t n = 0;
    bool is_direct;

    for (; nbytes > 0; n++) {
        uint64_t part = cut_first(file, offset, nbytes, &is_direct);

        offset += part;
        nbytes -= part;
    }
    return n;
}

/* Provide memory that direct I/O can take. */
static bool move_align(struct nxr_storage_move *move)
{
    void *aligned;

    if (!move->is_direct || (uintptr_t)move->local % NXR_STORAGE_MEMORY_NBYTES == 0) {
        return true;
    }
    if (posix_memalign(&aligned, NXR_STORAGE_BLOCK_NBYTES, move->nbytes) != 0) {
        return false;
    }
    move->aligned = aligned;
    move->io.memory = aligned;
    if (move->io.action == NXR_STORAGE_WRITE) {
        nxr_copy(aligned, move->local, move->nbytes);
    }
    return true;
}

bool nxr_storage_cut(const struct nxr_storage_moving *moving, uint64_t offset, char *memory,
                     uint64_t nbytes, struct nxr_storage_move *moves, size_t *n_p)
{
    while (nbytes > 0) {
        struct nxr_storage_move *move = &moves[(*n_p)++];
        bool is_direct;
        uint64_t part = cut_first(moving->file, offset, nbytes, &is_direct);

        /* Each by itself: to clear the struct first takes longer than all of this. */
        move->io.action = moving->is_write ? NXR_STORAGE_WRITE : NXR_STORAGE_READ;
        move->io.offset = offset;
        move->io.memory = memory;
        move->io.nbytes = part;
        move->io.result = 0;
        move->io.ended = move_ended;
        move->io.next = NULL;
        move->file = moving->file;
        move->owner = moving->owner;
        move->ended = moving->ended;
        move->local = memory;
        move->aligned = NULL;
        move->nbytes = part;
        move_aim(move, is_direct);
        if (!move_align(move)) {
            return false;
        }
        offset += part;
        memory += part;
        nbytes -= part;
    }
    return true;
}

void nxr_storage_cut_sync(const struct nxr_storage_moving *moving, struct nxr_storage_move *move)
{
    *move = (struct nxr_storage_move){.io = {.action = NXR_STORAGE_SYNC, .ended = move_ended},
                                      .file = moving->file,
                                      .owner = moving->owner,
                                      .ended = moving->ended};
    move_aim(move, false);
}

void nxr_storage_begin(struct nxr_storage_move *moves, size_t n, bool has_more)
{
    const struct nxr_storage_engine *engine = moves[0].file->engine;

    for (size_t i = 0; i + 1 < n; i++) {
        moves[i].io.next = &moves[i + 1].io;
    }
    moves[n - 1].io.next = NULL;
    engine->submit(&moves[0].io, has_more);
}

void nxr_storage_clear(struct nxr_storage_move *moves, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(moves[i].aligned);
    }
}

/* ---- waiting for them ------------------------------------------------------------------------ */

struct run {
    pthread_mutex_t lock; /* a leaf */
    pthread_cond_t has_ended;
    size_t left;
    int error; /* the first */
};

static void run_ended(struct nxr_storage_move *move, int error)
{
    struct run *run = move->owner;

    pthread_mutex_lock(&run->lock);
    run->error = run->error != 0 ? run->error : error;
    if (--run->left == 0) {
        pthread_cond_signal(&run->has_ended);
    }
    pthread_mutex_unlock(&run->lock);
}

static void run_wait(struct run *run)
{
    pthread_mutex_lock(&run->lock);
    while (run->left > 0) {
        pthread_cond_wait(&run->has_ended, &run->lock);
    }
    pthread_mutex_unlock(&run->lock);
}

int nxr_storage_run(const struct nxr_storage_file *file, bool is_write, uint64_t offset,
                    char *memory, uint64_t nbytes)
{
    struct run run = {.lock = PTHREAD_MUTEX_INITIALIZER,
                      .has_ended = PTHREAD_COND_INITIALIZER,
                      .left = nxr_storage_count(file, offset, nbytes)};
    const struct nxr_storage_moving moving = {file, is_write, &run, run_ended};
    struct nxr_storage_move *moves;
    size_t n = 0;

    if (nbytes == 0) {
        return 0;
    }
    moves = malloc(run.left * sizeof(moves[0]));
    if (moves == NULL || !nxr_storage_cut(&moving, offset, memory, nbytes, moves, &n)) {
        run.error = ENOMEM;
    } else {
        nxr_storage_begin(moves, n, false);
        run_wait(&run);
    }
    if (moves != NULL) {
        nxr_storage_clear(moves, n);
    }
    free(moves);
    pthread_cond_destroy(&run.has_ended);
    pthread_mutex_destroy(&run.lock);
    return run.error;
}
