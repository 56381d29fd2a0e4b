/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: items from rank 0 to rank 1, as fast as both can. Each item is copied once, from
 * private memory into the slot; the limit is that copy alone, where the memory can be mapped.
 */
#include "config.h"

#include "bench.h"

#include <stdio.h>
#include <string.h>

#define COPY_GOAL      (1 / 0.97)
#define COPY_GOAL_FROM (1 << 20)
#define N_SLOTS        64
#define LARGE_NBYTES   (64 << 10) /* from there on few slots */
#define N_LARGE_SLOTS  8

static struct nixl_channel *channel;

static void pass_items(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        void *slot;

        if (bench->rank == 0) {
            bench_check(nixl_channel_acquire(channel, BENCH_TIMEOUT_NS, &slot),
                        "nixl_channel_acquire");
            fresh_write(bench, bench->src, bench->nbytes);
            memcpy(slot, bench->src, bench->nbytes);
            bench_check(nixl_channel_publish(channel, bench->nbytes), "nixl_channel_publish");
        } else {
            bench_check(nixl_channel_recv(channel, BENCH_TIMEOUT_NS, &slot, NULL, NULL),
                        "nixl_channel_recv");
            fresh_read(bench, slot, bench->nbytes);
            bench_check(nixl_channel_release(channel, slot), "nixl_channel_release");
        }
    }
}

/*
 * The same copies into the peer's memory, without notifications (with --fresh the peer reads them
 * as it goes): to as many slots, and from one
 * batch to the next, as the channel goes, else a batch of one would find its slot in the cache.
 */
static void copy_only(struct bench *bench, long n, int n_slots)
{
    static long next;

    for (long i = 0; i < n; i++) {
        next = next + 1 < n_slots ? next + 1 : 0;
        if (bench->rank == 0) {
            fresh_write(bench, bench->src, bench->nbytes);
            memcpy(bench->theirs + (uint64_t)next * bench->nbytes, bench->src, bench->nbytes);
        } else {
            fresh_read(bench, bench->mine + (uint64_t)next * bench->nbytes, bench->nbytes);
        }
    }
}

void test_channel(struct bench *bench)
{
    static const uint64_t defaults[] = {64, 4096, 65536, 1 << 20};
    static const struct bench_alignment aligned = {0, 0};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 4, &sizes);

    for (int i = 0; i < n_sizes; i++) {
        int n_slots = sizes[i] >= LARGE_NBYTES ? N_LARGE_SLOTS : N_SLOTS;
        const struct bench_lane lanes[] = {{"nixlrun", pass_items, 0, ACTOR_PAIR, 1},
                                           {"memcpy alone", copy_only, n_slots, ACTOR_PAIR, 1}};
        struct bench_stats stats[2];
        int n_lanes;

        stage_data_open(bench, false, sizes[i] * (uint64_t)n_slots);
        stage_case(bench, sizes[i], &aligned);
        n_lanes = bench->theirs != NULL ? 2 : 1;
        bench_check(
            nixl_channel_open("bench.channel", bench->peer,
                              bench->rank == 0 ? NIXL_CHANNEL_PRODUCER : NIXL_CHANNEL_CONSUMER,
                              sizes[i], (size_t)n_slots, NULL, &channel),
            "nixl_channel_open");
        sample_lanes(bench, lanes, n_lanes, stats);
        report_lanes(bench, "channel", "items through a channel", lanes, n_lanes, stats,
                     sizes[i] >= COPY_GOAL_FROM ? COPY_GOAL : 0);
        stage_barrier(bench);
        bench_check(nixl_channel_close(channel, BENCH_TIMEOUT_NS), "nixl_channel_close");
        stage_data_close(bench);
    }
}
