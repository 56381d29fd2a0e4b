/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening GPU memory of peers on this host. All state of an open segment is in the segment. No
 * lock.
 */
#include "config.h"

#include "transports/gpu/gpu.h"

#include <stdio.h>

int nxr_gpu_probe(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

int nxr_gpu_reach(enum nixl_mem_kind own, enum nixl_scope_kind scope, enum nixl_mem_kind kind,
                  char *why, size_t why_nbytes)
{
    if (scope == NIXL_SCOPE_LOCAL && kind == own) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "reaches %s memory of other ranks of this host",
             own == NIXL_MEM_CUDA ? "CUDA" : "Vulkan");
    return NIXL_E_UNSUPPORTED;
}

/*
 * Drivers do not specify what happens to memory that is freed while another process has it open.
 * The slot that is held from here on makes the owner's close wait until the memory is closed here.
 */
int nxr_gpu_segment_open(struct nxr_segment *segment, int fd, const struct nxr_remote_key *remote)
{
    int status;

    (void)remote;
    NXR_ASSERT(nxr_segment_may_be_opened(segment));
    if (segment->export.type == NXR_EXPORT_NONE) {
        snprintf(segment->note, sizeof(segment->note), "its owner cannot export that memory");
        return NIXL_E_UNSUPPORTED;
    }
    status = nxr_inflight_hold(segment, &segment->hold);
    if (status != NIXL_OK) {
        snprintf(segment->note, sizeof(segment->note), "%s",
                 status == NIXL_E_LIMIT ? "its owner's slots are all taken"
                                        : "its owner has closed it");
        return status;
    }
    status = nxr_device_import(segment, fd);
    if (status != NIXL_OK) {
        nxr_inflight_release(segment->hold);
        segment->hold = NULL;
        return status;
    }
    segment->method = NXR_METHOD_DEVICE;
    return NIXL_OK;
}

void nxr_gpu_segment_close(struct nxr_segment *segment)
{
    NXR_ASSERT(nxr_segment_may_be_closed(segment));
    nxr_device_unimport(segment);
    nxr_inflight_release(segment->hold);
    segment->hold = NULL;
}

int nxr_gpu_order(struct nxr_peer *peer)
{
    (void)peer;
    nxr_fence_full();
    return NIXL_OK;
}
