/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan memory kind in a build without Vulkan's headers: reports that it is missing. No state,
 * no lock.
 */
#include "config.h"

#include "memory/vulkan/kind.h"

#include <stdio.h>

static int none_start(char *why, size_t why_nbytes)
{
    snprintf(why, why_nbytes,
             "this build of nixlrun has no Vulkan (its headers were not there; Debian: "
             "libvulkan-dev)");
    return NIXL_E_NO_DEVICE;
}

static void none_stop(void)
{
}

static int none_alloc(size_t nbytes, const struct nixl_mem_params *params,
                      struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    (void)nbytes;
    (void)params;
    (void)memory_p;
    return none_start(why, why_nbytes);
}

static int none_adopt(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                      struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    (void)addr;
    return none_alloc(nbytes, params, memory_p, why, why_nbytes);
}

static void none_release(struct nxr_memory *memory)
{
    (void)memory;
}

static bool none_owns(const void *addr)
{
    (void)addr;
    return false;
}

static int none_import(struct nxr_segment *segment, int fd)
{
    (void)fd;
    return none_start(segment->note, sizeof(segment->note));
}

static void none_unimport(struct nxr_segment *segment)
{
    (void)segment;
}

static int none_copy(struct nxr_device_copy *copy)
{
    (void)copy;
    return NIXL_E_UNSUPPORTED;
}

static void none_arm(struct nxr_device_copy *copy)
{
    (void)copy;
}

static void none_pin(void *addr, size_t nbytes)
{
    (void)addr;
    (void)nbytes;
}

static void none_unpin(void *addr)
{
    (void)addr;
}

static struct nxr_copy_rate none_expect(const struct nxr_range *range, bool is_with_host)
{
    (void)range;
    (void)is_with_host;
    return (struct nxr_copy_rate){0};
}

static const char *none_pci(const struct nxr_range *range)
{
    (void)range;
    return "";
}

const struct nxr_memory_kind nxr_memory_vulkan = {
    .kind = NIXL_MEM_VULKAN,
    .name = "vulkan",
    .start = none_start,
    .stop = none_stop,
    .alloc = none_alloc,
    .adopt = none_adopt,
    .release = none_release,
    .owns = none_owns,
    .import = none_import,
    .unimport = none_unimport,
    .copy_start = none_copy,
    .copy_test = none_copy,
    .copy_arm = none_arm,
    .pin = none_pin,
    .unpin = none_unpin,
    .expect = none_expect,
    .pci = none_pci,
};
