/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared transfers: two sides made of blocks, walked together, and moved piece by piece.
 *
 * A start is driven by one thread at a time: by the caller for its first part, then by whoever
 * drives progress. It hands lists of pieces to the transport of the part; what cannot be done at
 * once becomes operations, of which a window is under way. Handles are type-stable and reused late,
 * so that a call on one that was given back finds that.
 */
#ifndef NXR_TRANSFER_XFER_H
#define NXR_TRANSFER_XFER_H

#include "region/region.h"

#define NXR_XFER_OPEN 0x6e78722d78666572ull

/* ---- sides (xfer_blocks.c) ------------------------------------------------------------------- */

/* An entry of a side, as the caller gave it, and where it lies. */
struct nxr_blocks {
    struct nixl_region *region;
    char *base;                    /* local: what offsets count from; remote: NULL */
    struct nxr_part *part;         /* remote: as the last start found it; local: NULL */
    const struct nxr_range *range; /* local: of device memory; else NULL */
    uint64_t limit;                /* bytes behind the base, or of the part */
    uint64_t offset;
    uint64_t block_nbytes;
    uint64_t stride;
    uint64_t nblocks;
    const uint64_t *index;
};

struct nxr_side {
    struct nxr_blocks *blocks;
    size_t n_entries;
    uint64_t nbytes;  /* in all */
    uint64_t nblocks; /* in all */
};

/* Take over the caller's entries. NIXL_OK or the failure of `operation`, recorded. */
int nxr_side_copy(const char *operation, int rank, enum nixl_xfer_side which,
                  const struct nixl_blocks *entries, size_t n_entries, struct nxr_side *side);

/* Count bytes and blocks anew. NIXL_OK or the failure of `operation`, recorded. */
int nxr_side_count(const char *operation, int rank, struct nxr_side *side);

/* Find all memory of a side, asking its owner if need be, and check that every block lies in it. */
int nxr_side_find(const char *operation, int rank, enum nixl_xfer_side which,
                  struct nxr_side *side);

/* A walk over a side, run by run: bytes that lie together, over as many blocks as do. */
struct nxr_walk {
    const struct nxr_side *side;
    size_t entry;
    uint64_t block;              /* of the entry: the next one that is not in a run yet */
    const struct nxr_blocks *of; /* the run's first entry */
    uint64_t start;              /* of what is left of the run, from its base */
    uint64_t nbytes;             /* ... 0: no run yet, or the end */
    bool is_outside;             /* an index was changed meanwhile and leads outside */
};

/* Go on to the next run. False: there is none. */
bool nxr_walk_next(struct nxr_walk *walk);

/* ---- a transfer ------------------------------------------------------------------------------ */

/* An operation under way at a transport. */
struct nxr_xfer_slot {
    struct nxr_op op;
    struct nixl_xfer *xfer;
    struct nxr_list link;     /* of the free ones */
    bool is_busy;             /* the transport may have it */
    struct nxr_piece *pieces; /* [NXR_LIST_MAX] of a list; NULL until it was used for one */
};

struct nxr_xfer_queue;

struct nixl_xfer {
    _Atomic uint64_t magic; /* NXR_XFER_OPEN while open */
    enum nxr_op_kind kind;
    int rank;
    struct nxr_peer *peer;
    struct nxr_side sides[2]; /* by enum nixl_xfer_side */
    struct nixl_req *kept;    /* the request of a start that gave none */
    struct nixl_req *spare;   /* for the next start that is not complete at once */
    struct nxr_list link;     /* of the open, or the retired ones */

    /* Of the start in flight; whoever drives it. */
    struct nxr_walk walks[2];
    struct nxr_piece *staged; /* [NXR_LIST_MAX], of one part and one range */
    struct nxr_part *part;
    const struct nxr_range *range;
    const struct nxr_transport *mover; /* of what is staged */
    size_t staged_at, n_staged;
    bool takes_lists;   /* the transport takes lists as operations */
    size_t list_pieces; /* of the next one */
    bool is_copying;    /* its last pieces were copied at once, and the copy thread can go on */
    uint64_t n_pieces;
    int64_t started_at;
    uint64_t estimated_ns;

    /* What follows a start that ends well, before what is sent behind it; NULL: nothing. */
    int (*then)(struct nixl_xfer *xfer);
    void *follower; /* what `then` needs: malloc()ed, and freed with the transfer; or NULL */
    size_t follower_nbytes;

    _Atomic int failure;          /* not NIXL_OK: nothing more is begun */
    struct nxr_part *failed_part; /* where; read once nothing is under way */

    /* nxr_xfers_lock. */
    bool is_running;
    bool is_driven;
    bool must_drive_again;        /* something ended meanwhile */
    struct nixl_req *req;         /* of the start in flight; NULL while it is in its call */
    struct nxr_xfer_queue *queue; /* that it is in by ready_link, if it is ready */
    struct nxr_list ready_link;
    uint64_t nbytes_done;
    struct nxr_xfer_slot *slots; /* made when first needed */
    struct nxr_list free_slots;
    unsigned n_busy;
    unsigned n_lists; /* of these */

    /* What the last complete one took; nxr_xfers_lock. */
    uint64_t n_complete;
    uint64_t last_pieces;
    uint64_t took_ns;
    uint64_t had_estimated_ns;
    double correction; /* estimates are multiplied by it; 0: nothing was learned yet */
};

/* Taken inside of job.lock; never held while bytes move. */
extern pthread_mutex_t nxr_xfers_lock;

/* NIXL_OK, or why the handle is none: the failure of `operation`, recorded. */
int nxr_xfer_check(const char *operation, const struct nixl_xfer *xfer);

/* Are the sides of one size, and where is everything? NIXL_OK, or the failure, recorded. */
int nxr_xfer_find(const char *operation, struct nixl_xfer *xfer);

/* What a start is expected to take, in ns; 0: not known. */
uint64_t nxr_xfer_estimate(const struct nixl_xfer *xfer);

/* A start is complete: keep what it took, and learn from it. Caller holds nxr_xfers_lock. */
void nxr_xfer_learn(struct nixl_xfer *xfer, uint64_t took_ns);

/* The last finalize: give all back; nothing is in flight any more. */
void nxr_xfers_free(void);

/* ---- handing over (xfer_hand.c): by the thread that drives ----------------------------------- */

/* Gather pieces of one part unless there are some. False: none are left. */
bool nxr_xfer_stage(struct nixl_xfer *xfer, uint64_t max_nbytes);

/*
 * Move or start what was gathered, or a part of it; *left_p becomes less by that. NIXL_OK,
 * NIXL_INPROGRESS: go on. NIXL_ERR_AGAIN: an operation must end first. Other: failed.
 */
int nxr_xfer_hand_over(struct nixl_xfer *xfer, uint64_t *left_p);

/* The start fails at that part; the first reason counts. Any thread. */
void nxr_xfer_set_failure(struct nixl_xfer *xfer, struct nxr_part *part, int status);

/* Stop the operations that are under way. Any thread, without locks. */
void nxr_xfer_cancel_slots(struct nixl_xfer *xfer);

void nxr_xfer_free_slots(struct nixl_xfer *xfer);
uint64_t nxr_xfer_slots_nbytes(const struct nixl_xfer *xfer);

/* ---- starting (xfer_run.c) ------------------------------------------------------------------- */

/* Claim the transfer for a start. NIXL_OK, or NIXL_ERR_IN_USE, recorded. */
int nxr_xfer_claim(const char *operation, struct nixl_xfer *xfer);

/* Not started: all is as before. Returns `status`. */
int nxr_xfer_unclaim(struct nixl_xfer *xfer, int status);

/* nixl_xfer_start() of a transfer that is claimed, for `operation`. */
int nxr_xfer_start(const char *operation, struct nixl_xfer *xfer,
                   int (*then)(struct nixl_xfer *xfer), struct nixl_req **req_p);

/* ---- driving (xfer_run.c) -------------------------------------------------------------------- */

/* Somebody should drive it. Caller holds nxr_xfers_lock. */
void nxr_xfer_make_ready(struct nixl_xfer *xfer);

/* Give every transfer that is ready a turn. Has anything moved? Any thread, without job.lock. */
bool nxr_xfer_progress(void);

/*
 * The same for one of those that copy here, which goes on for about so many bytes. The copy thread,
 * or who helps it.
 */
bool nxr_xfer_copy(uint64_t nbytes);

/* When the service thread should look again. */
int64_t nxr_xfer_tick(int64_t now);

/* Will nobody drive it from now on, unless an operation of it ends? */
bool nxr_xfer_is_idle(struct nixl_xfer *xfer);

/* The last finalize: begin nothing more. */
void nxr_xfers_stop(void);

extern const struct nxr_subsystem nxr_xfer_subsystem;

#endif
