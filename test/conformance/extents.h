/* SPDX-License-Identifier: Apache-2.0 */
/* A region of extents with the same pieces at every rank, for the guarantees about such regions. */
#ifndef NXR_TEST_EXTENTS_H
#define NXR_TEST_EXTENTS_H

#include "conformance.h"

#define N_PIECES 7
#define BLOCK    512
#define N_BLOCKS 16 /* that each piece has at least */

#define EXTENTS_STRIDE 70000 /* from one to the next in memory */

/* Sizes that differ; in memory the pieces have gaps, and are out of order. */
extern const size_t extents_sizes[N_PIECES];

struct cache {
    struct nixl_region *region;
    struct nixl_extent pieces[N_PIECES];
    uint64_t starts[N_PIECES + 1];
    size_t n;
    unsigned char *memory;
};

/* The first n pieces, not registered. */
struct cache extents_lay_out(size_t n);

/* The same as a region. `access`: enum nixl_access. */
struct cache extents_open(const char *name, size_t n, uint32_t access);

/* All ranks are here: no put of theirs comes too late. */
void extents_close(struct cache *cache);

#endif
