/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making durable what was put into storage: the owner of a file is asked to, by a question that
 * keeps its place behind the puts (NXR_ATOMIC_SYNC), and answers when it is done.
 */
#ifndef NXR_TRANSFER_DURABLE_H
#define NXR_TRANSFER_DURABLE_H

#include "core/request.h"
#include "region/region.h"

/*
 * Start a put that ends when its bytes are durable. NIXL_OK; NIXL_INPROGRESS: *req_p; or the
 * failure of `operation`, recorded: NIXL_E_UNSUPPORTED if the region is no storage there.
 */
int nxr_durable_put(const char *operation, int rank, struct nixl_region *region,
                    const struct nxr_piece *what, struct nixl_req **req_p);

/*
 * Make durable what was put into a region, or for NULL into all, at the ranks first .. last, and
 * end the request with the outcome. The request has no peer; its maker's `stop` slot calls
 * nxr_durable_stop(), which ends it as canceled if it has not ended. Any thread, without locks.
 */
void nxr_durable_run(struct nixl_req *req, const struct nixl_region *region, int first, int last);
void nxr_durable_stop(struct nixl_req *req);

#endif
