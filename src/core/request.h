/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: operations that could not be done at once. A request waits for its part to be resolved,
 * is begun by whoever drives progress, perhaps carried on by a transport, and ends exactly once.
 */
#ifndef NXR_CORE_REQUEST_H
#define NXR_CORE_REQUEST_H

#include "region/region.h"

enum nxr_request_phase {
    NXR_REQUEST_WAITING, /* for its part: in part->waiting */
    NXR_REQUEST_BEGUN,   /* in the list of those to start, or at the transport */
    NXR_REQUEST_DONE,
};

/*
 * What a request does to a word when its operation has ended well: to one in a part of the same
 * peer, for which it goes on, or to one of this process. Neither: nothing.
 */
struct nxr_after {
    struct nxr_part *part;
    void *local;
    struct nxr_atomic atomic;
};

struct nixl_req {
    struct nxr_op op;
    struct nxr_after after;
    const char *operation;         /* the public call */
    struct nxr_region_part *part;  /* NULL: of a prepared transfer */
    struct nixl_xfer *xfer;        /* that drives the request; or NULL */
    struct nixl_team *team;        /* whose collective it is; or NULL */
    struct nxr_making *making;     /* of the team that it makes, until it ends; or NULL */
    struct nxr_exposure *exposure; /* whose end it is; or NULL */
    struct nxr_claim *claim;       /* of a buffer that is exposed, and told of the end; or NULL */
    int lost_rank; /* of a team or an exposure, after NIXL_ERR_PEER_LOST: who died */
    struct nxr_peer *peer;
    int64_t resolve_by;
    _Atomic int status; /* NIXL_INPROGRESS until it has ended */

    /* requests_lock (request.c), and for `link` while WAITING also job.lock. */
    enum nxr_request_phase phase;
    bool is_started;          /* the transport has it */
    bool is_pending;          /* a put that notifications wait for: counted in n_pending */
    bool is_freed;            /* nobody looks at it any more: freed when it ends */
    struct nxr_list link;     /* of part->waiting, of those to start, or behind puts */
    struct nxr_list age_link; /* of those that wait for their part, oldest first */
};

/*
 * Make a request and let it wait, or begin, according to the state of its part. NIXL_INPROGRESS and
 * the request; or a failure, and none. `after` may be NULL.
 */
int nxr_request_make_then(const char *operation, enum nxr_op_kind kind, struct nixl_region *region,
                          int rank, uint64_t offset, void *local, size_t nbytes,
                          const struct nxr_after *after, struct nixl_req **req_p);

static inline int nxr_request_make(const char *operation, enum nxr_op_kind kind,
                                   struct nixl_region *region, int rank, uint64_t offset,
                                   void *local, size_t nbytes, struct nixl_req **req_p)
{
    return nxr_request_make_then(operation, kind, region, rank, offset, local, nbytes, NULL, req_p);
}

/*
 * The caller goes on without waiting for what it has just made: a network that no thread polls is
 * looked after by the service thread from now on.
 */
void nxr_request_leave(void);

/*
 * The same for an operation that says more, and whose part is ready. With op->stream, a CUDA stream
 * of the user's, one side is CUDA memory, and the copy is queued there when the call returns.
 * NIXL_INPROGRESS, or the failure.
 */
int nxr_request_make_at(const char *operation, const struct nxr_op *op, struct nixl_req **req_p);

/* The same, but what fails is told by the request; the first op->nbytes_done bytes are moved. */
int nxr_request_make_begun(const char *operation, const struct nxr_op *op, struct nixl_req **req_p);

/* May what is sent from now on arrive behind the put? It has ended, or its transport orders it. */
bool nxr_request_is_ordered(struct nixl_req *req);

/* A request for a prepared transfer, which drives it: made, begun, ended. */
struct nixl_req *nxr_request_new(void);
void nxr_request_run_xfer(struct nixl_req *req, const char *operation, struct nixl_xfer *xfer);
void nxr_request_end(struct nixl_req *req, int status);

/*
 * A request for a collective, or (NULL) for a team, ended by nxr_request_end(). NULL: no memory.
 */
struct nixl_req *nxr_request_of_team(struct nixl_team *team, const char *operation);

/* A request for a buffer that is exposed, ended by nxr_request_end(). NULL: no memory. */
struct nixl_req *nxr_request_of_exposure(const char *operation, size_t nbytes);

/*
 * Begin the move of a buffer that was claimed: op->part is ready. The claim is told of the end, and
 * given away with it. It may have ended when the call returns.
 */
void nxr_request_run_claimed(struct nixl_req *req, const char *operation, const struct nxr_op *op,
                             struct nxr_claim *claim);

/* The part of waiting requests is ready, or will not be. Caller holds job.lock. */
void nxr_request_begin_waiting(struct nxr_list *waiting);
void nxr_request_fail_waiting(struct nxr_list *waiting, int status);

/* Start what is to be started; from nxr_progress_all(). Was there anything? */
bool nxr_request_start_begun(void);

/* End requests whose part did not come in time; when to look again. Service thread, job.lock. */
int64_t nxr_request_tick(int64_t now);

/* Has a request ended that nobody has been told of? For nixl_event_arm(). */
bool nxr_request_any_done(void);

static inline bool nxr_request_is_done(const struct nixl_req *req)
{
    return atomic_load_explicit(&req->status, memory_order_acquire) != NIXL_INPROGRESS;
}

/* Is it about one other rank? Collectives, teams in the making and what is exposed are not. */
static inline bool nxr_request_has_peer(const struct nixl_req *req)
{
    return req->part != NULL || req->xfer != NULL;
}

/*
 * Stop a request: what has not started is dropped. NIXL_OK: it has ended; NIXL_INPROGRESS: its
 * transport finishes what it has begun.
 */
int nxr_request_stop(struct nixl_req *req);

/* Report the outcome of a request that has ended, free it, and set it NULL. */
int nxr_request_finish(const char *operation, struct nixl_req **req_p);

/* A request that has ended was told to its owner, who frees it. */
void nxr_request_seen(void);

/*
 * Take a request back that nobody has started, for the caller to end. False: too late; *cancel_p
 * asks who has it, or NULL: it is on the way there.
 */
bool nxr_request_withdraw(struct nixl_req *req, int (**cancel_p)(struct nxr_op *op));

/* Nobody looks at it any more: it is freed when it ends, or now. */
void nxr_request_abandon(struct nixl_req *req);

#endif
