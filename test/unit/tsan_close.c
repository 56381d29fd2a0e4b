/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generation and close with both sides as threads of one process: several threads enter a segment,
 * write its memory with plain stores and leave; the owner clears the generation, waits for their
 * slots and then writes the same memory with plain stores. ThreadSanitizer reports a race unless
 * close really waits and leaving really orders; the comparison finds a late write without it. On a
 * busy machine the test ends before its last round.
 */
#include "config.h"

#include "core/job.h"
#include "transports/transport.h"

#include "test/mp/mptest.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_COPIERS  3
#define N_ROUNDS   5000u
#define LONGEST_NS 15000000000ll
#define NBYTES     256
#define ID         5u

static unsigned char memory[NBYTES];
static _Atomic uint64_t *generation_now;
static _Atomic unsigned n_copies;
static atomic_bool is_over;

static void *copy_until_over(void *arg)
{
    struct nxr_segment segment = {.generation_now = generation_now, .id = ID, .inflight_index = 0};
    nxr_inflight_word *word;

    unsigned n = 0;

    segment.peer = arg;
    segment.full_fence = segment.peer->full_fence;
    while (!atomic_load(&is_over)) {
        /* What nixl_region_query does: learn the generation that is there now. */
        segment.generation = atomic_load_explicit(generation_now, memory_order_acquire);
        if (segment.generation == 0) {
            sched_yield();
            continue;
        }
        while (nxr_inflight_enter(&segment, &word) == NIXL_OK) {
            memset(memory, 0x33, sizeof(memory));
            nxr_inflight_leave(word);
            atomic_fetch_add_explicit(&n_copies, 1, memory_order_relaxed);
            if (++n % 16 == 0) {
                sched_yield(); /* more threads than cores: let the owner run */
            }
        }
    }
    return NULL;
}

/* Returns the number of rounds. */
static unsigned close_and_open(void)
{
    int64_t until_ns = mpt_now_ns() + LONGEST_NS;
    unsigned generation;

    for (generation = 1; generation <= N_ROUNDS && mpt_now_ns() < until_ns; generation++) {
        unsigned n_before = atomic_load(&n_copies);
        int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

        atomic_store_explicit(generation_now, generation, memory_order_release);
        /* Until a copy was made; in most rounds not for long. */
        for (int i = 0; (i < 1000 || generation % 10 == 0) && atomic_load(&n_copies) == n_before;
             i++) {
            MPT_LT(mpt_now_ns(), end_ns);
            sched_yield();
        }
        atomic_store_explicit(generation_now, 0, memory_order_relaxed);
        MPT_EQ(nxr_inflight_quiesce_own(ID, MPT_PATIENCE), NIXL_OK);
        memset(memory, (int)(generation & 7), sizeof(memory));
        MPT_CHECK_BYTES(memory, sizeof(memory), (int)(generation & 7));
    }
    return generation - 1;
}

int main(void)
{
    struct nxr_peer self = {.rank = 0}, *peers[1] = {&self};
    pthread_t copiers[N_COPIERS];
    unsigned n_rounds;

    printf("1..2\n");
    nxr_barrier_init();
    nxr_job.size = 1;
    nxr_job.peers = peers;
    nxr_job.control = calloc(1, sizeof(*nxr_job.control) + sizeof(struct nxr_ring_credit));
    self.control = nxr_job.control;
    self.full_fence = nxr_barrier_is_full();
    generation_now = &nxr_job.control->generations[ID];
    for (int i = 0; i < N_COPIERS; i++) {
        MPT_EQ(pthread_create(&copiers[i], NULL, copy_until_over, &self), 0);
    }
    n_rounds = close_and_open();
    atomic_store(&is_over, true);
    for (int i = 0; i < N_COPIERS; i++) {
        MPT_EQ(pthread_join(copiers[i], NULL), 0);
    }
    printf("ok 1 - no copy after close in %u rounds\n", n_rounds);
    MPT_GE(atomic_load(&n_copies), n_rounds / 10);
    printf("ok 2 - copies were made: %u\n", atomic_load(&n_copies));
    free(nxr_job.control);
    return 0;
}
