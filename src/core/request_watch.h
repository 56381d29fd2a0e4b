/* SPDX-License-Identifier: Apache-2.0 */
/* What request.c and request_watch.c share. */
#ifndef NXR_CORE_REQUEST_WATCH_H
#define NXR_CORE_REQUEST_WATCH_H

#include "core/request.h"
#include "util/symbol.h"

/* Guards phases and lists of requests; called requests_lock in texts. */
extern NXR_HIDDEN pthread_mutex_t nxr_requests_lock;

/* Requests that have ended and that their owner has not seen yet. */
extern NXR_HIDDEN _Atomic uint32_t nxr_n_done_unseen;

/*
 * Take it out of its lists. False: a thread that stops it frees it afterwards, else the caller
 * does. Caller holds requests_lock.
 */
bool nxr_request_unlink(struct nixl_req *req);

/*
 * Nobody asks how it ended: the next nixl_flush() to its peer reports a failure. Caller holds
 * requests_lock.
 */
void nxr_request_leave_to_flush(struct nixl_req *req, int status);

extern const struct nxr_subsystem nxr_request_watch_subsystem;

#endif
