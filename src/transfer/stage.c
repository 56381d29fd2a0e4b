/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging as a transport: the lanes, the operations in them, and which thread drives. Lock:
 * lane.lock guards the list of a lane's operations, lanes_lock the list of lanes; no lock is taken
 * inside them. Rounds run without a lock.
 */
#include "config.h"

#include "transfer/stage_lane.h"
#include "core/subsystem.h"
#include "memory/memory.h"
#include "net/net.h"
#include "transfer/window.h"
#include "core/progress.h"
#include "util/clock.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define END_NS (10 * NXR_S) /* how long the last finalize waits for copies */

static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list lanes = {&lanes, &lanes};
static _Atomic uint32_t n_jobs_in_all;
static atomic_bool stage_must_look; /* must_look of some lane is set */

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Take out an operation of which no piece is under way or will be; or NULL. */
static struct stage_job *take_over(struct stage_lane *lane)
{
    struct stage_job *over = NULL;
    struct nxr_list *link, *after;

    pthread_mutex_lock(&lane->lock);
    nxr_list_for_each (link, after, &lane->jobs) {
        struct stage_job *job = nxr_list_entry(link, struct stage_job, link);

        if (over == NULL && job->n_chunks == 0 &&
            (job->status != NIXL_OK || job->issued == job->op->nbytes)) {
            over = job;
        }
    }
    if (over != NULL) {
        nxr_list_remove(&over->link);
    }
    pthread_mutex_unlock(&lane->lock);
    return over;
}

static void end_job(struct stage_lane *lane, struct stage_job *job)
{
    struct nxr_op *op = job->op;
    int status = job->status;

    free(job);
    atomic_fetch_sub(&lane->n_jobs, 1);
    atomic_fetch_sub(&n_jobs_in_all, 1);
    atomic_fetch_sub_explicit(&op->segment->n_copies, 1, memory_order_release);
    if (lane->peer->net != NULL) {
        atomic_fetch_sub(&nxr_n_at_networks, 1);
    }
    nxr_op_done(op, status);
}

static int stage_run_round(struct stage_lane *lane)
{
    struct stage_job *job;
    int n_moved = 0;

    for (unsigned i = 0; i < NXR_STAGE_PIECES; i++) {
        n_moved += nxr_stage_advance(&lane->chunks[i]);
    }
    while ((job = take_over(lane)) != NULL) {
        end_job(lane, job);
        n_moved++;
    }
    return n_moved;
}

/*
 * Run rounds until no events have arrived meanwhile. The caller is the driver: it has raised
 * n_news from 0.
 */
static int stage_run_rounds(struct stage_lane *lane)
{
    uint32_t n_seen;
    int n_moved = 0;

    do {
        n_seen = atomic_load_explicit(&lane->n_news, memory_order_acquire);
        n_moved += stage_run_round(lane);
    } while (atomic_fetch_sub_explicit(&lane->n_news, n_seen, memory_order_acq_rel) != n_seen);
    return n_moved;
}

void nxr_stage_drive(struct stage_lane *lane)
{
    if (atomic_fetch_add_explicit(&lane->n_news, 1, memory_order_acq_rel) == 0) {
        stage_run_rounds(lane);
    }
}

/* Drive the lane if it has operations and no other thread drives it. */
static int try_drive(struct stage_lane *lane)
{
    uint32_t nobody = 0;

    return atomic_load_explicit(&lane->n_jobs, memory_order_relaxed) != 0 &&
                   atomic_compare_exchange_strong_explicit(
                       &lane->n_news, &nobody, 1, memory_order_acq_rel, memory_order_relaxed)
               ? stage_run_rounds(lane)
               : 0;
}

static struct stage_lane *lane_new(struct nxr_peer *peer)
{
    struct stage_lane *lane = calloc(1, sizeof(*lane));

    if (lane == NULL) {
        return NULL;
    }
    lane->peer = peer;
    pthread_mutex_init(&lane->lock, NULL);
    nxr_list_init(&lane->jobs);
    for (unsigned i = 0; i < NXR_STAGE_PIECES; i++) {
        lane->chunks[i].lane = lane;
    }
    return lane;
}

static struct stage_lane *lane_to(struct nxr_peer *peer)
{
    struct stage_lane *lane;

    pthread_mutex_lock(&lanes_lock);
    lane = atomic_load(&peer->lane);
    if (lane == NULL) {
        lane = lane_new(peer);
        if (lane != NULL) {
            nxr_list_append(&lanes, &lane->link);
            atomic_store_explicit(&peer->lane, lane, memory_order_release);
        }
    }
    pthread_mutex_unlock(&lanes_lock);
    return lane;
}

/*
 * Call fn on every lane. Lanes exist until the last finalize, and new ones are appended: the lock
 * is held only to step to the next one.
 */
static int for_each_lane(int (*fn)(struct stage_lane *lane))
{
    struct nxr_list *link;
    int n_moved = 0;

    pthread_mutex_lock(&lanes_lock);
    for (link = lanes.next; link != &lanes; link = link->next) {
        struct stage_lane *lane = nxr_list_entry(link, struct stage_lane, link);

        pthread_mutex_unlock(&lanes_lock);
        n_moved += fn(lane);
        pthread_mutex_lock(&lanes_lock);
    }
    pthread_mutex_unlock(&lanes_lock);
    return n_moved;
}

/* ---- events from networks -------------------------------------------------------------------- */

void nxr_stage_look_again(struct stage_lane *lane)
{
    atomic_store(&lane->must_look, true);
    atomic_store_explicit(&stage_must_look, true, memory_order_release);
}

bool nxr_stage_answered(struct nxr_peer *peer, uint32_t slot, int status)
{
    struct stage_lane *lane = atomic_load_explicit(&peer->lane, memory_order_acquire);
    struct stage_chunk *chunk;

    if (lane == NULL || slot >= NXR_STAGE_PIECES) {
        return false;
    }
    chunk = &lane->chunks[slot];
    if (!atomic_exchange(&chunk->is_asked, false)) {
        return false;
    }
    atomic_store_explicit(&chunk->status, status, memory_order_release);
    nxr_stage_look_again(lane);
    return true;
}

static void stage_peer_lost(struct nxr_peer *peer)
{
    struct stage_lane *lane = atomic_load_explicit(&peer->lane, memory_order_acquire);

    if (lane != NULL) {
        nxr_stage_look_again(lane);
    }
}

static int stage_look(struct stage_lane *lane)
{
    if (atomic_exchange(&lane->must_look, false)) {
        nxr_stage_drive(lane);
    }
    return 0;
}

void nxr_stage_run(void)
{
    if (atomic_load_explicit(&stage_must_look, memory_order_relaxed) &&
        atomic_exchange(&stage_must_look, false)) {
        for_each_lane(stage_look);
    }
}

/* ---- the transport --------------------------------------------------------------------------- */

bool nxr_stage_is_needed(const struct nxr_segment *segment)
{
    return nxr_net_needs_window(segment); /* also while the segment is being closed */
}

static int stage_probe(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static int stage_reach(enum nixl_scope scope, enum nixl_mem_kind kind, char *why, size_t why_nbytes)
{
    (void)scope;
    (void)kind;
    snprintf(why, why_nbytes, "serves no segment by itself");
    return NIXL_ERR_UNSUPPORTED;
}

static int stage_segment_open(struct nxr_segment *segment, int fd,
                              const struct nxr_remote_key *remote)
{
    (void)segment;
    (void)fd;
    (void)remote;
    return NIXL_ERR_UNSUPPORTED;
}

static void stage_segment_close(struct nxr_segment *segment)
{
    (void)segment;
}

/* Host memory that fits into a message needs no staging. */
static int stage_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes)
{
    return nxr_range_find(src) == NULL ? segment->transport->put(segment, offset, src, nbytes)
                                       : NIXL_ERR_AGAIN;
}

static int stage_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes)
{
    return nxr_range_find(dst) == NULL ? segment->transport->get(segment, offset, dst, nbytes)
                                       : NIXL_ERR_AGAIN;
}

static int stage_start(struct nxr_op *op)
{
    struct stage_lane *lane = lane_to(op->segment->peer);
    struct stage_job *job = lane != NULL ? calloc(1, sizeof(*job)) : NULL;

    if (job == NULL) {
        return NIXL_ERR_NO_MEMORY;
    }
    job->op = op;
    job->range = nxr_range_find(op->local);
    atomic_fetch_add(&op->segment->n_copies, 1);
    atomic_fetch_add(&n_jobs_in_all, 1);
    atomic_fetch_add(&lane->n_jobs, 1);
    if (lane->peer->net != NULL) {
        atomic_fetch_add(&nxr_n_at_networks, 1);
    }
    pthread_mutex_lock(&lane->lock);
    nxr_list_append(&lane->jobs, &job->link);
    pthread_mutex_unlock(&lane->lock);
    nxr_stage_drive(lane);
    return NIXL_INPROGRESS;
}

/*
 * Is the operation still in the lane? A status other than NIXL_OK is recorded: no further piece of
 * it begins.
 */
static bool find_job(struct stage_lane *lane, const struct nxr_op *op, int status)
{
    struct nxr_list *link, *after;
    bool is_found = false;

    pthread_mutex_lock(&lane->lock);
    nxr_list_for_each (link, after, &lane->jobs) {
        struct stage_job *job = nxr_list_entry(link, struct stage_job, link);

        if (job->op == op) {
            is_found = true;
            job->status = job->status == NIXL_OK ? status : job->status;
        }
    }
    pthread_mutex_unlock(&lane->lock);
    return is_found;
}

static int stage_cancel(struct nxr_op *op)
{
    struct stage_lane *lane = atomic_load(&op->segment->peer->lane);

    if (!find_job(lane, op, NIXL_ERR_CANCELED)) {
        return NIXL_INPROGRESS; /* it is about to end */
    }
    nxr_stage_drive(lane);
    return find_job(lane, op, NIXL_ERR_CANCELED) ? NIXL_INPROGRESS : NIXL_OK;
}

static int stage_notify(struct nxr_peer *peer, uint64_t tag, const void *msg, size_t nbytes)
{
    (void)peer;
    (void)tag;
    (void)msg;
    (void)nbytes;
    return NIXL_ERR_UNSUPPORTED;
}

static int stage_progress(void)
{
    return atomic_load_explicit(&n_jobs_in_all, memory_order_relaxed) != 0
               ? for_each_lane(try_drive)
               : 0;
}

const struct nxr_transport nxr_transport_stage = {
    .abi = NXR_TRANSPORT_ABI,
    .name = "stage",
    .probe = stage_probe,
    .reach = stage_reach,
    .segment_open = stage_segment_open,
    .serves = nxr_no_serves,
    .segment_close = stage_segment_close,
    .segment_is_busy = nxr_no_segment_is_busy,
    .put = stage_put,
    .get = stage_get,
    .put_notify = nxr_no_put_notify,
    .put_signal = nxr_no_put_signal,
    .move_list = nxr_no_move_list,
    .start = stage_start,
    .start_list = nxr_no_start_list,
    .cancel = stage_cancel,
    .progress = stage_progress,
    .notify = stage_notify,
    .fence = nxr_no_order,
    .flush = nxr_no_order,
    .atomic = nxr_no_atomic,
    .signal = nxr_no_signal,
};

/* ---- the end --------------------------------------------------------------------------------- */

/*
 * Cancel a lane's operations. No owner answers any more; all other operations have ended, but a
 * GPU may still copy.
 */
static int close_lane(struct stage_lane *lane)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&lane->lock);
    lane->is_closing = true;
    nxr_list_for_each (link, after, &lane->jobs) {
        nxr_list_entry(link, struct stage_job, link)->status = NIXL_ERR_CANCELED;
    }
    pthread_mutex_unlock(&lane->lock);
    return try_drive(lane);
}

void nxr_stage_stop(void)
{
    int64_t until = nxr_now_ns() + END_NS;
    struct nxr_list *link;

    do {
        nxr_device_progress();
        for_each_lane(close_lane);
    } while (atomic_load(&n_jobs_in_all) != 0 && nxr_now_ns() < until);
    if (atomic_load(&n_jobs_in_all) != 0) {
        nxr_error(CORE, "copies of device memory did not end: their memory is not freed");
        return;
    }
    while ((link = nxr_list_pop(&lanes)) != NULL) {
        struct stage_lane *lane = nxr_list_entry(link, struct stage_lane, link);

        if (lane->memory != NULL) {
            nxr_memory_unpin(lane->memory);
            munmap(lane->memory, NXR_STAGE_PIECES * NXR_STAGE_NBYTES);
        }
        pthread_mutex_destroy(&lane->lock);
        free(lane);
    }
}

static bool stage_carry_on(void)
{
    return nxr_transport_stage.progress() > 0;
}

const struct nxr_subsystem nxr_stage_subsystem = {
    .name = "stage",
    .progress = stage_carry_on,
    .peer_ended = stage_peer_lost,
    .stop = nxr_stage_stop,
};
