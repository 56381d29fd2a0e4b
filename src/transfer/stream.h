/* SPDX-License-Identifier: Apache-2.0 */
/* Copies in the order of the user's streams. */
#ifndef NXR_TRANSFER_STREAM_H
#define NXR_TRANSFER_STREAM_H

#include "memory/memory.h"
#include "region/region.h"

/* The user's stream, of which NULL names one, too; NULL before nixl_init(). */
static inline void *nxr_stream_of(void *stream)
{
    const struct nxr_memory_kind *kind = nxr_memory_stream_kind();

    return stream != NULL || kind == NULL ? stream : kind->streams->unnamed;
}

/*
 * Queue the copy of `op`, whose segment is not looked up yet, on op->stream.
 * NIXL_INPROGRESS, or the failure of `operation`, recorded.
 */
int nxr_stream_queue(const char *operation, int rank, struct nixl_region *region, struct nxr_op *op,
                     struct nixl_req **req_p);

#endif
