/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives of OpenSHMEM 1.4, for the one that comes with Open MPI. They want work arrays
 * that no rank still uses: there are several, and a barrier when all were used.
 */
#include "collective.h"

#include <shmem.h>

#define N_ARRAYS 16

struct arrays {
    long broadcast[SHMEM_BCAST_SYNC_SIZE], reduce[SHMEM_REDUCE_SYNC_SIZE];
    long collect[SHMEM_COLLECT_SYNC_SIZE], alltoall[SHMEM_ALLTOALL_SYNC_SIZE];
};

static int size;
static unsigned char *src, *dst;
static struct arrays *arrays;
static float *reduce_work; /* N_ARRAYS pieces, each for the largest operand */
static size_t reduce_work_count;
static int n_used;

/* The next arrays that nobody uses. Collective. */
static int take_arrays(void)
{
    if (n_used == N_ARRAYS) {
        shmem_barrier_all();
        n_used = 0;
    }
    return n_used++;
}

static void barrier(void)
{
    shmem_barrier_all();
}

static long share(long value)
{
    static long from, to;

    from = to = value;
    shmem_barrier_all();
    shmem_broadcast64(&to, &from, 1, 0, 0, 0, size, arrays[take_arrays()].broadcast);
    shmem_barrier_all();
    return to;
}

static void run_barrier(int root)
{
    (void)root;
    shmem_barrier_all();
}

static void run_broadcast(int root)
{
    shmem_broadcast64(dst, src, peer_nbytes / 8, root, 0, 0, size, arrays[take_arrays()].broadcast);
}

static void run_allreduce(int root)
{
    int i = take_arrays();

    (void)root;
    shmem_float_sum_to_all((float *)(void *)dst, (float *)(void *)src,
                           (int)(peer_nbytes / sizeof(float)), 0, 0, size,
                           reduce_work + (size_t)i * reduce_work_count, arrays[i].reduce);
}

static void run_allgather(int root)
{
    (void)root;
    shmem_fcollect64(dst, src, peer_nbytes / 8, 0, 0, size, arrays[take_arrays()].collect);
}

static void run_alltoall(int root)
{
    (void)root;
    shmem_alltoall64(dst, src, peer_nbytes / 8, 0, 0, size, arrays[take_arrays()].alltoall);
}

/* All words of the arrays have the value that the standard wants. */
static void set_up_arrays(void)
{
    long *words = (long *)(void *)arrays;

    for (size_t i = 0; i < N_ARRAYS * sizeof(*arrays) / sizeof(long); i++) {
        words[i] = SHMEM_SYNC_VALUE;
    }
}

int main(void)
{
    static const struct collective_call calls[] = {{"barrier", run_barrier},
                                                   {"broadcast", run_broadcast},
                                                   {"allreduce", run_allreduce},
                                                   {"allgather", run_allgather},
                                                   {"alltoall", run_alltoall}};
    struct collective_peer peer = {.barrier = barrier,
                                   .share = share,
                                   .calls = calls,
                                   .n_calls = sizeof(calls) / sizeof(calls[0])};
    size_t nbytes;

    peer_pin_early();
    shmem_init();
    peer_rank = shmem_my_pe();
    peer.size = size = shmem_n_pes();
    nbytes = (size_t)size * collective_largest();
    reduce_work_count = collective_largest() / sizeof(float) / 2 + SHMEM_REDUCE_MIN_WRKDATA_SIZE;
    src = shmem_align(4096, nbytes);
    dst = shmem_align(4096, nbytes);
    arrays = shmem_align(64, N_ARRAYS * sizeof(*arrays));
    reduce_work = shmem_align(64, N_ARRAYS * reduce_work_count * sizeof(*reduce_work));
    if (src == NULL || dst == NULL || arrays == NULL || reduce_work == NULL) {
        fprintf(stderr, "collective_shmem: no memory; set SHMEM_SYMMETRIC_SIZE\n");
        return 1;
    }
    collective_fill(src, nbytes);
    collective_fill(dst, nbytes);
    set_up_arrays();
    shmem_barrier_all();
    peer.src = src;
    peer.dst = peer.broadcast_dst = dst;
    collective_run(&peer);
    shmem_finalize();
    return 0;
}
