/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of staged operations: their memory, their steps, and how they end. Only the thread that
 * drives the lane calls this, except that steps end in any thread. Lock: lane.lock, for the status
 * of operations.
 */
#include "config.h"

#include "transfer/stage_lane.h"
#include "core/service.h"
#include "memory/memory.h"
#include "transfer/window.h"
#include "core/progress.h"
#include "util/log.h"

#include <sys/mman.h>

/* ---- memory ---------------------------------------------------------------------------------- */

/* Provide chunks for copies from and to this kind of device memory. NIXL_OK, NIXL_ERR_NO_MEMORY. */
static int need_memory(struct stage_lane *lane, const struct nxr_range *range)
{
    size_t nbytes = NXR_STAGE_PIECES * NXR_STAGE_NBYTES;
    unsigned bit = 1u << nxr_range_kind(range);

    if (lane->memory == NULL) {
        void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        if (memory == MAP_FAILED) {
            nxr_error(CORE, "cannot map %zu bytes for staging: %m", nbytes);
            return NIXL_ERR_NO_MEMORY;
        }
        lane->memory = memory;
        for (unsigned i = 0; i < NXR_STAGE_PIECES; i++) {
            lane->chunks[i].memory = lane->memory + i * NXR_STAGE_NBYTES;
        }
    }
    if ((lane->pinned_kinds & bit) == 0) {
        lane->pinned_kinds |= bit;
        range->kind->pin(lane->memory, nbytes); /* if that fails, copies are slower */
    }
    return NIXL_OK;
}

/*
 * Find the owner's window for this rank. NIXL_OK: it can be used; NIXL_INPROGRESS: the owner was
 * asked for it. Other: failed.
 */
static int need_window(struct stage_lane *lane)
{
    char name[NIXL_NAME_MAX + 1];
    int status = NIXL_OK;

    if (lane->window == NULL) {
        nxr_window_name(nxr_job.rank, name, sizeof(name));
        pthread_mutex_lock(&nxr_job.lock);
        lane->window_region = nxr_region_open(name);
        status = lane->window_region == NULL
                     ? NIXL_ERR_NO_MEMORY
                     : nxr_region_want_segment(lane->window_region, lane->peer->rank, false,
                                               &lane->window);
        pthread_mutex_unlock(&nxr_job.lock);
        nxr_service_kick();
    }
    if (status != NIXL_OK) {
        return status;
    }
    switch (atomic_load_explicit(&lane->window->state, memory_order_acquire)) {
    case NXR_SEGMENT_READY:
        return NIXL_OK;
    case NXR_SEGMENT_ASKING:
        return NIXL_INPROGRESS;
    case NXR_SEGMENT_FAILED:
        return lane->window->status;
    default:
        return NIXL_ERR_PEER_LOST;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A step that was under way has ended. Any thread, without a lock. */
static void step_ended(struct stage_chunk *chunk, int status)
{
    struct stage_lane *lane = chunk->lane;

    atomic_store_explicit(&chunk->status, status, memory_order_release);
    nxr_stage_drive(lane);
}

static void stage_piece_copy_ended(struct nxr_device_copy *copy, int status)
{
    step_ended(nxr_list_entry(copy, struct stage_chunk, copy), status);
}

static void stage_piece_move_ended(struct nxr_op *op, int status)
{
    atomic_fetch_sub(&nxr_n_started, 1);
    step_ended(nxr_list_entry(op, struct stage_chunk, op), status);
}

static int stage_piece_begin_copy(struct stage_chunk *chunk)
{
    const struct stage_job *job = chunk->job;
    char *device = (char *)job->op->local + chunk->at;
    bool is_put = job->op->kind == NXR_OP_PUT;

    if (job->range == NULL) {
        return NIXL_OK;
    }
    chunk->piece = is_put ? (struct nxr_device_piece){chunk->memory, device, chunk->nbytes}
                          : (struct nxr_device_piece){device, chunk->memory, chunk->nbytes};
    chunk->copy = (struct nxr_device_copy){
        .pieces = &chunk->piece,
        .n_pieces = 1,
        .dst = is_put ? NULL : job->range,
        .src = is_put ? job->range : NULL,
        .stream = job->op->stream,
        .ended = stage_piece_copy_ended,
    };
    return nxr_device_copy_begin(&chunk->copy);
}

static int begin_move(struct stage_chunk *chunk)
{
    struct nxr_op *user = chunk->job->op;
    struct nxr_segment *segment =
        chunk->is_windowed ? &chunk->lane->window->segment : user->segment;
    uint64_t slot = (uint64_t)(chunk - chunk->lane->chunks);
    int status;

    chunk->op = (struct nxr_op){
        .transport = segment->transport,
        .segment = segment,
        .kind = user->kind,
        .offset = chunk->is_windowed ? slot * NXR_STAGE_NBYTES : user->offset + chunk->at,
        .local = chunk->job->range != NULL ? chunk->memory : (char *)user->local + chunk->at,
        .nbytes = chunk->nbytes,
        .ended = stage_piece_move_ended,
    };
    status =
        user->kind == NXR_OP_PUT
            ? segment->transport->put(segment, chunk->op.offset, chunk->op.local, chunk->nbytes)
            : segment->transport->get(segment, chunk->op.offset, chunk->op.local, chunk->nbytes);
    if (status == NIXL_ERR_AGAIN) {
        atomic_fetch_add(&nxr_n_started, 1);
        status = segment->transport->start(&chunk->op);
        if (status != NIXL_INPROGRESS) {
            atomic_fetch_sub(&nxr_n_started, 1);
        }
    }
    return status;
}

static int begin_ask(struct stage_chunk *chunk)
{
    const struct nxr_op *user = chunk->job->op;
    const struct nxr_window_ask ask = {
        .slot = (uint32_t)(chunk - chunk->lane->chunks),
        .is_put = user->kind == NXR_OP_PUT,
        .offset = user->offset + chunk->at,
        .nbytes = chunk->nbytes,
    };

    int status;

    if (!chunk->is_windowed) {
        return NIXL_OK;
    }
    atomic_store(&chunk->is_asked, true);
    status = nxr_window_ask(user->segment, &ask);
    if (status != NIXL_INPROGRESS) {
        atomic_store(&chunk->is_asked, false);
    }
    return status;
}

static enum step step_of(const struct stage_chunk *chunk)
{
    return chunk->job->op->kind == NXR_OP_PUT ? chunk->n_steps : N_STEPS - 1 - chunk->n_steps;
}

/* Begin the current step; its outcome is stored in chunk->status, now or later. */
static void begin_step(struct stage_chunk *chunk)
{
    int status;

    atomic_store_explicit(&chunk->status, NIXL_INPROGRESS, memory_order_relaxed);
    switch (step_of(chunk)) {
    case STEP_COPY:
        status = stage_piece_begin_copy(chunk);
        break;
    case STEP_MOVE:
        status = begin_move(chunk);
        break;
    default:
        status = begin_ask(chunk);
    }
    if (status != NIXL_INPROGRESS) { /* else it may have ended already */
        atomic_store_explicit(&chunk->status, status, memory_order_relaxed);
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void stage_piece_fail(struct stage_lane *lane, struct stage_job *job, int status)
{
    pthread_mutex_lock(&lane->lock);
    job->status = job->status == NIXL_OK ? status : job->status;
    pthread_mutex_unlock(&lane->lock);
}

static bool stage_piece_is_stopped(struct stage_lane *lane, const struct stage_job *job)
{
    bool is_stopped;

    pthread_mutex_lock(&lane->lock);
    is_stopped = job->status != NIXL_OK;
    pthread_mutex_unlock(&lane->lock);
    return is_stopped;
}

/* The oldest operation that has bytes left to assign to chunks; or NULL. */
static struct stage_job *job_to_go_on(struct stage_lane *lane)
{
    struct stage_job *found = NULL;
    struct nxr_list *link, *after;

    pthread_mutex_lock(&lane->lock);
    nxr_list_for_each (link, after, &lane->jobs) {
        struct stage_job *job = nxr_list_entry(link, struct stage_job, link);

        if (found == NULL && job->status == NIXL_OK && job->issued < job->op->nbytes) {
            found = job;
        }
    }
    pthread_mutex_unlock(&lane->lock);
    return found;
}

/* Give a free chunk the next piece. False: there is none, or it must wait. */
static bool stage_piece_take_piece(struct stage_chunk *chunk)
{
    struct stage_lane *lane = chunk->lane;
    struct stage_job *job = job_to_go_on(lane);
    const struct nxr_op *op = job != NULL ? job->op : NULL;
    size_t nbytes;
    int status = NIXL_OK;

    if (job == NULL) {
        return false;
    }
    nbytes = op->nbytes - job->issued;
    nbytes = nbytes < NXR_STAGE_NBYTES ? nbytes : NXR_STAGE_NBYTES;
    chunk->is_windowed =
        nxr_stage_is_needed(op->segment) && nbytes > nxr_window_small(op->segment, op->kind);
    if (job->range != NULL) {
        status = need_memory(lane, job->range);
    }
    if (status == NIXL_OK && chunk->is_windowed) {
        status = need_window(lane);
    }
    if (status == NIXL_INPROGRESS) {
        nxr_stage_look_again(lane); /* its key will arrive in some round */
        return false;
    }
    if (status != NIXL_OK) {
        stage_piece_fail(lane, job, status);
        return true;
    }
    chunk->job = job;
    chunk->at = job->issued;
    chunk->nbytes = nbytes;
    chunk->n_steps = 0;
    chunk->is_stopping = false;
    job->issued += nbytes;
    job->n_chunks++;
    begin_step(chunk);
    return true;
}

/* How much of a failed piece may have been written to its destination. */
static size_t nbytes_touched(const struct stage_chunk *chunk)
{
    bool is_put = chunk->job->op->kind == NXR_OP_PUT;

    switch (step_of(chunk)) {
    case STEP_COPY:
        return is_put ? 0 : chunk->nbytes;
    case STEP_MOVE:
        return (is_put ? chunk->is_windowed : chunk->job->range != NULL) ? 0
                                                                         : chunk->op.nbytes_done;
    default:
        return is_put ? chunk->nbytes : 0;
    }
}

/*
 * How much of a stopped piece its completed steps have written to its destination: what STEP_MOVE
 * has moved, unless that is in a staging buffer from which a later step would have copied it.
 */
static size_t nbytes_seen(const struct stage_chunk *chunk)
{
    bool is_put = chunk->job->op->kind == NXR_OP_PUT;
    bool is_moved = step_of(chunk) == (is_put ? STEP_ASK : STEP_COPY);
    bool is_staged = is_put ? chunk->is_windowed : chunk->job->range != NULL;

    return is_moved && !is_staged ? chunk->nbytes : 0;
}

/* A piece is complete, or goes no further: free its chunk. */
static void stage_piece_leave(struct stage_chunk *chunk, size_t nbytes)
{
    chunk->job->op->nbytes_done += nbytes;
    chunk->job->n_chunks--;
    chunk->job = NULL;
}

/*
 * End a step that would not end by itself, because the owner is dead or the lane is closing;
 * cancel one whose operation was canceled or has failed.
 */
static void stop_step(struct stage_chunk *chunk)
{
    struct stage_lane *lane = chunk->lane;

    if (step_of(chunk) == STEP_ASK && (lane->is_closing || nxr_peer_is_lost(lane->peer)) &&
        atomic_exchange(&chunk->is_asked, false)) {
        atomic_store(&chunk->status, lane->is_closing ? NIXL_ERR_CANCELED : NIXL_ERR_PEER_LOST);
    } else if (step_of(chunk) == STEP_MOVE && !chunk->is_stopping &&
               stage_piece_is_stopped(lane, chunk->job)) {
        chunk->is_stopping = true;
        chunk->op.transport->cancel(&chunk->op);
    }
}

bool nxr_stage_advance(struct stage_chunk *chunk)
{
    bool has_moved = false;

    for (;;) {
        int status;

        if (chunk->job == NULL) {
            if (!stage_piece_take_piece(chunk)) {
                return has_moved;
            }
            has_moved = true;
            continue;
        }
        if (atomic_load_explicit(&chunk->status, memory_order_acquire) == NIXL_INPROGRESS) {
            stop_step(chunk);
        }
        status = atomic_load_explicit(&chunk->status, memory_order_acquire);
        if (status == NIXL_INPROGRESS) {
            return has_moved;
        }
        has_moved = true;
        if (status != NIXL_OK) {
            stage_piece_fail(chunk->lane, chunk->job, status);
            stage_piece_leave(chunk, nbytes_touched(chunk));
        } else if (++chunk->n_steps == N_STEPS) {
            stage_piece_leave(chunk, chunk->nbytes);
        } else if (stage_piece_is_stopped(chunk->lane, chunk->job)) {
            stage_piece_leave(chunk, nbytes_seen(chunk));
        } else {
            begin_step(chunk);
        }
    }
}
