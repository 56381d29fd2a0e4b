/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of pipelines whose slots are chunks of a bounce buffer: the owner copies between them and
 * its registered memory. Everything here is the driver's; job.lock is taken to send messages.
 */
#include "config.h"

#include "transfer/staging_pipeline.h"
#include "transfer/staging_buffer.h"
#include "host/conn.h"
#include "memory/memory.h"
#include "util/env.h"
#include "util/file_limit.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Chunks for storage are larger: each of them is a request to a device, which takes longer than a
 * copy.
 */
#define STORAGE_FACTOR 8

static struct nxr_bounce_buffer *buffer_of(const struct pipeline *pipeline)
{
    return (struct nxr_bounce_buffer *)pipeline->memory.addr;
}

static struct nxr_bounce_chunk *chunk_of(const struct staging_slot *slot)
{
    return &buffer_of(slot->pipeline)->chunks[staging_index(slot)];
}

/* Create a buffer of that many bytes, about, and offer it to the owner. */
static int buffer_make(struct pipeline *pipeline, size_t wanted_nbytes)
{
    unsigned n_chunks = pipeline->end->n_slots;
    size_t chunk_nbytes = wanted_nbytes / n_chunks / 4096 * 4096;
    union nxr_wire_message message;
    void *addr = MAP_FAILED;
    size_t nbytes;
    int fd, status;

    chunk_nbytes = chunk_nbytes > 0 ? chunk_nbytes : 4096;
    nbytes = NXR_BOUNCE_HEAD_NBYTES + n_chunks * chunk_nbytes;
    fd = memfd_create("nixlrun-bounce", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && nxr_file_resize(fd, nbytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
        addr = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    }
    if (addr == MAP_FAILED) {
        nxr_error(HOST, "cannot create a bounce buffer of %zu bytes: %m%s", nbytes,
                  nxr_file_limit_note(errno));
        if (fd >= 0) {
            close(fd);
        }
        return NIXL_E_NO_MEMORY;
    }
    nxr_staging_adopt(&pipeline->memory, addr, nbytes, NXR_BOUNCE_HEAD_NBYTES, chunk_nbytes);
    pipeline->piece_nbytes = chunk_nbytes;
    atomic_store(&buffer_of(pipeline)->owner_sleeps, 1);
    nxr_wire_init(&message, NXR_WIRE_BOUNCE);
    message.bounce.nbytes = nbytes;
    message.bounce.n_chunks = n_chunks;
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_conn_send_fd(pipeline->peer, &message, fd);
    pthread_mutex_unlock(&nxr_job.lock);
    if (status != NIXL_OK) {
        nxr_staging_unmap(&pipeline->memory);
    }
    return status;
}

static int buffer_open(struct pipeline *pipeline)
{
    return buffer_make(pipeline, nxr_env.bounce_bytes);
}

static int buffer_open_for_storage(struct pipeline *pipeline)
{
    return buffer_make(pipeline, nxr_env.bounce_bytes * STORAGE_FACTOR);
}

static bool buffer_is_refused(struct pipeline *pipeline)
{
    return atomic_load_explicit(&buffer_of(pipeline)->is_refused, memory_order_acquire) != 0;
}

/* The owner had no room for the buffer: offer another one, once nothing is in this one. */
static int buffer_replace(struct pipeline *pipeline)
{
    for (unsigned i = 0; i < pipeline->end->n_slots; i++) {
        if (pipeline->slots[i].job != NULL) {
            return NIXL_INPROGRESS;
        }
    }
    nxr_staging_unmap(&pipeline->memory);
    return pipeline->end->open(pipeline);
}

static int buffer_aim(struct staging_slot *slot, const struct nxr_op *op, size_t nbytes)
{
    (void)op;
    (void)nbytes;
    slot->is_asked_for = true;
    return buffer_is_refused(slot->pipeline) ? buffer_replace(slot->pipeline) : NIXL_OK;
}

static int buffer_ask(struct staging_slot *slot)
{
    struct nxr_bounce_chunk *chunk = chunk_of(slot);
    const struct nxr_op *op = slot->job->op;

    if (nxr_peer_is_lost(slot->pipeline->peer)) {
        return NIXL_E_PEER_LOST;
    }
    chunk->is_put = op->kind == NXR_OP_PUT;
    chunk->id = op->segment->id;
    chunk->generation = op->segment->key.generation;
    chunk->offset = slot->offset;
    chunk->nbytes = slot->nbytes;
    atomic_store_explicit(&chunk->must_stop, 0, memory_order_relaxed);
    slot->pipeline->has_asked = true;
    atomic_store_explicit(&chunk->state, NXR_BOUNCE_POSTED, memory_order_release);
    return NIXL_INPROGRESS;
}

static int buffer_look(struct staging_slot *slot)
{
    struct nxr_bounce_chunk *chunk = chunk_of(slot);
    int status;

    if (buffer_is_refused(slot->pipeline)) {
        slot->is_taken_back = true;
        return NIXL_E_NO_MEMORY;
    }
    if (atomic_load_explicit(&chunk->state, memory_order_acquire) != NXR_BOUNCE_DONE) {
        return NIXL_INPROGRESS;
    }
    status = chunk->status;
    atomic_store_explicit(&chunk->state, NXR_BOUNCE_FREE, memory_order_relaxed);
    return status <= NIXL_OK ? status : NIXL_E_TRANSPORT;
}

static bool buffer_take_back(struct staging_slot *slot, bool is_gone)
{
    struct nxr_bounce_chunk *chunk = chunk_of(slot);
    uint32_t state = NXR_BOUNCE_POSTED;

    if (atomic_compare_exchange_strong(&chunk->state, &state, NXR_BOUNCE_FREE) || is_gone) {
        return true;
    }
    if (state == NXR_BOUNCE_SERVING && atomic_exchange(&chunk->must_stop, 1) == 0) {
        slot->pipeline->has_asked = true; /* once: the owner ends it early, if it can */
    }
    return false;
}

/* Tell the owner that there is work, if it sleeps. */
static void buffer_tell_owner(struct pipeline *pipeline)
{
    union nxr_wire_message message;

    if (!pipeline->has_asked) {
        return;
    }
    pipeline->has_asked = false;
    nxr_fence_full();
    if (atomic_exchange_explicit(&buffer_of(pipeline)->owner_sleeps, 0, memory_order_acq_rel) !=
        0) {
        nxr_wire_init(&message, NXR_WIRE_WORK);
        pthread_mutex_lock(&nxr_job.lock);
        nxr_conn_send(pipeline->peer, &message);
        pthread_mutex_unlock(&nxr_job.lock);
    }
}

const struct staging_end nxr_staging_shared = {
    .is_polled = true,
    .takes_host = true,
    .n_slots = NXR_BOUNCE_MEMORY_CHUNKS,
    .open = buffer_open,
    .aim = buffer_aim,
    .ask = buffer_ask,
    .look = buffer_look,
    .take_back = buffer_take_back,
    .round_ended = buffer_tell_owner,
};

const struct staging_end nxr_staging_storage = {
    .is_polled = true,
    .takes_host = true,
    .n_slots = NXR_BOUNCE_STORAGE_CHUNKS,
    .open = buffer_open_for_storage,
    .aim = buffer_aim,
    .ask = buffer_ask,
    .look = buffer_look,
    .take_back = buffer_take_back,
    .round_ended = buffer_tell_owner,
};
