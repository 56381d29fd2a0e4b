/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives of MPI. For Open MPI and MPICH. */
#include "collective.h"

#include <mpi.h>

static unsigned char *src, *dst;

#define COMM   MPI_COMM_WORLD
#define NBYTES ((int)peer_nbytes)
#define COUNT  ((int)(peer_nbytes / sizeof(float)))

static void barrier(void)
{
    MPI_Barrier(COMM);
}

static long share(long value)
{
    MPI_Bcast(&value, 1, MPI_LONG, 0, COMM);
    return value;
}

static void run_barrier(int root)
{
    (void)root;
    MPI_Barrier(COMM);
}

static void run_broadcast(int root)
{
    MPI_Bcast(src, NBYTES, MPI_BYTE, root, COMM);
}

static void run_reduce(int root)
{
    MPI_Reduce(src, dst, COUNT, MPI_FLOAT, MPI_SUM, root, COMM);
}

static void run_allreduce(int root)
{
    (void)root;
    MPI_Allreduce(src, dst, COUNT, MPI_FLOAT, MPI_SUM, COMM);
}

static void run_reduce_scatter(int root)
{
    (void)root;
    MPI_Reduce_scatter_block(src, dst, COUNT, MPI_FLOAT, MPI_SUM, COMM);
}

static void run_scan(int root)
{
    (void)root;
    MPI_Scan(src, dst, COUNT, MPI_FLOAT, MPI_SUM, COMM);
}

static void run_gather(int root)
{
    MPI_Gather(src, NBYTES, MPI_BYTE, dst, NBYTES, MPI_BYTE, root, COMM);
}

static void run_scatter(int root)
{
    MPI_Scatter(src, NBYTES, MPI_BYTE, dst, NBYTES, MPI_BYTE, root, COMM);
}

static void run_allgather(int root)
{
    (void)root;
    MPI_Allgather(src, NBYTES, MPI_BYTE, dst, NBYTES, MPI_BYTE, COMM);
}

static void run_alltoall(int root)
{
    (void)root;
    MPI_Alltoall(src, NBYTES, MPI_BYTE, dst, NBYTES, MPI_BYTE, COMM);
}

int main(int argc, char **argv)
{
    static const struct collective_call calls[] = {{"barrier", run_barrier},
                                                   {"broadcast", run_broadcast},
                                                   {"reduce", run_reduce},
                                                   {"allreduce", run_allreduce},
                                                   {"reduce_scatter", run_reduce_scatter},
                                                   {"scan", run_scan},
                                                   {"gather", run_gather},
                                                   {"scatter", run_scatter},
                                                   {"allgather", run_allgather},
                                                   {"alltoall", run_alltoall}};
    struct collective_peer peer = {.barrier = barrier,
                                   .share = share,
                                   .calls = calls,
                                   .n_calls = sizeof(calls) / sizeof(calls[0])};
    size_t nbytes;

    peer_pin_early();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(COMM, &peer_rank);
    MPI_Comm_size(COMM, &peer.size);
    nbytes = (size_t)peer.size * collective_largest();
    if (posix_memalign((void **)&src, 4096, nbytes) != 0 ||
        posix_memalign((void **)&dst, 4096, nbytes) != 0) {
        fprintf(stderr, "collective_mpi: no memory\n");
        MPI_Abort(COMM, 1);
    }
    collective_fill(src, nbytes);
    collective_fill(dst, nbytes);
    peer.src = peer.broadcast_dst = src;
    peer.dst = dst;
    collective_run(&peer);
    MPI_Finalize();
    return 0;
}
