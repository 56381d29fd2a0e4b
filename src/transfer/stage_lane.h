/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stage.c and stage_piece.c share. Each peer has a lane, created at first use: chunks of host
 * memory through which the pieces of its operations go, in the order in which the operations
 * started. A piece takes up to three steps, a put in this order and a get in the reverse order:
 *     COPY  between device memory of this process and the chunk MOVE  between the chunk and the
 *     segment, or the owner's window, by the segment's own transport ASK   the owner to copy
 *     between its window and the segment
 * While one piece is on the wire, others are being copied at both ends.
 *
 * One thread at a time drives a lane: only the driver begins steps and touches chunks. A thread
 * that ends a step stores the outcome in the chunk and then drives the lane, or leaves that to the
 * current driver.
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
    uint64_t issued;               /* bytes assigned to chunks */
    unsigned n_chunks;
    int status; /* the first failure: no further piece begins; lane.lock */
};

/* A piece under way, in its chunk. */
struct stage_chunk {
    struct nxr_op op; /* the segment of the work that the segment's transport does */
    struct stage_lane *lane;
    struct stage_job *job; /* NULL: free */
    char *memory;
    uint64_t at; /* offset in the operation's bytes */
    size_t nbytes;
    unsigned n_steps; /* completed */
    bool is_windowed;
    bool is_stopping;
    atomic_bool is_asked; /* waiting for the owner's answer */
    _Atomic int status;   /* of the current step; NIXL_INPROGRESS while it runs */
    struct nxr_device_copy copy;
    struct nxr_device_piece piece;
};

struct stage_lane {
    struct nxr_list link;
    struct nxr_peer *peer;
    _Atomic uint32_t n_jobs;
    _Atomic uint32_t n_news; /* events, and 1 for the driver; not 0: it is driven */
    atomic_bool must_look;   /* nxr_stage_run() must drive it */
    pthread_mutex_t lock;
    struct nxr_list jobs;   /* oldest first; lock */
    atomic_bool is_closing; /* the last finalize: nobody answers any more */

    /* The driver's. */
    char *memory;          /* of the chunks; NULL until needed */
    unsigned pinned_kinds; /* bits by enum nixl_mem_kind */
    struct nixl_region *window_region;
    struct nxr_region_segment *window;
    struct stage_chunk chunks[NXR_STAGE_PIECES];
};

/*
 * Something has happened: drive the lane, or leave that to the current driver. Any thread, without
 * a lock.
 */
void nxr_stage_drive(struct stage_lane *lane);

/* Have the lane driven in one of the next rounds over the networks. Any thread. */
void nxr_stage_look_again(struct stage_lane *lane);

/* For the driver: advance a chunk as far as possible. Has anything moved? */
bool nxr_stage_advance(struct stage_chunk *chunk);

#endif
