/* SPDX-License-Identifier: Apache-2.0 */
/* Making what follows an operation, and handing it to the operation's request. No lock. */
#include "config.h"

#include "sync/following.h"
#include "sync/granted.h"
#include "sync/atomic.h"
#include "sync/notify.h"
#include "transfer/transfer.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"

const struct nxr_granting *nxr_granting;

int nxr_following_await(const char *operation, int rank, struct nixl_region *region,
                        bool is_started, struct nxr_form *form)
{
    const bool has_limit = !is_started || form->op->timeout_ns != 0;
    int64_t deadline;
    struct nxr_segment *segment;
    int status;

    if (!has_limit || form->timeout_ns >= nxr_env.resolve_timeout ||
        nxr_region_segment(region, rank) != NULL) {
        return NIXL_OK;
    }
    status = nxr_transfer_check(operation, rank, region, NULL, 0);
    if (status != NIXL_OK) {
        return status;
    }
    deadline = nxr_deadline(form->timeout_ns);
    status = nxr_region_resolve(operation, region, rank, false, form->timeout_ns, &segment);
    form->timeout_ns = nxr_left(form->timeout_ns, deadline);
    return status != NIXL_INPROGRESS
               ? status
               : nxr_fail(NIXL_E_TIMEOUT, operation, rank, "", 0,
                          "%s has not answered the request for region '%s' yet, and NIXL_AT_ONCE "
                          "does not wait",
                          nxr_rank_name(rank), nxr_region_label(region->name));
}

int nxr_following_atomic(const char *operation, int rank, const struct nxr_form *form,
                         struct nxr_atomic *atomic_p)
{
    if (form->op->signal_op != NIXL_SIGNAL_ADD && form->op->signal_op != NIXL_SIGNAL_SET) {
        return nxr_signal_fail_op(operation, rank, (unsigned)form->op->signal_op);
    }
    *atomic_p = nxr_signal_atomic(form->op->signal_offset, (enum nixl_signal_op)form->op->signal_op,
                                  form->op->signal_value);
    return NIXL_OK;
}

int nxr_following_note(const char *operation, int rank, const struct nxr_form *form,
                       enum nxr_op_kind kind, struct nxr_following *following)
{
    struct nxr_message message = nxr_following_message(form);
    struct nxr_peer *peer;
    int status;

    if (!nxr_form_has(form, NIXL_OP_NOTE)) {
        return NIXL_OK;
    }
    status = nxr_notify_check(operation, rank, message.bytes, message.nbytes, 0);
    if (status != NIXL_OK) {
        return status;
    }
    peer = nxr_peer_get(rank);
    if (peer == NULL) {
        return nxr_fail_no_peer(operation, rank);
    }
    status = nxr_transfer_report_refusal(operation, peer);
    if (status != NIXL_OK) {
        return status;
    }
    following->note = nxr_notify_reserve(peer, &message, kind == NXR_OP_PUT);
    return following->note != NULL ? NIXL_OK
                                   : nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0,
                                              "no memory for the notification");
}

int nxr_following_make(const char *operation, int rank, const struct nxr_form *form,
                       enum nxr_op_kind kind, struct nxr_following *following)
{
    struct nxr_atomic atomic;
    int status = NIXL_OK;

    if (nxr_form_has(form, NIXL_OP_SIGNAL) && kind == NXR_OP_GET) {
        return nxr_form_refuse(operation, rank, "NIXL_OP_SIGNAL",
                               "a get that is prepared, or of blocks that are lent, raises no "
                               "signal: wait for its request");
    }
    if (nxr_form_has(form, NIXL_OP_SIGNAL)) {
        status = nxr_following_atomic(operation, rank, form, &atomic);
        if (status == NIXL_OK) {
            status = nxr_signal_find(operation, rank, form->op->signal_region, &atomic,
                                     &following->signal);
        }
    }
    if (status == NIXL_OK) {
        status = nxr_following_note(operation, rank, form, kind, following);
    }
    return status;
}

static void follow_by(struct nxr_follower *follower, int status, struct nixl_req *req)
{
    if (follower == NULL) {
        return;
    }
    if (status == NIXL_INPROGRESS) {
        nxr_request_follow(req, follower);
    } else {
        follower->go(follower, status);
    }
}

int nxr_following_begin(const char *operation, const struct nxr_following *following, int status,
                        struct nixl_req **req_p)
{
    follow_by(following->note, status, *req_p);
    return status == NIXL_OK && following->signal.segment != NULL
               ? nxr_signal_start(operation, &following->signal, req_p)
               : status;
}
