/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM, for the one that comes with Open MPI. Wants SHMEM_SYMMETRIC_SIZE=200M. */
#include "peer.h"

#include <shmem.h>

static unsigned char *mine, *local;
static uint64_t *flag;
static uint64_t n_signaled, n_awaited;
static int other;

static void barrier(void)
{
    shmem_barrier_all();
}

/* One is a put, several are started first. */
static void put(long count)
{
    for (long i = 0; i < count; i++) {
        if (count == 1) {
            shmem_putmem(mine, local, peer_nbytes, other);
        } else {
            shmem_putmem_nbi(mine, local, peer_nbytes, other);
        }
    }
    shmem_quiet();
}

static void get(long count)
{
    if (count == 1) {
        shmem_getmem(local, mine, peer_nbytes, other);
        return;
    }
    for (long i = 0; i < count; i++) {
        shmem_getmem_nbi(local, mine, peer_nbytes, other);
    }
    shmem_quiet();
}

static void fetch_add(long n)
{
    for (long i = 0; i < n; i++) {
        shmem_ulong_atomic_fetch_add((unsigned long *)(void *)mine, 1, other);
    }
}

static void put_signal(size_t nbytes)
{
    if (nbytes > 0) {
        shmem_putmem(mine, local, nbytes, other);
        shmem_fence();
    }
    shmem_uint64_p(flag, ++n_signaled, other);
}

static void wait_signal(void)
{
    shmem_uint64_wait_until(flag, SHMEM_CMP_GE, ++n_awaited);
}

int main(void)
{
    struct peer_calls calls = {.barrier = barrier,
                               .put = put,
                               .get = get,
                               .put_signal = put_signal,
                               .wait_signal = wait_signal,
                               .fetch_add = fetch_add};

    peer_pin_early();
    shmem_init();
    peer_rank = shmem_my_pe();
    other = !peer_rank;
    mine = shmem_align(4096, PEER_DATA_NBYTES);
    flag = shmem_align(64, 64);
    if (mine == NULL || flag == NULL ||
        posix_memalign((void **)&local, 4096, PEER_DATA_NBYTES) != 0) {
        fprintf(stderr, "peer_shmem: no memory; set SHMEM_SYMMETRIC_SIZE=200M\n");
        return 1;
    }
    memset(mine, 0, PEER_DATA_NBYTES);
    memset(local, 0, PEER_DATA_NBYTES);
    *flag = 0;
    shmem_barrier_all();
    calls.mine = mine;
    calls.local = local;
    peer_run(&calls);
    shmem_finalize();
    return 0;
}
