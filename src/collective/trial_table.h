/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a team remembers of the paths of large data (trial.h). One thread at a time accesses it, the
 * one that works for the team.
 */
#ifndef NXR_COLLECTIVE_TRIAL_TABLE_H
#define NXR_COLLECTIVE_TRIAL_TABLE_H

#include <stdint.h>

/* Operations whose paths differ. */
enum nxr_trial_operation {
    NXR_TRIAL_BROADCAST,
    NXR_TRIAL_SCATTER,
    NXR_TRIAL_GATHER,
    NXR_TRIAL_ALLGATHER,
    NXR_TRIAL_ALLTOALL,
    NXR_TRIAL_REDUCE,
    NXR_TRIAL_ALLREDUCE,
    NXR_TRIAL_REDUCE_SCATTER,
    NXR_TRIAL_OPERATIONS
};

/* Through slots or cells, which copies twice; or from where the data lies to where it goes. */
enum nxr_trial_path { NXR_TRIAL_BY_SLOTS, NXR_TRIAL_IN_PLACE, NXR_TRIAL_PATHS };

/*
 * Sizes of one power of two are a class; larger ones than the last belong to it. Data in regions is
 * measured up to the last class of its own, above which it is always faster in place.
 */
#define NXR_TRIAL_CLASSES        16
#define NXR_TRIAL_REGION_CLASSES 3

/*
 * Each path so many times, one after the other: the first time has page faults and what the other
 * path has left in the caches, and others may be disturbed.
 */
#define NXR_TRIAL_RUNS 4

/* What a member tells of its runs: times in ns. */
struct nxr_trial_times {
    float call[NXR_TRIAL_PATHS][NXR_TRIAL_RUNS];   /* from when all had met */
    float period[NXR_TRIAL_PATHS][NXR_TRIAL_RUNS]; /* ... until they met in the next call */
    uint32_t touches_device;                       /* the last call */
};

struct nxr_trial {
    struct nxr_trial_times ns;
    int64_t started_ns;   /* the last run */
    uint16_t n_calls;     /* since the path was agreed */
    uint16_t again_after; /* ... to the next trial; if was_agreed */
    uint8_t n_runs;
    uint8_t was_agreed;  /* once */
    uint8_t is_repeated; /* before it was agreed: regions were used for the first time */
    uint8_t is_agreed;   /* now */
    uint8_t is_plain;    /* ... and no member touched device memory then */
    uint8_t path;        /* enum nxr_trial_path; if was_agreed */
    uint8_t n_blind;     /* small calls to come that need no offer */
};

#endif
