/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA memory of peers on this host: opened here; a GPU copies to and from it. No state. */
#include "config.h"

#include "transports/gpu/gpu.h"

static int cuda_ipc_reach(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why,
                          size_t why_nbytes)
{
    return nxr_gpu_reach(NIXL_MEM_CUDA, scope, kind, why, why_nbytes);
}

const struct nxr_transport nxr_transport_cuda_ipc =
    NXR_GPU_TRANSPORT("cuda_ipc", 7000, cuda_ipc_reach);
