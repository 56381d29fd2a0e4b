/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a team remembers of the ways of large data that lies in no region (trial.h). One thread at a
 * time, the one that works for the team.
 */
#ifndef NXR_COLLECTIVE_WAY_H
#define NXR_COLLECTIVE_WAY_H

#include <stdint.h>

/* Operations whose ways differ. */
enum nxr_way_of {
    NXR_WAY_OF_BROADCAST,
    NXR_WAY_OF_SCATTER,
    NXR_WAY_OF_GATHER,
    NXR_WAY_OF_ALLGATHER,
    NXR_WAY_OF_ALLTOALL,
    NXR_WAY_OF_REDUCE,
    NXR_WAY_OF_ALLREDUCE,
    NXR_WAY_OF_REDUCE_SCATTER,
    NXR_WAY_N
};

enum nxr_way { NXR_WAY_SLOTS, NXR_WAY_PROCESS_VM, NXR_WAY_COUNT };

/* Sizes of one power of two are a class; larger ones than the last belong to it. */
#define NXR_WAY_CLASSES 16

struct nxr_trial {
    float best_ns[NXR_WAY_COUNT]; /* of this member */
    uint8_t n_runs;
    uint8_t is_agreed;
    uint8_t way; /* enum nxr_way; if is_agreed */
};

#endif
