/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do: collectives as nothing but copies and sums, in the peers' loop, by
 * PEER_RANKS processes that are forked here. PEER_REGIONS=1: all buffers are mapped by all, and who
 * wants data copies it from where it lies. Else they are private, and all goes through shared
 * memory, PEER_ROUND bytes of a rank at a time, of which there are two in turn, for one rank after
 * the other: the fastest way that was found. Two ranks wait for each other's counters, or all ranks
 * for a barrier at the end. A rank that waits yields its core if ranks outnumber cores.
 */
#include "collective.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LINE_NBYTES  64
#define ROUND_NBYTES (256ul << 10)

struct rank_line {
    _Alignas(LINE_NBYTES) _Atomic long step;      /* only grows */
    _Alignas(LINE_NBYTES) _Atomic long taken;     /* the last use of its slot that was read */
    _Alignas(LINE_NBYTES) _Atomic long filled[2]; /* the last use of each half that was written */
};

static struct rank_line *lines; /* [size], and one more with what rank 0 shares */
static long *uses;              /* [size]: how often the slot of each rank was used, as all know */
static unsigned char *shared;   /* [size]: the buffers of a rank, or what goes through */
static unsigned char *src, *dst;
static size_t buffer_nbytes, round_nbytes;
static int size;
static bool is_oversubscribed, is_mapped;
static long step;

/* rep movsb was the fastest way here (AMD Zen 5), by up to a third. */
static void copy(void *to, const void *from, size_t nbytes)
{
#ifdef __x86_64__
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(nbytes) : : "memory");
#else
    memcpy(to, from, nbytes);
#endif
}

static void publish(void)
{
    atomic_store_explicit(&lines[peer_rank].step, ++step, memory_order_release);
}

static void await_counter(_Atomic long *counter, long wanted)
{
    while (atomic_load_explicit(counter, memory_order_acquire) < wanted) {
        if (is_oversubscribed) {
            sched_yield();
        }
    }
}

static void await(int rank, long wanted)
{
    await_counter(&lines[rank].step, wanted);
}

static void await_all(long wanted)
{
    for (int i = 0; i < size; i++) {
        await(i, wanted);
    }
}

static void barrier(void)
{
    publish();
    await_all(step);
}

static long share(long value)
{
    long shared_value;

    if (peer_rank == 0) {
        atomic_store(&lines[size].step, value);
    }
    barrier();
    shared_value = atomic_load(&lines[size].step);
    barrier();
    return shared_value;
}

/* ---- mapped: of a rank, src lies before dst, and is there once the rank calls ---- */

static const unsigned char *src_of(int rank)
{
    return shared + 2 * buffer_nbytes * (size_t)rank;
}

static void alltoall_mapped(void)
{
    publish();
    for (int k = 0; k < size; k++) {
        int i = (peer_rank + k) % size;

        await(i, step);
        copy(dst + (size_t)i * peer_nbytes, src_of(i) + (size_t)peer_rank * peer_nbytes,
             peer_nbytes);
    }
    barrier();
}

/* As elsewhere, all have the data in src: members but the root get it there. */
static void broadcast_mapped(int root)
{
    publish();
    await(root, step);
    if (peer_rank != root) {
        copy(src, src_of(root), peer_nbytes);
    }
    barrier();
}

static void scatter_mapped(int root)
{
    publish();
    await(root, step);
    copy(dst, src_of(root) + (size_t)peer_rank * peer_nbytes, peer_nbytes);
    barrier();
}

static void gather_mapped(int root)
{
    barrier();
    for (int k = 0; k < size && peer_rank == root; k++) {
        int i = (root + k) % size;

        copy(dst + (size_t)i * peer_nbytes, src_of(i), peer_nbytes);
    }
    barrier();
}

static void allgather_mapped(void)
{
    barrier();
    for (int k = 0; k < size; k++) {
        int i = (peer_rank + k) % size;

        copy(dst + (size_t)i * peer_nbytes, src_of(i), peer_nbytes);
    }
    barrier();
}

/* ---- private ---- */

static unsigned char *way_of(int rank, int half)
{
    return shared + (2 * (size_t)rank + (size_t)half) * round_nbytes;
}

/* What a half was used for last. */
struct use {
    int reader;
    long step;
};

/* So many ranks further: what is for that rank goes in, and what is from the one before out. */
static void alltoall_step(int distance, struct use uses[2], int *half)
{
    int to = (peer_rank + distance) % size, from = (peer_rank + size - distance) % size;

    for (size_t at = 0; at < peer_nbytes; at += round_nbytes, *half = 1 - *half) {
        size_t left = peer_nbytes - at, nbytes = left < round_nbytes ? left : round_nbytes;

        await(uses[*half].reader, uses[*half].step + 1); /* it does something else by now */
        copy(way_of(peer_rank, *half), src + (size_t)to * peer_nbytes + at, nbytes);
        publish();
        uses[*half] = (struct use){to, step};
        await(from, step);
        copy(dst + (size_t)from * peer_nbytes + at, way_of(from, *half), nbytes);
    }
}

static void alltoall_private(void)
{
    struct use uses[2] = {{peer_rank, step - 1}, {peer_rank, step - 1}};
    int half = 0;

    copy(dst + (size_t)peer_rank * peer_nbytes, src + (size_t)peer_rank * peer_nbytes, peer_nbytes);
    for (int distance = 1; distance < size; distance++) {
        alltoall_step(distance, uses, &half);
    }
    barrier();
}

static void broadcast_private(int root)
{
    int half = 0;

    for (size_t at = 0; at < peer_nbytes; at += round_nbytes, half = 1 - half) {
        size_t left = peer_nbytes - at, nbytes = left < round_nbytes ? left : round_nbytes;

        if (peer_rank == root) {
            if (at >= 2 * round_nbytes) {
                await_all(step);
            }
            copy(way_of(root, half), src + at, nbytes);
            publish();
        } else {
            await(root, step + 1);
            copy(src + at, way_of(root, half), nbytes);
            publish();
        }
    }
    barrier();
}

/* A block of one rank goes through its slot: who has it fills the half that is free ... */
static void slot_fill(int rank, long use, const unsigned char *from, size_t nbytes)
{
    int half = (int)(use & 1);

    await_counter(&lines[rank].taken, use - 2);
    copy(way_of(rank, half), from, nbytes);
    atomic_store_explicit(&lines[rank].filled[half], use, memory_order_release);
}

/* ... and who wants it takes it, in the order of uses. */
static void slot_take(int rank, long use, unsigned char *to, size_t nbytes)
{
    int half = (int)(use & 1);

    await_counter(&lines[rank].filled[half], use);
    copy(to, way_of(rank, half), nbytes);
    atomic_store_explicit(&lines[rank].taken, use, memory_order_release);
}

/* Between the root's blocks, one for each rank, and the one block of all others. */
static void root_private(int root, bool is_scatter)
{
    unsigned char *one = is_scatter ? dst : src, *blocks = is_scatter ? src : dst;

    for (size_t at = 0; at < peer_nbytes; at += round_nbytes) {
        size_t left = peer_nbytes - at, nbytes = left < round_nbytes ? left : round_nbytes;

        for (int k = 1; k < size; k++) {
            int i = (root + k) % size;
            long use = ++uses[i];

            if (peer_rank == i || peer_rank == root) {
                unsigned char *bytes =
                    peer_rank == i ? one + at : blocks + (size_t)i * peer_nbytes + at;

                (is_scatter == (peer_rank == root)) ? slot_fill(i, use, bytes, nbytes)
                                                    : slot_take(i, use, bytes, nbytes);
            }
        }
    }
    if (peer_rank == root) {
        unsigned char *own = blocks + (size_t)root * peer_nbytes;

        is_scatter ? copy(one, own, peer_nbytes) : copy(own, one, peer_nbytes);
    }
}

/*
 * All fill a half and publish, all read all halves and publish. Who has seen that all filled the
 * next half knows that all have read this one.
 */
static void allgather_private(void)
{
    int half = 0;

    for (size_t at = 0; at < peer_nbytes; at += round_nbytes, half = 1 - half) {
        size_t left = peer_nbytes - at, nbytes = left < round_nbytes ? left : round_nbytes;

        copy(way_of(peer_rank, half), src + at, nbytes);
        publish();
        for (int k = 0; k < size; k++) {
            int i = (peer_rank + k) % size;

            await(i, step);
            copy(dst + (size_t)i * peer_nbytes + at, k == 0 ? src + at : way_of(i, half), nbytes);
        }
    }
    barrier();
}

/* to[i] = the sum of the floats that all have at this place of their halves, 4 KiB at a time */
__attribute__((optimize("O3"))) static void sum_all(unsigned char *to, int half, size_t at,
                                                    size_t nbytes)
{
    enum { N_SUMS = 1024 };

    for (size_t done = 0; done < nbytes; done += N_SUMS * sizeof(float)) {
        size_t n =
            (nbytes - done) / sizeof(float) < N_SUMS ? (nbytes - done) / sizeof(float) : N_SUMS;
        float sums[N_SUMS] = {0};

        for (int k = 0; k < size; k++) {
            const float *from = (const void *)(way_of((peer_rank + k) % size, half) + at + done);

            for (size_t i = 0; i < n; i++) {
                sums[i] += from[i];
            }
        }
        memcpy(to + done, sums, n * sizeof(float));
    }
}

/* Where the part of that rank begins in so many bytes: whole cache lines. */
static size_t part_at(int rank, size_t nbytes)
{
    size_t at = (size_t)rank * ((nbytes + (size_t)size - 1) / (size_t)size);

    at = (at + LINE_NBYTES - 1) / LINE_NBYTES * LINE_NBYTES;
    return at < nbytes ? at : nbytes;
}

/* Each sums its part in place, of which it is the only reader, and all copy the parts. */
static void allreduce_private(void)
{
    int half = 0;

    for (size_t at = 0; at < peer_nbytes; at += round_nbytes, half = 1 - half) {
        size_t left = peer_nbytes - at, nbytes = left < round_nbytes ? left : round_nbytes;
        size_t part = part_at(peer_rank, nbytes), end = part_at(peer_rank + 1, nbytes);

        copy(way_of(peer_rank, half), src + at, nbytes);
        barrier();
        sum_all(way_of(peer_rank, half) + part, half, part, end - part);
        publish();
        for (int k = 0; k < size; k++) {
            int i = (peer_rank + k) % size;

            await(i, step);
            part = part_at(i, nbytes);
            copy(dst + at + part, way_of(i, half) + part, part_at(i + 1, nbytes) - part);
        }
    }
    barrier();
}

/* A piece of each rank's operand at a time, as many as fit into a half. */
static void reduce_scatter_private(void)
{
    size_t most = round_nbytes / (size_t)size / LINE_NBYTES * LINE_NBYTES;
    int half = 0;

    for (size_t at = 0; at < peer_nbytes; at += most, half = 1 - half) {
        size_t nbytes = peer_nbytes - at < most ? peer_nbytes - at : most;

        for (int i = 0; i < size; i++) {
            copy(way_of(peer_rank, half) + (size_t)i * nbytes, src + (size_t)i * peer_nbytes + at,
                 nbytes);
        }
        barrier();
        sum_all(dst + at, half, (size_t)peer_rank * nbytes, nbytes);
    }
    barrier();
}

/* ---- all ---- */

static void run_scatter(int root)
{
    if (is_mapped) {
        scatter_mapped(root);
    } else {
        root_private(root, true);
    }
}

static void run_gather(int root)
{
    if (is_mapped) {
        gather_mapped(root);
    } else {
        root_private(root, false);
    }
}

static void run_allgather(int root)
{
    (void)root;
    if (is_mapped) {
        allgather_mapped();
    } else {
        allgather_private();
    }
}

static void run_allreduce(int root)
{
    (void)root;
    allreduce_private();
}

static void run_reduce_scatter(int root)
{
    (void)root;
    reduce_scatter_private();
}

static void run_alltoall(int root)
{
    (void)root;
    if (is_mapped) {
        alltoall_mapped();
    } else {
        alltoall_private();
    }
}

static void run_broadcast(int root)
{
    if (is_mapped) {
        broadcast_mapped(root);
    } else {
        broadcast_private(root);
    }
}

static void *map(size_t nbytes)
{
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        fprintf(stderr, "collective_limit: no memory\n");
        exit(1);
    }
    return memory;
}

/* Every page is there and mapped here, before anything is measured. */
static void touch(void)
{
    size_t nbytes = (is_mapped ? buffer_nbytes : round_nbytes) * 2 * (size_t)size;

    if (is_mapped) {
        src = shared + 2 * buffer_nbytes * (size_t)peer_rank;
        dst = src + buffer_nbytes;
    } else if (posix_memalign((void **)&src, 4096, buffer_nbytes) != 0 ||
               posix_memalign((void **)&dst, 4096, buffer_nbytes) != 0) {
        fprintf(stderr, "collective_limit: no memory\n");
        exit(1);
    }
    collective_fill(src, buffer_nbytes);
    collective_fill(dst, buffer_nbytes);
    for (size_t at = 0; at < nbytes; at += 4096) {
        atomic_fetch_or((_Atomic unsigned char *)shared + at, 0);
    }
    barrier();
}

static void start(void)
{
    size = (int)peer_number("PEER_RANKS", 2);
    is_oversubscribed = size > sysconf(_SC_NPROCESSORS_ONLN);
    is_mapped = getenv("PEER_REGIONS") != NULL;
    buffer_nbytes = (size_t)size * collective_largest();
    round_nbytes = (size_t)peer_number("PEER_ROUND", ROUND_NBYTES);
    lines = map(((size_t)size + 1) * sizeof(*lines));
    uses = calloc((size_t)size, sizeof(*uses));
    shared = map(2 * (size_t)size * (is_mapped ? buffer_nbytes : round_nbytes));
    for (int i = 1; i < size && peer_rank == 0; i++) {
        if (fork() == 0) {
            peer_rank = i;
        }
    }
    if (uses == NULL) {
        fprintf(stderr, "collective_limit: no memory\n");
        exit(1);
    }
    peer_pin(peer_rank);
    touch();
}

int main(void)
{
    static const struct collective_call calls[] = {{"broadcast", run_broadcast},
                                                   {"scatter", run_scatter},
                                                   {"gather", run_gather},
                                                   {"allgather", run_allgather},
                                                   {"alltoall", run_alltoall},
                                                   {"allreduce", run_allreduce},
                                                   {"reduce_scatter", run_reduce_scatter}};
    size_t n_calls = sizeof(calls) / sizeof(calls[0]);
    struct collective_peer peer = {.barrier = barrier, .share = share, .calls = calls};

    start();
    peer.n_calls = is_mapped ? n_calls - 2 : n_calls; /* sums go through shared memory */
    peer.size = size;
    peer.src = peer.broadcast_dst = src;
    peer.dst = dst;
    collective_run(&peer);
    if (peer_rank == 0) {
        while (wait(NULL) > 0) {
        }
    }
    return 0;
}
