/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do: broadcast and alltoall as nothing but copies, in the peers' loop, by
 * PEER_RANKS processes that are forked here. PEER_REGIONS=1: all buffers are mapped by all, and who
 * wants data copies it from where it lies. Else they are private, and all goes through shared
 * memory, PEER_ROUND bytes of a rank at a time, of which there are two in turn, for one rank after
 * the other: the fastest way that was found. There is one barrier at the end, or a look at who has
 * come so far before each round; who waits yields its core where ranks outnumber cores.
 */
#include "collective.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LINE_NBYTES  64
#define ROUND_NBYTES (256ul << 10)

struct rank_line {
    _Alignas(LINE_NBYTES) _Atomic long step; /* only grows */
};

static struct rank_line *lines; /* [size], and one more with what rank 0 shares */
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

static void await(int rank, long wanted)
{
    while (atomic_load_explicit(&lines[rank].step, memory_order_acquire) < wanted) {
        if (is_oversubscribed) {
            sched_yield();
        }
    }
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

/* ---- mapped: src and dst of a rank lie one behind the other ---- */

static const unsigned char *src_of(int rank)
{
    return shared + 2 * buffer_nbytes * (size_t)rank;
}

static void alltoall_mapped(void)
{
    for (int k = 0; k < size; k++) {
        int i = (peer_rank + k) % size;

        copy(dst + (size_t)i * peer_nbytes, src_of(i) + (size_t)peer_rank * peer_nbytes,
             peer_nbytes);
    }
    barrier();
}

/* As elsewhere, all have the data in src: members but the root get it there. */
static void broadcast_mapped(int root)
{
    if (peer_rank != root) {
        copy(src, src_of(root), peer_nbytes);
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

/* ---- all ---- */

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
    shared = map(2 * (size_t)size * (is_mapped ? buffer_nbytes : round_nbytes));
    for (int i = 1; i < size && peer_rank == 0; i++) {
        if (fork() == 0) {
            peer_rank = i;
        }
    }
    peer_pin(peer_rank);
    touch();
}

int main(void)
{
    static const struct collective_call calls[] = {{"broadcast", run_broadcast},
                                                   {"alltoall", run_alltoall}};
    struct collective_peer peer = {.barrier = barrier,
                                   .share = share,
                                   .calls = calls,
                                   .n_calls = sizeof(calls) / sizeof(calls[0])};

    start();
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
