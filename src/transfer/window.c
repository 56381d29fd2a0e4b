/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides of a window. The owner publishes it and copies between it and own device memory; the
 * initiator asks for these copies. Lock: nxr_net.lock; job.lock for the published region.
 */
#include "config.h"

#include "region/region.h"
#include "transfer/window.h"
#include "transfer/work.h"
#include "core/subsystem.h"
#include "memory/memory.h"
#include "transfer/staging.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW_NBYTES (NXR_STAGING_SLOTS * NXR_STAGING_NBYTES)

struct net_window {
    char *addr;
    struct nxr_published *published;
    _Atomic unsigned pinned_kinds; /* bits by enum nixl_mem_kind */
};

/* A copy between a slot and an own region, for a peer. */
struct window_copy {
    struct net_work work;
    struct net_peer *np;
    struct net_hold *hold;
    struct nxr_device_piece piece;
    uint32_t slot;
};

void nxr_window_name(int rank, char *name, size_t name_nbytes)
{
    snprintf(name, name_nbytes, "%cwindow.%d", NXR_WINDOW_NAME, rank);
}

/* ---- the owner's side ------------------------------------------------------------------------ */

static struct net_window *window_new(const char *name)
{
    struct net_window *window = calloc(1, sizeof(*window));
    struct nxr_memory memory = {.kind = &nxr_memory_host, .nbytes = WINDOW_NBYTES, .fd = -1};

    if (window == NULL) {
        return NULL;
    }
    memory.addr = mmap(NULL, WINDOW_NBYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory.addr == MAP_FAILED) {
        free(window);
        return NULL;
    }
    window->addr = memory.addr;
    if (nxr_publish(name, &memory, &window->published) != NIXL_OK) {
        munmap(window->addr, WINDOW_NBYTES);
        free(window);
        return NULL;
    }
    return window;
}

static struct nxr_published *window_publish(const struct nxr_peer *peer, const char *name)
{
    char own_name[NIXL_NAME_MAX + 1];
    struct net_window *window;

    nxr_window_name(peer->rank, own_name, sizeof(own_name));
    if (net_peer_at(peer) == NULL || strcmp(name, own_name) != 0) {
        return NULL;
    }
    window = window_new(name);
    if (window == NULL) {
        nxr_error(NET, "no memory for a window of %zu bytes for rank %d", WINDOW_NBYTES,
                  peer->rank);
        return NULL;
    }
    net_lock();
    net_peer_at(peer)->window = window;
    net_unlock();
    return window->published;
}

static void net_window_answer(struct net_peer *np, uint32_t slot, int status)
{
    struct nxr_net_staged *staged = nxr_net_begin_answer(np, NXR_NET_STAGED, sizeof(*staged));

    if (staged != NULL) {
        *staged = (struct nxr_net_staged){slot, status};
        nxr_net_push(np, false);
    }
}

static void window_copied(struct net_work *work, int status)
{
    struct window_copy *copy = nxr_list_entry(work, struct window_copy, work);

    nxr_net_hold_end(copy->hold);
    net_window_answer(copy->np, copy->slot, status);
    free(copy);
}

/* Pin the window for the GPU, which makes copies faster. Without the lock. */
static void pin_window(struct net_work *work)
{
    struct net_window *window = nxr_list_entry(work, struct window_copy, work)->np->window;
    const struct nxr_range *device = work->copy.dst != NULL ? work->copy.dst : work->copy.src;
    unsigned bit = 1u << nxr_range_kind(device);

    if ((atomic_fetch_or(&window->pinned_kinds, bit) & bit) == 0) {
        device->kind->pin(window->addr, WINDOW_NBYTES);
    }
}

static int copy_slot(struct net_peer *np, const struct nxr_net_stage *stage)
{
    const struct net_range range = {stage->generation, stage->offset, stage->nbytes, stage->id};
    struct window_copy *copy;
    const struct nxr_range *device;
    struct net_hold *hold;
    char *slot, *addr;
    int status;

    if (np->window == NULL || stage->slot >= NXR_STAGING_SLOTS ||
        stage->nbytes > NXR_STAGING_NBYTES) {
        return NIXL_ERR_INVALID_ARG;
    }
    addr = nxr_net_hold_begin(&range, &hold, &status);
    if (addr == NULL) {
        return status;
    }
    device = nxr_publish_memory(stage->id).range;
    copy = device != NULL ? calloc(1, sizeof(*copy)) : NULL;
    if (copy == NULL) {
        nxr_net_hold_end(hold);
        return device == NULL ? NIXL_ERR_INVALID_ARG : NIXL_ERR_NO_MEMORY;
    }
    slot = np->window->addr + stage->slot * NXR_STAGING_NBYTES;
    copy->np = np;
    copy->hold = hold;
    copy->slot = stage->slot;
    copy->piece = stage->is_put != 0 ? (struct nxr_device_piece){addr, slot, stage->nbytes}
                                     : (struct nxr_device_piece){slot, addr, stage->nbytes};
    copy->work.copy = (struct nxr_device_copy){.pieces = &copy->piece,
                                               .n_pieces = 1,
                                               .dst = stage->is_put != 0 ? device : NULL,
                                               .src = stage->is_put != 0 ? NULL : device};
    copy->work.prepare = pin_window;
    copy->work.done = window_copied;
    nxr_work_add(&copy->work);
    return NIXL_INPROGRESS;
}

static void window_take_stage(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_stage *stage = nxr_net_body(record);
    int status = copy_slot(np, stage);

    if (status != NIXL_INPROGRESS) {
        net_window_answer(np, stage->slot, status);
    }
}

void nxr_windows_close(void)
{
    for (int rank = 0; nxr_net.peers != NULL && rank < nxr_job.size; rank++) {
        struct net_peer *np = net_peer_of(rank);
        struct net_window *window = np != NULL ? np->window : NULL;

        if (window == NULL) {
            continue;
        }
        pthread_mutex_lock(&nxr_job.lock);
        nxr_publish_revoke(window->published);
        pthread_mutex_unlock(&nxr_job.lock);
        if (nxr_inflight_quiesce_own(window->published->key.id, nxr_env.finalize_timeout) !=
            NIXL_OK) {
            nxr_warn(NET, "the window of rank %d is kept until the process ends", rank);
            continue;
        }
        pthread_mutex_lock(&nxr_job.lock);
        nxr_publish_free(window->published);
        pthread_mutex_unlock(&nxr_job.lock);
        net_lock();
        np->window = NULL;
        net_unlock();
        nxr_memory_unpin(window->addr);
        munmap(window->addr, WINDOW_NBYTES);
        free(window);
    }
}

/* ---- the initiator's side -------------------------------------------------------------------- */

int nxr_window_ask(struct nxr_segment *segment, const struct nxr_window_ask *ask)
{
    struct net_peer *np = net_peer_at(segment->peer);
    struct nxr_net_stage *stage = NULL;
    int status;

    net_lock();
    status = nxr_net_check_segment(np, segment);
    if (status == NIXL_OK) {
        stage = nxr_net_begin(np, NXR_NET_STAGE, sizeof(*stage));
        status = stage != NULL ? NIXL_INPROGRESS : NIXL_ERR_NO_MEMORY;
    }
    if (stage != NULL) {
        *stage = (struct nxr_net_stage){.generation = segment->key.generation,
                                        .offset = ask->offset,
                                        .nbytes = ask->nbytes,
                                        .id = segment->id,
                                        .slot = (uint16_t)ask->slot,
                                        .is_put = ask->is_put};
        nxr_net_push(np, false);
    }
    net_unlock();
    return status;
}

size_t nxr_window_small(const struct nxr_segment *segment, enum nxr_op_kind kind)
{
    const struct net_peer *np = net_peer_at(segment->peer);

    return kind == NXR_OP_PUT ? np->put_max : np->get_max;
}

static void window_take_staged(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_staged *staged = nxr_net_body(record);

    if (!nxr_staging_answered(np->peer, staged->slot, staged->status)) {
        nxr_net_drop(np->peer->rank, "an unsolicited answer about a window");
    }
    nxr_net.must_wake = true;
}

/* ---- for the networks ------------------------------------------------------------------------ */

static const struct net_client window_client = {
    .run = nxr_staging_run,
};

static void windows_register(void)
{
    nxr_publish_make_by(NXR_WINDOW_NAME, window_publish);
    nxr_works_register(); /* copies are begun before what waits for them is looked at */
    nxr_net_register(NXR_NET_STAGE, window_take_stage, true);
    nxr_net_register(NXR_NET_STAGED, window_take_staged, false);
    nxr_net_add_client(&window_client);
}

const struct nxr_subsystem nxr_windows_subsystem = {
    .name = "windows",
    .register_handlers = windows_register,
    .quiesce = nxr_windows_close,
};
