/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipelines, the operations in them, and which thread drives. Lock: pipeline.lock guards the
 * list of a pipeline's operations, pipelines_lock the making of pipelines: both are leaves. Rounds
 * run without a lock.
 */
#include "config.h"

#include "transfer/staging_pipeline.h"
#include "core/subsystem.h"
#include "memory/memory.h"
#include "net/clients.h"
#include "core/progress.h"
#include "util/clock.h"
#include "util/log.h"

#include <stdlib.h>

#define END_NS         (10 * NXR_S) /* how long the last finalize waits for copies */
#define DRIVE_EVERY_NS (1 * NXR_MS) /* how often the service thread drives polled pipelines */

/* What staging keeps of a peer. */
struct staging_peer {
    struct nxr_staging *_Atomic pipelines; /* NULL: nothing was staged yet */
    bool is_unlinked;                      /* taken out of the list of all: freed with the peer */
};

static struct nxr_peer_slot staging_peer_slot = {.nbytes = sizeof(struct staging_peer)};
static pthread_mutex_t pipelines_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_staging *_Atomic stagings; /* all; they exist until the last finalize */
static _Atomic uint32_t staging_n_jobs;
static _Atomic uint32_t staging_n_polled; /* of these, in polled pipelines */
static atomic_bool staging_must_look;     /* must_look of some pipeline is set */

/* ---- pipelines ------------------------------------------------------------------------------- */

/* Take out an operation of which no piece is under way or will be; or NULL. */
static struct staging_job *pipeline_take_ended(struct pipeline *pipeline)
{
    struct staging_job *ended = NULL;
    struct nxr_list *link;

    pthread_mutex_lock(&pipeline->lock);
    for (link = pipeline->jobs.next; ended == NULL && link != &pipeline->jobs; link = link->next) {
        struct staging_job *job = nxr_list_entry(link, struct staging_job, link);

        if (job->n_pieces == 0 &&
            (atomic_load(&job->status) != NIXL_OK || job->issued == job->op->nbytes)) {
            ended = job;
        }
    }
    if (ended != NULL) {
        nxr_list_remove(&ended->link);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return ended;
}

/* Count an operation in, or out. */
static void pipeline_count(struct pipeline *pipeline, uint32_t change)
{
    atomic_fetch_add(&staging_n_jobs, change);
    atomic_fetch_add(&pipeline->n_jobs, change);
    if (pipeline->end->is_polled) {
        atomic_fetch_add(&staging_n_polled, change);
    }
    if (nxr_peer_is_remote(pipeline->peer)) {
        atomic_fetch_add(&nxr_n_at_networks, change);
    }
}

/* Own storage whose kind may do it without staging is told what that takes. */
static void staging_watch(struct staging_job *job)
{
    const struct nxr_op *op = job->op;
    const struct nxr_memory_between between = {
        .storage =
            op->segment->method == NXR_METHOD_DEVICE ? nxr_range_find(op->segment->addr) : NULL,
        .device = job->range,
        .memory = op->pieces != NULL ? op->pieces[0].local : op->local,
        .is_put = op->kind == NXR_OP_PUT,
        .nbytes = op->nbytes};

    if (between.storage != NULL && between.device != NULL &&
        between.storage->kind->stage_begin != NULL) {
        job->watched = between.storage->kind->stage_begin(&between);
    }
}

/* The kind is that of the segment's key, as the region may have been closed. */
static void staging_watch_end(const struct staging_job *job, int status)
{
    const struct nxr_op *op = job->op;

    if (job->watched != NULL) {
        nxr_memory_kind((enum nixl_mem_kind)op->segment->key.kind)
            ->stage_end(job->watched, status == NIXL_OK ? op->nbytes : 0);
    }
}

static void pipeline_end_job(struct pipeline *pipeline, struct staging_job *job)
{
    struct nxr_op *op = job->op;
    int status = atomic_load(&job->status);

    staging_watch_end(job, status);
    free(job);
    pipeline_count(pipeline, -1u);
    atomic_fetch_sub_explicit(&op->segment->n_copies, 1, memory_order_release);
    nxr_op_done(op, status);
}

static int pipeline_run_round(struct pipeline *pipeline)
{
    struct staging_job *job;
    int n_moved = nxr_staging_advance(pipeline);

    while ((job = pipeline_take_ended(pipeline)) != NULL) {
        pipeline_end_job(pipeline, job);
        n_moved++;
    }
    return n_moved;
}

/*
 * Run rounds until no events have arrived meanwhile. The caller is the driver: it has raised
 * n_news from 0.
 */
static int pipeline_run_rounds(struct pipeline *pipeline)
{
    uint32_t n_seen;
    int n_moved = 0;

    do {
        n_seen = atomic_load_explicit(&pipeline->n_news, memory_order_acquire);
        n_moved += pipeline_run_round(pipeline);
    } while (atomic_fetch_sub_explicit(&pipeline->n_news, n_seen, memory_order_acq_rel) != n_seen);
    return n_moved;
}

void nxr_staging_drive(struct pipeline *pipeline)
{
    if (atomic_fetch_add_explicit(&pipeline->n_news, 1, memory_order_acq_rel) == 0) {
        pipeline_run_rounds(pipeline);
    }
}

/* Drive the pipeline if it has operations and no other thread drives it. */
static int pipeline_try_drive(struct pipeline *pipeline)
{
    uint32_t nobody = 0;

    return atomic_load_explicit(&pipeline->n_jobs, memory_order_relaxed) != 0 &&
                   atomic_compare_exchange_strong_explicit(
                       &pipeline->n_news, &nobody, 1, memory_order_acq_rel, memory_order_relaxed)
               ? pipeline_run_rounds(pipeline)
               : 0;
}

static bool pipeline_init(struct pipeline *pipeline, struct nxr_peer *peer,
                          const struct staging_end *end)
{
    pipeline->peer = peer;
    pipeline->end = end;
    pipeline->piece_nbytes = NXR_STAGING_NBYTES;
    pthread_mutex_init(&pipeline->lock, NULL);
    nxr_list_init(&pipeline->jobs);
    pipeline->slots = calloc(end->n_slots, sizeof(pipeline->slots[0]));
    for (unsigned i = 0; pipeline->slots != NULL && i < end->n_slots; i++) {
        pipeline->slots[i].pipeline = pipeline;
    }
    return pipeline->slots != NULL;
}

static void pipeline_destroy(struct pipeline *pipeline)
{
    nxr_staging_unmap(&pipeline->memory);
    free(pipeline->slots);
    pthread_mutex_destroy(&pipeline->lock);
}

static void staging_free(struct nxr_staging *staging)
{
    for (int i = 0; i < N_PIPELINES; i++) {
        pipeline_destroy(&staging->pipelines[i]);
    }
    free(staging);
}

static struct nxr_staging *staging_new(struct nxr_peer *peer)
{
    static const struct staging_end *const ends[N_PIPELINES] = {
        [BY_TRANSPORT] = &nxr_staging_direct,
        [BY_SHARED_MEMORY] = &nxr_staging_shared,
        [BY_SHARED_TO_STORAGE] = &nxr_staging_storage,
    };
    struct nxr_staging *staging = calloc(1, sizeof(*staging));
    bool is_made = staging != NULL;

    for (int i = 0; staging != NULL && i < N_PIPELINES; i++) {
        is_made &= pipeline_init(&staging->pipelines[i], peer, ends[i]);
    }
    if (staging != NULL && !is_made) {
        staging_free(staging);
        staging = NULL;
    }
    return staging;
}

/* The pipelines to a peer; NULL: there are none yet. */
static struct nxr_staging *staging_of(const struct nxr_peer *peer)
{
    struct staging_peer *of = nxr_peer_slot_of(peer, &staging_peer_slot);

    return atomic_load_explicit(&of->pipelines, memory_order_acquire);
}

/* The pipelines to a peer, made if there are none; NULL: no memory. */
static struct nxr_staging *staging_make(struct nxr_peer *peer)
{
    struct staging_peer *of = nxr_peer_slot_of(peer, &staging_peer_slot);
    struct nxr_staging *staging = staging_of(peer);

    if (staging != NULL) {
        return staging;
    }
    pthread_mutex_lock(&pipelines_lock);
    staging = atomic_load(&of->pipelines);
    if (staging == NULL) {
        staging = staging_new(peer);
        if (staging != NULL) {
            atomic_store(&staging->next, atomic_load(&stagings));
            atomic_store_explicit(&stagings, staging, memory_order_release);
            atomic_store_explicit(&of->pipelines, staging, memory_order_release);
        }
    }
    pthread_mutex_unlock(&pipelines_lock);
    return staging;
}

/* Call fn on every pipeline. */
static int pipelines_call(int (*fn)(struct pipeline *pipeline))
{
    struct nxr_staging *staging = atomic_load_explicit(&stagings, memory_order_acquire);
    int n_moved = 0;

    for (; staging != NULL; staging = atomic_load_explicit(&staging->next, memory_order_acquire)) {
        for (int i = 0; i < N_PIPELINES; i++) {
            n_moved += fn(&staging->pipelines[i]);
        }
    }
    return n_moved;
}

/* ---- events from networks -------------------------------------------------------------------- */

void nxr_staging_look_again(struct pipeline *pipeline)
{
    atomic_store(&pipeline->must_look, true);
    atomic_store_explicit(&staging_must_look, true, memory_order_release);
}

bool nxr_staging_answered(struct nxr_peer *peer, uint32_t index, int status)
{
    struct nxr_staging *staging = staging_of(peer);
    struct pipeline *pipeline = staging != NULL ? &staging->pipelines[BY_TRANSPORT] : NULL;
    struct staging_slot *slot;

    if (pipeline == NULL || index >= pipeline->end->n_slots) {
        return false;
    }
    slot = &pipeline->slots[index];
    if (!atomic_exchange(&slot->is_asked, false)) {
        return false;
    }
    atomic_store_explicit(&slot->status, status, memory_order_release);
    nxr_staging_look_again(pipeline);
    return true;
}

static void staging_peer_lost(struct nxr_peer *peer)
{
    struct nxr_staging *staging = staging_of(peer);

    if (staging != NULL) {
        nxr_staging_look_again(&staging->pipelines[BY_TRANSPORT]);
    }
}

static int pipeline_look(struct pipeline *pipeline)
{
    if (atomic_exchange(&pipeline->must_look, false)) {
        nxr_staging_drive(pipeline);
    }
    return 0;
}

/* Continue the pipelines for which something has arrived. Any thread, without a lock. */
static void staging_run(void)
{
    if (atomic_load_explicit(&staging_must_look, memory_order_relaxed) &&
        atomic_exchange(&staging_must_look, false)) {
        pipelines_call(pipeline_look);
    }
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Which pipeline has operations on that segment? */
static int staging_way(const struct nxr_segment *segment)
{
    return segment->method != NXR_METHOD_BOUNCE ? BY_TRANSPORT
           : nxr_segment_is_storage(segment)    ? BY_SHARED_TO_STORAGE
                                                : BY_SHARED_MEMORY;
}

int nxr_staging_start(struct nxr_op *op)
{
    struct nxr_staging *staging = staging_make(op->segment->peer);
    struct staging_job *job = staging != NULL ? calloc(1, sizeof(*job)) : NULL;
    struct pipeline *pipeline;

    if (job == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    pipeline = &staging->pipelines[staging_way(op->segment)];
    job->op = op;
    job->range = nxr_range_find(op->local);
    job->issued = job->next_at = op->nbytes_done; /* the copy thread has begun it */
    staging_watch(job);
    atomic_fetch_add(&op->segment->n_copies, 1);
    pipeline_count(pipeline, 1);
    pthread_mutex_lock(&pipeline->lock);
    nxr_list_append(&pipeline->jobs, &job->link);
    pthread_mutex_unlock(&pipeline->lock);
    if (!pipeline->end->is_polled) {
        nxr_staging_drive(pipeline);
    }
    return NIXL_INPROGRESS;
}

/*
 * Is the operation still in the pipeline? A status other than NIXL_OK is recorded: no further piece
 * of it begins.
 */
static bool pipeline_find(struct pipeline *pipeline, const struct nxr_op *op, int status)
{
    struct nxr_list *link, *after;
    bool is_found = false;

    pthread_mutex_lock(&pipeline->lock);
    nxr_list_for_each (link, after, &pipeline->jobs) {
        struct staging_job *job = nxr_list_entry(link, struct staging_job, link);
        int none = NIXL_OK;

        if (job->op == op) {
            is_found = true;
            atomic_compare_exchange_strong(&job->status, &none, status);
        }
    }
    pthread_mutex_unlock(&pipeline->lock);
    return is_found;
}

static int pipeline_cancel(struct pipeline *pipeline, struct nxr_op *op)
{
    if (!pipeline_find(pipeline, op, NIXL_E_CANCELED)) {
        return NIXL_INPROGRESS; /* it is about to end, or not here */
    }
    nxr_staging_drive(pipeline);
    return pipeline_find(pipeline, op, NIXL_E_CANCELED) ? NIXL_INPROGRESS : NIXL_OK;
}

int nxr_staging_cancel(struct nxr_op *op)
{
    struct nxr_staging *staging = staging_of(op->segment->peer);
    int status = NIXL_INPROGRESS;

    /* The segment's method may have changed since the start. */
    for (int i = 0; staging != NULL && status != NIXL_OK && i < N_PIPELINES; i++) {
        status = pipeline_cancel(&staging->pipelines[i], op);
    }
    return status;
}

/* ---- driving and the end --------------------------------------------------------------------- */

int nxr_staging_progress(void)
{
    return atomic_load_explicit(&staging_n_jobs, memory_order_relaxed) != 0
               ? pipelines_call(pipeline_try_drive)
               : 0;
}

static bool staging_drive_all(void)
{
    return nxr_staging_progress() > 0;
}

/* If the user does not drive polled pipelines, the service thread does. */
static int64_t staging_tick(int64_t now)
{
    return atomic_load(&staging_n_polled) == 0 ? INT64_MAX : now + DRIVE_EVERY_NS;
}

/*
 * Cancel a pipeline's operations. No owner answers any more; all other operations have ended, but a
 * GPU may still copy.
 */
static int pipeline_close(struct pipeline *pipeline)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&pipeline->lock);
    pipeline->is_closing = true;
    nxr_list_for_each (link, after, &pipeline->jobs) {
        nxr_list_entry(link, struct staging_job, link)->status = NIXL_E_CANCELED;
    }
    pthread_mutex_unlock(&pipeline->lock);
    return pipeline_try_drive(pipeline);
}

/* The last finalize: cancel what is left, wait for copies of device memory, and unmap. */
static void staging_stop(void)
{
    int64_t until = nxr_now_ns() + END_NS;
    struct nxr_staging *staging, *next;

    do {
        nxr_device_progress();
        pipelines_call(pipeline_close);
    } while (atomic_load(&staging_n_jobs) != 0 && nxr_now_ns() < until);
    if (atomic_load(&staging_n_jobs) != 0) {
        nxr_error(CORE, "copies of device memory did not end: their memory is not freed");
        return;
    }
    for (staging = atomic_exchange(&stagings, NULL); staging != NULL; staging = next) {
        next = atomic_load(&staging->next);
        staging_free(staging);
    }
}

/* ---- attached peers -------------------------------------------------------------------------- */

static bool staging_peer_is_used(struct nxr_peer *peer)
{
    struct nxr_staging *staging = staging_of(peer);
    bool is_used = false;

    for (int i = 0; staging != NULL && i < N_PIPELINES; i++) {
        is_used |= atomic_load(&staging->pipelines[i].n_jobs) != 0;
    }
    return is_used;
}

/* Other threads may still look at the pipelines, until the peer itself is freed. */
static void staging_peer_unlink(struct nxr_peer *peer)
{
    struct staging_peer *of = nxr_peer_slot_of(peer, &staging_peer_slot);
    const struct nxr_staging *staging = staging_of(peer);
    struct nxr_staging *_Atomic *link = &stagings;

    of->is_unlinked = true;
    pthread_mutex_lock(&pipelines_lock);
    while (atomic_load(link) != NULL && atomic_load(link) != staging) {
        link = &atomic_load(link)->next;
    }
    if (staging != NULL && atomic_load(link) == staging) {
        atomic_store_explicit(link, atomic_load(&staging->next), memory_order_release);
    }
    pthread_mutex_unlock(&pipelines_lock);
}

/* At the last finalize staging_stop() has freed the pipelines of all peers in the list. */
static void staging_peer_fini(struct nxr_peer *peer)
{
    const struct staging_peer *of = nxr_peer_slot_of(peer, &staging_peer_slot);
    struct nxr_staging *staging = staging_of(peer);

    if (staging != NULL && of->is_unlinked) {
        staging_free(staging);
    }
}

static const struct net_client staging_client = {.run = staging_run};

static void staging_register(void)
{
    nxr_host_paths.staging_start = nxr_staging_start;
    nxr_host_paths.staging_cancel = nxr_staging_cancel;
    nxr_staging_direct_register();
    nxr_net_add_client(&staging_client);
}

const struct nxr_subsystem nxr_staging_subsystem = {
    .name = "staging",
    .register_handlers = staging_register,
    .peer_slot = &staging_peer_slot,
    .tick = staging_tick,
    .progress = staging_drive_all,
    .peer_ended = staging_peer_lost,
    .peer_is_used = staging_peer_is_used,
    .peer_unlink = staging_peer_unlink,
    .peer_fini = staging_peer_fini,
    .stop = staging_stop,
};
