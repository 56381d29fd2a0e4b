/* SPDX-License-Identifier: Apache-2.0 */
/* An ordinary MPI program: a sum over all, and a put into the next rank's window. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, number, sum, *window_memory;
    MPI_Win window;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    number = rank + 1;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (argc > 1 && rank == 1) {
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
    }
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory,
                     &window);
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    printf("rank %d of %d: sum %d, got %d\n", rank, size, sum, *window_memory);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
