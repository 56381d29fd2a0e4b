/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for operations whose part is possibly not there yet. */
#ifndef NXR_REGION_PART_REQUEST_H
#define NXR_REGION_PART_REQUEST_H

#include "core/request.h"
#include "region/region.h"

/*
 * Make a request for an operation on the part of that rank, which is asked for if need be. It
 * begins now, or when the part is ready. op->part is not read; `after` may be NULL. NIXL_INPROGRESS
 * and the request; or a failure, and none.
 */
int nxr_region_request(const char *operation, struct nixl_region *region, int rank,
                       const struct nxr_req_owner *owner, const struct nxr_op *op,
                       const struct nxr_after *after, struct nixl_req **req_p);

#endif
