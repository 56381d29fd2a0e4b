/* SPDX-License-Identifier: Apache-2.0 */
/* The extended form of starting a prepared transfer, and what follows it. No lock. */
#include "config.h"

#include "sync/atomic.h"
#include "sync/following.h"
#include "transfer/xfer.h"
#include "util/status.h"

/* Make what follows the start. A failure leaves nothing behind. */
static int xfer_follow(const char *operation, const struct nixl_xfer *xfer,
                       const struct nxr_form *form, struct nxr_following *following)
{
    struct nxr_atomic atomic;
    int status = NIXL_OK;

    if (nxr_form_has(form, NIXL_OP_SIGNAL) && xfer->kind == NXR_OP_GET) {
        return nxr_form_refuse(operation, xfer->rank, "NIXL_OP_SIGNAL",
                               "a prepared get raises no signal: wait for its request");
    }
    if (nxr_form_has(form, NIXL_OP_SIGNAL)) {
        status = nxr_following_atomic(operation, xfer->rank, form, &atomic);
        if (status == NIXL_OK) {
            status = nxr_signal_reserve(operation, xfer->rank, form->op.signal_region, &atomic,
                                        &following->signal);
        }
    }
    if (status == NIXL_OK) {
        status = nxr_following_note(operation, xfer->rank, form, xfer->kind, following);
    }
    return status;
}

int nixl_xfer_start_x(struct nixl_xfer *xfer, const struct nixl_op *op, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_xfer_start_x";
    struct nxr_following following = {NULL, NULL};
    struct nixl_req *req = NULL;
    struct nxr_form form;
    int status = nxr_form_read_start(operation, op, NIXL_OP_NOTE | NIXL_OP_SIGNAL, req_p, &form);

    if (status == NIXL_OK) {
        status = nxr_xfer_check(operation, xfer);
    }
    if (status == NIXL_OK) {
        status = nxr_xfer_claim(operation, xfer);
    }
    if (status != NIXL_OK) {
        return nxr_form_end(operation, &form, status, NULL, req_p);
    }
    status = xfer_follow(operation, xfer, &form, &following);
    status =
        status == NIXL_OK ? nxr_xfer_start(operation, xfer, &req) : nxr_xfer_unclaim(xfer, status);
    nxr_following_begin(&following, status, req);
    return nxr_form_end(operation, &form, status, req, req_p);
}
