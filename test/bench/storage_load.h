/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing a file by nixlrun, with some requests under way: `storage' and `tune'. */
#ifndef NXR_BENCH_STORAGE_LOAD_H
#define NXR_BENCH_STORAGE_LOAD_H

#include "nixlrun.h"

#include <stdbool.h>
#include <stdint.h>

#define STORAGE_FILE_NBYTES ((uint64_t)256 << 20)
#define STORAGE_MAX_NBYTES  ((uint64_t)1 << 20) /* of a request */
#define STORAGE_MAX_DEPTH   64

/* One measurement. */
struct storage_turn {
    double op_ns; /* from the start of one to the start of the next */
    double cpu;   /* seconds of all processors of this process, for a GiB */
};

struct storage_load {
    int rank; /* whose file it is */
    struct nixl_region *region;
    struct nixl_cq *cq;
    unsigned char *memory; /* STORAGE_MAX_DEPTH blocks of the largest size */
    uint64_t at;           /* the next block, or the state of a generator */

    /* of the next turn */
    uint64_t nbytes;
    bool is_random, is_put;
    int depth;
    int64_t turn_ns;
};

/*
 * Make a new file past the page cache and write all its blocks, as reads of holes take no disk. A
 * failure's status, with nixl_last_error(); then there is no file.
 */
int storage_load_open(struct storage_load *load, const char *path);

/* What storage_load_open() makes besides the file, for one of another rank. */
void storage_load_prepare(struct storage_load *load, int rank, struct nixl_region *region);

/* Removes no file. */
void storage_load_close(struct storage_load *load);

struct storage_turn storage_load_turn(struct storage_load *load);

#endif
