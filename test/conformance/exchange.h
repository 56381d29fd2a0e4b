/* SPDX-License-Identifier: Apache-2.0 */
/* What the guarantees on collectives share: a team of all, a seed, and buffers. */
#ifndef NXR_TEST_EXCHANGE_H
#define NXR_TEST_EXCHANGE_H

#include "conformance.h"

/* Both are made with the first guarantee that is walked; the seed is the same on all ranks. */
extern struct nixl_team *conf_world;
extern uint64_t conf_seed;
void conf_need_world(void);

/* Memory of any alignment, in or out of a region, with a border that nobody may write. */
struct buffer {
    unsigned char *bytes;
    size_t nbytes;
    void *memory;
    struct nixl_region *region;
};
struct buffer conf_buffer(const char *name, size_t nbytes, size_t shift, bool in_region);
void conf_drop_buffer(struct buffer *buffer);

/* A size that is often small, sometimes 0, sometimes as large as it may be; and a misalignment. */
size_t conf_random_nbytes(size_t largest);
size_t conf_random_shift(void);

/*
 * Collectives that move data of one size, by their numbers; what they move, from which member to
 * which.
 */
enum { GATHER, SCATTER, ALLGATHER, ALLTOALL, N_MOVES };
int conf_move(int kind, int root, const void *src, void *dst, size_t nbytes);
uint64_t conf_piece_seed(uint64_t round, int from, int to);

#endif
