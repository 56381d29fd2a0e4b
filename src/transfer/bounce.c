/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The initiator's side of bounce buffers: operations in the order of their start, cut into chunks.
 * Lock: bounce_lock guards the buffers and their operations; it is taken inside job.lock if both
 * are needed, and released before an operation is reported as done. Copies run under it: the
 * buffer has one user at a time anyway.
 */
#include "config.h"

#include "transfer/bounce.h"
#include "core/subsystem.h"
#include "transfer/bounce_buffer.h"
#include "host/conn.h"
#include "core/op_list.h"
#include "core/progress.h"
#include "transports/transport.h"
#include "util/clock.h"
#include "util/copy.h"
#include "util/env.h"
#include "util/log.h"
#include "util/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DRIVE_EVERY_NS (1 * NXR_MS) /* how often the service thread drives operations */

/* The buffer to one owner. */
struct bounce {
    struct nxr_list link;
    struct nxr_peer *peer;
    struct nxr_bounce_buffer *buffer;
    size_t mapped_nbytes;
    uint64_t chunk_nbytes;
    struct nxr_op_list ops; /* not complete yet */
    unsigned next_post;     /* chunk to post next */
    unsigned next_take;     /* chunk whose outcome is next; all between are under way */
    unsigned n_posted;
    struct {
        struct nxr_op *op; /* NULL: revoked */
        uint64_t local_offset;
        uint64_t nbytes;
    } posted[NXR_BOUNCE_CHUNKS];
};

static pthread_mutex_t bounce_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list bounces = {&bounces, &bounces}; /* bounce_lock */
static _Atomic uint32_t bounce_n_ops;

/* ---- buffers --------------------------------------------------------------------------------- */

/* Create a buffer and offer it to the owner. Caller holds job.lock and bounce_lock. */
static struct bounce *bounce_new(struct nxr_peer *peer)
{
    struct bounce *bounce = calloc(1, sizeof(*bounce));
    union nxr_wire_message message;
    uint64_t chunk_nbytes = nxr_env.bounce_bytes / NXR_BOUNCE_CHUNKS / 4096 * 4096;
    size_t nbytes;
    void *addr;
    int fd;

    chunk_nbytes = chunk_nbytes > 0 ? chunk_nbytes : 4096;
    nbytes = NXR_BOUNCE_HEAD_NBYTES + NXR_BOUNCE_CHUNKS * chunk_nbytes;
    fd = memfd_create("nixlrun-bounce", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (bounce == NULL || fd < 0 || ftruncate(fd, (off_t)nbytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        goto err_free;
    }
    addr = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (addr == MAP_FAILED) {
        goto err_free;
    }
    bounce->peer = peer;
    bounce->buffer = addr;
    bounce->mapped_nbytes = nbytes;
    bounce->chunk_nbytes = chunk_nbytes;
    atomic_store(&bounce->buffer->owner_sleeps, 1);
    nxr_wire_init(&message, NXR_WIRE_BOUNCE);
    message.bounce.nbytes = nbytes;
    nxr_conn_send(peer, &message, &fd, 1);
    close(fd);
    nxr_list_append(&bounces, &bounce->link);
    return bounce;

err_free:
    nxr_error(HOST, "cannot create a bounce buffer of %zu bytes: %m", nbytes);
    if (fd >= 0) {
        close(fd);
    }
    free(bounce);
    return NULL;
}

static struct bounce *find_bounce(const struct nxr_peer *peer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &bounces) {
        struct bounce *bounce = nxr_list_entry(link, struct bounce, link);

        if (bounce->peer == peer) {
            return bounce;
        }
    }
    return NULL;
}

/* ---- operations: all under bounce_lock ------------------------------------------------------- */

/* Bytes of the operation in posted chunks; those that have moved are in nbytes_done. */
static uint64_t nbytes_under_way(const struct bounce *bounce, const struct nxr_op *op)
{
    uint64_t nbytes = 0;

    for (unsigned i = 0; i < NXR_BOUNCE_CHUNKS; i++) {
        nbytes += bounce->posted[i].op == op ? bounce->posted[i].nbytes : 0;
    }
    return nbytes;
}

static void remove_op(struct bounce *bounce, struct nxr_op *op)
{
    nxr_op_list_remove(&bounce->ops, op);
    atomic_fetch_sub(&bounce_n_ops, 1);
}

/* The first operation that has bytes left to post. */
static struct nxr_op *op_to_post(struct bounce *bounce)
{
    for (struct nxr_op *op = bounce->ops.first; op != NULL; op = op->next) {
        if (!op->is_cancelled && op->nbytes_done + nbytes_under_way(bounce, op) < op->nbytes) {
            return op;
        }
    }
    return NULL;
}

/* Post one chunk; false if there is nothing to post or no chunk is free. */
static bool post_chunk(struct bounce *bounce)
{
    unsigned index = bounce->next_post;
    struct nxr_bounce_chunk *chunk = &bounce->buffer->chunks[index];
    struct nxr_op *op = bounce->n_posted < NXR_BOUNCE_CHUNKS ? op_to_post(bounce) : NULL;
    uint64_t at, nbytes;

    if (op == NULL) {
        return false;
    }
    at = op->nbytes_done + nbytes_under_way(bounce, op);
    nbytes = op->nbytes - at < bounce->chunk_nbytes ? op->nbytes - at : bounce->chunk_nbytes;
    chunk->is_put = op->kind == NXR_OP_PUT;
    chunk->id = op->segment->id;
    chunk->generation = op->segment->key.generation;
    chunk->offset = op->offset + at;
    chunk->nbytes = nbytes;
    if (op->kind == NXR_OP_PUT) {
        nxr_copy(nxr_bounce_data(bounce->buffer, index, bounce->chunk_nbytes),
                 (char *)op->local + at, nbytes);
    }
    bounce->posted[index].op = op;
    bounce->posted[index].local_offset = at;
    bounce->posted[index].nbytes = nbytes;
    bounce->next_post = (index + 1) % NXR_BOUNCE_CHUNKS;
    bounce->n_posted++;
    atomic_store_explicit(&chunk->state, NXR_BOUNCE_POSTED, memory_order_release);
    return true;
}

/*
 * Take the outcome of the oldest chunk. False: there is none yet. *op_p is an operation that has
 * ended with *status_p, or NULL.
 */
static bool take_chunk(struct bounce *bounce, struct nxr_op **op_p, int *status_p)
{
    unsigned index = bounce->next_take;
    struct nxr_bounce_chunk *chunk = &bounce->buffer->chunks[index];
    struct nxr_op *op = bounce->posted[index].op;

    *op_p = NULL;
    if (bounce->n_posted == 0 ||
        atomic_load_explicit(&chunk->state, memory_order_acquire) != NXR_BOUNCE_DONE) {
        return false;
    }
    *status_p = chunk->status;
    if (op != NULL && *status_p == NIXL_OK) {
        if (op->kind == NXR_OP_GET) {
            nxr_copy((char *)op->local + bounce->posted[index].local_offset,
                     nxr_bounce_data(bounce->buffer, index, bounce->chunk_nbytes),
                     bounce->posted[index].nbytes);
        }
        op->nbytes_done += bounce->posted[index].nbytes;
    } else if (op != NULL) {
        op->failure = *status_p;
        op->is_cancelled = true; /* post no more chunks of it */
    }
    bounce->posted[index].op = NULL;
    bounce->posted[index].nbytes = 0;
    atomic_store_explicit(&chunk->state, NXR_BOUNCE_FREE, memory_order_relaxed);
    bounce->next_take = (index + 1) % NXR_BOUNCE_CHUNKS;
    bounce->n_posted--;
    if (op != NULL && nbytes_under_way(bounce, op) == 0 &&
        (op->is_cancelled || op->nbytes_done == op->nbytes)) {
        remove_op(bounce, op);
        *op_p = op;
        *status_p = op->nbytes_done == op->nbytes ? NIXL_OK
                    : op->failure != NIXL_OK      ? op->failure
                                                  : NIXL_ERR_CANCELED;
    }
    return true;
}

/* If the owner is dead, remove one operation and return it; else NULL. */
static struct nxr_op *take_lost(struct bounce *bounce)
{
    struct nxr_op *op = bounce->ops.first;

    if (op == NULL || !nxr_peer_is_lost(bounce->peer)) {
        return NULL;
    }
    for (unsigned i = 0; i < NXR_BOUNCE_CHUNKS; i++) {
        bounce->posted[i].op = bounce->posted[i].op == op ? NULL : bounce->posted[i].op;
    }
    remove_op(bounce, op);
    return op;
}

/* Does the owner need a message that there is work? */
static bool must_tell(struct bounce *bounce)
{
    nxr_fence_full();
    return bounce->n_posted > 0 &&
           atomic_exchange_explicit(&bounce->buffer->owner_sleeps, 0, memory_order_acq_rel) != 0;
}

static void tell_owner(struct nxr_peer *peer)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_WORK);
    pthread_mutex_lock(&nxr_job.lock);
    nxr_conn_send(peer, &message, NULL, 0);
    pthread_mutex_unlock(&nxr_job.lock);
}

/*
 * One round over a buffer: take outcomes and post chunks until an operation ends. Returns that
 * operation, or NULL, and counts the steps in *n_moved_p. Caller holds bounce_lock.
 */
static struct nxr_op *bounce_drive(struct bounce *bounce, int *status_p, int *n_moved_p)
{
    struct nxr_op *op = take_lost(bounce);

    if (op != NULL) {
        *status_p = NIXL_ERR_PEER_LOST;
        return op;
    }
    do {
        while (take_chunk(bounce, &op, status_p)) {
            ++*n_moved_p;
            if (op != NULL) {
                return op;
            }
        }
    } while (post_chunk(bounce) && ++*n_moved_p > 0);
    return NULL;
}

int nxr_host_bounce_progress(void)
{
    struct nxr_list *link, *after;
    int n_moved = 0;

    if (atomic_load_explicit(&bounce_n_ops, memory_order_relaxed) == 0 ||
        pthread_mutex_trylock(&bounce_lock) != 0) {
        return 0;
    }
    nxr_list_for_each (link, after, &bounces) {
        struct bounce *bounce = nxr_list_entry(link, struct bounce, link);
        struct nxr_op *op;
        int status;

        do {
            bool tell;

            op = bounce_drive(bounce, &status, &n_moved);
            tell = must_tell(bounce);
            pthread_mutex_unlock(&bounce_lock);
            if (tell) {
                tell_owner(bounce->peer);
            }
            if (op != NULL) {
                nxr_op_done(op, status);
            }
            pthread_mutex_lock(&bounce_lock);
        } while (op != NULL);
    }
    pthread_mutex_unlock(&bounce_lock);
    return n_moved;
}

int nxr_host_bounce_start(struct nxr_op *op)
{
    struct bounce *bounce;

    pthread_mutex_lock(&nxr_job.lock);
    pthread_mutex_lock(&bounce_lock);
    bounce = find_bounce(op->segment->peer);
    if (bounce == NULL) {
        bounce = bounce_new(op->segment->peer);
    }
    if (bounce != NULL) {
        nxr_op_list_append(&bounce->ops, op);
        atomic_fetch_add(&bounce_n_ops, 1);
    }
    pthread_mutex_unlock(&bounce_lock);
    pthread_mutex_unlock(&nxr_job.lock);
    return bounce != NULL ? NIXL_INPROGRESS : NIXL_ERR_NO_MEMORY;
}

int nxr_host_bounce_cancel(struct nxr_op *op)
{
    struct bounce *bounce;
    bool is_idle = false;

    pthread_mutex_lock(&bounce_lock);
    bounce = find_bounce(op->segment->peer);
    if (bounce != NULL && nxr_op_list_has(&bounce->ops, op) && !op->is_cancelled) {
        op->is_cancelled = true;
        for (unsigned i = 0; i < NXR_BOUNCE_CHUNKS; i++) {
            uint32_t state = NXR_BOUNCE_POSTED;

            if (bounce->posted[i].op == op &&
                atomic_compare_exchange_strong(&bounce->buffer->chunks[i].state, &state,
                                               NXR_BOUNCE_REVOKED)) {
                bounce->posted[i].op = NULL;
            }
        }
        is_idle = nbytes_under_way(bounce, op) == 0;
        if (is_idle) {
            remove_op(bounce, op);
        }
    }
    pthread_mutex_unlock(&bounce_lock);
    if (is_idle) {
        nxr_op_done(op, NIXL_ERR_CANCELED);
    }
    return is_idle ? NIXL_OK : NIXL_INPROGRESS;
}

int64_t nxr_bounce_tick(int64_t now)
{
    if (nxr_bounce_is_hot()) {
        return now;
    }
    return atomic_load(&bounce_n_ops) == 0 ? INT64_MAX : now + DRIVE_EVERY_NS;
}

void nxr_bounce_stop(void)
{
    struct nxr_list *link;

    pthread_mutex_lock(&bounce_lock);
    while ((link = nxr_list_pop(&bounces)) != NULL) {
        struct bounce *bounce = nxr_list_entry(link, struct bounce, link);

        munmap(bounce->buffer, bounce->mapped_nbytes);
        free(bounce);
    }
    atomic_store(&bounce_n_ops, 0);
    pthread_mutex_unlock(&bounce_lock);
    nxr_bounce_serve_stop();
}

const struct nxr_subsystem nxr_bounce_subsystem = {
    .name = "bounce",
    .register_handlers = nxr_bounce_register,
    .tick = nxr_bounce_tick,
    .serve = nxr_bounce_serve,
    .halt = nxr_bounce_serve_end,
    .close = nxr_bounce_stop,
};
