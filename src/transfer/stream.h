/* SPDX-License-Identifier: Apache-2.0 */
/* Copies in the order of the user's CUDA streams. */
#ifndef NXR_TRANSFER_STREAM_H
#define NXR_TRANSFER_STREAM_H

#include "memory/cuda/stream.h"
#include "region/region.h"

/* The user's stream; NULL means CUDA's default stream. */
static inline void *nxr_stream_of(void *stream)
{
    return stream != NULL ? stream : NXR_STREAM_DEFAULT;
}

/*
 * Queue the copy of `op`, whose segment is not looked up yet, on op->stream. req_p NULL: the caller
 * does not want the request. NIXL_OK, NIXL_INPROGRESS, or the failure of `operation`, recorded.
 */
int nxr_stream_queue(const char *operation, int rank, struct nixl_region *region, struct nxr_op *op,
                     struct nixl_req **req_p);

#endif
