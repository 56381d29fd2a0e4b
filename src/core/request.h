/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: operations that could not be done at once. A request waits for its part to be resolved,
 * is begun by whoever drives progress, perhaps carried on by a transport, and ends exactly once.
 */
#ifndef NXR_CORE_REQUEST_H
#define NXR_CORE_REQUEST_H

#include "core/job.h"

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

/*
 * What a request belongs to: one constant table for each kind of it. Slots may be NULL. The
 * functions are called without requests_lock, by any thread.
 */
struct nxr_req_owner {
    bool has_peer;     /* about one other rank; else of all of them, or of none */
    bool is_unflushed; /* nixl_flush() does not report that one failed which was freed */

    /*
     * Carry out its operation, whose part is ready; it says by nxr_request_hand_to() who has it.
     * NIXL_INPROGRESS: it ends with nxr_op_done(), and may have. Other: it is over.
     */
    int (*start)(struct nxr_op *op);

    /*
     * Cancel an operation of kind NXR_OP_WORD, as the slot of a transport does; others are canceled
     * by the transport that has them.
     */
    int (*cancel_word)(struct nxr_op *op);

    /* It has been started and shall end soon. NULL: its operation is canceled. */
    void (*stop)(struct nixl_req *req);

    /* It ends now with that status; job.lock may be held. */
    void (*ended)(struct nixl_req *req, int status);

    /* Somebody waits for it: end it if what it waits for has come. */
    void (*look)(struct nixl_req *req);

    /* What it is, for the text of its failure. NULL: the public call. */
    void (*describe)(const struct nixl_req *req, char *text, size_t nbytes);
};

struct nixl_req {
    struct nxr_op op;
    struct nxr_after after;
    const char *operation; /* the public call */
    const struct nxr_req_owner *owner;
    void *owned;           /* the owner's */
    const char *transport; /* that it uses; "" while its part is not open, and without a peer */
    int lost_rank;         /* without a peer, after NIXL_ERR_PEER_LOST: who died */
    struct nxr_peer *peer; /* without one: the own rank's */
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
 * A new request; NULL: no memory. Without a peer its owner has begun it by that, and ends it by
 * nxr_request_end(); free() undoes it until then.
 */
struct nixl_req *nxr_request_new(const char *operation, const struct nxr_req_owner *owner,
                                 void *owned);

/* Begin its operation: op->part is ready. It may have ended when the call returns. */
void nxr_request_begin(struct nixl_req *req, const struct nxr_op *op);

/* Begin it when op->part is ready: it stands in `waiting` until then. Caller holds job.lock. */
void nxr_request_await(struct nixl_req *req, const struct nxr_op *op, struct nxr_peer *peer,
                       struct nxr_list *waiting);

/*
 * Its owner has begun the operation by itself. `is_pending`: what follows to that peer waits for
 * the end.
 */
void nxr_request_has_begun(struct nixl_req *req, struct nxr_peer *peer, bool is_pending);

/* It has ended. Any thread; job.lock may be held. */
void nxr_request_end(struct nixl_req *req, int status);

/* What describes requests for an operation on one part. */
void nxr_op_describe(const struct nixl_req *req, char *text, size_t nbytes);

/* That transport has the operation from now on, and is asked to cancel it. */
void nxr_request_hand_to(struct nxr_op *op, const struct nxr_transport *transport);

/*
 * The caller goes on without waiting for what it has just made: a network that no thread polls is
 * looked after by the service thread from now on.
 */
void nxr_request_leave(void);

/*
 * Make a request for an operation whose part is ready. With op->stream, a CUDA stream of the
 * user's, one side is CUDA memory, and the copy is queued there when the call returns.
 * NIXL_INPROGRESS, or the failure.
 */
int nxr_request_make_at(const char *operation, const struct nxr_req_owner *owner,
                        const struct nxr_op *op, struct nixl_req **req_p);

/* The same, but what fails is told by the request; the first op->nbytes_done bytes are moved. */
int nxr_request_make_begun(const char *operation, const struct nxr_req_owner *owner,
                           const struct nxr_op *op, struct nixl_req **req_p);

/* May what is sent from now on arrive behind the put? It has ended, or its transport orders it. */
bool nxr_request_is_ordered(struct nixl_req *req);

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

/* What is known of the failure of a copy beside its status, for the end of a text; or "". */
const char *nxr_op_why_failed(int status, const struct nxr_part *part);

extern const struct nxr_subsystem nxr_request_subsystem;

#endif
