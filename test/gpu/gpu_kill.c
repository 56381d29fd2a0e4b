/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that is killed in the middle of its copies: rank 1 puts into and gets from memory of rank
 * 0 without end, in every kind of memory, and shoots itself at a random moment. Rank 0 must hear of
 * it, its memory must be its own again, at once and not after a timeout, and rank 2 must go on with
 * it.
 *
 *     gpu_kill [SEED]
 */
#include "test/gpu/gpu.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NBYTES   ((size_t)8 << 20)
#define N_COPIES 4
#define TAG_GO   0x601

static const enum gpu_way ways[] = {GPU_CUDA, GPU_MALLOC, GPU_VMM, GPU_POOL};
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

static struct nixl_region *regions[N_WAYS];
static uint64_t seed;

static void *shoot(void *arg)
{
    const struct timespec *delay = arg;

    nanosleep(delay, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Several copies are under way at each moment. */
static void victim(void)
{
    struct timespec delay = {0, (long)(mpt_random(&seed) % 40000000)};
    struct nixl_req *reqs[N_COPIES] = {NULL};
    struct gpu_region here;
    pthread_t thread;
    int status;

    MPT_TRUE(gpu_region_make("here", GPU_CUDA, N_COPIES * NBYTES, &here));
    MPT_OK(nixl_notify(0, TAG_GO, NULL, 0, MPT_PATIENCE));
    MPT_EQ(pthread_create(&thread, NULL, shoot, &delay), 0);
    for (unsigned i = 0;; i++) {
        struct nixl_req **req = &reqs[i % N_COPIES];
        char *local = (char *)here.addr + i % N_COPIES * NBYTES;

        MPT_OK(nixl_req_wait(req, MPT_PATIENCE));
        status = i % 3 == 0 ? nixl_get_x(0, regions[i % N_WAYS], 0, local, NBYTES, NULL, req)
                            : nixl_put_x(0, regions[i % N_WAYS], 0, local, NBYTES, NULL, req);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    }
}

static void await_death(int rank)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(rank, 0xdead, UINT64_MAX, MPT_PATIENCE, &note), NIXL_E_PEER_LOST);
}

/*
 * After the death: the memory works, for the owner and for the other rank; then it is given back.
 */
static void owner(struct gpu_region *parts)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_GO, UINT64_MAX, MPT_PATIENCE, &note));
    await_death(1);
    MPT_OK(nixl_notify(2, TAG_GO, NULL, 0, MPT_PATIENCE));
    MPT_OK(nixl_notify_recv(2, TAG_GO, UINT64_MAX, MPT_PATIENCE, &note));
    for (unsigned i = 0; i < N_WAYS; i++) {
        GPU_CHECK(&parts[i], 0, NBYTES, 100 + i);
        gpu_region_end(&parts[i]);
    }
}

static void survivor(void)
{
    static struct nixl_note note;
    struct gpu_region here;

    MPT_TRUE(gpu_region_make("here", GPU_CUDA, NBYTES, &here));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_GO, UINT64_MAX, MPT_PATIENCE, &note));
    for (unsigned i = 0; i < N_WAYS; i++) {
        gpu_fill(&here, 0, NBYTES, 100 + i);
        MPT_OK(nixl_put(0, regions[i], 0, (void *)here.addr, NBYTES));
    }
    MPT_OK(nixl_flush(0, MPT_PATIENCE));
    for (unsigned i = 0; i < N_WAYS; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
    MPT_OK(nixl_notify(0, TAG_GO, NULL, 0, MPT_PATIENCE));
    gpu_region_end(&here);
}

int main(int argc, char **argv)
{
    struct gpu_region parts[N_WAYS];
    char name[16];

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 3);
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)mpt_now_ns();
    gpu_start();
    for (unsigned i = 0; i < N_WAYS; i++) {
        snprintf(name, sizeof(name), "kill %u", i);
        if (nixl_rank() == 0) {
            MPT_TRUE(gpu_region_make(name, ways[i], NBYTES, &parts[i]));
        } else {
            MPT_OK(nixl_region_open(name, &regions[i]));
        }
    }
    mpt_barrier();
    if (nixl_rank() == 0) {
        owner(parts);
    } else if (nixl_rank() == 1) {
        victim();
    } else {
        survivor();
    }
    gpu_stop();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
