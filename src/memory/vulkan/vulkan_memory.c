/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan memory: one allocation with one buffer over it, new or imported, mapped if the processor
 * can use it like its own. All limits of the device are enforced here, since drivers do not enforce
 * them. No lock: each memory has one owner.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include "memory/cuda/cuda.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Sizes of allocations are multiples of this, so that a buffer over all of one is as large as the
 * memory that it needs, in the process that exports it and in those that import it.
 */
#define UNIT_NBYTES (64ul << 10)

#define MAPPED_FLAGS (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

static _Atomic uint64_t last_serial;

/* ---- memory types ---------------------------------------------------------------------------- */

/* The first type among `bits` with all these flags, in a heap of that size; or UINT32_MAX. */
static uint32_t find_type(const struct nxr_vulkan_device *device, uint32_t bits,
                          VkMemoryPropertyFlags flags, uint64_t heap_nbytes)
{
    for (uint32_t i = 0; i < device->memory.memoryTypeCount; i++) {
        const VkMemoryType *type = &device->memory.memoryTypes[i];

        if ((bits >> i & 1) != 0 && (type->propertyFlags & flags) == flags &&
            device->memory.memoryHeaps[type->heapIndex].size >= heap_nbytes) {
            return i;
        }
    }
    return UINT32_MAX;
}

/*
 * Device memory; if the processor can address all of the device's memory, a type that it can. If it
 * sees only a small window, that window is left to those that need it.
 */
static uint32_t find_device_type(const struct nxr_vulkan_device *device, uint32_t bits)
{
    uint64_t heap_nbytes = 0;
    uint32_t type;

    for (uint32_t i = 0; i < device->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &device->memory.memoryHeaps[i];

        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 && heap->size > heap_nbytes) {
            heap_nbytes = heap->size;
        }
    }
    type = find_type(device, bits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | MAPPED_FLAGS, heap_nbytes);
    if (type == UINT32_MAX) {
        type = find_type(device, bits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0);
    }
    return type;
}

static uint32_t find_host_type(const struct nxr_vulkan_device *device, uint32_t bits)
{
    uint32_t type = find_type(device, bits, MAPPED_FLAGS | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0);

    return type != UINT32_MAX ? type : find_type(device, bits, MAPPED_FLAGS, 0);
}

static uint32_t find_pin_type(const struct nxr_vulkan_make *make, uint32_t bits)
{
    VkMemoryHostPointerPropertiesEXT properties = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT,
    };

    if (nxr_vk.GetMemoryHostPointerPropertiesEXT(
            make->device->device, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
            make->addr, &properties) != VK_SUCCESS) {
        return UINT32_MAX;
    }
    return find_type(make->device, bits & properties.memoryTypeBits, 0, 0);
}

static uint32_t choose_type(const struct nxr_vulkan_make *make, uint32_t bits)
{
    switch (make->purpose) {
    case NXR_VULKAN_SHARED:
        return find_device_type(make->device, bits);
    case NXR_VULKAN_IMPORT:
        return make->type < make->device->memory.memoryTypeCount && (bits >> make->type & 1) != 0
                   ? make->type
                   : UINT32_MAX;
    case NXR_VULKAN_STAGE:
        return find_host_type(make->device, bits);
    case NXR_VULKAN_PIN:
        return find_pin_type(make, bits);
    }
    return UINT32_MAX;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static VkExternalMemoryHandleTypeFlagBits handle_type(enum nxr_vulkan_purpose purpose)
{
    switch (purpose) {
    case NXR_VULKAN_SHARED:
    case NXR_VULKAN_IMPORT:
        return NXR_VULKAN_HANDLE;
    case NXR_VULKAN_PIN:
        return VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    case NXR_VULKAN_STAGE:
        break;
    }
    return 0;
}

/* Create a buffer, and query the memory that it needs. */
static VkResult make_buffer(const struct nxr_vulkan_make *make, uint64_t nbytes, VkBuffer *buffer_p,
                            VkMemoryRequirements *needs_p, bool *is_dedicated_p)
{
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = handle_type(make->purpose),
    };
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = external.handleTypes != 0 ? &external : NULL,
        .size = nbytes,
        .usage = NXR_VULKAN_USAGE,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    VkMemoryDedicatedRequirements dedicated = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS,
    };
    VkMemoryRequirements2 needs = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2,
        .pNext = &dedicated,
    };
    VkBufferMemoryRequirementsInfo2 which = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2,
    };
    VkResult result = nxr_vk.CreateBuffer(make->device->device, &info, NULL, buffer_p);

    if (result == VK_SUCCESS) {
        which.buffer = *buffer_p;
        nxr_vk.GetBufferMemoryRequirements2(make->device->device, &which, &needs);
        *needs_p = needs.memoryRequirements;
        *is_dedicated_p = dedicated.requiresDedicatedAllocation == VK_TRUE ||
                          dedicated.prefersDedicatedAllocation == VK_TRUE ||
                          make->device->is_dedicated_only;
    }
    return result;
}

/*
 * Create the buffer for memory that is being made. If the memory exists already and its size is
 * odd, the buffer covers as much of it as it can.
 */
static VkResult fit_buffer(const struct nxr_vulkan_make *make, struct nxr_vulkan_memory *memory,
                           VkMemoryRequirements *needs_p)
{
    bool is_new = make->purpose == NXR_VULKAN_SHARED || make->purpose == NXR_VULKAN_STAGE;
    bool is_dedicated;
    VkResult result;

    memory->buffer_nbytes = make->nbytes;
    result = make_buffer(make, make->nbytes, &memory->buffer, needs_p, &is_dedicated);
    if (result == VK_SUCCESS && !is_new && needs_p->size > make->nbytes &&
        make->nbytes >= needs_p->alignment) {
        nxr_vk.DestroyBuffer(make->device->device, memory->buffer, NULL);
        memory->buffer_nbytes = make->nbytes - make->nbytes % needs_p->alignment;
        result = make_buffer(make, memory->buffer_nbytes, &memory->buffer, needs_p, &is_dedicated);
    }
    if (result != VK_SUCCESS) {
        memory->buffer = VK_NULL_HANDLE;
        return result;
    }
    memory->nbytes = is_new ? needs_p->size : make->nbytes;
    memory->is_dedicated = make->purpose == NXR_VULKAN_IMPORT   ? make->is_dedicated
                           : make->purpose == NXR_VULKAN_SHARED ? is_dedicated
                                                                : false;
    return needs_p->size > memory->nbytes ? VK_ERROR_INVALID_EXTERNAL_HANDLE : VK_SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static VkResult vulkan_memory_allocate(const struct nxr_vulkan_make *make,
                                       struct nxr_vulkan_memory *memory)
{
    const VkExportMemoryAllocateInfo to_export = {
        .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
        .handleTypes = NXR_VULKAN_HANDLE,
    };
    const VkImportMemoryFdInfoKHR to_import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
        .handleType = NXR_VULKAN_HANDLE,
        .fd = make->fd,
    };
    const VkImportMemoryHostPointerInfoEXT to_pin = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
        .pHostPointer = make->addr,
    };
    VkMemoryDedicatedAllocateInfo dedicated = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
        .buffer = memory->buffer,
    };
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = memory->nbytes,
        .memoryTypeIndex = memory->type,
    };

    switch (make->purpose) {
    case NXR_VULKAN_SHARED:
        info.pNext = &to_export;
        break;
    case NXR_VULKAN_IMPORT:
        info.pNext = &to_import;
        break;
    case NXR_VULKAN_PIN:
        info.pNext = &to_pin;
        break;
    case NXR_VULKAN_STAGE:
        break;
    }
    if (memory->is_dedicated) {
        dedicated.pNext = info.pNext;
        info.pNext = &dedicated;
    }
    return nxr_vk.AllocateMemory(make->device->device, &info, NULL, &memory->memory);
}

/* Map memory that the processor may use at any time. It is no failure if it cannot be mapped. */
static void vulkan_memory_map(struct nxr_vulkan_memory *memory)
{
    VkMemoryPropertyFlags flags = memory->device->memory.memoryTypes[memory->type].propertyFlags;
    void *addr;

    if ((flags & MAPPED_FLAGS) == MAPPED_FLAGS &&
        nxr_vk.MapMemory(memory->device->device, memory->memory, 0, VK_WHOLE_SIZE, 0, &addr) ==
            VK_SUCCESS) {
        memory->map = addr;
        memory->is_cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    }
}

static int vulkan_memory_fill(const struct nxr_vulkan_make *make, struct nxr_vulkan_memory *memory,
                              bool *used_fd, char *why, size_t why_nbytes)
{
    struct nxr_vulkan_device *device = make->device;
    VkMemoryRequirements needs;
    const char *step = "vkCreateBuffer";
    VkResult result = fit_buffer(make, memory, &needs);

    if (result == VK_SUCCESS) {
        memory->type = choose_type(make, needs.memoryTypeBits);
        if (memory->type == UINT32_MAX) {
            snprintf(why, why_nbytes, "%.60s has no memory type for it", device->name);
            return make->purpose == NXR_VULKAN_IMPORT ? NIXL_E_INVALID_ARG : NIXL_E_UNSUPPORTED;
        }
        step = "vkAllocateMemory";
        *used_fd = true;
        result = vulkan_memory_allocate(make, memory);
    }
    if (result == VK_SUCCESS) {
        atomic_fetch_add(&device->n_allocations, 1);
        step = "vkBindBufferMemory";
        result = nxr_vk.BindBufferMemory(device->device, memory->buffer, memory->memory, 0);
    } else {
        memory->memory = VK_NULL_HANDLE;
    }
    if (result != VK_SUCCESS) {
        snprintf(why, why_nbytes, "%s of %llu bytes on %.60s: %s", step,
                 (unsigned long long)make->nbytes, device->name, nxr_vulkan_text(result));
        return result == VK_ERROR_INVALID_EXTERNAL_HANDLE ? NIXL_E_INVALID_ARG
                                                          : nxr_vulkan_status(device, result);
    }
    if (make->purpose != NXR_VULKAN_PIN) {
        vulkan_memory_map(memory);
    }
    return NIXL_OK;
}

/* Check limits that drivers report but do not enforce. */
static int check_limits(const struct nxr_vulkan_make *make, char *why, size_t why_nbytes)
{
    const struct nxr_vulkan_device *device = make->device;

    if (make->nbytes > device->max_nbytes) {
        snprintf(why, why_nbytes, "%llu bytes; %.60s allows at most %llu in one allocation",
                 (unsigned long long)make->nbytes, device->name,
                 (unsigned long long)device->max_nbytes);
        return NIXL_E_NO_MEMORY;
    }
    if (atomic_load(&device->n_allocations) >= device->max_allocations) {
        snprintf(why, why_nbytes, "%.60s allows at most %u allocations", device->name,
                 device->max_allocations);
        return NIXL_E_LIMIT;
    }
    if (atomic_load(&device->is_lost)) {
        snprintf(why, why_nbytes, "the Vulkan device %.60s is lost", device->name);
        return NIXL_E_TRANSPORT;
    }
    return NIXL_OK;
}

int nxr_vulkan_make(const struct nxr_vulkan_make *wanted, struct nxr_vulkan_memory **memory_p,
                    char *why, size_t why_nbytes)
{
    struct nxr_vulkan_make make = *wanted;
    struct nxr_vulkan_memory *memory = calloc(1, sizeof(*memory));
    bool used_fd = false;
    int status;

    if (make.purpose == NXR_VULKAN_SHARED && make.nbytes <= UINT64_MAX - UNIT_NBYTES) {
        make.nbytes = (make.nbytes + UNIT_NBYTES - 1) / UNIT_NBYTES * UNIT_NBYTES;
    }
    status = check_limits(&make, why, why_nbytes);
    if (memory == NULL) {
        snprintf(why, why_nbytes, "no memory");
        status = NIXL_E_NO_MEMORY;
    } else {
        memory->fd = -1;
    }
    if (status == NIXL_OK) {
        memory->serial = atomic_fetch_add(&last_serial, 1) + 1;
        memory->device = make.device;
        status = vulkan_memory_fill(&make, memory, &used_fd, why, why_nbytes);
    }
    if (!used_fd && make.purpose == NXR_VULKAN_IMPORT) {
        close(make.fd);
    }
    if (status == NIXL_OK) {
        *memory_p = memory;
    } else if (memory != NULL) {
        nxr_vulkan_unmake(memory);
    }
    return status;
}

void nxr_vulkan_unmake(struct nxr_vulkan_memory *memory)
{
    struct nxr_vulkan_device *device = memory->device;

    if (memory->has_cuda) {
        nxr_cuda_close_external(&memory->cuda);
    }
    if (memory->reserved != NULL) {
        munmap(memory->reserved, memory->nbytes);
    }
    if (device != NULL) {
        if (memory->map != NULL) {
            nxr_vk.UnmapMemory(device->device, memory->memory);
        }
        nxr_vk.DestroyBuffer(device->device, memory->buffer, NULL);
        if (memory->memory != VK_NULL_HANDLE) {
            nxr_vk.FreeMemory(device->device, memory->memory, NULL);
            atomic_fetch_sub(&device->n_allocations, 1);
        }
    }
    if (memory->fd >= 0) {
        close(memory->fd);
    }
    free(memory->slices);
    free(memory);
}

/*
 * Import the memory into CUDA, if CUDA has the device: it copies within an H200 at 2.1 TB/s,
 * Vulkan's queues at 0.4. It is no failure if CUDA cannot.
 */
static void open_in_cuda(struct nxr_vulkan_memory *memory, int fd, bool is_peer)
{
    const struct nxr_cuda_external what = {
        .nbytes = memory->nbytes,
        .fd = fd,
        .is_dedicated = memory->is_dedicated,
        .is_peer = is_peer,
    };
    bool is_asked_for = strcmp(nxr_env.vulkan_copy, "cuda") == 0;
    char why[160] = "";

    if (!is_asked_for && (!memory->device->is_nvidia || strcmp(nxr_env.vulkan_copy, "auto") != 0)) {
        return;
    }
    memory->has_cuda = nxr_cuda_open_external(memory->device->id.uuid, &what, &memory->cuda, why,
                                              sizeof(why)) == NIXL_OK;
    if (memory->has_cuda) {
        atomic_store(&nxr_vulkan.uses_cuda, true);
    } else {
        nxr_log(is_asked_for ? NIXL_LOG_WARN : NIXL_LOG_INFO, MEMORY,
                "CUDA does not copy memory of %s: %s", memory->device->name, why);
    }
}

int nxr_vulkan_place(struct nxr_vulkan_memory *memory, int fd, bool is_peer, char *why,
                     size_t why_nbytes)
{
    void *reserved;

    open_in_cuda(memory, fd, is_peer);
    if (memory->has_cuda || memory->map != NULL) {
        memory->base = memory->has_cuda ? (char *)memory->cuda.addr : memory->map;
        return NIXL_OK;
    }
    reserved =
        mmap(NULL, memory->nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) {
        snprintf(why, why_nbytes, "no addresses are left for %llu bytes",
                 (unsigned long long)memory->nbytes);
        return NIXL_E_NO_MEMORY;
    }
    memory->reserved = reserved;
    memory->base = reserved;
    return NIXL_OK;
}
