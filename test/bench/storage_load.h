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
    uint64_t n_ops;
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
    bool is_rewritten; /* each block before it is put */
    int depth;
    int64_t turn_ns;
};

/*
 * Make a new file past the page cache and write all its blocks, as reads of holes take no disk. The
 * region has that name, or NULL. A failure's status, with nixl_last_error(); then there is no file.
 */
int storage_load_open(struct storage_load *load, const char *name, const char *path);

/* The same with a file in TMPDIR or /var/tmp, one at a time; the process ends if that fails. */
void storage_load_make(struct storage_load *load, const char *name);
const char *storage_load_path(void);
void storage_load_remove(void);

/* What storage_load_open() makes besides the file, for one of another rank. */
void storage_load_prepare(struct storage_load *load, int rank, struct nixl_region *region);

/* Removes no file. */
void storage_load_close(struct storage_load *load);

struct storage_turn storage_load_turn(struct storage_load *load);

/* That this process has used so far. */
double storage_cpu_seconds(void);

/* ---- bench_storage.c and bench_storage_peer.c ------------------------------------------------ */

#define STORAGE_N_TURNS 3

struct bench;

/* How many turns a row has, STORAGE_N_TURNS at most, and how long one is. */
int storage_n_turns(const struct bench *bench);
int64_t storage_turn_ns(const struct bench *bench);
bool storage_is_asked_for(const struct bench *bench, uint64_t nbytes);

/* The test with two ranks. */
void storage_of_peer(struct bench *bench);

#endif
