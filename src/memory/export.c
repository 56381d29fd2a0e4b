/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a peer's description of its device memory, or file, before it is used. Pure: no state, no
 * lock.
 */
#include "config.h"

#include "memory/memory.h"

static bool is_zero(const void *bytes, size_t nbytes)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < nbytes; i++) {
        if (byte[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Does the export use only the fields of its type? The others must be 0. */
static bool is_of_type(const struct nxr_export *export, enum nixl_mem_kind kind)
{
    bool is_vulkan = export->type == NXR_EXPORT_VULKAN, is_file = export->type == NXR_EXPORT_FILE;
    bool has_handle = export->type != NXR_EXPORT_CUDA_VMM && !is_vulkan && !is_file;
    bool has_driver = export->type == NXR_EXPORT_CUDA_POOL || is_vulkan;

    return export->type < NXR_N_EXPORT_TYPES && is_vulkan == (kind == NIXL_MEM_VULKAN) &&
           is_file == (kind == NIXL_MEM_FILE) && export->is_direct <= is_file &&
           (!is_file || (export->serial == 0 && is_zero(export->device, sizeof(export->device)))) &&
           (is_vulkan ? export->memory_type < 32 && export->is_dedicated <= 1
                      : export->memory_type == 0 && export->is_dedicated == 0) &&
           (has_handle || is_zero(export->handle, sizeof(export->handle))) &&
           (has_driver || is_zero(export->driver, sizeof(export->driver))) && export->unused == 0;
}

bool nxr_export_is_sound(const struct nxr_export *export, enum nixl_mem_kind kind, uint64_t nbytes)
{
    if (export->type == NXR_EXPORT_NONE) {
        return is_zero(export, sizeof(*export));
    }
    return (kind == NIXL_MEM_CUDA || kind == NIXL_MEM_VULKAN || kind == NIXL_MEM_FILE) &&
           is_of_type(export, kind) && export->nbytes <= INT64_MAX &&
           export->offset <= export->nbytes && nbytes <= export->nbytes - export->offset;
}

bool nxr_export_has_fd(const struct nxr_export *export)
{
    return export->type == NXR_EXPORT_CUDA_VMM || export->type == NXR_EXPORT_CUDA_POOL ||
           export->type == NXR_EXPORT_VULKAN || export->type == NXR_EXPORT_FILE;
}
