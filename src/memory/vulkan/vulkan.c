/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan memory for regions: allocated here, or the user's. No lock, no state of its own.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include "memory/cuda/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The export that peers receive. */
static struct nxr_export vulkan_describe(const struct nxr_vulkan_memory *memory, uint64_t offset)
{
    struct nxr_export export = {
        .nbytes = memory->nbytes,
        .offset = offset,
        .serial = memory->serial,
        .memory_type = memory->type,
        .type = NXR_EXPORT_VULKAN,
        .is_dedicated = memory->is_dedicated,
    };

    memcpy(export.device, memory->device->id.uuid, sizeof(export.device));
    memcpy(export.driver, memory->device->driver, sizeof(export.driver));
    return export;
}

/*
 * Make it accessible to peers and fill in the region's memory; `fd` is duplicated. After a failure
 * everything is as before.
 */
static int vulkan_hand_over(struct nxr_vulkan_memory *made, const struct nxr_vulkan_slice *slice,
                            int fd, struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    struct nxr_memory memory = {
        .kind = &nxr_memory_vulkan,
        .addr = made->base + slice->offset,
        .nbytes = slice->nbytes,
        .export = vulkan_describe(made, slice->offset),
    };

    memory.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (memory.fd < 0) {
        snprintf(why, why_nbytes, "cannot copy descriptor %d: %s", fd, strerror(errno));
        return NIXL_E_LIMIT;
    }
    if (nxr_range_add((uintptr_t)memory.addr, memory.nbytes, &nxr_memory_vulkan, made,
                      &memory.range) != NIXL_OK) {
        snprintf(why, why_nbytes, "no memory for a range");
        close(memory.fd);
        return NIXL_E_NO_MEMORY;
    }
    memory.range->is_mapped = nxr_vulkan_is_mapped(made);
    memcpy(memory.device, made->device->id_text, sizeof(memory.device));
    *memory_p = memory;
    return NIXL_OK;
}

static int vulkan_alloc(size_t nbytes, const struct nixl_mem_params *params,
                        struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    struct nxr_vulkan_slice slice = {.nbytes = nbytes};
    struct nxr_vulkan_memory *memory;
    struct nxr_vulkan_device *device;
    int status = nxr_vulkan_choose(params->device, &device, why, why_nbytes);

    if (status == NIXL_OK && params->kind == NIXL_MEM_AUTO && !nxr_vulkan_is_gpu()) {
        snprintf(why, why_nbytes, "Vulkan has no GPU here, only %.80s", device->name);
        status = NIXL_E_NO_DEVICE;
    }
    if (status == NIXL_OK) {
        status = nxr_vulkan_slice_take(device, nbytes, &memory, &slice.offset, why, why_nbytes);
    }
    if (status != NIXL_OK) {
        return status;
    }
    status = vulkan_hand_over(memory, &slice, memory->fd, memory_p, why, why_nbytes);
    if (status != NIXL_OK) {
        nxr_vulkan_slice_give(memory, slice.offset);
    }
    return status;
}

static int vulkan_adopt(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                        struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    const struct nixl_vulkan_memory *theirs = params->vulkan;
    struct nxr_vulkan_slice slice = {.nbytes = nbytes};
    struct nxr_vulkan_memory *made;
    struct nxr_export export;
    int status;

    if (theirs == NULL) {
        snprintf(why, why_nbytes, "params->vulkan is NULL: it must describe the memory");
        return NIXL_E_INVALID_ARG;
    }
    if (addr != NULL) {
        snprintf(why, why_nbytes,
                 "addr is %p; it must be NULL for Vulkan memory, which params->vulkan describes",
                 addr);
        return NIXL_E_INVALID_ARG;
    }
    export = (struct nxr_export){
        .nbytes = theirs->allocation_nbytes,
        .offset = theirs->offset,
        .memory_type = theirs->memory_type,
        .is_dedicated = theirs->is_dedicated != 0,
    };
    memcpy(export.device, theirs->device_uuid, sizeof(export.device));
    memcpy(export.driver, theirs->driver_uuid, sizeof(export.driver));
    status = nxr_vulkan_open(&export, nbytes, theirs->fd, &made, why, why_nbytes);
    if (status != NIXL_OK) {
        return status;
    }
    slice.offset = theirs->offset;
    status = nxr_vulkan_place(made, theirs->fd, false, why, why_nbytes);
    if (status == NIXL_OK) {
        status = vulkan_hand_over(made, &slice, theirs->fd, memory_p, why, why_nbytes);
    }
    if (status != NIXL_OK) {
        nxr_vulkan_unmake(made);
    }
    return status;
}

static void vulkan_release(struct nxr_memory *memory)
{
    struct nxr_vulkan_memory *made = memory->range->memory;

    nxr_range_remove(memory->range);
    memory->range = NULL;
    if (made->is_shared) {
        nxr_vulkan_slice_give(made, memory->export.offset);
    } else {
        nxr_vulkan_unmake(made);
    }
}

static bool vulkan_owns(const void *addr)
{
    return nxr_range_kind(nxr_range_find(addr)) == NIXL_MEM_VULKAN;
}

/*
 * As CUDA if CUDA copies, which is assumed on other hosts. lavapipe as shared memory, which it is.
 * Otherwise as a queue of an H200's first family, whose copies with host memory were not measured.
 */
static struct nxr_copy_rate vulkan_expect(const struct nxr_range *range, bool is_with_host)
{
    const struct nxr_vulkan_memory *memory = range != NULL ? range->memory : NULL;

    if (memory == NULL || memory->has_cuda) {
        return nxr_memory_cuda.expect(NULL, is_with_host);
    }
    if (memory->device->type == VK_PHYSICAL_DEVICE_TYPE_CPU) {
        return (struct nxr_copy_rate){250, 27000};
    }
    return (struct nxr_copy_rate){13000, is_with_host ? 0 : 200000};
}

static const char *vulkan_pci(const struct nxr_range *range)
{
    const struct nxr_vulkan_memory *memory = range->memory;

    return memory->device->id.pci;
}

const struct nxr_memory_kind nxr_memory_vulkan = {
    .kind = NIXL_MEM_VULKAN,
    .name = "vulkan",
    .start = nxr_vulkan_start,
    .stop = nxr_vulkan_stop,
    .alloc = vulkan_alloc,
    .adopt = vulkan_adopt,
    .release = vulkan_release,
    .owns = vulkan_owns,
    .import = nxr_vulkan_import,
    .unimport = nxr_vulkan_unimport,
    .copy_start = nxr_vulkan_copy_start,
    .copy_test = nxr_vulkan_copy_test,
    .copy_arm = nxr_vulkan_copy_arm,
    .pin = nxr_vulkan_pin,
    .unpin = nxr_vulkan_unpin,
    .expect = vulkan_expect,
    .pci = vulkan_pci,
};
