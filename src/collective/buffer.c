/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offering buffers. An offer is published in a cell, and so is what each member could reach: two
 * phases, or one if no buffer is good for all. If the root of a call offers nothing, members wait
 * for its offer alone. No lock.
 */
#include "config.h"

#include "collective/buffer.h"
#include "collective/buffer_far.h"
#include "collective/phase.h"
#include "collective/plan.h"
#include "memory/reduce.h"
#include "util/cuda_dyn.h"
#include "util/env.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * What a member offers. NO_PROCESS_VM is published with what it reaches: its process_vm calls fail.
 */
enum offer_state { OFFER_NONE, OFFER_IN_REGION, OFFER_ELSEWHERE, OFFER_BAD };
#define NO_PROCESS_VM 4u

/* One buffer, as published in a cell. */
struct told_buffer {
    uint64_t generation;
    uint64_t offset;
    uint64_t addr;
    uint32_t state;   /* enum offer_state */
    uint32_t name_at; /* in the names of the offer */
};

/* The names of both regions, each with a NUL. Where they are long, they lie in the long cell. */
#define NAMES_NBYTES 160
struct told_offer {
    struct told_buffer src;
    struct told_buffer dst;
    uint16_t names_nbytes;
    bool has_device;
    bool cannot_write;
    bool has_kernel;
    bool is_plain; /* this member touches no device memory in this call */
    char names[NAMES_NBYTES];
};
_Static_assert(sizeof(struct told_offer) <= NXR_NODE_CELL_SHORT, "an offer is short");

/* All that a member tells. */
struct telling {
    struct told_offer told;
    char names[2 * (NIXL_NAME_MAX + 1)];
};

/* A buffer of another member, as it was told. */
struct heard_buffer {
    int member;
    const struct told_buffer *told;
    const char *name;
};

/* ---- the own buffers ------------------------------------------------------------------------- */

/*
 * process_vm calls do not always reach memory that drivers map for a device, not even within a
 * process. If there is a driver, check both ends of the buffer.
 */
static bool is_plain(const void *addr, size_t nbytes)
{
    char ends[2];
    struct iovec here = {ends, sizeof(ends)};
    struct iovec there[] = {{(void *)(uintptr_t)addr, 1},
                            {(char *)(uintptr_t)addr + nbytes - 1, 1}};

    return !nxr_cuda_is_in_process() ||
           process_vm_readv(getpid(), &here, 1, there, 2, 0) == (ssize_t)sizeof(ends);
}

static void tell_name(struct telling *telling, struct told_buffer *told, const char *name)
{
    size_t nbytes = strlen(name) + 1;

    told->name_at = telling->told.names_nbytes;
    memcpy(telling->names + told->name_at, name, nbytes);
    telling->told.names_nbytes += (uint16_t)nbytes;
}

static void tell_buffer(const struct nixl_team *team, struct telling *telling,
                        struct told_buffer *told, const void *addr, size_t nbytes,
                        const struct nxr_offer *offer)
{
    struct nxr_region_location location;

    told->state = addr == NULL ? OFFER_NONE : OFFER_BAD;
    told->addr = (uintptr_t)addr;
    if (addr == NULL || (addr == offer->src && offer->has_no_src)) {
        return;
    }
    if (nxr_region_find_own(addr, nbytes, &location)) {
        told->state = OFFER_IN_REGION;
        told->generation = location.generation;
        told->offset = location.offset;
        tell_name(telling, told, location.name);
    } else if (!offer->is_in_region && nbytes > 0 && nxr_env.process_vm &&
               !team->has_no_process_vm && nxr_range_find(addr) == NULL && is_plain(addr, nbytes)) {
        told->state = OFFER_ELSEWHERE;
    }
}

/* ---- offers ---------------------------------------------------------------------------------- */

static const struct told_offer *told_by(const struct nixl_team *team, int member, uint64_t phase)
{
    return (const void *)nxr_node_cell_bytes(&team->node, member, phase, sizeof(struct told_offer));
}

/* Where the names of an offer lie. */
static char *names_in_cell(const struct nxr_node *node, int member, uint64_t phase)
{
    return (char *)nxr_node_cell_bytes(node, member, phase, NXR_NODE_CELL_ROOM);
}

static struct heard_buffer hear(const struct nixl_team *team, int member, uint64_t phase,
                                const struct told_offer *offer, const struct told_buffer *told)
{
    const char *names = offer->names_nbytes <= NAMES_NBYTES
                            ? offer->names
                            : names_in_cell(&team->node, member, phase);

    return (struct heard_buffer){member, told, names + told->name_at};
}

/* Publish an offer. */
static int tell(struct nixl_team *team, uint64_t phase, struct telling *telling)
{
    const struct nxr_node *node = &team->node;
    struct told_offer *told = &telling->told;

    if (told->names_nbytes <= NAMES_NBYTES) {
        memcpy(told->names, telling->names, told->names_nbytes);
    } else {
        int status = nxr_node_reuse_cell(team, phase);

        if (status != NIXL_OK) {
            return status;
        }
        memcpy(names_in_cell(node, node->me, phase), telling->names, told->names_nbytes);
    }
    return nxr_node_put_cell(team, told, sizeof(*told));
}

static bool is_there(const struct told_buffer *told)
{
    return told->state == OFFER_IN_REGION || told->state == OFFER_ELSEWHERE;
}

/*
 * Wait for the offers of all. Where the root has none, the others' are of no use, and a member does
 * not wait for them: *is_any_p is false, for all members alike.
 */
static int wait_offers(struct nixl_team *team, const struct nxr_offer *offer, uint64_t phase,
                       bool *is_any_p)
{
    const struct told_offer *told;
    int status;

    *is_any_p = true;
    if (offer->is_rooted) {
        status = nxr_node_wait_cell(team, offer->root, phase);
        if (status != NIXL_OK) {
            return status;
        }
        told = told_by(team, offer->root, phase);
        *is_any_p = is_there(&told->src) || is_there(&told->dst) || told->has_device;
    }
    return *is_any_p ? nxr_node_wait_cells(team, phase) : NIXL_OK;
}

/* Which buffers exist and are usable at all members that offer them. */
static unsigned what_is_good(struct nixl_team *team, uint64_t phase, bool for_kernels)
{
    unsigned offered = 0, bad = 0, elsewhere = 0;
    bool has_device = false, has_kernels = true;

    team->offers_are_plain = true;

    for (int i = 0; i < team->node.size; i++) {
        const struct told_offer *told = told_by(team, i, phase);

        has_kernels &= told->has_kernel && told->src.state == OFFER_IN_REGION &&
                       (told->dst.state == OFFER_IN_REGION || told->dst.state == OFFER_NONE);
        has_device |= told->has_device;
        team->offers_are_plain &= told->is_plain;
        bad |= told->cannot_write ? NXR_BUFFER_DST : 0u;
        elsewhere |= told->src.state == OFFER_ELSEWHERE ? NXR_BUFFER_SRC : 0u;

        offered |= (is_there(&told->src) ? NXR_BUFFER_SRC : 0u) |
                   (is_there(&told->dst) ? NXR_BUFFER_DST : 0u);
        bad |= (told->src.state == OFFER_BAD ? NXR_BUFFER_SRC : 0u) |
               (told->dst.state == OFFER_BAD ? NXR_BUFFER_DST : 0u);
    }
    if (for_kernels) {
        return has_kernels ? NXR_BUFFER_KERNELS : 0;
    }
    return offered & ~(has_device ? bad | elsewhere | NXR_BUFFER_DST : bad);
}

/*
 * Hold a segment for this member's kernel, in *held_p. NULL: the kernel does not reach it, or its
 * owner has closed it. Returns as nxr_team_look().
 */
static int hold_for_kernel(struct nixl_team *team, const struct heard_buffer *heard,
                           const struct nxr_range *by, struct nxr_segment **held_p)
{
    uint64_t generation = heard->told->generation;
    const struct nxr_map *map;
    int status = nxr_map_find(team, heard->member, heard->name, generation, &map);
    struct nxr_segment *segment =
        map != NULL ? nxr_region_segment(map->region, team->ranks[team->local[heard->member]])
                    : NULL;

    *held_p = NULL;
    if (segment == NULL || !nxr_device_segment_hold(segment)) {
        return status;
    }
    if (segment->key.generation == generation && nxr_reduce_reaches(by, segment->addr)) {
        *held_p = segment;
    } else {
        nxr_device_segment_release(segment);
    }
    return status;
}

static int reach_by_kernel(struct nixl_team *team, struct heard_buffer heard,
                           struct nxr_far_buffer *buffer, const struct nxr_range *by,
                           uint32_t *reached_p)
{
    int status = NIXL_OK;

    *buffer = (struct nxr_far_buffer){.there = heard.told->addr, .offset = heard.told->offset};
    if (*reached_p != 0 && is_there(heard.told)) {
        status = hold_for_kernel(team, &heard, by, &buffer->held);
        *reached_p = buffer->held != NULL ? *reached_p : 0;
    }
    return status;
}

/* Find a way to a buffer of another member; if there is none, clear `bit` in *reached_p. */
static int buffer_reach(struct nixl_team *team, struct heard_buffer heard,
                        struct nxr_far_buffer *buffer, uint32_t bit, uint32_t *reached_p)
{
    const struct told_buffer *told = heard.told;
    struct nxr_far *far = &team->far[heard.member];
    int status = NIXL_OK;

    *buffer = (struct nxr_far_buffer){.there = told->addr};
    if ((*reached_p & bit) == 0 || !is_there(told)) {
        return NIXL_OK;
    }
    if (told->state == OFFER_IN_REGION) {
        const struct nxr_map *map;

        status = nxr_map_find(team, heard.member, heard.name, told->generation, &map);
        if (map == NULL) {
            *reached_p &= ~bit;
            return status;
        }
        buffer->here = map->addr != NULL ? map->addr + told->offset : NULL;
        buffer->region = map->region;
        buffer->offset = told->offset;
        return NIXL_OK;
    }
    status = nxr_far_prove(team, heard.member);
    if (far->pid < 0) {
        *reached_p = (*reached_p & ~bit) | NO_PROCESS_VM;
    }
    return status;
}

/*
 * Find ways to all usable buffers of the others; *reached_p: the kinds that are reached at all
 * members.
 */
static int reach_all(struct nixl_team *team, uint64_t phase, const struct nxr_range *by,
                     uint32_t *reached_p)
{
    int status = NIXL_OK;

    if (team->far == NULL) {
        team->far = calloc((size_t)team->node.size, sizeof(*team->far));
    }
    if (team->far == NULL) {
        *reached_p = 0;
    }
    for (int i = 0; i < team->node.size && team->far != NULL && status == NIXL_OK; i++) {
        const struct told_offer *told = told_by(team, i, phase);
        struct nxr_far *far = &team->far[i];
        struct heard_buffer src, dst;

        if (i == team->node.me) {
            continue;
        }
        src = hear(team, i, phase, told, &told->src);
        dst = hear(team, i, phase, told, &told->dst);
        status = by != NULL ? reach_by_kernel(team, src, &far->src, by, reached_p)
                            : buffer_reach(team, src, &far->src, NXR_BUFFER_SRC, reached_p);
        if (status == NIXL_OK) {
            status = by != NULL ? reach_by_kernel(team, dst, &far->dst, by, reached_p)
                                : buffer_reach(team, dst, &far->dst, NXR_BUFFER_DST, reached_p);
        }
    }
    return status;
}

static int offer_anew(struct nixl_team *team, const struct nxr_offer *offer, unsigned *shared_p)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    struct telling telling; /* its names are large: only what is used is set */
    struct told_offer *told = &telling.told;
    unsigned good;
    uint32_t own, reached;
    bool is_any = false;
    int status;

    *shared_p = 0;
    *told = (struct told_offer){.has_device = offer->has_device,
                                .cannot_write = offer->cannot_write,
                                .has_kernel = offer->by != NULL,
                                .is_plain = team->is_plain};
    tell_buffer(team, &telling, &told->src, offer->src, offer->src_nbytes, offer);
    tell_buffer(team, &telling, &told->dst, offer->dst, offer->dst_nbytes, offer);
    status = tell(team, phase, &telling);
    if (status == NIXL_OK) {
        status = wait_offers(team, offer, phase, &is_any);
    }
    good = status == NIXL_OK && is_any ? what_is_good(team, phase, offer->for_kernels) : 0;
    if (good == 0) {
        return status;
    }
    own = good;
    status = reach_all(team, phase, offer->by, &own);
    phase = node->phase + 1;
    if (status == NIXL_OK) {
        status = nxr_node_put_cell(team, &own, sizeof(own));
    }
    if (status == NIXL_OK) {
        status = nxr_node_wait_cells(team, phase);
    }
    for (int i = 0; i < node->size && status == NIXL_OK; i++) {
        reached = own;
        if (i != node->me) { /* its own cell is on the way to others */
            memcpy(&reached, nxr_node_cell_bytes(node, i, phase, sizeof(reached)), sizeof(reached));
        }
        good &= reached;
        team->has_no_process_vm |= (reached & NO_PROCESS_VM) != 0;
    }
    *shared_p = status == NIXL_OK ? good : 0;
    return status;
}

/* All members meet: what each offers is there, as it was when the plan was made. */
static int offer_as_planned(struct nixl_team *team, const struct nxr_planned_offer *planned,
                            unsigned *shared_p)
{
    struct nxr_node *node = &team->node;

    nxr_node_publish(node, node->phase + 1);
    *shared_p = planned->shared;
    return nxr_node_wait_all(team, node->phase);
}

int nxr_buffers_offer(struct nixl_team *team, const struct nxr_offer *offer, unsigned *shared_p)
{
    struct nxr_planned_offer *planned = nxr_plan_offer(team, offer);
    int status;

    if (planned != NULL && planned->is_made) {
        return offer_as_planned(team, planned, shared_p);
    }
    status = offer_anew(team, offer, shared_p);
    if (planned != NULL) {
        planned->far = team->far;
        planned->shared = *shared_p;
        planned->is_made = status == NIXL_OK;
    }
    return status;
}

const void *nxr_buffer_src(const struct nixl_team *team, int member)
{
    return team->far[member].src.here;
}

char *nxr_buffer_src_for_kernels(const struct nixl_team *team, int member)
{
    const struct nxr_far_buffer *src = &team->far[member].src;

    return src->held->addr + src->offset;
}

char *nxr_buffer_dst_for_kernels(const struct nixl_team *team, int member)
{
    const struct nxr_far_buffer *dst = &team->far[member].dst;

    return dst->held->addr + dst->offset;
}

static void buffer_release(struct nxr_far_buffer *buffer)
{
    if (buffer->held != NULL) {
        nxr_device_segment_release(buffer->held);
        buffer->held = NULL;
    }
}

void nxr_buffers_release(struct nixl_team *team)
{
    for (int i = 0; team->far != NULL && i < team->node.size; i++) {
        buffer_release(&team->far[i].src);
        buffer_release(&team->far[i].dst);
    }
}

void nxr_buffers_drop(struct nixl_team *team)
{
    nxr_fars_drop(team, team->far);
    team->far = NULL;
}
