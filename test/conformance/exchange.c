/* SPDX-License-Identifier: Apache-2.0 */
/* The team, the seed and the buffers of the guarantees on collectives. */
#include "exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 64

struct nixl_team *conf_world;
uint64_t conf_seed;

void conf_need_world(void)
{
    const char *wanted = getenv("MPT_SEED");

    if (conf_world != NULL) {
        return;
    }
    MPT_TRUE(conf.size <= MAX_RANKS);
    MPT_OK(nixl_team_world(MPT_PATIENCE, &conf_world));
    conf_seed = wanted != NULL ? strtoull(wanted, NULL, 0) : (uint64_t)mpt_now_ns();
    MPT_OK(nixl_broadcast(conf_world, 0, &conf_seed, sizeof(conf_seed), MPT_PATIENCE));
    if (conf.rank == 0) {
        printf("# collectives: MPT_SEED=%" PRIu64 "\n", conf_seed);
    }
}

/* ---- buffers --------------------------------------------------------------------------------- */

#define BORDER 64 /* bytes around a buffer that nobody may write */

struct buffer conf_buffer(const char *name, size_t nbytes, size_t shift, bool in_region)
{
    struct buffer buffer = {.nbytes = nbytes};
    size_t all = nbytes + shift + (size_t)2 * BORDER;

    if (in_region) {
        MPT_OK(nixl_region_alloc(name, all, NULL, &buffer.region));
        buffer.memory = nixl_region_addr(buffer.region);
    } else {
        buffer.memory = malloc(all);
        MPT_TRUE(buffer.memory != NULL);
    }
    buffer.bytes = (unsigned char *)buffer.memory + BORDER + shift;
    memset(buffer.memory, 0xa5, all);
    return buffer;
}

void conf_drop_buffer(struct buffer *buffer)
{
    MPT_CHECK_BYTES(buffer->bytes - BORDER, BORDER, 0xa5);
    MPT_CHECK_BYTES(buffer->bytes + buffer->nbytes, BORDER, 0xa5);
    if (buffer->region != NULL) {
        MPT_OK(nixl_region_close(buffer->region, MPT_PATIENCE));
    } else {
        free(buffer->memory);
    }
}

size_t conf_random_nbytes(size_t largest)
{
    uint64_t bits = mpt_random(&conf_seed) % 24;
    size_t nbytes = (size_t)(mpt_random(&conf_seed) % ((2ull << bits) + 1));

    nbytes = mpt_random(&conf_seed) % 8 == 0 ? 0 : nbytes;
    return nbytes < largest ? nbytes : largest;
}

size_t conf_random_shift(void)
{
    return mpt_random(&conf_seed) % 2 == 0 ? 0 : (size_t)(mpt_random(&conf_seed) % 64);
}

/* ---- data that moves ------------------------------------------------------------------------- */

uint64_t conf_piece_seed(uint64_t round, int from, int to)
{
    return round * 1000003 + (uint64_t)from * 1009 + (uint64_t)to;
}

int conf_move(int kind, int root, const void *src, void *dst, size_t nbytes)
{
    switch (kind) {
    case GATHER:
        return nixl_gather(conf_world, root, src, dst, nbytes, MPT_PATIENCE);
    case SCATTER:
        return nixl_scatter(conf_world, root, src, dst, nbytes, MPT_PATIENCE);
    case ALLGATHER:
        return nixl_allgather(conf_world, src, dst, nbytes, MPT_PATIENCE);
    default:
        return nixl_alltoall(conf_world, src, dst, nbytes, MPT_PATIENCE);
    }
}
