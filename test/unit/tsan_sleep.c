/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping and waking with both sides as threads of one process: the waiter spins briefly and
 * sleeps, the other publishes at random moments around that and wakes it only if it said that it
 * sleeps. A lost wake-up shows as a wait that times out; what was published is plain memory, so
 * that ThreadSanitizer checks its order too. On a busy machine it ends before its last round.
 */
#include "config.h"

#include "core/job.h"
#include "core/wait.h"

#include "test/mp/mptest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define N_ROUNDS   50000u
#define LONGEST_NS 15000000000ll

static struct nxr_peer owner; /* as the publishing side sees the waiting one */
static _Atomic unsigned published, taken;
static atomic_bool is_over; /* with the last round that is taken */
static unsigned payload;

static bool is_published(void *arg)
{
    return atomic_load_explicit(&published, memory_order_acquire) == *(const unsigned *)arg;
}

static void *publish_all(void *arg)
{
    uint64_t state = 1;

    for (unsigned round = 1; !atomic_load(&is_over); round++) {
        int64_t end_ns = mpt_now_ns() + (int64_t)(mpt_random(&state) % 8000);

        while (mpt_now_ns() < end_ns) {
        }
        payload = round * 3;
        atomic_store_explicit(&published, round, memory_order_release);
        nxr_wake_peer(&owner);
        while (atomic_load_explicit(&taken, memory_order_acquire) != round) {
            sched_yield();
        }
    }
    return arg;
}

int main(void)
{
    int64_t until_ns = mpt_now_ns() + LONGEST_NS;
    unsigned round = 0;
    pthread_t thread;

    printf("1..1\n");
    nxr_barrier_init();
    nxr_job.size = 1;
    nxr_job.spin_ns = 2000;
    nxr_job.control = calloc(1, sizeof(*nxr_job.control) + sizeof(struct nxr_ring_credit));
    owner.control = nxr_job.control;
    owner.full_fence = nxr_barrier_is_full();
    MPT_EQ(pthread_create(&thread, NULL, publish_all, NULL), 0);
    while (!atomic_load(&is_over)) {
        round++;
        MPT_OK(nxr_wait(is_published, &round, MPT_PATIENCE));
        MPT_EQ(payload, round * 3);
        atomic_store(&is_over, round == N_ROUNDS || mpt_now_ns() > until_ns);
        atomic_store_explicit(&taken, round, memory_order_release);
    }
    MPT_EQ(pthread_join(thread, NULL), 0);
    free(nxr_job.control);
    printf("ok 1 - no wake-up is lost in %u rounds\n", round);
    return 0;
}
