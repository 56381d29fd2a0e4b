/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of windows: it publishes them and copies between them and own device memory. The
 * initiator's is an end of staging (staging_direct.c). Lock: nxr_net.lock; job.lock for the
 * published region.
 */
#include "config.h"

#include "region/region.h"
#include "transfer/window.h"
#include "transfer/work.h"
#include "core/returned.h"
#include "core/subsystem.h"
#include "core/wait.h"
#include "memory/memory.h"
#include "transfer/staging_memory.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct window {
    struct staging_memory memory;
    struct nxr_published *published;
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

static struct window *window_of(const struct net_peer *np)
{
    return work_peer_of(nxr_net_peer(np))->window;
}

/* ---- the owner's side ------------------------------------------------------------------------ */

static struct window *window_new(const char *name)
{
    struct window *window = calloc(1, sizeof(*window));
    struct nxr_memory memory = {.kind = &nxr_memory_host, .fd = -1};

    if (window == NULL || nxr_staging_map(&window->memory) != NIXL_OK) {
        free(window);
        return NULL;
    }
    memory.addr = window->memory.addr;
    memory.nbytes = window->memory.nbytes;
    if (nxr_publish(name, &memory, &window->published) != NIXL_OK) {
        nxr_staging_unmap(&window->memory);
        free(window);
        return NULL;
    }
    return window;
}

static int window_publish(const struct nxr_peer *peer, const char *name,
                          struct nxr_published **published_p)
{
    char own_name[NIXL_NAME_MAX + 1];
    struct window *window;

    nxr_window_name(peer->rank, own_name, sizeof(own_name));
    if (nxr_net_remote(peer) == NULL || strcmp(name, own_name) != 0) {
        return NIXL_OK;
    }
    window = window_new(name);
    if (window == NULL) {
        nxr_error(NET, "no memory for a window for %s", nxr_peer_name(peer));
        return NIXL_E_NO_MEMORY;
    }
    nxr_net_lock();
    work_peer_of(peer)->window = window;
    nxr_net_unlock();
    *published_p = window->published;
    return NIXL_OK;
}

static void window_answer(struct net_peer *np, uint32_t slot, int status)
{
    const struct nxr_net_staged staged = {slot, status};

    nxr_net_answer(np, NXR_NET_STAGED, &staged, sizeof(staged));
}

static void window_copied(struct net_work *work, int status)
{
    struct window_copy *copy = nxr_list_entry(work, struct window_copy, work);

    nxr_net_hold_end(copy->hold);
    window_answer(copy->np, copy->slot, status);
    free(copy);
}

/* Pin the window for the GPU, which makes copies faster. Without the lock. */
static void pin_window(struct net_work *work)
{
    struct window *window = window_of(nxr_list_entry(work, struct window_copy, work)->np);

    nxr_staging_pin(&window->memory, work->copy.dst != NULL ? work->copy.dst : work->copy.src);
}

static int copy_slot(struct net_peer *np, const struct nxr_net_stage *stage)
{
    const struct net_range range = {stage->generation, stage->offset, stage->nbytes, stage->id,
                                    stage->is_put != 0 ? NIXL_ACCESS_NO_PUT : NIXL_ACCESS_NO_GET};
    const struct window *window = window_of(np);
    struct window_copy *copy;
    const struct nxr_range *device;
    struct net_hold *hold;
    char *addr;
    int status;

    if (window == NULL || stage->slot >= NXR_STAGING_SLOTS || stage->nbytes > NXR_STAGING_NBYTES) {
        return NIXL_E_INVALID_ARG;
    }
    addr = nxr_net_hold_begin(&range, &hold, &status);
    if (addr == NULL) {
        return status;
    }
    device = nxr_publish_memory(stage->id).range;
    copy = device != NULL ? calloc(1, sizeof(*copy)) : NULL;
    if (copy == NULL) {
        nxr_net_hold_end(hold);
        return device == NULL ? NIXL_E_INVALID_ARG : NIXL_E_NO_MEMORY;
    }
    copy->np = np;
    copy->hold = hold;
    copy->slot = stage->slot;
    nxr_staging_copy(&copy->work.copy, &copy->piece, stage->is_put != 0,
                     nxr_staging_slot(&window->memory, stage->slot), addr, stage->nbytes, device);
    copy->work.copy.origin = nxr_peer_origin(nxr_net_peer(np));
    copy->work.copy.owner = nxr_staging_slot(&window->memory, stage->slot);
    copy->work.prepare = pin_window;
    copy->work.done = window_copied;
    nxr_work_add(&copy->work);
    return NIXL_INPROGRESS;
}

static void window_take_stage(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_stage *stage = nxr_net_body(record);
    struct window *window = window_of(np);
    int status;

    if (stage->generation == 0) {
        if (window != NULL && stage->slot < NXR_STAGING_SLOTS) {
            nxr_work_stop(nxr_staging_slot(&window->memory, stage->slot));
        }
        return;
    }
    status = copy_slot(np, stage);
    if (status != NIXL_INPROGRESS) {
        window_answer(np, stage->slot, status);
    }
}

/* Forget a window that nobody uses any more, and which was revoked. Caller holds job.lock. */
static void window_free(const struct nxr_peer *peer)
{
    struct window *window = work_peer_of(peer)->window;

    nxr_publish_free(window->published);
    nxr_net_lock();
    work_peer_of(peer)->window = NULL;
    nxr_net_unlock();
    nxr_staging_unmap(&window->memory);
    free(window);
}

static void window_say_kept(const struct nxr_peer *peer)
{
    nxr_warn(NET, "the window of %s is kept until the process ends", nxr_peer_name(peer));
}

static bool windows_are_idle(void *arg)
{
    (void)arg;
    return !nxr_works_are_under_way();
}

/* Those of former processes were revoked when these were replaced. */
static void close_former(void)
{
    int status = nxr_wait(windows_are_idle, NULL, nxr_env.finalize_timeout);

    pthread_mutex_lock(&nxr_job.lock);
    for (const struct nxr_peer *former = nxr_returned_next(NULL); former != NULL;
         former = nxr_returned_next(former)) {
        if (work_peer_of(former)->window == NULL) {
            continue;
        }
        if (status == NIXL_OK) {
            window_free(former);
        } else {
            window_say_kept(former);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* Nobody uses the windows any more. */
static void windows_close(void)
{
    for (const struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL;
         peer = nxr_peers_next(peer)) {
        struct window *window = work_peer_of(peer)->window;

        if (window == NULL) {
            continue;
        }
        pthread_mutex_lock(&nxr_job.lock);
        nxr_publish_revoke(window->published);
        pthread_mutex_unlock(&nxr_job.lock);
        if (nxr_inflight_quiesce_own(window->published->key.id, nxr_env.finalize_timeout) !=
            NIXL_OK) {
            window_say_kept(peer);
            continue;
        }
        pthread_mutex_lock(&nxr_job.lock);
        window_free(peer);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    close_former();
}

/* ---- peers that have ended ------------------------------------------------------------------- */

/*
 * A window's name has only the rank: the new process must not find that of the former one, whose
 * memory stays until nothing refers to the peer.
 */
static void windows_peer_replaced(struct nxr_peer *peer)
{
    if (work_peer_of(peer)->window != NULL) {
        nxr_publish_revoke(work_peer_of(peer)->window->published);
    }
}

static bool windows_peer_is_used(struct nxr_peer *peer)
{
    return nxr_net_remote(peer) != NULL && nxr_works_are_under_way();
}

/* Its connection has ended, and with it what it had under way here. */
static void windows_peer_unlink(struct nxr_peer *peer)
{
    if (work_peer_of(peer)->window == NULL) {
        return;
    }
    if (!nxr_peer_is_replaced(peer)) { /* else its name is that of another window now */
        nxr_publish_revoke(work_peer_of(peer)->window->published);
    }
    window_free(peer);
}

/* ---- for the networks ------------------------------------------------------------------------ */

static void windows_register(void)
{
    static const char prefix[] = {NXR_WINDOW_NAME, '\0'};

    nxr_publish_make_by(prefix, window_publish);
    nxr_works_register();
    nxr_net_register(NXR_NET_STAGE, window_take_stage, true);
}

const struct nxr_subsystem nxr_windows_subsystem = {
    .name = "windows",
    .register_handlers = windows_register,
    .peer_slot = &nxr_work_slot,
    .peer_init = nxr_work_peer_init,
    .peer_replaced = windows_peer_replaced,
    .peer_is_used = windows_peer_is_used,
    .peer_unlink = windows_peer_unlink,
    .quiesce = windows_close,
};
