/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of pipelines whose pieces move by the segment's own transport: to or from the segment,
 * or, if that is device memory on another host, a window of its owner (window.h), which is then
 * asked to copy. Everything here is the driver's, but for answers, which arrive under the networks'
 * lock. Lock: job.lock to open the window.
 */
#include "config.h"

#include "core/stats.h"
#include "transfer/staging_pipeline.h"
#include "core/progress.h"
#include "core/service.h"
#include "memory/memory.h"
#include "net/clients.h"
#include "transfer/window.h"

static int direct_open(struct pipeline *pipeline)
{
    return nxr_staging_map(&pipeline->memory);
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
        nxr_window_name(pipeline->peer->place, name, sizeof(name));
        pthread_mutex_lock(&nxr_job.lock);
        pipeline->window_region = nxr_region_open(name);
        status = pipeline->window_region == NULL
                     ? NIXL_E_NO_MEMORY
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
    default: /* a caller takes PEER_LOST for a death */
        return nxr_peer_is_lost(pipeline->peer) ? NIXL_E_PEER_LOST : NIXL_E_STALE;
    }
}

/* The largest transfer with host memory that goes inside a message, without a window. */
static size_t direct_small_nbytes(const struct nxr_op *op)
{
    return nxr_net_inside_nbytes(op->segment->peer, op->kind);
}

static int direct_aim(struct staging_slot *slot, const struct nxr_op *op, size_t nbytes)
{
    const struct nxr_memory_kind *kind = nxr_memory_kind((enum nixl_mem_kind)op->segment->key.kind);
    /* A get inside messages could not be stopped at the owner, which may ask a store for long. */
    bool may_stop = op->kind == NXR_OP_GET && kind->copy_cancel != NULL;

    slot->is_asked_for =
        nxr_staging_is_needed(op->segment) && (may_stop || nbytes > direct_small_nbytes(op));
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
        .offset = slot->is_asked_for ? staging_index(slot) * NXR_STAGING_NBYTES : slot->offset,
        .local = slot->is_copied ? staging_memory_of(slot) : slot->local,
        .nbytes = slot->nbytes,
        .ended = direct_move_ended,
    };
    nxr_stats_is_piece = true;
    status = user->kind == NXR_OP_PUT
                 ? segment->transport->put(segment, slot->op.offset, slot->op.local, slot->nbytes)
                 : segment->transport->get(segment, slot->op.offset, slot->op.local, slot->nbytes);
    nxr_stats_is_piece = false;
    if (status == NIXL_E_AGAIN) {
        atomic_fetch_add(&nxr_n_started, 1);
        status = segment->transport->start(&slot->op);
        if (status != NIXL_INPROGRESS) {
            atomic_fetch_sub(&nxr_n_started, 1);
        }
    }
    return status;
}

/* NIXL_INPROGRESS: the owner will answer, unless it dies. */
static int direct_ask(struct staging_slot *slot)
{
    const struct nxr_op *user = slot->job->op;
    const struct nxr_net_stage ask = {.generation = user->segment->key.generation,
                                      .offset = slot->offset,
                                      .nbytes = slot->nbytes,
                                      .id = user->segment->id,
                                      .slot = (uint16_t)staging_index(slot),
                                      .is_put = user->kind == NXR_OP_PUT};
    int status;

    atomic_store(&slot->is_asked, true);
    status = nxr_net_ask_owner(user->segment, NXR_NET_STAGE, &ask, sizeof(ask));
    if (status != NIXL_OK) {
        atomic_store(&slot->is_asked, false);
        return status;
    }
    return NIXL_INPROGRESS;
}

static void direct_take_answer(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_staged *staged = nxr_net_body(record);

    if (!nxr_staging_answered(nxr_net_peer(np), staged->slot, staged->status)) {
        nxr_net_drop(nxr_net_peer(np)->rank, "an unsolicited answer about a window");
    }
    nxr_net_wake_after_round();
}

void nxr_staging_direct_register(void)
{
    nxr_net_register(NXR_NET_STAGED, direct_take_answer, false);
}

/* An owner that lives answers what it was asked; it ends its copy early, if it can. */
static bool direct_take_back(struct staging_slot *slot, bool is_gone)
{
    const struct nxr_net_stage stop = {.slot = (uint16_t)staging_index(slot)};

    if (is_gone) {
        return atomic_exchange(&slot->is_asked, false);
    }
    if (slot->is_asked_for && atomic_load(&slot->is_asked) && !slot->is_stopping) {
        slot->is_stopping = nxr_net_ask_owner(slot->job->op->segment, NXR_NET_STAGE, &stop,
                                              sizeof(stop)) == NIXL_OK;
    }
    return false;
}

const struct staging_end nxr_staging_direct = {
    .n_slots = NXR_STAGING_SLOTS,
    .open = direct_open,
    .aim = direct_aim,
    .move = direct_move,
    .ask = direct_ask,
    .take_back = direct_take_back,
};
