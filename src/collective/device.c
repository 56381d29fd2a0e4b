/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying device memory for collectives: single copies that are waited for, or several that run in
 * the background, and the staging memory of a team in host memory. One thread of a process at a
 * time works for a team; the end of a copy may come from any.
 */
#include "config.h"

#include "collective/device.h"
#include "memory/memory.h"
#include "core/progress.h"
#include "util/env.h"
#include "util/log.h"
#include "core/wait.h"

#include <stdlib.h>
#include <sys/mman.h>

#define PAGE_NBYTES ((size_t)4096)

/* ---- memory ---------------------------------------------------------------------------------- */

size_t nxr_device_stage_nbytes(const struct nixl_team *team)
{
    size_t least = (size_t)team->size * NXR_ELEMENT_MAX; /* one element for each member */

    return least <= NXR_DEVICE_STAGE_LEAST ? NXR_DEVICE_STAGE_LEAST
                                           : (least / PAGE_NBYTES + 1) * PAGE_NBYTES;
}

static struct nxr_team_device *make_device(const struct nixl_team *team)
{
    size_t size = (size_t)team->size, stage_nbytes = nxr_device_stage_nbytes(team);
    size_t nbytes = NXR_DEVICE_STAGES * stage_nbytes;
    struct nxr_team_device *device =
        calloc(1, sizeof(*device) + 2 * NXR_DEVICE_STAGES * size * sizeof(device->pieces[0]));
    void *memory;

    if (device == NULL) {
        return NULL;
    }
    memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        free(device);
        return NULL;
    }
    device->memory = memory;
    device->nbytes = nbytes;
    for (size_t i = 0; i < NXR_DEVICE_STAGES; i++) {
        struct nxr_device_stage *stage = &device->stages[i];

        stage->memory = device->memory + i * stage_nbytes;
        stage->down.pieces = device->pieces + 2 * i * size;
        stage->up.pieces = device->pieces + (2 * i + 1) * size;
    }
    return device;
}

/* The memory that members share, and that other hosts write into, is also copied from and to. */
static void device_pin(struct nixl_team *team, const struct nxr_memory_kind *kind)
{
    const struct nxr_node *node = &team->node;

    kind->pin(team->device->memory, team->device->nbytes);
    if (node->head != NULL) {
        char *end = nxr_node_slot(node, node->size);

        kind->pin(node->head, (size_t)(end - (char *)node->head));
    }
    if (team->post.region != NULL) {
        kind->pin(nixl_region_addr(team->post.region), nixl_region_nbytes(team->post.region));
    }
}

int nxr_device_need(struct nixl_team *team, const struct nxr_range *range)
{
    unsigned bit = range != NULL ? 1u << nxr_range_kind(range) : 0;

    if (team->device == NULL) {
        team->device = make_device(team);
    }
    if (team->device == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    if ((team->device->pinned_kinds & bit) != bit) {
        team->device->pinned_kinds |= bit;
        device_pin(team, range->kind);
    }
    return NIXL_OK;
}

static bool device_is_under_way(struct nxr_device_lane *lane)
{
    return atomic_load_explicit(&lane->status, memory_order_acquire) == NIXL_INPROGRESS;
}

void nxr_device_drop(struct nixl_team *team)
{
    struct nxr_team_device *device = team->device;

    team->device = NULL;
    if (device == NULL) {
        return;
    }
    for (size_t i = 0; i < NXR_DEVICE_STAGES; i++) {
        if (device_is_under_way(&device->stages[i].down) ||
            device_is_under_way(&device->stages[i].up)) {
            nxr_error(COLL, "a copy of device memory did not end: its memory is not freed");
            return;
        }
    }
    nxr_memory_unpin(device->memory);
    munmap(device->memory, device->nbytes);
    free(device);
}

/* ---- copies that go on ----------------------------------------------------------------------- */

static void device_ended(struct nxr_device_copy *copy, int status)
{
    struct nxr_device_lane *lane = nxr_list_entry(copy, struct nxr_device_lane, copy);

    atomic_store_explicit(&lane->status, status, memory_order_release);
    nxr_wake_self();
}

static void device_begin(struct nxr_device_lane *lane, const struct nxr_device_copy *copy)
{
    int status;

    lane->copy = *copy;
    lane->copy.ended = device_ended;
    atomic_store_explicit(&lane->status, NIXL_INPROGRESS, memory_order_relaxed);
    status = nxr_device_copy_begin(&lane->copy);
    if (status != NIXL_INPROGRESS) {
        atomic_store_explicit(&lane->status, status, memory_order_relaxed);
    }
}

void nxr_device_begin(struct nxr_device_lane *lane, const struct nxr_range *dst,
                      const struct nxr_range *src, size_t n_pieces)
{
    if (n_pieces > 0) {
        device_begin(lane,
                     &(struct nxr_device_copy){
                         .pieces = lane->pieces, .n_pieces = n_pieces, .dst = dst, .src = src});
    }
}

static bool device_is_over(void *arg)
{
    struct nxr_device_lane *lane = arg;

    nxr_device_progress();
    return !device_is_under_way(lane);
}

int nxr_device_end(struct nxr_device_lane *lane)
{
    int status;

    if (device_is_under_way(lane) &&
        nxr_wait_as(device_is_over, lane, nxr_env.op_timeout, nxr_describe_reason,
                    &(const struct nxr_reason){.kind = NXR_WAIT_DEVICE, .peer = -1}) != NIXL_OK) {
        return NIXL_E_IN_USE;
    }
    status = atomic_load_explicit(&lane->status, memory_order_acquire);
    atomic_store_explicit(&lane->status, NIXL_OK, memory_order_relaxed);
    return status;
}

int nxr_device_run(struct nixl_team *team, const struct nxr_device_reduction *reduction,
                   const struct nxr_range *by)
{
    int status = nxr_device_need(team, NULL);

    if (status == NIXL_OK) {
        struct nxr_device_lane *lane = &team->device->stages[0].down;

        device_begin(lane, &(struct nxr_device_copy){.reduction = reduction, .dst = by});
        status = nxr_device_end(lane);
    }
    return status;
}

/* ---- one copy -------------------------------------------------------------------------------- */

/* Copy between devices that do not reach each other's memory. */
static int copy_through_host(const struct nixl_team *team, const struct nxr_device_piece *piece,
                             const struct nxr_range *dst, const struct nxr_range *src)
{
    char *host = team->device->stages[0].memory;
    size_t room = nxr_device_stage_nbytes(team);
    int status = NIXL_OK;

    for (size_t at = 0; at < piece->nbytes && status == NIXL_OK; at += room) {
        size_t left = piece->nbytes - at, nbytes = left < room ? left : room;

        status = nxr_device_copy(NULL, host, src, (const char *)piece->src + at, nbytes);
        if (status == NIXL_OK) {
            status = nxr_device_copy(dst, (char *)piece->dst + at, NULL, host, nbytes);
        }
    }
    return status;
}

int nxr_device_team_copy(struct nixl_team *team, void *dst, const void *src, size_t nbytes)
{
    const struct nxr_range *dst_range = nxr_range_find(dst), *src_range = nxr_range_find(src);
    const struct nxr_device_piece piece = {dst, src, nbytes};
    int status;

    if (dst_range == NULL && src_range == NULL) {
        nxr_copy(dst, src, nbytes);
        return NIXL_OK;
    }
    if (nbytes == 0) {
        return NIXL_OK;
    }
    status = nxr_device_need(team, dst_range != NULL ? dst_range : src_range);
    if (status == NIXL_OK) {
        status = nxr_device_copy(dst_range, dst, src_range, src, nbytes);
    }
    if (status == NIXL_E_UNSUPPORTED && dst_range != NULL && src_range != NULL) {
        status = copy_through_host(team, &piece, dst_range, src_range);
    }
    return status == NIXL_OK ? status : nxr_team_break(team, status, -1);
}
