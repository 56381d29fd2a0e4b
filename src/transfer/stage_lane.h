/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stage.c and stage_piece.c share. There is a lane for each peer, made at first use: chunks of
 * host memory that pieces of its operations go through, in order of their start. A piece takes up
 * to three steps, for a put in this order and for a get in the opposite one:
 *     COPY  between device memory of this process and the chunk
 *     MOVE  between the chunk and the part, or the owner's window, by the part's own transport
 *     ASK   the owner to copy between its window and the part
 * so that while one piece is on the wire others are being copied at both ends.
 *
 * One thread at a time drives a lane: it alone begins steps and touches chunks. Whoever ends a step
 * stores the outcome in the chunk and drives the lane, or leaves it to who does.
 */
#ifndef NXR_TRANSFER_STAGE_LANE_H
#define NXR_TRANSFER_STAGE_LANE_H

#include "region/region.h"
#include "transfer/stage.h"
#include "util/list.h"

#include <pthread.h>

enum step { STEP_COPY, STEP_MOVE, STEP_ASK, N_STEPS };

struct stage_lane;

/* An operation that is staged. */
struct stage_job {
    struct nxr_list link; /* lane.jobs */
    struct nxr_op *op;
    const struct nxr_range *range; /* of its local side; NULL: host memory */
    uint64_t issued;               /* bytes that chunks were given */
    unsigned n_chunks;
    int status; /* the first failure: nothing more is begun; lane.lock */
};

/* A piece under way, in its chunk. */
struct stage_chunk {
    struct nxr_op op; /* what the part's transport does of it */
    struct stage_lane *lane;
    struct stage_job *job; /* NULL: free */
    char *memory;
    uint64_t at; /* of the operation's bytes */
    size_t nbytes;
    unsigned n_steps; /* that are over */
    bool is_windowed;
    bool is_stopping;
    atomic_bool is_asked; /* the owner's answer is waited for */
    _Atomic int status;   /* of the step; NIXL_INPROGRESS while it is under way */
    struct nxr_device_copy copy;
    struct nxr_device_piece piece;
};

struct stage_lane {
    struct nxr_list link;
    struct nxr_peer *peer;
    _Atomic uint32_t n_jobs;
    _Atomic uint32_t n_news; /* and 1 for who drives; not 0: it is driven */
    atomic_bool must_look;   /* nxr_stage_run() drives it */
    pthread_mutex_t lock;
    struct nxr_list jobs;   /* by age; lock */
    atomic_bool is_closing; /* the last finalize: nobody answers any more */

    /* The driver's. */
    char *memory;          /* of the chunks; NULL until needed */
    unsigned pinned_kinds; /* bits by enum nixl_mem_kind */
    struct nixl_region *window_region;
    struct nxr_region_part *window;
    struct stage_chunk chunks[NXR_STAGE_PIECES];
};

/* There are news: drive, or leave them to who does. Any thread, without a lock. */
void nxr_stage_drive(struct stage_lane *lane);

/* There is something to be seen in one of the next rounds over the networks. Any thread. */
void nxr_stage_look_again(struct stage_lane *lane);

/* For who drives: go on with a chunk as far as it goes. Has anything moved? */
bool nxr_stage_advance(struct stage_chunk *chunk);

#endif
