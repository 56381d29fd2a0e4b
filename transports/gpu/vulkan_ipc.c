/* SPDX-License-Identifier: Apache-2.0 */
/* Vulkan memory of peers on this host: opened here; a GPU copies to and from it. No state. */
#include "config.h"

#include "transports/gpu/gpu.h"

static int vulkan_ipc_reach(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why,
                            size_t why_nbytes)
{
    return nxr_gpu_reach(NIXL_MEM_VULKAN, scope, kind, why, why_nbytes);
}

const struct nxr_transport nxr_transport_vulkan_ipc =
    NXR_GPU_TRANSPORT("vulkan_ipc", 13000, vulkan_ipc_reach);
