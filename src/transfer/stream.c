/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts and gets in the order of a user's CUDA stream. Each is a request whose copy is queued on
 * that stream before the call returns. No lock of its own.
 */
#include "config.h"

#include "core/request.h"
#include "transfer/stream.h"
#include "transfer/staging.h"
#include "transfer/transfer.h"
#include "util/status.h"
#include "transfer/op.h"

/* Is it device memory of another kind than the streams? */
static bool stream_is_other_kind(enum nixl_mem_kind memory, const struct nxr_memory_kind *kind)
{
    return memory != NIXL_MEM_HOST && memory != kind->kind;
}

/*
 * A stream orders copies of one kind of memory: one side must be of that kind, the other memory
 * that the GPU can access.
 */
static int check_sides(const char *operation, const struct nxr_segment *segment, const void *local)
{
    enum nixl_mem_kind here = nxr_range_kind(nxr_range_find(local)), there = NIXL_MEM_HOST;
    const struct nxr_memory_kind *kind = nxr_memory_stream_kind();
    const char *why = NULL;

    if (segment->method == NXR_METHOD_DEVICE) {
        there = nxr_range_kind(nxr_range_find(segment->addr));
    } else if (segment->method != NXR_METHOD_MEMCPY) {
        why = "the GPU does not reach that segment itself";
    }
    if (stream_is_other_kind(here, kind) || stream_is_other_kind(there, kind)) {
        why = "CUDA's streams cannot copy Vulkan memory";
    } else if (here != kind->kind && there != kind->kind) {
        why = "neither side is CUDA memory";
    } else if (why == NULL && nxr_segment_mover(segment, local) == &nxr_transport_staging) {
        why = "the GPU does not reach both sides";
    }
    return why == NULL ? NIXL_OK
                       : nxr_fail(NIXL_E_UNSUPPORTED, operation, segment->peer->rank,
                                  segment->transport->name, 0,
                                  "%s: synchronise the stream and use the call without it", why);
}

int nxr_stream_queue(const char *operation, int rank, struct nixl_region *region, struct nxr_op *op,
                     struct nixl_req **req_p)
{
    int status = nxr_transfer_check(operation, rank, region, op->local, op->nbytes);

    if (status == NIXL_OK) {
        status = nxr_transfer_find_segment(operation, rank, region, nxr_op_forbidden_by(op->kind),
                                           &op->offset, op->nbytes, &op->segment);
    }
    if (status == NIXL_OK) {
        status = check_sides(operation, op->segment, op->local);
    }
    if (status != NIXL_OK) {
        return status;
    }
    return nxr_request_make_at(operation, &nxr_transfer_owner, op, req_p);
}
