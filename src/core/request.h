/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: operations that could not complete at once. A request waits for its segment to be
 * resolved, is started by whichever thread drives progress, may be continued by a transport, and
 * ends exactly once.
 */
#ifndef NXR_CORE_REQUEST_H
#define NXR_CORE_REQUEST_H

#include "core/job.h"

enum nxr_request_phase {
    NXR_REQUEST_WAITING, /* for its segment: in segment->waiting */
    NXR_REQUEST_BEGUN,   /* in the list of those to start, or at the transport */
    NXR_REQUEST_DONE,
};

/*
 * The word that a request changes once its operation has succeeded: one in a segment of the same
 * peer, and then the request continues until that is done; or one of this process; or none.
 */
struct nxr_after {
    struct nxr_segment *segment;
    void *local;
    struct nxr_atomic atomic;
    const struct nxr_req_owner *owner; /* whose start() and cancel_word(); NULL: the request's */
};

/*
 * What waits for a request to succeed: a notification behind a put, say. Told once, without
 * locks: NIXL_OK soon after nothing can overtake the operation any more, or the failure.
 */
struct nxr_follower {
    void (*go)(struct nxr_follower *follower, int status);
    struct nxr_follower *next; /* of the same request */
};

/*
 * The owner of a request: one constant table for each kind of request. Slots may be NULL. The
 * functions are called without requests_lock, by any thread.
 */
struct nxr_req_owner {
    bool has_peer;     /* it concerns one other rank; else all of them, or none */
    bool is_unflushed; /* nixl_flush() does not report the failure of a freed one */

    /*
     * Start its operation, whose segment is ready, and record by nxr_request_hand_to() which
     * transport has it. NIXL_INPROGRESS: it ends with nxr_op_done(), perhaps already. Any other
     * status: it has ended.
     */
    int (*start)(struct nxr_op *op);

    /*
     * Cancel an operation of kind NXR_OP_ATOMIC, like the `cancel` slot of a transport. Other
     * operations are canceled by the transport that has them.
     */
    int (*cancel_word)(struct nxr_op *op);

    /* Make a request that has been started end soon. NULL: its operation is canceled. */
    void (*stop)(struct nixl_req *req);

    /* It ends now with that status; job.lock may be held. */
    void (*ended)(struct nixl_req *req, int status);

    /* A thread waits for it: end it if what it waits for has happened. */
    void (*look)(struct nixl_req *req);

    /* Describe it for the text of its failure. NULL: the name of the public call is used. */
    void (*describe)(const struct nixl_req *req, char *text, size_t nbytes);
};

struct nixl_req {
    struct nxr_op op;
    struct nxr_after after;
    struct nxr_after signal;                /* behind that; no segment: none */
    const struct nxr_req_owner *word_owner; /* of the word that it changes; NULL: `owner` */
    struct nxr_follower *followers;         /* or NULL; requests_lock */
    const char *operation;                  /* the public call */
    const struct nxr_req_owner *owner;
    void *owned;           /* the owner's data */
    const char *transport; /* its name; "" while the segment is not open, or without a peer */
    int lost_rank; /* without a peer: the rank that it, or its failure, is about; -1: none */
    char *why;     /* without a peer: the failure in words; NULL: none */
    struct nxr_peer *peer; /* without one: this rank itself */
    int64_t resolve_by;
    _Atomic int status;  /* NIXL_INPROGRESS until it has ended */
    atomic_bool is_late; /* stopped because its time is over */

    /* requests_lock (request.c), and for `link` while WAITING also job.lock. */
    enum nxr_request_phase phase;
    bool is_started;          /* the transport has it */
    bool is_pending;          /* a put that notifications wait for: counted in n_pending */
    bool is_get;              /* counted in n_gets */
    bool is_failed_put;       /* it was pending when it failed: an NXR_DOUBT_PUT */
    bool is_freed;            /* the user has given it up: freed when it ends */
    struct nxr_list link;     /* in segment->waiting, among those to start, or behind puts */
    struct nxr_list age_link; /* in the list of those that wait for their segment, oldest first */
    struct nxr_list expire_link; /* among those with a deadline */
    int64_t expires_at;
    bool is_held;            /* a thread stops it: whoever frees it leaves that to this thread */
    bool must_free;          /* meanwhile it was to be freed */
    bool is_alone;           /* it has ended, is in no list, and no thread stops it */
    bool is_canceled;        /* by nixl_cq_cancel() */
    struct nixl_cq *cq;      /* the queue that reports its end; or NULL */
    struct nxr_list cq_link; /* in that queue: under way, or ended */
    uint64_t user_data;
};

/*
 * A new request; NULL: no memory. Without a peer it counts as begun at once, and its owner ends it
 * with nxr_request_end(). Until it is begun or ended, free() undoes the call.
 */
struct nixl_req *nxr_request_new(const char *operation, const struct nxr_req_owner *owner,
                                 void *owned);

/*
 * A request is about to end with a failure: what its caller is told, and the rank that it is about;
 * -1: none. With NIXL_E_PEER_LOST this does not mean that the rank has died.
 */
void nxr_request_keep_failure(struct nixl_req *req, int rank, const char *why);

/* Free a request that has ended, and of which nobody knows any more. */
void nxr_request_free(struct nixl_req *req);

/*
 * Before it begins: have it raise a signal when all else has succeeded, and end then. The caller's
 * `signal` has no segment any more. NULL, or one without a segment: none.
 */
static inline void nxr_request_take_signal(struct nixl_req *req, struct nxr_after *signal)
{
    if (signal != NULL) {
        req->signal = *signal;
        signal->segment = NULL;
    }
}

/* Begin its operation; op->segment is ready. It may have ended when the call returns. */
void nxr_request_begin(struct nixl_req *req, const struct nxr_op *op);

/* Begin it when op->segment is ready; until then it is in `waiting`. Caller holds job.lock. */
void nxr_request_await(struct nixl_req *req, const struct nxr_op *op, struct nxr_peer *peer,
                       struct nxr_list *waiting);

/*
 * The owner has begun the operation of req->op.kind itself: later notifications and words to that
 * peer wait for the end of a put.
 */
void nxr_request_has_begun(struct nixl_req *req, struct nxr_peer *peer);

/*
 * All bytes of a put that its owner has begun have arrived, and the request goes on with something
 * else: notifications and words to that peer wait for it no longer, but what follows it does.
 */
void nxr_request_has_moved(struct nixl_req *req);

/* It has ended. Any thread; job.lock may be held. */
void nxr_request_end(struct nixl_req *req, int status);

/* The `describe` slot for requests with an operation on one segment. */
void nxr_op_describe(const struct nixl_req *req, char *text, size_t nbytes);

/* Record that the transport has the operation from now on; it is the one asked to cancel it. */
void nxr_request_hand_to(struct nxr_op *op, const struct nxr_transport *transport);

/* The transport that has it; NULL: none yet. */
const struct nxr_transport *nxr_request_transport(const struct nxr_op *op);

/*
 * The caller continues without waiting for what it has just begun: kick the service thread if no
 * thread of the user drives it.
 */
void nxr_request_leave(void);

/*
 * Make a request for an operation whose segment is ready. With op->stream, a CUDA stream of the
 * user's, one side is CUDA memory, and the copy is queued there when the call returns.
 * NIXL_INPROGRESS, or the failure.
 */
int nxr_request_make_at(const char *operation, const struct nxr_req_owner *owner,
                        const struct nxr_op *op, struct nixl_req **req_p);

/*
 * The same, but a failed operation is reported by its request; the first op->nbytes_done bytes have
 * already been moved.
 */
int nxr_request_make_begun(const char *operation, const struct nxr_req_owner *owner,
                           const struct nxr_op *op, struct nixl_req **req_p);

/*
 * Will anything sent from now on arrive after the put? True if it has ended or its transport keeps
 * the order.
 */
bool nxr_request_is_ordered(struct nixl_req *req);

/*
 * The segment of the waiting requests is ready, or will never be. `aim`, unless NULL, says which
 * segment each of them is for after all. Caller holds job.lock.
 */
void nxr_request_begin_waiting(struct nxr_list *waiting, void (*aim)(struct nxr_op *op));
void nxr_request_fail_waiting(struct nxr_list *waiting, int status);

/* Start all requests that are due; called by nxr_progress_all(). Was there any? */
bool nxr_request_start_begun(void);

/*
 * End requests whose segment was not resolved in time. Returns when to look again. Service thread,
 * job.lock.
 */
int64_t nxr_request_tick(int64_t now);

/* Has a request ended whose owner has not been notified yet? For nixl_event_arm(). */
bool nxr_request_any_done(void);

static inline bool nxr_request_is_done(const struct nixl_req *req)
{
    return atomic_load_explicit(&req->status, memory_order_acquire) != NIXL_INPROGRESS;
}

/*
 * Stop a request. If it has not been started, it ends as canceled. NIXL_OK: it has ended;
 * NIXL_INPROGRESS: its transport finishes what it has begun.
 */
int nxr_request_stop(struct nixl_req *req);

/* Let `follower` wait for it; told at once if it has ended. Before that, nobody else has it. */
void nxr_request_follow(struct nixl_req *req, struct nxr_follower *follower);

/* Stop it at that time; it then ends with NIXL_E_TIMEOUT. Any thread. */
void nxr_request_expire(struct nixl_req *req, int64_t at_ns);

/* From now on a completion queue has it, and reports its end. */
void nxr_request_report(struct nixl_req *req, struct nixl_cq *cq, uint64_t user_data);

/*
 * Wait for a request that no one else has, and free it. If it takes too long it is stopped; if it
 * cannot be stopped it is waited for, since the local buffer is in use until it ends.
 */
int nxr_request_complete(const char *operation, struct nixl_req *req, int64_t timeout_ns);

/* Begin a request that was made earlier: it is started by whichever thread drives progress. */
void nxr_request_queue(struct nixl_req *req, const struct nxr_op *op);

/* ---- for completion queues: cq.c ------------------------------------------------------------- */

/*
 * Take the oldest requests that have ended, at most `max`: how many. The caller frees each by
 * nxr_request_drop().
 */
size_t nxr_request_take_reported(struct nixl_cq *cq, struct nixl_req **reqs, size_t max);

/* Free a request that has ended and that its queue has reported. */
void nxr_request_drop(struct nixl_req *req);

/* Stop those under way with that user_data; nxr_request_stop() for each. */
void nxr_request_stop_reported(struct nixl_cq *cq, uint64_t user_data);

/* The queue closes: abandon what it has. */
void nxr_request_abandon_reported(struct nixl_cq *cq);

/* Report the outcome of a request that has ended, free it, and set it NULL. */
int nxr_request_finish(const char *operation, struct nixl_req **req_p);

/*
 * Take back a request that has not been started; the caller then ends it. False: too late.
 * *cancel_p then cancels it where it is; NULL: no transport has it.
 */
bool nxr_request_withdraw(struct nixl_req *req, int (**cancel_p)(struct nxr_op *op));

/*
 * Free a request that has ended and that only its maker knows; returns how. Nothing is recorded,
 * nor left to a flush.
 */
int nxr_request_collect(struct nixl_req *req);

/* The user gives the request up: it is freed when it ends, or now if it has. */
void nxr_request_abandon(struct nixl_req *req);

/*
 * What is known about a failed operation beyond its status, to append to a message; or "".
 * Constant, or valid until the thread's next call. `segment` may be NULL. *error_p: the errno, or
 * 0.
 */
const char *nxr_op_why_failed(int status, enum nxr_op_kind kind, int rank,
                              const struct nxr_segment *segment, int *error_p);

/*
 * Find out why storage has failed, which its owner is asked unless it is read here; of that
 * segment, or for NULL of any. Set by the region folder before anything starts. Without locks.
 */
extern const char *(*nxr_storage_why)(enum nxr_op_kind kind, int rank,
                                      const struct nxr_segment *segment, int *error_p);

extern const struct nxr_subsystem nxr_request_subsystem;

#endif
