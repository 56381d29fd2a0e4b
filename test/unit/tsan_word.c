/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals and atomics between the threads of a job of one rank, so that ThreadSanitizer sees both
 * sides: a signal orders what it announces, and atomics are no race. Useful without it too.
 */
#include "test/mp/mptest.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#define N_ROUNDS  5000
#define N_THREADS 4

/* What the region holds; the signals are on lines of their own. */
struct memory {
    uint64_t data;
    _Alignas(128) uint64_t there;
    _Alignas(128) uint64_t back;
    _Alignas(128) uint64_t sum;
};

static struct nixl_region *region;
static struct memory *memory;

/* Reads the data with a plain load: without the signal's order that would be a race. */
static void *answer(void *arg)
{
    for (uint64_t round = 1; round <= N_ROUNDS; round++) {
        MPT_OK(nixl_signal_wait(&memory->there, NIXL_COMPARE_GE, round, MPT_PATIENCE, NULL));
        MPT_EQ(memory->data, round * 3);
        MPT_OK(nixl_signal_set(0, region, offsetof(struct memory, back), round));
    }
    return arg;
}

static void ping_pong(void)
{
    pthread_t thread;

    MPT_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
    for (uint64_t round = 1; round <= N_ROUNDS; round++) {
        memory->data = round * 3;
        MPT_OK(nixl_signal_add(0, region, offsetof(struct memory, there), 1));
        MPT_OK(nixl_signal_wait(&memory->back, NIXL_COMPARE_EQ, round, MPT_PATIENCE, NULL));
    }
    MPT_EQ(pthread_join(thread, NULL), 0);
}

static void *add(void *arg)
{
    const uint64_t one = 1;

    for (int i = 0; i < N_ROUNDS; i++) {
        MPT_OK(nixl_atomic(0, region, offsetof(struct memory, sum), NIXL_TYPE_UINT64,
                           NIXL_ATOMIC_ADD, &one, NULL));
    }
    return arg;
}

int main(void)
{
    pthread_t threads[N_THREADS];

    printf("1..2\n");
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("words", sizeof(*memory), NULL, &region));
    memory = nixl_region_addr(region);
    ping_pong();
    printf("ok 1 - a signal orders what it announces in %d rounds\n", N_ROUNDS);
    for (int i = 0; i < N_THREADS; i++) {
        MPT_EQ(pthread_create(&threads[i], NULL, add, NULL), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        MPT_EQ(pthread_join(threads[i], NULL), 0);
    }
    MPT_EQ(memory->sum, (uint64_t)N_THREADS * N_ROUNDS);
    printf("ok 2 - %d threads make one sum\n", N_THREADS);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return 0;
}
