/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: a command buffer in a pool of its own, so that threads record without a lock, and a
 * fence. They are kept for reuse, since recording costs less than a microsecond in the driver and
 * creating a batch takes long. Lock: device->lock guards the queue and the free batches; a batch
 * that is taken belongs to its taker.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include "util/clock.h"
#include "util/log.h"

#include <stdlib.h>

#define WAIT_NS (100 * NXR_MS) /* one of several waits */

static VkResult vulkan_batch_begin(struct nxr_vulkan_batch *batch)
{
    const VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };

    return nxr_vk.BeginCommandBuffer(batch->commands, &info);
}

static void batch_free(struct nxr_vulkan_batch *batch)
{
    VkDevice device = batch->device->device;

    if (batch->stage != NULL) {
        nxr_vulkan_unmake(batch->stage);
    }
    nxr_vk.DestroyFence(device, batch->fence, NULL);
    nxr_vk.DestroyCommandPool(device, batch->pool, NULL);
    free(batch->regions);
    free(batch);
}

static VkResult vulkan_batch_fill(struct nxr_vulkan_batch *batch)
{
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = batch->device->family,
    };
    const VkFenceCreateInfo fence = {
        .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO,
    };
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkDevice device = batch->device->device;
    VkResult result = nxr_vk.CreateCommandPool(device, &pool, NULL, &batch->pool);

    if (result == VK_SUCCESS) {
        commands.commandPool = batch->pool;
        result = nxr_vk.AllocateCommandBuffers(device, &commands, &batch->commands);
    }
    if (result == VK_SUCCESS) {
        result = nxr_vk.CreateFence(device, &fence, NULL, &batch->fence);
    }
    return result;
}

int nxr_vulkan_batch_take(struct nxr_vulkan_device *device, struct nxr_vulkan_batch **batch_p)
{
    struct nxr_vulkan_batch *batch;
    VkResult result = VK_SUCCESS;

    if (atomic_load_explicit(&device->is_lost, memory_order_relaxed)) {
        return NIXL_E_TRANSPORT;
    }
    pthread_mutex_lock(&device->lock);
    batch = device->free_batches;
    if (batch != NULL) {
        device->free_batches = batch->next;
    }
    pthread_mutex_unlock(&device->lock);
    if (batch == NULL) {
        batch = calloc(1, sizeof(*batch));
        if (batch == NULL) {
            return NIXL_E_NO_MEMORY;
        }
        batch->device = device;
        nxr_list_init(&batch->watch_link);
        result = vulkan_batch_fill(batch);
    }
    if (result == VK_SUCCESS) {
        result = vulkan_batch_begin(batch);
    }
    if (result != VK_SUCCESS) {
        batch_free(batch);
        return nxr_vulkan_status(device, result);
    }
    batch->is_armed = false;
    *batch_p = batch;
    return NIXL_OK;
}

int nxr_vulkan_batch_add(struct nxr_vulkan_batch *batch, const struct nxr_vulkan_region *region)
{
    if (batch->n_regions == batch->n_allocated) {
        size_t n = batch->n_allocated != 0 ? 2 * batch->n_allocated : 16;
        struct nxr_vulkan_region *regions = realloc(batch->regions, n * sizeof(*regions));

        if (regions == NULL) {
            return NIXL_E_NO_MEMORY;
        }
        batch->regions = regions;
        batch->n_allocated = n;
    }
    batch->regions[batch->n_regions++] = *region;
    return NIXL_OK;
}

int nxr_vulkan_batch_submit(struct nxr_vulkan_batch *batch)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &batch->commands,
    };
    struct nxr_vulkan_device *device = batch->device;
    VkResult result = nxr_vk.EndCommandBuffer(batch->commands);

    if (result == VK_SUCCESS) {
        pthread_mutex_lock(&device->lock);
        result = nxr_vk.QueueSubmit(device->queue, 1, &info, batch->fence);
        pthread_mutex_unlock(&device->lock);
    }
    if (result == VK_SUCCESS && batch->is_armed) {
        nxr_vulkan_watch(batch);
    }
    return nxr_vulkan_status(device, result);
}

int nxr_vulkan_batch_test(struct nxr_vulkan_batch *batch)
{
    struct nxr_vulkan_device *device = batch->device;

    if (atomic_load_explicit(&device->is_lost, memory_order_relaxed)) {
        return NIXL_E_TRANSPORT;
    }
    return nxr_vulkan_status(device, nxr_vk.GetFenceStatus(device->device, batch->fence));
}

int nxr_vulkan_batch_wait(struct nxr_vulkan_batch *batch)
{
    struct nxr_vulkan_device *device = batch->device;
    VkResult result;

    do {
        result = nxr_vk.WaitForFences(device->device, 1, &batch->fence, VK_TRUE, WAIT_NS);
    } while (result == VK_TIMEOUT && !atomic_load(&device->is_lost));
    return result == VK_TIMEOUT ? NIXL_E_TRANSPORT : nxr_vulkan_status(device, result);
}

int nxr_vulkan_batch_reopen(struct nxr_vulkan_batch *batch)
{
    VkDevice device = batch->device->device;
    VkResult result;

    nxr_vulkan_unwatch(batch);
    result = nxr_vk.ResetFences(device, 1, &batch->fence);
    if (result == VK_SUCCESS) {
        result = nxr_vk.ResetCommandPool(device, batch->pool, 0);
    }
    if (result == VK_SUCCESS) {
        result = vulkan_batch_begin(batch);
    }
    return nxr_vulkan_status(batch->device, result);
}

void nxr_vulkan_batch_give(struct nxr_vulkan_batch *batch)
{
    struct nxr_vulkan_device *device = batch->device;
    VkResult result = VK_SUCCESS;

    nxr_vulkan_unwatch(batch);
    if (!atomic_load(&device->is_lost)) {
        result = nxr_vk.ResetFences(device->device, 1, &batch->fence);
        if (result == VK_SUCCESS) {
            result = nxr_vk.ResetCommandPool(device->device, batch->pool, 0);
        }
        nxr_vulkan_status(device, result);
    }
    pthread_mutex_lock(&device->lock);
    batch->next = device->free_batches;
    device->free_batches = batch;
    pthread_mutex_unlock(&device->lock);
}

int nxr_vulkan_batch_need_stage(struct nxr_vulkan_batch *batch)
{
    const struct nxr_vulkan_make make = {
        .device = batch->device,
        .purpose = NXR_VULKAN_STAGE,
        .nbytes = NXR_VULKAN_STAGE_NBYTES,
    };
    char why[160];
    int status = NIXL_OK;

    if (batch->stage == NULL) {
        status = nxr_vulkan_make(&make, &batch->stage, why, sizeof(why));
        if (status == NIXL_OK && batch->stage->map == NULL) {
            nxr_vulkan_unmake(batch->stage);
            batch->stage = NULL;
            status = NIXL_E_NO_MEMORY;
        } else if (status != NIXL_OK) {
            nxr_warn(MEMORY, "vulkan: no staging buffer: %s", why);
        }
    }
    return status;
}

void nxr_vulkan_batches_free(struct nxr_vulkan_device *device)
{
    while (device->free_batches != NULL) {
        struct nxr_vulkan_batch *batch = device->free_batches;

        device->free_batches = batch->next;
        batch_free(batch);
    }
}
