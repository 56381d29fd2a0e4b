/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of nixlrun --explain finds out: its memory, and how it reaches that of another. */
#ifndef NIXLRUN_LAUNCHER_EXPLAIN_TELL_H
#define NIXLRUN_LAUNCHER_EXPLAIN_TELL_H

#include <stdbool.h>
#include <stdint.h>

/* What a region can be of: host memory that the library has allocated, or the user's; a GPU's. */
enum explain_part { PART_ALLOCATED, PART_REGISTERED, PART_CUDA, PART_VULKAN, N_PARTS };
#define PART_FIRST_GPU PART_CUDA

/* The memory of a rank, as it tells rank 0. */
struct explain_memory {
    uint32_t parts;           /* bits by enum explain_part: its regions */
    char device[N_PARTS][48]; /* of a GPU's: which */
    char why[N_PARTS][176];   /* of a GPU's: why there is none */
};

const char *explain_part_name(enum explain_part part);

/*
 * Make a region of each kind of memory; of GPUs, whose drivers are started for that, if is_speaker.
 * False: there is none of host memory either.
 */
bool explain_open(bool is_speaker, struct explain_memory *memory_p);

/* Does any transport reach the rank? */
bool explain_is_reached(int rank);

/*
 * Tell, row by row, how the memory of this rank and these parts of another reach each other, and
 * why not otherwise: lines "TABLE\tRANK\tCELLS", which may be changed. False: a row was not taken.
 */
bool explain_routes(int rank, uint32_t parts, bool (*tell)(char *row));

#endif
