/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: operations that could not be done at once. A request waits for its part to be resolved,
 * is begun by whoever drives progress, perhaps carried on by a transport, and ends exactly once.
 */
#ifndef NXR_REQUEST_H
#define NXR_REQUEST_H

#include "region.h"

enum nxr_request_phase {
    NXR_REQUEST_WAITING, /* for its part: in part->waiting */
    NXR_REQUEST_BEGUN,   /* in the list of those to start, or at the transport */
    NXR_REQUEST_DONE,
};

struct nixl_req {
    struct nxr_op op;
    const char *operation; /* the public call */
    struct nxr_region_part *part;
    struct nxr_peer *peer;
    int64_t resolve_by;
    _Atomic int status; /* NIXL_INPROGRESS until it has ended */

    /* requests_lock (request.c), and for `link` while WAITING also job.lock. */
    enum nxr_request_phase phase;
    bool is_started;          /* the transport has it */
    bool is_freed;            /* nobody looks at it any more: freed when it ends */
    struct nxr_list link;     /* of part->waiting, or of those to start */
    struct nxr_list age_link; /* of those that wait for their part, oldest first */
};

/*
 * Make a request and let it wait, or begin, according to the state of its part. NIXL_INPROGRESS and
 * the request; or a failure, and none.
 */
int nxr_request_make(const char *operation, enum nxr_op_kind kind, struct nixl_region *region,
                     int rank, uint64_t offset, void *local, size_t nbytes,
                     struct nixl_req **req_p);

/* The part of waiting requests is ready, or will not be. Caller holds job.lock. */
void nxr_request_begin_waiting(struct nxr_list *waiting);
void nxr_request_fail_waiting(struct nxr_list *waiting, int status);

/* Start what is to be started; from nxr_progress_all(). Was there anything? */
bool nxr_request_start_begun(void);

/* End requests whose part did not come in time; when to look again. Service thread, job.lock. */
int64_t nxr_request_tick(int64_t now);

/* Has a request ended that nobody has been told of? For nixl_event_arm(). */
bool nxr_request_any_done(void);

#endif
