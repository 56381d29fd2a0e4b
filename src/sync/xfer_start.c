/* SPDX-License-Identifier: Apache-2.0 */
/* The extended form of starting a prepared transfer, and what follows it. No lock. */
#include "config.h"

#include "sync/following.h"
#include "core/trace.h"
#include "sync/granted.h"
#include "transfer/xfer.h"

static int xfer_move_granted(const char *operation, const struct nxr_granted *what,
                             struct nixl_req **req_p)
{
    what->xfer->sides[NIXL_XFER_REMOTE].asks_nobody = true;
    return nxr_xfer_start(operation, what->xfer, what->is_durable, NULL, req_p);
}

static void xfer_drop_granted(const struct nxr_granted *what)
{
    (void)nxr_xfer_unclaim(what->xfer, NIXL_OK);
}

/*
 * Start it, on blocks that are lent: that they all are is checked once their memory is found, which
 * the start does anew.
 */
static int xfer_start_granted(const char *operation, struct nixl_xfer *xfer,
                              const struct nxr_form *form, struct nxr_after *signal,
                              struct nixl_req **req_p)
{
    const bool is_durable = nxr_form_has(form, NIXL_OP_DURABLE);
    const struct nxr_granted granted = {.token = form->op->grant,
                                        .kind = xfer->kind,
                                        .rank = xfer->rank,
                                        .nbytes = xfer->sides[NIXL_XFER_LOCAL].nbytes,
                                        .side = &xfer->sides[NIXL_XFER_REMOTE],
                                        .xfer = xfer,
                                        .is_durable = is_durable,
                                        .signal = signal,
                                        .move = xfer_move_granted,
                                        .drop = xfer_drop_granted};
    int status = nxr_xfer_find(operation, xfer);

    if (status == NIXL_OK && is_durable) {
        status = nxr_xfer_check_durable(operation, xfer);
    }
    return status == NIXL_OK ? nxr_granting->start(operation, &granted, req_p)
                             : nxr_xfer_unclaim(xfer, status);
}

static int xfer_start_plain(const char *operation, struct nixl_xfer *xfer, struct nixl_req **req_p)
{
    struct nixl_req *req = NULL;
    int status = nxr_xfer_start_plain(operation, xfer, &req);

    return nxr_form_end_plain(status, req, req_p);
}

/* The segments that the start has to look up, within the time of the form. */
static int xfer_await(const char *operation, struct nixl_xfer *xfer, struct nixl_req *const *req_p,
                      struct nxr_form *form)
{
    const struct nxr_side *remote = &xfer->sides[NIXL_XFER_REMOTE];
    const bool is_started = nxr_form_is_started(form, req_p);
    int status = NIXL_OK;

    for (size_t i = 0; i < remote->n_entries && status == NIXL_OK; i++) {
        if (remote->blocks[i].nblocks > 0) {
            status = nxr_following_await(operation, xfer->rank, remote->blocks[i].region,
                                         is_started, form);
        }
    }
    return status == NIXL_OK && nxr_form_has(form, NIXL_OP_SIGNAL) && xfer->kind == NXR_OP_PUT
               ? nxr_following_await(operation, xfer->rank, form->op->signal_region, is_started,
                                     form)
               : status;
}

static int xfer_start_formed(const char *operation, struct nixl_xfer *xfer,
                             const struct nixl_op *op, struct nixl_req **req_p)
{
    struct nxr_following following = {.note = NULL};
    struct nixl_req *req = NULL;
    struct nxr_form form;
    int status = nxr_form_read_start(
        operation, op, NIXL_OP_NOTE | NIXL_OP_SIGNAL | NIXL_OP_GRANT | NIXL_OP_DURABLE, req_p,
        &form);

    if (status == NIXL_OK) {
        status = nxr_xfer_check(operation, xfer);
    }
    if (status == NIXL_OK) {
        status = nxr_xfer_claim(operation, xfer);
    }
    if (status != NIXL_OK) {
        return nxr_form_end(operation, &form, status, NULL, req_p);
    }
    status = xfer_await(operation, xfer, req_p, &form);
    if (status == NIXL_OK) {
        status = nxr_following_make(operation, xfer->rank, &form, xfer->kind, &following);
    }
    if (status != NIXL_OK) {
        status = nxr_xfer_unclaim(xfer, status);
    } else if (nxr_form_has(&form, NIXL_OP_GRANT)) {
        status = xfer_start_granted(operation, xfer, &form, &following.signal, &req);
    } else {
        status = nxr_xfer_start(operation, xfer, nxr_form_has(&form, NIXL_OP_DURABLE),
                                &following.signal, &req);
    }
    status = nxr_following_begin(operation, &following, status, &req);
    return nxr_form_end(operation, &form, status, req, req_p);
}

static int call_xfer_start_x(struct nixl_xfer *xfer, const struct nixl_op *op,
                             struct nixl_req **req_p)
{
    static const char operation[] = "nixl_xfer_start_x";

    return nxr_form_is_plain(op, req_p) ? xfer_start_plain(operation, xfer, req_p)
                                        : xfer_start_formed(operation, xfer, op, req_p);
}

int nixl_xfer_start_x(struct nixl_xfer *xfer, const struct nixl_op *op, struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_XFER, "nixl_xfer_start_x", -1, 0, 0,
                      call_xfer_start_x(xfer, op, req_p));
}
