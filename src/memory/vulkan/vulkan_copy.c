/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from, to and within Vulkan memory. If CUDA knows the memory, CUDA copies. If the processor
 * can read and write both sides like its own memory, the processor copies, which takes less time
 * than using a device. Otherwise the device copies: all pieces are one batch. Host memory that the
 * device does not reach goes through a staging buffer, in rounds. No lock: a copy is polled by one
 * thread at a time.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include "memory/cuda/kind.h"

#include "util/copy.h"
#include "util/env.h"

#include <string.h>

#define MAX_REGIONS 64 /* in one command */

/*
 * Up to this many pieces are acquired and released individually. If there are more, everything
 * between the first and the last byte is acquired in one.
 */
#define MAX_BARRIERS 64

/* The regions of a round, one after the other. */
struct walk {
    struct nxr_device_copy *copy;
    struct nxr_vulkan_batch *batch;
    struct nxr_vulkan_spot spot;
    size_t n_staged;
};

static struct nxr_vulkan_memory *vulkan_copy_memory_of(const struct nxr_range *range)
{
    return range != NULL ? range->memory : NULL;
}

/* The offset of an address in its buffer. */
static uint64_t offset_of(const struct nxr_range *range, const void *addr)
{
    return (uint64_t)((const char *)addr - vulkan_copy_memory_of(range)->base);
}

/* ---- by CUDA --------------------------------------------------------------------------------- */

/*
 * The same memory as CUDA sees it. NULL: as host memory, which it is if a processor substitutes for
 * the GPU. False: CUDA does not know it.
 */
static bool in_cuda(const struct nxr_range *range, const struct nxr_range **cuda_p)
{
    const struct nxr_vulkan_memory *memory;

    *cuda_p = range;
    if (range == NULL || range->kind != &nxr_memory_vulkan) {
        return true;
    }
    memory = vulkan_copy_memory_of(range);
    *cuda_p = memory->has_cuda ? &memory->cuda : NULL;
    return memory->has_cuda || memory->is_cached;
}

/*
 * Try to make it a copy of CUDA's, which then handles all later calls on it. NIXL_E_UNSUPPORTED:
 * CUDA cannot do it, and nothing has changed.
 */
static int start_in_cuda(struct nxr_device_copy *copy)
{
    const struct nxr_range *dst = copy->dst, *src = copy->src;
    int status = NIXL_E_UNSUPPORTED;

    if (in_cuda(dst, &copy->dst) && in_cuda(src, &copy->src) &&
        (copy->dst != NULL || copy->src != NULL)) {
        status = nxr_memory_cuda.copy_start(copy);
    }
    if (status == NIXL_E_UNSUPPORTED) {
        copy->dst = dst;
        copy->src = src;
    } else {
        copy->engine = &nxr_memory_cuda;
    }
    return status;
}

/* ---- by the processor ------------------------------------------------------------------------ */

static bool is_mapped(const struct nxr_range *range, bool must_be_cached)
{
    const struct nxr_vulkan_memory *memory = vulkan_copy_memory_of(range);

    return memory == NULL || (memory->map != NULL && (memory->is_cached || !must_be_cached));
}

/* Reading memory that is mapped but not cached is a hundred times slower. */
static bool may_map(const struct nxr_device_copy *copy)
{
    bool must_be_cached = strcmp(nxr_env.vulkan_copy, "map") != 0;

    return strcmp(nxr_env.vulkan_copy, "cmd") != 0 && is_mapped(copy->dst, must_be_cached) &&
           is_mapped(copy->src, must_be_cached);
}

/* The processor's address of a byte. */
static void *vulkan_copy_mapped(const struct nxr_range *range, const void *addr)
{
    return range != NULL ? vulkan_copy_memory_of(range)->map + offset_of(range, addr)
                         : (void *)addr;
}

bool nxr_vulkan_is_mapped(const struct nxr_vulkan_memory *memory)
{
    return memory->is_cached && memory->base == memory->map &&
           strcmp(nxr_env.vulkan_copy, "cmd") != 0;
}

static int vulkan_copy_copy_mapped(const struct nxr_device_copy *copy)
{
    for (size_t i = 0; i < copy->n_pieces; i++) {
        const struct nxr_device_piece *piece = &copy->pieces[i];

        nxr_copy(vulkan_copy_mapped(copy->dst, piece->dst),
                 vulkan_copy_mapped(copy->src, piece->src), piece->nbytes);
    }
    return NIXL_OK;
}

/* ---- the regions of a round ------------------------------------------------------------------ */

/*
 * Where the device reaches this host memory. Shortens the region to the room left in the stage,
 * whose buffer is set by plan_round().
 */
static struct nxr_vulkan_window reach_host(struct walk *walk, char *addr,
                                           struct nxr_vulkan_region *region)
{
    size_t room = NXR_VULKAN_STAGE_NBYTES - walk->n_staged;
    struct nxr_vulkan_window window;

    if (nxr_vulkan_pinned(walk->batch->device, addr, region->nbytes, &window)) {
        return window;
    }
    region->nbytes = region->nbytes < room ? region->nbytes : room;
    region->host = addr;
    region->stage_offset = walk->n_staged;
    window = (struct nxr_vulkan_window){VK_NULL_HANDLE, walk->n_staged};
    walk->n_staged += region->nbytes;
    return window;
}

/* The next region; false: the round, or everything, is done. */
static bool vulkan_copy_next(struct walk *walk, struct nxr_vulkan_region *region)
{
    struct nxr_device_copy *copy = walk->copy;
    const struct nxr_device_piece *piece = &copy->pieces[walk->spot.piece];
    struct nxr_vulkan_window window;
    char *dst, *src;

    while (walk->spot.piece < copy->n_pieces && piece->nbytes == walk->spot.offset) {
        walk->spot = (struct nxr_vulkan_spot){.piece = walk->spot.piece + 1};
        piece++;
    }
    if (walk->spot.piece == copy->n_pieces) {
        return false;
    }
    dst = (char *)piece->dst + walk->spot.offset;
    src = (char *)piece->src + walk->spot.offset;
    *region = (struct nxr_vulkan_region){.nbytes = piece->nbytes - walk->spot.offset};
    if (copy->dst == NULL || copy->src == NULL) {
        window = reach_host(walk, copy->dst == NULL ? dst : src, region);
        region->dst = region->src = window.buffer;
        region->dst_offset = region->src_offset = window.offset;
    }
    if (copy->dst != NULL) {
        region->dst = vulkan_copy_memory_of(copy->dst)->buffer;
        region->dst_offset = offset_of(copy->dst, dst);
    }
    if (copy->src != NULL) {
        region->src = vulkan_copy_memory_of(copy->src)->buffer;
        region->src_offset = offset_of(copy->src, src);
    }
    walk->spot.offset += region->nbytes;
    return region->nbytes > 0;
}

/*
 * Decide once for each region of the round how the device reaches it. Host memory may be pinned
 * by another thread at any moment: what is recorded, and what is copied from the stage at the
 * end, must come from one decision.
 */
static int plan_round(struct nxr_device_copy *copy, struct nxr_vulkan_batch *batch)
{
    struct walk walk = {.copy = copy, .batch = batch, .spot = batch->from};
    struct nxr_vulkan_region region;
    int status = NIXL_OK;

    batch->n_regions = 0;
    while (status == NIXL_OK && vulkan_copy_next(&walk, &region)) {
        if (region.host != NULL) {
            status = nxr_vulkan_batch_need_stage(batch);
            if (status != NIXL_OK) {
                break;
            }
            *(copy->dst == NULL ? &region.dst : &region.src) = batch->stage->buffer;
        }
        status = nxr_vulkan_batch_add(batch, &region);
    }
    batch->to = walk.spot;
    return status;
}

/* ---- taking over and giving back ------------------------------------------------------------- */

/* What a round uses of the memory on one of its sides. */
struct use {
    const struct nxr_vulkan_memory *memory; /* NULL: host memory */
    VkAccessFlags access;
    uint64_t low, high;
    struct span {
        uint64_t low, high;
    } spans[MAX_BARRIERS];
    size_t n_spans; /* all of them; may be more than there is room for */
};

static void use_add(struct use *use, uint64_t offset, size_t nbytes)
{
    if (use->n_spans < MAX_BARRIERS) {
        use->spans[use->n_spans] = (struct span){offset, offset + nbytes};
    }
    use->low = use->n_spans == 0 || offset < use->low ? offset : use->low;
    use->high = offset + nbytes > use->high ? offset + nbytes : use->high;
    use->n_spans++;
}

/* Acquire the bytes from the external queue family, or release them to it. */
static void vulkan_copy_pass_on(VkCommandBuffer commands, const struct use *use, bool is_taken)
{
    const struct span whole = {use->low, use->high};
    const struct span *spans = use->n_spans <= MAX_BARRIERS ? use->spans : &whole;
    uint32_t n = use->n_spans <= MAX_BARRIERS ? (uint32_t)use->n_spans : 1;
    VkBufferMemoryBarrier barriers[MAX_BARRIERS];

    if (use->memory == NULL || n == 0) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t family = use->memory->device->family;

        barriers[i] = (VkBufferMemoryBarrier){
            .sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
            .srcAccessMask = is_taken ? 0 : use->access,
            .dstAccessMask = is_taken ? use->access : 0,
            .srcQueueFamilyIndex = is_taken ? VK_QUEUE_FAMILY_EXTERNAL : family,
            .dstQueueFamilyIndex = is_taken ? family : VK_QUEUE_FAMILY_EXTERNAL,
            .buffer = use->memory->buffer,
            .offset = spans[i].low,
            .size = spans[i].high - spans[i].low,
        };
    }
    nxr_vk.CmdPipelineBarrier(
        commands, is_taken ? VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT : VK_PIPELINE_STAGE_TRANSFER_BIT,
        is_taken ? VK_PIPELINE_STAGE_TRANSFER_BIT : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0,
        NULL, n, barriers, 0, NULL);
}

/* Make what the device has written visible to the processor. */
static void pass_to_host(VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };

    nxr_vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                              0, 1, &barrier, 0, NULL, 0, NULL);
}

/* ---- by the device --------------------------------------------------------------------------- */

/* Record the copies of a round; bytes staged for the device are copied to the stage. */
static void record_copies(const struct nxr_device_copy *copy, struct nxr_vulkan_batch *batch)
{
    VkBufferCopy list[MAX_REGIONS];
    VkBuffer dst = VK_NULL_HANDLE, src = VK_NULL_HANDLE;
    uint32_t n = 0;

    for (size_t i = 0; i < batch->n_regions; i++) {
        const struct nxr_vulkan_region *region = &batch->regions[i];

        if (n > 0 && (n == MAX_REGIONS || region->dst != dst || region->src != src)) {
            nxr_vk.CmdCopyBuffer(batch->commands, src, dst, n, list);
            n = 0;
        }
        if (region->host != NULL && copy->src == NULL) {
            nxr_copy(batch->stage->map + region->stage_offset, region->host, region->nbytes);
        }
        dst = region->dst;
        src = region->src;
        list[n++] = (VkBufferCopy){region->src_offset, region->dst_offset, region->nbytes};
    }
    if (n > 0) {
        nxr_vk.CmdCopyBuffer(batch->commands, src, dst, n, list);
    }
}

/* Record and submit the round that begins at batch->from. */
static int vulkan_copy_run_round(struct nxr_device_copy *copy, struct nxr_vulkan_batch *batch)
{
    struct use dst = {.memory = vulkan_copy_memory_of(copy->dst),
                      .access = VK_ACCESS_TRANSFER_WRITE_BIT};
    struct use src = {.memory = vulkan_copy_memory_of(copy->src),
                      .access = VK_ACCESS_TRANSFER_READ_BIT};
    int status = plan_round(copy, batch);

    if (status != NIXL_OK) {
        return status;
    }
    for (size_t i = 0; i < batch->n_regions; i++) {
        use_add(&dst, batch->regions[i].dst_offset, batch->regions[i].nbytes);
        use_add(&src, batch->regions[i].src_offset, batch->regions[i].nbytes);
    }
    vulkan_copy_pass_on(batch->commands, &dst, true);
    vulkan_copy_pass_on(batch->commands, &src, true);
    record_copies(copy, batch);
    if (copy->dst == NULL) {
        pass_to_host(batch->commands);
    }
    vulkan_copy_pass_on(batch->commands, &dst, false);
    vulkan_copy_pass_on(batch->commands, &src, false);
    return nxr_vulkan_batch_submit(batch);
}

/* A round has ended: copy bytes staged for the host to their destination. */
static void unstage(const struct nxr_device_copy *copy, const struct nxr_vulkan_batch *batch)
{
    for (size_t i = 0; copy->dst == NULL && i < batch->n_regions; i++) {
        const struct nxr_vulkan_region *region = &batch->regions[i];

        if (region->host != NULL) {
            nxr_copy(region->host, batch->stage->map + region->stage_offset, region->nbytes);
        }
    }
}

int nxr_vulkan_copy_start(struct nxr_device_copy *copy)
{
    const struct nxr_vulkan_memory *dst, *src;
    struct nxr_vulkan_batch *batch;
    int status = start_in_cuda(copy);

    if (status != NIXL_E_UNSUPPORTED) {
        return status;
    }
    if ((copy->dst != NULL && copy->dst->kind != &nxr_memory_vulkan) ||
        (copy->src != NULL && copy->src->kind != &nxr_memory_vulkan)) {
        return NIXL_E_UNSUPPORTED;
    }
    if (may_map(copy)) {
        return vulkan_copy_copy_mapped(copy);
    }
    dst = vulkan_copy_memory_of(copy->dst);
    src = vulkan_copy_memory_of(copy->src);
    if (dst != NULL && src != NULL && dst->device != src->device) {
        return NIXL_E_UNSUPPORTED;
    }
    status = nxr_vulkan_batch_take((dst != NULL ? dst : src)->device, &batch);
    if (status != NIXL_OK) {
        return status;
    }
    batch->from = (struct nxr_vulkan_spot){0, 0};
    status = vulkan_copy_run_round(copy, batch);
    if (status != NIXL_OK) {
        nxr_vulkan_batch_give(batch);
        return status;
    }
    copy->state[0] = batch;
    return NIXL_INPROGRESS;
}

int nxr_vulkan_copy_test(struct nxr_device_copy *copy)
{
    struct nxr_vulkan_batch *batch = copy->state[0];
    int status = nxr_vulkan_batch_test(batch);

    if (status == NIXL_INPROGRESS) {
        return status;
    }
    if (status == NIXL_OK) {
        unstage(copy, batch);
        if (batch->to.piece < copy->n_pieces) {
            batch->from = batch->to;
            status = nxr_vulkan_batch_reopen(batch);
            status = status == NIXL_OK ? vulkan_copy_run_round(copy, batch) : status;
            if (status == NIXL_OK) {
                return NIXL_INPROGRESS;
            }
        }
    }
    nxr_vulkan_batch_give(batch);
    return status;
}

void nxr_vulkan_copy_arm(struct nxr_device_copy *copy)
{
    nxr_vulkan_watch(copy->state[0]);
}

int nxr_vulkan_clear(struct nxr_vulkan_memory *memory, uint64_t offset, uint64_t nbytes,
                     bool is_new)
{
    struct use use = {.memory = memory, .access = VK_ACCESS_TRANSFER_WRITE_BIT};
    struct nxr_vulkan_batch *batch;
    int status = nxr_vulkan_batch_take(memory->device, &batch);

    if (status != NIXL_OK) {
        return status;
    }
    use_add(&use, offset, nbytes);
    if (!is_new) {
        vulkan_copy_pass_on(batch->commands, &use, true);
    }
    /* A processor that substitutes for a GPU gets new pages from the kernel, which are zero. */
    if (!is_new || memory->device->type != VK_PHYSICAL_DEVICE_TYPE_CPU) {
        nxr_vk.CmdFillBuffer(batch->commands, memory->buffer, offset, nbytes, 0);
    }
    vulkan_copy_pass_on(batch->commands, &use, false);
    status = nxr_vulkan_batch_submit(batch);
    if (status == NIXL_OK) {
        status = nxr_vulkan_batch_wait(batch);
    }
    nxr_vulkan_batch_give(batch);
    return status;
}
