/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on blocks that are lent: what takes and gives back a use of the grant stands above
 * this folder, and registers its functions here.
 */
#ifndef NXR_SYNC_GRANTED_H
#define NXR_SYNC_GRANTED_H

#include "transfer/xfer.h"
#include "util/symbol.h"

/* An operation that names a grant. */
struct nxr_granted {
    const char *token; /* valid within the call */
    enum nxr_op_kind kind;
    int rank;
    struct nixl_region *region; /* of a put or get */
    struct nxr_piece piece;     /* of a put or get */
    size_t nbytes;
    const struct nxr_side
        *side; /* of a prepared transfer: the remote one, whose memory was found */
    struct nixl_xfer *xfer;
    bool is_durable;
    struct nxr_after *signal; /* valid within the call: the request that ends last takes it */

    /*
     * Start it, once a use was taken: perhaps after the call, by any thread that drives progress,
     * so that it waits for nothing. As nxr_transfer_start().
     */
    int (*move)(const char *operation, const struct nxr_granted *what, struct nixl_req **req_p);

    /* It is not started after all: called once instead of move(), without locks. Or NULL. */
    void (*drop)(const struct nxr_granted *what);
};

static inline void nxr_granted_drop(const struct nxr_granted *what)
{
    if (what->drop != NULL) {
        what->drop(what);
    }
}

struct nxr_granting {
    /*
     * Check the operation against its grant, take a use, start the operation, and give the use back
     * behind it. NIXL_OK; NIXL_INPROGRESS with the request that ends when all of that has; or the
     * failure of `operation`, recorded.
     */
    int (*start)(const char *operation, const struct nxr_granted *what, struct nixl_req **req_p);
};

/* Set before anything starts, then constant. */
extern NXR_HIDDEN const struct nxr_granting *nxr_granting;

#endif
