/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of pipelines whose pieces move by the segment's own transport: to or from the segment,
 * or, if that is device memory on another host, a window of its owner (window.h), which is then
 * asked to copy. Everything here is the driver's, but for answers; locks: job.lock to open the
 * window, nxr_net.lock to ask.
 */
#include "config.h"

#include "transfer/staging_pipeline.h"
#include "core/progress.h"
#include "core/service.h"
#include "transfer/window.h"
#include "util/log.h"

#include <sys/mman.h>

static int direct_open(struct pipeline *pipeline)
{
    size_t nbytes = NXR_STAGING_SLOTS * NXR_STAGING_NBYTES;
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED) {
        nxr_error(CORE, "cannot map %zu bytes for staging: %m", nbytes);
        return NIXL_ERR_NO_MEMORY;
    }
    pipeline->memory = pipeline->data = memory;
    pipeline->mapped_nbytes = nbytes;
    return NIXL_OK;
}

/*
 * Find the owner's window for this rank. NIXL_OK: it can be used; NIXL_INPROGRESS: the owner was
 * asked for it. Other: failed.
 */
static int direct_need_window(struct pipeline *pipeline)
{
    char name[NIXL_NAME_MAX + 1];
    int status = NIXL_OK;

    if (pipeline->window == NULL) {
        nxr_window_name(nxr_job.rank, name, sizeof(name));
        pthread_mutex_lock(&nxr_job.lock);
        pipeline->window_region = nxr_region_open(name);
        status = pipeline->window_region == NULL
                     ? NIXL_ERR_NO_MEMORY
                     : nxr_region_want_segment(pipeline->window_region, pipeline->peer->rank, false,
                                               &pipeline->window);
        pthread_mutex_unlock(&nxr_job.lock);
        nxr_service_kick();
    }
    if (status != NIXL_OK) {
        return status;
    }
    switch (atomic_load_explicit(&pipeline->window->state, memory_order_acquire)) {
    case NXR_SEGMENT_READY:
        return NIXL_OK;
    case NXR_SEGMENT_ASKING:
        nxr_staging_look_again(pipeline); /* its key will arrive in some round */
        return NIXL_INPROGRESS;
    case NXR_SEGMENT_FAILED:
        return pipeline->window->status;
    default:
        return NIXL_ERR_PEER_LOST;
    }
}

static int direct_aim(struct staging_slot *slot, const struct nxr_op *op, size_t nbytes)
{
    slot->is_asked_for =
        nxr_staging_is_needed(op->segment) && nbytes > nxr_window_small(op->segment, op->kind);
    return slot->is_asked_for ? direct_need_window(slot->pipeline) : NIXL_OK;
}

static void direct_move_ended(struct nxr_op *op, int status)
{
    atomic_fetch_sub(&nxr_n_started, 1);
    nxr_staging_step_ended(nxr_list_entry(op, struct staging_slot, op), status);
}

static int direct_move(struct staging_slot *slot)
{
    const struct nxr_op *user = slot->job->op;
    struct nxr_segment *segment =
        slot->is_asked_for ? &slot->pipeline->window->segment : user->segment;
    int status;

    slot->op = (struct nxr_op){
        .transport = segment->transport,
        .segment = segment,
        .kind = user->kind,
        .offset =
            slot->is_asked_for ? staging_index(slot) * NXR_STAGING_NBYTES : user->offset + slot->at,
        .local = slot->is_copied ? slot->memory : (char *)user->local + slot->at,
        .nbytes = slot->nbytes,
        .ended = direct_move_ended,
    };
    status = user->kind == NXR_OP_PUT
                 ? segment->transport->put(segment, slot->op.offset, slot->op.local, slot->nbytes)
                 : segment->transport->get(segment, slot->op.offset, slot->op.local, slot->nbytes);
    if (status == NIXL_ERR_AGAIN) {
        atomic_fetch_add(&nxr_n_started, 1);
        status = segment->transport->start(&slot->op);
        if (status != NIXL_INPROGRESS) {
            atomic_fetch_sub(&nxr_n_started, 1);
        }
    }
    return status;
}

static int direct_ask(struct staging_slot *slot)
{
    const struct nxr_op *user = slot->job->op;
    const struct nxr_window_ask ask = {
        .slot = staging_index(slot),
        .is_put = user->kind == NXR_OP_PUT,
        .offset = user->offset + slot->at,
        .nbytes = slot->nbytes,
    };
    int status;

    atomic_store(&slot->is_asked, true);
    status = nxr_window_ask(user->segment, &ask);
    if (status != NIXL_INPROGRESS) {
        atomic_store(&slot->is_asked, false);
    }
    return status;
}

/* An owner that lives answers what it was asked. */
static bool direct_take_back(struct staging_slot *slot, bool is_gone)
{
    return is_gone && atomic_exchange(&slot->is_asked, false);
}

static void direct_round_ended(struct pipeline *pipeline)
{
    (void)pipeline;
}

const struct staging_end nxr_staging_direct = {
    .open = direct_open,
    .aim = direct_aim,
    .move = direct_move,
    .ask = direct_ask,
    .take_back = direct_take_back,
    .round_ended = direct_round_ended,
};
