/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of nixlrun --explain finds out: its memory, and how it reaches that of another. */
#ifndef NIXLRUN_LAUNCHER_EXPLAIN_TELL_H
#define NIXLRUN_LAUNCHER_EXPLAIN_TELL_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of memory of a region: host memory allocated by the library or the user; a GPU's. */
enum explain_part { PART_ALLOCATED, PART_REGISTERED, PART_CUDA, PART_VULKAN, N_PARTS };
#define PART_FIRST_GPU PART_CUDA

/* The memory of a rank, as it reports it to rank 0. */
struct explain_memory {
    uint32_t parts;           /* bits by enum explain_part: its regions */
    char device[N_PARTS][48]; /* GPU memory: which GPU */
    char why[N_PARTS][176];   /* GPU memory: why there is none */
};

const char *explain_part_name(enum explain_part part);

/*
 * Make a region of each kind of memory; of GPU memory, which starts the drivers, only if
 * is_reporter. False: there is not even one of host memory.
 */
bool explain_open(bool is_reporter, struct explain_memory *memory_p);

/* Does any transport reach the rank? */
bool explain_is_reached(int rank);

/*
 * Report row by row how the memory of this rank and these parts of another reach each other, and
 * why other transports do not serve: lines "TABLE\tRANK\tCELLS", which `tell` may change. False:
 * `tell` refused a row.
 */
bool explain_routes(int rank, uint32_t parts, bool (*tell)(char *row));

#endif
