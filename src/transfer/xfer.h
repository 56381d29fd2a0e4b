/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared transfers: two sides made of blocks, walked together, and moved piece by piece.
 *
 * A start is driven by one thread at a time: by the caller for its first segment, then by any
 * thread that drives progress. The driver hands lists of pieces to the transport of the segment;
 * what cannot be done at once becomes operations, of which a limited number is under way. Handles
 * are type-stable and reused as late as possible, so that a call on a freed handle detects it.
 */
#ifndef NXR_TRANSFER_XFER_H
#define NXR_TRANSFER_XFER_H

#include "region/extents.h"
#include "region/region.h"
#include "util/symbol.h"

struct nxr_after;

#define NXR_XFER_OPEN 0x6e78722d78666572ull

/* ---- sides (xfer_blocks.c) ------------------------------------------------------------------- */

/* An entry of a side, as the caller gave it, and where its memory lies. */
struct nxr_blocks {
    struct nixl_region *region;
    struct nxr_place place;            /* found by the last start */
    const struct nxr_extents *extents; /* instead, if the region has them; else NULL */
    uint64_t offset;
    uint64_t block_nbytes;
    uint64_t stride;
    uint64_t nblocks;
    const uint64_t *index;
    uint32_t first_extent, n_extents; /* as given: NIXL_ALL_EXTENTS; 0: not by extents */
    uint32_t n_rounds; /* how often the blocks are walked: once, or once in each extent */
};

/* The memory of an entry, or its first extent's. */
static inline const struct nxr_place *nxr_blocks_first_place(const struct nxr_blocks *blocks)
{
    return blocks->extents != NULL ? &blocks->extents->list[blocks->first_extent].place
                                   : &blocks->place;
}

struct nxr_side {
    struct nxr_blocks *blocks;
    size_t n_entries;
    uint64_t nbytes;  /* in all */
    uint64_t nblocks; /* in all */
    bool is_open;     /* an entry is for all extents, so that only a start knows its size */
    bool asks_nobody; /* what is not known when it is found is not asked for; set by each start */
};

/* Copy the caller's entries. NIXL_OK or the failure of `operation`, recorded. */
int nxr_side_copy(const char *operation, int rank, enum nixl_xfer_side which,
                  const struct nixl_blocks *entries, size_t n_entries, struct nxr_side *side);

/* Count bytes and blocks again. NIXL_OK or the failure of `operation`, recorded. */
int nxr_side_count(const char *operation, int rank, struct nxr_side *side);

/*
 * Find all memory of a side, asking its owner if need be and allowed, and check that every block
 * lies in it, and that the owner allows that kind of operation.
 */
int nxr_side_find(const char *operation, enum nxr_op_kind kind, int rank, enum nixl_xfer_side which,
                  struct nxr_side *side);

/* A walk over a side, run by run. A run is contiguous bytes, across as many blocks as adjoin. */
struct nxr_walk {
    const struct nxr_side *side;
    size_t entry;
    uint32_t round;                /* of the entry: which extent */
    uint64_t block;                /* index in the entry of the next block that is in no run yet */
    const struct nxr_place *next;  /* that block's memory; NULL: it is not looked up yet */
    uint64_t next_start;           /* ... and the block's offset in it */
    const struct nxr_blocks *of;   /* the run's first entry */
    const struct nxr_place *place; /* the run's memory */
    uint64_t start;                /* offset from the base of what is left of the run */
    uint64_t nbytes;               /* ... and its size; 0: no run yet, or the end */
    bool is_outside;               /* an index was changed meanwhile and is out of range */
};

/* Advance to the next run. False: there is none. */
bool nxr_walk_next(struct nxr_walk *walk);

/*
 * After a piece of both walks, which they have moved past: take blocks of one size that follow, as
 * pieces of that segment and range, up to max_n and *left_p bytes, which are subtracted. Returns
 * how many; 0: the walks must be asked (xfer_batch.c).
 */
size_t nxr_walks_take(struct nxr_walk *local, struct nxr_walk *remote, struct nxr_piece *pieces,
                      size_t max_n, uint64_t *left_p);

/*
 * How many pieces are gathered to be moved at once. Operations on lists start with as many and
 * grow by half each time, up to NXR_LIST_MAX: the first list starts early and moves while the next
 * one is gathered.
 */
#define NXR_XFER_COPY_PIECES 256

/* ---- a transfer ------------------------------------------------------------------------------ */

/* An operation under way at a transport. */
struct nxr_xfer_slot {
    struct nxr_op op;
    struct nixl_xfer *xfer;
    struct nxr_list link;     /* xfer->free_slots */
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
    struct nixl_req *kept;    /* the request of a start whose caller wanted none */
    struct nixl_req *spare;   /* for the next start that is not complete at once */
    struct nxr_list link;     /* the open, or the retired transfers */

    /* Of the start in flight; touched only by its driver. */
    struct nxr_walk walks[2];
    struct nxr_piece *staged; /* [max_staged], of one segment and one range */
    size_t max_staged;        /* NXR_XFER_COPY_PIECES; NXR_LIST_MAX once a list was an operation */
    struct nxr_segment *segment;
    const struct nxr_range *range;
    const struct nxr_transport *mover; /* of the staged pieces */
    enum nxr_method method;            /* ... and how their segment is reached */
    size_t staged_at, n_staged;
    bool takes_lists;   /* the transport takes lists as operations */
    size_t list_pieces; /* of the next one */
    bool is_copying;    /* its last pieces were copied at once, and the copy thread can continue */
    uint64_t n_pieces;
    int64_t started_at;
    uint64_t estimated_ns;

    _Atomic int failure;                /* not NIXL_OK: no further piece begins */
    struct nxr_segment *failed_segment; /* where it failed; read once nothing is under way */
    bool is_durable;                    /* it goes on until its files are durable */

    /* nxr_xfers_lock. */
    bool is_running;
    bool is_driven;
    bool must_drive_again;        /* something ended meanwhile */
    bool is_ending;               /* nothing is left to stop at transports, nor begins */
    bool is_syncing;              /* all is in the files; nothing drives it any more */
    struct nixl_req *req;         /* of the start in flight; NULL during the call itself */
    struct nxr_xfer_queue *queue; /* that ready_link is in, if the transfer is ready */
    struct nxr_list ready_link;
    uint64_t nbytes_done;
    struct nxr_xfer_slot *slots; /* made when first needed */
    struct nxr_list free_slots;
    unsigned n_busy;
    unsigned n_lists;    /* of these */
    unsigned n_stopping; /* threads that stop this start, which is not over before they are done */

    /* What the last complete start took; nxr_xfers_lock. */
    uint64_t n_complete;
    uint64_t last_pieces;
    uint64_t took_ns;
    uint64_t had_estimated_ns;
    double correction; /* estimates are multiplied by it; 0: nothing was learned yet */
};

/* Taken inside job.lock; never held while bytes move. */
extern NXR_HIDDEN pthread_mutex_t nxr_xfers_lock;

/* Check a handle. NIXL_OK, or the failure of `operation`, recorded. */
int nxr_xfer_check(const char *operation, const struct nixl_xfer *xfer);

/*
 * Check that both sides have the same size, and find their memory. NIXL_OK, or the failure,
 * recorded.
 */
int nxr_xfer_find(const char *operation, struct nixl_xfer *xfer);

/* The expected duration of a start, in ns; 0: not known. */
uint64_t nxr_xfer_estimate(const struct nixl_xfer *xfer);

/*
 * A start is complete: record how long it took, and correct later estimates. Caller holds
 * nxr_xfers_lock.
 */
void nxr_xfer_learn(struct nixl_xfer *xfer, uint64_t took_ns);

/* The last finalize: free everything; nothing is in flight any more. */
void nxr_xfers_free(void);

/* ---- handing over (xfer_hand.c): called by the driver ---------------------------------------- */

/* Gather pieces of one segment, unless some are staged. False: none are left. */
bool nxr_xfer_stage(struct nixl_xfer *xfer, uint64_t max_nbytes);

/*
 * Move or start the gathered pieces, or some of them; *left_p is reduced by their bytes. NIXL_OK,
 * NIXL_INPROGRESS: continue. NIXL_E_AGAIN: an operation must end first. Other: failed.
 */
int nxr_xfer_hand_over(struct nixl_xfer *xfer, uint64_t *left_p);

/* Record that the start has failed at that segment; the first failure counts. Any thread. */
void nxr_xfer_set_failure(struct nixl_xfer *xfer, struct nxr_segment *segment, int status);

/*
 * Stop the operations that are under way. Any thread, without locks; n_stopping counts it, or no
 * other start begins.
 */
void nxr_xfer_cancel_slots(struct nixl_xfer *xfer);

void nxr_xfer_free_slots(struct nixl_xfer *xfer);
uint64_t nxr_xfer_slots_nbytes(const struct nixl_xfer *xfer);

/* ---- starting (xfer_run.c) ------------------------------------------------------------------- */

/* Claim the transfer for a start. NIXL_OK, or NIXL_E_IN_USE, recorded. */
int nxr_xfer_claim(const char *operation, struct nixl_xfer *xfer);

/* Undo the claim of a transfer that was not started. Returns `status`. */
int nxr_xfer_unclaim(struct nixl_xfer *xfer, int status);

/* May a start be durable? Its memory was found. NIXL_OK, or the failure, recorded. */
int nxr_xfer_check_durable(const char *operation, const struct nixl_xfer *xfer);

/*
 * nixl_xfer_start() of a transfer that is claimed, for `operation`. A request takes `signal`,
 * unless that is NULL. If its remote side asks nobody, it waits for nothing: any thread may call
 * it, later than nxr_xfer_find().
 */
int nxr_xfer_start(const char *operation, struct nixl_xfer *xfer, bool is_durable,
                   struct nxr_after *signal, struct nixl_req **req_p);

/* The same for one that is not claimed yet: the whole of nixl_xfer_start(). */
int nxr_xfer_start_plain(const char *operation, struct nixl_xfer *xfer, struct nixl_req **req_p);

/* ---- driving (xfer_run.c) -------------------------------------------------------------------- */

/* Have a thread drive the transfer. Caller holds nxr_xfers_lock. */
void nxr_xfer_make_ready(struct nixl_xfer *xfer);

/* Give every transfer that is ready a turn. Has anything moved? Any thread, without job.lock. */
bool nxr_xfer_progress(void);

/*
 * The same for one transfer that copies on this host, for about nbytes. Called by the copy thread,
 * and by threads that help it.
 */
bool nxr_xfer_copy(uint64_t nbytes);

/* When the service thread should drive transfers again. */
int64_t nxr_xfer_tick(int64_t now);

/* Stop waiting for its files, if all is in them. Without locks. */
void nxr_xfer_stop_sync(struct nixl_xfer *xfer);

/* Is it certain that nobody drives the transfer unless one of its operations ends? */
bool nxr_xfer_is_idle(struct nixl_xfer *xfer);

/* The last finalize: stop all starts in flight, and wait until nothing drives them. */
void nxr_xfers_stop(void);

extern const struct nxr_subsystem nxr_xfer_subsystem;

#endif
