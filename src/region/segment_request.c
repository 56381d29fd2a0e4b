/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that begin at once, or when their segment is ready. Lock: job.lock. */
#include "config.h"

#include "core/service.h"
#include "region/extents.h"
#include "region/segment_request.h"
#include "util/status.h"

#include <stdlib.h>

/*
 * Make the request wait for its segment. NIXL_INPROGRESS: it waits. NIXL_OK: the segment is ready
 * by now, and op->segment is set. Otherwise a failure, which is recorded.
 */
static int segment_request_await(struct nixl_req *req, struct nixl_region *region, int rank,
                                 struct nxr_op *op)
{
    struct nxr_region_segment *segment = NULL;
    int status, state;

    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_region_want_segment(region, rank, false, &segment);
    state = status == NIXL_OK ? atomic_load(&segment->state) : NXR_SEGMENT_FAILED;
    if (state == NXR_SEGMENT_ASKING || state == NXR_SEGMENT_READY) {
        op->segment = &segment->segment;
    }
    if (state == NXR_SEGMENT_ASKING) {
        nxr_request_await(req, op, nxr_job.peers[rank], &segment->waiting);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (state == NXR_SEGMENT_ASKING) {
        nxr_service_kick();
        return NIXL_INPROGRESS;
    }
    if (status != NIXL_OK) {
        return nxr_region_fail_no_segment(req->operation, rank, status);
    }
    return state == NXR_SEGMENT_READY ? NIXL_OK : nxr_region_fail_segment(req->operation, segment);
}

int nxr_region_request(const char *operation, struct nixl_region *region, int rank,
                       const struct nxr_req_owner *owner, const struct nxr_op *op,
                       const struct nxr_after *after, struct nxr_after *signal,
                       struct nixl_req **req_p)
{
    struct nixl_req *req = nxr_request_new(operation, owner, NULL);
    struct nxr_op at_segment = *op;
    int status = NIXL_OK;

    if (req == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0, "no memory for a request");
    }
    if (after != NULL) {
        req->after = *after;
    }
    nxr_request_take_signal(req, signal);
    at_segment.segment = nxr_region_segment_at(region, rank, &at_segment.offset, op->nbytes);
    if (at_segment.segment == NULL) {
        status = segment_request_await(req, region, rank, &at_segment);
        if (status == NIXL_OK) {
            status = nxr_extents_place(operation, region, &at_segment.segment, &at_segment.offset,
                                       op->nbytes);
        }
    }
    if (status < 0) {
        free(req);
        return status;
    }
    *req_p = req;
    if (status == NIXL_OK) {
        nxr_request_begin(req, &at_segment);
    }
    return NIXL_INPROGRESS;
}
