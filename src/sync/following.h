/* SPDX-License-Identifier: Apache-2.0 */
/* What follows an operation of the extended form: a notification, a signal, or both. */
#ifndef NXR_SYNC_FOLLOWING_H
#define NXR_SYNC_FOLLOWING_H

#include "core/form.h"

/* What was made beforehand, so that nothing can fail once the operation has succeeded. */
struct nxr_following {
    struct nxr_follower *note; /* NULL: none */
    struct nxr_after signal;   /* no segment: none, or a request has taken it */
};

/* The notification that the form asks for. */
static inline struct nxr_message nxr_following_message(const struct nxr_form *form)
{
    return (struct nxr_message){.context = form->context->id,
                                .tag = form->op->tag,
                                .bytes = form->op->msg,
                                .nbytes = form->op->msg_nbytes};
}

/*
 * The first use of a rank's segment asks its owner. If the form has a limit of its own, which is
 * shorter than NIXLRUN_RESOLVE_TIMEOUT, wait for the answer only so long, and leave the rest of the
 * time in the form. NIXL_OK: go on; or the failure, recorded.
 */
int nxr_following_await(const char *operation, int rank, struct nixl_region *region,
                        bool is_started, struct nxr_form *form);

/* The change of the signal that the form asks for. NIXL_OK or the failure, recorded. */
int nxr_following_atomic(const char *operation, int rank, const struct nxr_form *form,
                         struct nxr_atomic *atomic_p);

/*
 * Make a notification to that rank that follows an operation, if the form asks for one. It keeps
 * its place among the notifications to the rank only behind a put. NIXL_OK or the failure,
 * recorded.
 */
int nxr_following_note(const char *operation, int rank, const struct nxr_form *form,
                       enum nxr_op_kind kind, struct nxr_following *following);

/*
 * Make all that follows an operation whose request takes the signal: a get, which takes none, is
 * refused one. NIXL_OK; or the failure, recorded, with which nxr_following_begin() frees what was
 * made.
 */
int nxr_following_make(const char *operation, int rank, const struct nxr_form *form,
                       enum nxr_op_kind kind, struct nxr_following *following);

/*
 * The operation was started with that status and request: from now on they follow it. Returns its
 * status, or that of a signal behind what has ended within the call, which may have a request.
 */
int nxr_following_begin(const char *operation, const struct nxr_following *following, int status,
                        struct nixl_req **req_p);

#endif
