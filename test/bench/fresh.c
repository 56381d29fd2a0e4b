/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that changes (--fresh): the sender writes all of it before each operation, and the receiver
 * reads all of it after, as programs do. Else the same bytes would come from the same caches again
 * and again, and a copy that evicts them would look as good as one that keeps them. Every lane of a
 * row writes and reads as much, so the ratio of two lanes compares equal work.
 */
#include "config.h"

#include "bench.h"
#include "util/copy.h"

#include <stdio.h>
#include <string.h>

#define MAX_VALUE 64 /* small numbers: sums of the floats of all ranks stay whole */

/* Every byte, as floats: another value each time. */
static void write_all(unsigned char *bytes, uint64_t nbytes)
{
    static float value;
    float block[4];

    value = value < MAX_VALUE ? value + 1 : 1;
    for (int i = 0; i < 4; i++) {
        block[i] = value;
    }
    for (uint64_t at = 0; at + sizeof(block) <= nbytes; at += sizeof(block)) {
        memcpy(bytes + at, block, sizeof(block));
    }
    memcpy(bytes + nbytes / sizeof(block) * sizeof(block), block, nbytes % sizeof(block));
    __asm__ volatile("" : : : "memory");
}

void fresh_read_all(const unsigned char *bytes, uint64_t nbytes)
{
    const nxr_block16 *blocks = (const void *)bytes;
    nxr_block16 sums[4] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
    uint64_t n_blocks = nbytes / sizeof(blocks[0]);

    for (uint64_t i = 0; i + 4 <= n_blocks; i += 4) {
        for (int j = 0; j < 4; j++) {
            sums[j] ^= blocks[i + (uint64_t)j]; /* four lines in flight */
        }
    }
    sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
    __asm__ volatile("" : : "r"(sums[0][0] ^ sums[0][1])); /* or the reading would be left out */
}

void fresh_write(const struct bench *bench, unsigned char *bytes, uint64_t nbytes)
{
    if (bench->options.is_fresh) {
        write_all(bytes, nbytes);
    }
}

void fresh_read(const struct bench *bench, const unsigned char *bytes, uint64_t nbytes)
{
    if (bench->options.is_fresh) {
        fresh_read_all(bytes, nbytes);
    }
}

static void write_and_read(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        write_all(bench->src, bench->nbytes);
        fresh_read_all(bench->src, bench->nbytes);
    }
}

const char *fresh_note(struct bench *bench)
{
    static const struct bench_lane lane = {"write and read", write_and_read, 0, ACTOR_FIRST, 1};
    static char note[64];
    static uint64_t noted_nbytes; /* of the last row, of which it is still true */
    struct bench_stats stats;

    if (!bench->options.is_fresh || bench->nbytes == 0) {
        return NULL;
    }
    if (bench->nbytes == noted_nbytes) {
        return note;
    }
    noted_nbytes = bench->nbytes;
    sample_lanes(bench, &lane, 1, &stats);
    snprintf(note, sizeof(note), "fresh: to write and read alone %.2f us", stats.median_ns / 1000);
    return note;
}
