/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making durable what was put into storage: the owner of a file is asked to, by a question that
 * keeps its place behind the puts (NXR_ATOMIC_SYNC), and answers when it is done.
 */
#ifndef NXR_TRANSFER_DURABLE_H
#define NXR_TRANSFER_DURABLE_H

#include "core/request.h"
#include "region/region.h"
#include "transfer/transfer.h"

/*
 * May what goes there be made durable? NIXL_E_UNSUPPORTED, recorded, if it is a get, or if the
 * segment is no storage; NULL: not known yet.
 */
int nxr_durable_check(const char *operation, enum nxr_op_kind kind, int rank,
                      const struct nxr_segment *segment);

/*
 * Start a put that ends when its bytes are durable; find() finds the file. A request takes
 * `signal`, unless that is NULL. NIXL_OK; NIXL_INPROGRESS: *req_p; or the failure of `operation`,
 * recorded: as nxr_durable_check().
 */
int nxr_durable_put(const char *operation, int rank, struct nixl_region *region,
                    const struct nxr_piece *what, nxr_find_fn *find, struct nxr_after *signal,
                    struct nixl_req **req_p);

/*
 * Files that are made durable for a request, which ends with the outcome: made, given its files,
 * listed, begun. Once it is listed, the owner of the request stops it by nxr_durable_stop(), which
 * ends the request as canceled if it has not ended. The request counts in no n_pending meanwhile.
 */
struct nxr_durable;

/* NULL: no memory. */
struct nxr_durable *nxr_durable_new(struct nixl_req *req);

/* Several handles may lead to one file, which is asked for once. */
void nxr_durable_add(struct nxr_durable *durable, struct nxr_segment *segment);

/* Any lock of transfer may be held. */
void nxr_durable_list(struct nxr_durable *durable);

/* Undo nxr_durable_new(), of what is not listed. */
void nxr_durable_drop(struct nxr_durable *durable);

/* Whoever calls has it no longer. Without locks, as the calls below. */
void nxr_durable_begin(struct nxr_durable *durable);
void nxr_durable_stop(struct nixl_req *req);

/* All of that for what was put into a region, or for NULL into all, at the ranks first .. last. */
void nxr_durable_run(struct nixl_req *req, const struct nixl_region *region, int first, int last);

#endif
