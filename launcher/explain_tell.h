/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of nixlrun --explain finds out: its memory, and how it reaches that of another. */
#ifndef NIXLRUN_LAUNCHER_EXPLAIN_TELL_H
#define NIXLRUN_LAUNCHER_EXPLAIN_TELL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Kinds of memory of a region: host memory allocated by the library or the user; a GPU's; a file.
 * There are no routes to objects, as no store is known; they are served as files are.
 */
enum explain_part {
    PART_ALLOCATED,
    PART_REGISTERED,
    PART_CUDA,
    PART_VULKAN,
    PART_FILE,
    PART_OBJECT,
    N_PARTS
};
#define PART_FIRST_GPU     PART_CUDA
#define PART_FIRST_STORAGE PART_FILE

static inline bool explain_part_is_storage(enum explain_part part)
{
    return part == PART_FILE || part == PART_OBJECT;
}

/* The memory of a rank, as it reports it to rank 0. */
struct explain_memory {
    uint32_t parts;           /* bits by enum explain_part: its regions */
    char device[N_PARTS][48]; /* GPU memory: which GPU; storage: what reads and writes it */
    char why[N_PARTS][176];   /* GPU memory: why there is none; storage: how, or why by that */
};

const char *explain_part_name(enum explain_part part);

/*
 * Make a region of each kind of memory; of GPU memory, which starts the drivers, only if
 * is_reporter, as for files what reads and writes them. False: there is not even one of host
 * memory.
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

/* The same of what was measured of files at this rank's host; RANK is this one. */
bool explain_figures(bool (*tell)(char *row));

#endif
