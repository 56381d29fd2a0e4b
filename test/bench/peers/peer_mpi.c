/* SPDX-License-Identifier: Apache-2.0 */
/* MPI: send and receive, and one-sided (lock_all and flush). For Open MPI and MPICH. */
#include "peer.h"

#include <mpi.h>

#define FLAG_OFFSET PEER_MAX_NBYTES

static unsigned char *mine, *local, *inbox;
static MPI_Win window;
static int other;
static int64_t n_signaled, n_awaited;

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void start_put(void)
{
    MPI_Put(local, (int)peer_nbytes, MPI_BYTE, other, 0, (int)peer_nbytes, MPI_BYTE, window);
}

static void put(long count)
{
    for (long i = 0; i < count; i++) {
        start_put();
    }
    MPI_Win_flush(other, window);
}

static void get(long count)
{
    for (long i = 0; i < count; i++) {
        MPI_Get(inbox, (int)peer_nbytes, MPI_BYTE, other, 0, (int)peer_nbytes, MPI_BYTE, window);
    }
    MPI_Win_flush(other, window);
}

/* Put, flush, then the flag; the other watches its own window. */
static void put_signal(size_t nbytes)
{
    if (nbytes > 0) {
        start_put();
        MPI_Win_flush(other, window);
    }
    n_signaled++;
    MPI_Accumulate(&n_signaled, 1, MPI_INT64_T, other, FLAG_OFFSET, 1, MPI_INT64_T, MPI_REPLACE,
                   window);
    MPI_Win_flush(other, window);
}

static void wait_signal(void)
{
    int flag;

    n_awaited++;
    for (long i = 1; *(volatile int64_t *)(void *)(mine + FLAG_OFFSET) < n_awaited; i++) {
        MPI_Win_sync(window);
        if (i % 16 == 0) { /* the progress that some need */
            MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
    }
}

static void send_message(size_t nbytes, int tag)
{
    MPI_Send(local, (int)nbytes, MPI_BYTE, other, tag, MPI_COMM_WORLD);
}

static void receive(size_t nbytes, int tag)
{
    MPI_Recv(inbox, (int)nbytes, MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send_window(long n)
{
    static MPI_Request requests[PEER_MAX_WINDOW];

    for (long i = 0; i < n; i++) {
        for (long j = 0; j < peer_window; j++) {
            if (peer_rank == 0) {
                MPI_Isend(local, (int)peer_nbytes, MPI_BYTE, other, 2, MPI_COMM_WORLD,
                          &requests[j]);
            } else {
                MPI_Irecv(inbox, (int)peer_nbytes, MPI_BYTE, other, 2, MPI_COMM_WORLD,
                          &requests[j]);
            }
        }
        MPI_Waitall((int)peer_window, requests, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    struct peer_calls calls = {.barrier = barrier,
                               .put = put,
                               .get = get,
                               .put_signal = put_signal,
                               .wait_signal = wait_signal,
                               .send = send_message,
                               .receive = receive,
                               .send_window = send_window};

    peer_pin_early();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer_rank);
    other = !peer_rank;
    if (posix_memalign((void **)&local, 4096, PEER_DATA_NBYTES) != 0 ||
        posix_memalign((void **)&inbox, 4096, PEER_DATA_NBYTES) != 0) {
        return 1;
    }
    memset(local, 0, PEER_DATA_NBYTES);
    memset(inbox, 0, PEER_DATA_NBYTES);
    MPI_Win_allocate(PEER_DATA_NBYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
    memset(mine, 0, PEER_DATA_NBYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    calls.mine = mine;
    calls.local = local;
    peer_run(&calls);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
