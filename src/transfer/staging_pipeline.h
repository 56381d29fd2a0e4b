/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of staging share. A peer has a pipeline for each kind of end, created at first
 * use: slots through which the pieces of its operations go, in the order in which the
 * operations started. A piece takes up to three steps, a put in this order and a get in the
 * reverse order:
 *     COPY  between local memory and the slot
 *     MOVE  between the slot and the segment, or the owner's window, by the segment's own transport
 *     ASK   the owner to copy between its window, or the slot, and the segment
 * While one piece is on the wire, others are being copied at both ends. An end says what MOVE and
 * ASK do; the life of a piece, what stops it and what it has moved are the same for all ends.
 *
 * One thread at a time drives a pipeline: only the driver begins steps and touches slots. A thread
 * that ends a step stores the outcome in the slot and then drives the pipeline, or leaves that to
 * the current driver.
 */
#ifndef NXR_TRANSFER_STAGING_PIPELINE_H
#define NXR_TRANSFER_STAGING_PIPELINE_H

#include "region/region.h"
#include "transfer/staging_memory.h"
#include "util/list.h"

#include <pthread.h>

enum staging_step { STEP_COPY, STEP_MOVE, STEP_ASK, N_STEPS };

struct pipeline;

/* An operation that is staged. */
struct staging_job {
    struct nxr_list link; /* pipeline.jobs */
    struct nxr_op *op;
    const struct nxr_range *range; /* of its local side; NULL: host memory */
    uint64_t issued;               /* bytes assigned to slots */
    size_t next;                   /* of a list: the piece that is being assigned */
    uint64_t next_at;              /* ... or of the only piece: bytes assigned of it */
    unsigned n_pieces;             /* in slots */
    _Atomic int status;            /* the first failure: no further piece begins */
    void *watched;                 /* what the storage's stage_begin() returned */
};

/* A slot, and the piece in it. */
struct staging_slot {
    struct nxr_op op; /* what the transport of the segment, or window, does of it */
    struct pipeline *pipeline;
    struct staging_job *job; /* NULL: free */
    uint64_t offset;         /* in the segment */
    char *local;
    size_t nbytes;
    unsigned n_steps;     /* completed */
    bool is_copied;       /* local bytes go through the slot */
    bool is_asked_for;    /* the owner copies from or to the segment */
    bool is_stopping;     /* its MOVE was canceled */
    bool is_taken_back;   /* its ASK was: the owner has not touched the segment */
    atomic_bool is_asked; /* ASK: waiting for the owner's message */
    _Atomic int status;   /* of the current step; NIXL_INPROGRESS while it runs */
    struct nxr_device_copy copy;
    struct nxr_device_piece piece;
};

/* How a pipeline reaches the owner. The driver calls these functions, without a lock. */
struct staging_end {
    bool is_polled;  /* only look() finds answers: progress drives the pipeline while it has jobs */
    bool takes_host; /* local host memory goes through the slots, too */
    unsigned n_slots; /* how many pieces are under way, at most */

    /* Provide memory for the slots, and set piece_nbytes if it is not NXR_STAGING_NBYTES. */
    int (*open)(struct pipeline *pipeline);

    /*
     * A piece is about to begin: set is_asked_for. NIXL_OK; NIXL_INPROGRESS: not yet, a later round
     * tries again. Other: the operation fails.
     */
    int (*aim)(struct staging_slot *slot, const struct nxr_op *op, size_t nbytes);

    /*
     * Begin a step: NIXL_INPROGRESS, or its outcome. ask() is called only for pieces with
     * is_asked_for. move: NULL if the owner reaches the slots itself.
     */
    int (*move)(struct staging_slot *slot);
    int (*ask)(struct staging_slot *slot);

    /* Polled ends: what has become of the ASK under way, NIXL_INPROGRESS or its outcome. */
    int (*look)(struct staging_slot *slot);

    /*
     * Take an ASK back. True: the owner has not begun and will not. is_gone: it does not answer any
     * more; true then means that no answer is waited for.
     */
    bool (*take_back)(struct staging_slot *slot, bool is_gone);

    /* A round over the slots has ended. NULL: nothing to do. */
    void (*round_ended)(struct pipeline *pipeline);
};

struct pipeline {
    const struct staging_end *end;
    struct nxr_peer *peer;
    _Atomic uint32_t n_jobs;
    _Atomic uint32_t n_news; /* events, and 1 for the driver; not 0: it is driven */
    atomic_bool must_look;   /* staging_run() must drive it */
    pthread_mutex_t lock;
    struct nxr_list jobs;   /* oldest first; lock */
    atomic_bool is_closing; /* the last finalize: nobody answers any more */

    /* The driver's. */
    struct staging_memory memory;
    size_t piece_nbytes; /* at most */
    unsigned first;      /* the slot after the one that was filled last */
    bool is_starved;     /* this round found no piece to begin */
    bool has_asked;      /* shared: in this round, so the owner may have to be told */
    struct nixl_region *window_region;
    struct nxr_region_segment *window;
    struct staging_slot *slots; /* end->n_slots */
};

/* By the segment's transport, with windows; and by memory that the owner maps, too. */
enum { BY_TRANSPORT, BY_SHARED_MEMORY, BY_SHARED_TO_STORAGE, N_PIPELINES };

/* The pipelines to a peer: peer->staging. */
struct nxr_staging {
    struct nxr_staging *_Atomic next; /* in the list of all; stays when it is taken out */
    struct pipeline pipelines[N_PIPELINES];
};

extern const struct staging_end nxr_staging_direct;  /* staging_direct.c */
extern const struct staging_end nxr_staging_shared;  /* staging_shared.c */
extern const struct staging_end nxr_staging_storage; /* the same */

static inline unsigned staging_index(const struct staging_slot *slot)
{
    return (unsigned)(slot - slot->pipeline->slots);
}

static inline char *staging_memory_of(const struct staging_slot *slot)
{
    return nxr_staging_slot(&slot->pipeline->memory, staging_index(slot));
}

/* progress() of the transport: drive all pipelines that have operations. */
int nxr_staging_progress(void);

/*
 * Something has happened: drive the pipeline, or leave that to the current driver. Any thread,
 * without a lock.
 */
void nxr_staging_drive(struct pipeline *pipeline);

/* Have the pipeline driven in one of the next rounds over the networks. Any thread. */
void nxr_staging_look_again(struct pipeline *pipeline);

/* A step that was under way has ended: drive on. Any thread, without a lock. */
void nxr_staging_step_ended(struct staging_slot *slot, int status);

/* For the driver: one pass over the slots, each as far as possible. How many have moved? */
int nxr_staging_advance(struct pipeline *pipeline);

/* Register what takes the answers of other hosts. */
void nxr_staging_direct_register(void);

#endif
