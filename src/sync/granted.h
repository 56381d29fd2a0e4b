/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on blocks that are lent: what takes and gives back a use of the grant stands above
 * this folder, and registers its functions here.
 */
#ifndef NXR_SYNC_GRANTED_H
#define NXR_SYNC_GRANTED_H

#include "transfer/xfer.h"

struct nxr_lease;

/* An operation that names a grant. */
struct nxr_granted {
    const char *token;
    enum nxr_op_kind kind;
    int rank;
    struct nixl_region *region; /* of a put or get */
    uint64_t offset;
    size_t nbytes;
    const struct nxr_side
        *side; /* of a prepared transfer: the remote one, whose memory was found */
};

struct nxr_granting {
    /*
     * Check the operation against its grant, and take a use. May wait for the owner. NIXL_OK, or
     * the failure of `operation`, recorded.
     */
    int (*begin)(const char *operation, const struct nxr_granted *what, struct nxr_lease **lease_p);

    /*
     * The operation has been started, with that status and request: the use is given back behind
     * it. Returns the status for the caller: with NIXL_INPROGRESS *req_p is the request that ends
     * when both have.
     */
    int (*end)(struct nxr_lease *lease, int status, struct nixl_req *started,
               struct nixl_req **req_p);
};

/* Set before anything starts, then constant. */
extern const struct nxr_granting *nxr_granting;

#endif
