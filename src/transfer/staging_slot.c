/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of staged operations: how they are cut, their steps, what stops them, and how they end.
 * Only the thread that drives the pipeline calls this, except that steps end in any thread. Lock:
 * pipeline.lock, for the list of operations.
 */
#include "config.h"

#include "core/stats.h"
#include "transfer/staging_pipeline.h"
#include "memory/memory.h"
#include "util/copy.h"

/* ---- steps ----------------------------------------------------------------------------------- */

void nxr_staging_step_ended(struct staging_slot *slot, int status)
{
    struct pipeline *pipeline = slot->pipeline;

    atomic_store_explicit(&slot->status, status, memory_order_release);
    nxr_staging_drive(pipeline);
}

static void staging_copy_ended(struct nxr_device_copy *copy, int status)
{
    nxr_staging_step_ended(nxr_list_entry(copy, struct staging_slot, copy), status);
}

static int staging_begin_copy(struct staging_slot *slot)
{
    const struct staging_job *job = slot->job;
    bool is_put = job->op->kind == NXR_OP_PUT;

    char *memory = staging_memory_of(slot);

    if (!slot->is_copied) {
        return NIXL_OK;
    }
    if (job->range == NULL) {
        nxr_copy(is_put ? memory : slot->local, is_put ? slot->local : memory, slot->nbytes);
        return NIXL_OK;
    }
    nxr_staging_copy(&slot->copy, &slot->piece, !is_put, memory, slot->local, slot->nbytes,
                     job->range);
    slot->copy.stream = job->op->stream;
    slot->copy.ended = staging_copy_ended;
    return nxr_device_copy_begin(&slot->copy);
}

static enum staging_step slot_step(const struct staging_slot *slot)
{
    return slot->job->op->kind == NXR_OP_PUT ? slot->n_steps : N_STEPS - 1 - slot->n_steps;
}

/* Begin the current step; its outcome is stored in slot->status, now or later. */
static void slot_begin_step(struct staging_slot *slot)
{
    const struct staging_end *end = slot->pipeline->end;
    int status;

    atomic_store_explicit(&slot->status, NIXL_INPROGRESS, memory_order_relaxed);
    switch (slot_step(slot)) {
    case STEP_COPY:
        status = staging_begin_copy(slot);
        break;
    case STEP_MOVE:
        status = end->move != NULL ? end->move(slot) : NIXL_OK;
        break;
    default:
        status = slot->is_asked_for ? end->ask(slot) : NIXL_OK;
    }
    if (status != NIXL_INPROGRESS) { /* else it may have ended already */
        atomic_store_explicit(&slot->status, status, memory_order_relaxed);
    }
}

/* What has become of the current step: NIXL_INPROGRESS or its outcome. */
static int slot_look(struct staging_slot *slot)
{
    const struct staging_end *end = slot->pipeline->end;
    int status = atomic_load_explicit(&slot->status, memory_order_acquire);

    if (status == NIXL_INPROGRESS && end->is_polled && slot_step(slot) == STEP_ASK) {
        status = end->look(slot);
    }
    return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void staging_job_fail(struct staging_job *job, int status)
{
    int none = NIXL_OK;

    atomic_compare_exchange_strong(&job->status, &none, status);
}

static bool staging_job_is_stopped(const struct staging_job *job)
{
    return atomic_load_explicit(&job->status, memory_order_relaxed) != NIXL_OK;
}

/* The oldest operation that has bytes left to assign to slots; or NULL. */
static struct staging_job *pipeline_next_job(struct pipeline *pipeline)
{
    struct staging_job *found = NULL;
    struct nxr_list *link;

    pthread_mutex_lock(&pipeline->lock);
    for (link = pipeline->jobs.next; found == NULL && link != &pipeline->jobs; link = link->next) {
        struct staging_job *job = nxr_list_entry(link, struct staging_job, link);

        if (!staging_job_is_stopped(job) && job->issued < job->op->nbytes) {
            found = job;
        }
    }
    pthread_mutex_unlock(&pipeline->lock);
    return found;
}

/* Provide the memory of the slots, pinned for copies of local device memory, if any. */
static int staging_need_memory(struct pipeline *pipeline, const struct staging_job *job)
{
    const struct nxr_range *device = job->range;
    int status = pipeline->memory.addr == NULL ? pipeline->end->open(pipeline) : NIXL_OK;

    if (status == NIXL_OK && device != NULL) {
        nxr_staging_pin(&pipeline->memory, device);
    }
    return status;
}

/* The next bytes of an operation that lie together on both sides. */
static struct nxr_piece staging_job_rest(const struct staging_job *job)
{
    const struct nxr_op *op = job->op;
    struct nxr_piece rest = op->pieces != NULL
                                ? op->pieces[job->next]
                                : (struct nxr_piece){op->offset, op->local, op->nbytes};

    rest.offset += job->next_at;
    rest.local = (char *)rest.local + job->next_at;
    rest.nbytes -= job->next_at;
    return rest;
}

/* So many of them are in a slot now; `is_all`: all of them. */
static void staging_job_advance(struct staging_job *job, size_t nbytes, bool is_all)
{
    job->issued += nbytes;
    job->next += is_all;
    job->next_at = is_all ? 0 : job->next_at + nbytes;
    job->n_pieces++;
}

/* Cut the next piece of an operation and put it into a free slot. Returns what aim() does. */
static int slot_fill(struct staging_slot *slot, struct staging_job *job)
{
    struct pipeline *pipeline = slot->pipeline;
    bool is_copied = job->range != NULL || pipeline->end->takes_host;
    const struct nxr_piece rest = staging_job_rest(job);
    size_t nbytes = rest.nbytes;
    int status = is_copied ? staging_need_memory(pipeline, job) : NIXL_OK;

    nbytes = nbytes < pipeline->piece_nbytes ? nbytes : pipeline->piece_nbytes;
    if (status == NIXL_OK) {
        status = pipeline->end->aim(slot, job->op, nbytes);
    }
    if (status != NIXL_OK) {
        return status;
    }
    nxr_stats_staged(job->op);
    slot->job = job;
    slot->offset = rest.offset;
    slot->local = rest.local;
    slot->nbytes = nbytes;
    slot->n_steps = 0;
    slot->is_copied = is_copied;
    slot->is_stopping = false;
    slot->is_taken_back = false;
    staging_job_advance(job, nbytes, nbytes == rest.nbytes);
    pipeline->first = (staging_index(slot) + 1) % pipeline->end->n_slots;
    return NIXL_OK;
}

/* Begin the next piece in a free slot. False: there is none, or it must wait. */
static bool slot_take_piece(struct staging_slot *slot)
{
    struct pipeline *pipeline = slot->pipeline;

    while (!pipeline->is_starved) {
        struct staging_job *job = pipeline_next_job(pipeline);
        int status = job != NULL ? slot_fill(slot, job) : NIXL_INPROGRESS;

        if (status == NIXL_OK) {
            slot_begin_step(slot);
            return true;
        }
        if (status == NIXL_INPROGRESS) {
            pipeline->is_starved = true;
        } else {
            staging_job_fail(job, status);
        }
    }
    return false;
}

/* How much of a failed piece may have been written to its destination. */
static size_t slot_nbytes_touched(const struct staging_slot *slot)
{
    bool is_put = slot->job->op->kind == NXR_OP_PUT;

    switch (slot_step(slot)) {
    case STEP_COPY:
        return is_put ? 0 : slot->nbytes;
    case STEP_MOVE:
        return (is_put ? slot->is_asked_for : slot->is_copied) ? 0 : slot->op.nbytes_done;
    default:
        return is_put && !slot->is_taken_back ? slot->nbytes : 0;
    }
}

/*
 * How much of a stopped piece its completed steps have written to its destination: what STEP_MOVE
 * has moved, unless that is in staging memory from which a later step would have copied it.
 */
static size_t slot_nbytes_seen(const struct staging_slot *slot)
{
    bool is_put = slot->job->op->kind == NXR_OP_PUT;
    bool is_moved = slot_step(slot) == (is_put ? STEP_ASK : STEP_COPY);
    bool is_staged = is_put ? slot->is_asked_for : slot->is_copied;

    return is_moved && !is_staged ? slot->nbytes : 0;
}

/* A piece is complete, or goes no further: free its slot. */
static void slot_leave(struct staging_slot *slot, size_t nbytes)
{
    slot->job->op->nbytes_done += nbytes;
    slot->job->n_pieces--;
    slot->job = NULL;
}

/*
 * End a step that would not end by itself, because the owner is dead or the pipeline is closing;
 * cancel one whose operation was canceled or has failed.
 */
static void slot_stop_step(struct staging_slot *slot)
{
    struct pipeline *pipeline = slot->pipeline;
    bool is_lost = nxr_peer_is_lost(pipeline->peer);
    bool is_gone = is_lost || atomic_load_explicit(&pipeline->is_closing, memory_order_relaxed);
    bool is_stopped = staging_job_is_stopped(slot->job);

    if (slot_step(slot) == STEP_ASK && (is_gone || is_stopped)) {
        if (pipeline->end->take_back(slot, is_gone)) {
            slot->is_taken_back = !is_gone;
            atomic_store(&slot->status, is_lost ? NIXL_E_PEER_LOST : NIXL_E_CANCELED);
        }
    } else if (slot_step(slot) == STEP_MOVE && is_stopped && !slot->is_stopping) {
        slot->is_stopping = true;
        slot->op.transport->cancel(&slot->op);
    }
}

/* The current step has ended: begin the next one, or end the piece. */
static void slot_go_on(struct staging_slot *slot, int status)
{
    if (status != NIXL_OK) {
        staging_job_fail(slot->job, status);
        slot_leave(slot, slot_nbytes_touched(slot));
    } else if (++slot->n_steps == N_STEPS) {
        slot_leave(slot, slot->nbytes);
    } else if (staging_job_is_stopped(slot->job)) {
        slot_leave(slot, slot_nbytes_seen(slot));
    } else {
        slot_begin_step(slot);
    }
}

/* Advance a slot as far as possible. Has anything moved? */
static bool slot_advance(struct staging_slot *slot)
{
    bool has_moved = false;

    for (;;) {
        int status;

        if (slot->job == NULL) {
            if (!slot_take_piece(slot)) {
                return has_moved;
            }
        } else {
            status = slot_look(slot);
            if (status == NIXL_INPROGRESS) {
                slot_stop_step(slot);
                status = atomic_load_explicit(&slot->status, memory_order_acquire);
            }
            if (status == NIXL_INPROGRESS) {
                return has_moved;
            }
            slot_go_on(slot, status);
        }
        has_moved = true;
    }
}

int nxr_staging_advance(struct pipeline *pipeline)
{
    unsigned first = pipeline->first, n_slots = pipeline->end->n_slots;
    int n_moved = 0;

    pipeline->is_starved = false;
    for (unsigned i = 0; i < n_slots; i++) {
        struct staging_slot *slot = &pipeline->slots[(first + i) % n_slots];

        if (slot->job != NULL || !pipeline->is_starved) {
            n_moved += slot_advance(slot);
        }
    }
    if (pipeline->end->round_ended != NULL) {
        pipeline->end->round_ended(pipeline);
    }
    return n_moved;
}
