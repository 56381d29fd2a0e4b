/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for operations whose segment may not be ready yet. */
#ifndef NXR_REGION_SEGMENT_REQUEST_H
#define NXR_REGION_SEGMENT_REQUEST_H

#include "core/request.h"
#include "region/region.h"

/*
 * Make a request for an operation on the segment of that rank, asking the owner for the segment
 * if need be. The request begins now, or when the segment is ready. op->segment is not read;
 * `after` and `signal`, which it takes, may be NULL. NIXL_INPROGRESS and *req_p is the request;
 * otherwise a failure and no request.
 */
int nxr_region_request(const char *operation, struct nixl_region *region, int rank,
                       const struct nxr_req_owner *owner, const struct nxr_op *op,
                       const struct nxr_after *after, struct nxr_after *signal,
                       struct nixl_req **req_p);

#endif
