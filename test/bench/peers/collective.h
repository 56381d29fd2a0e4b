/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one measuring loop of collectives, for any number of ranks. A peer brings its ranks and a
 * list of calls; collective_run() prints, from rank 0, the lines of peer.h with the number of ranks
 * behind the operation, as
 *
 *     name,allreduce/4,bytes,median_ns,min_ns,p99_ns
 *
 * A sample is a batch between two barriers of the peer itself, after some calls that are not
 * counted. How long a batch is, is found by doubling it on rank 0's clock; with more ranks than
 * cores it holds many time slices, and it begins when the first rank has left the barrier: rank 0
 * may do so when others have done all their work. The root goes round, so that no rank runs ahead.
 * Bytes are of an operand, or of what one rank has for another: of reduce_scatter, a part of the
 * result.
 *
 * Each operation on data is measured a second time as fresh_NAME: who sends writes all of it
 * before, and who receives reads all of it after, with the same loops for all peers. "touch" is
 * that alone, of one rank's buffers: writing and reading the bytes of one block.
 *
 * Environment: PEER_NAME, PEER_SIZES, PEER_OPS and PEER_BUDGET, as in peer.h. PEER_STARTS: a file
 * in which ranks tell each other when they began; all run on one machine. Without it, rank 0's
 * clock.
 */
#ifndef PEERS_COLLECTIVE_H
#define PEERS_COLLECTIVE_H

#include "peer.h"

#include <fcntl.h>
#include <sys/mman.h>

#define COLLECTIVE_BATCH_NS         1e5
#define COLLECTIVE_CROWDED_BATCH_NS 3e7
#define COLLECTIVE_MAX_BATCH        4096
#define COLLECTIVE_WARM_UP          16 /* calls: page faults, and what a peer tries out at first */
#define COLLECTIVE_MIN_SAMPLES      5
#define COLLECTIVE_MAX_NBYTES       (16ul << 20)
#define COLLECTIVE_MAX_RANKS        512

enum collective_blocks { COLLECTIVE_NONE, COLLECTIVE_ONE, COLLECTIVE_ALL };

struct collective_call {
    const char *name;
    void (*fn)(int root); /* of peer_nbytes */
};

/* How often peer_nbytes a rank sends and receives in each operation, and who does not. */
struct collective_work {
    const char *name;
    enum collective_blocks sent, received;
    bool only_root_sends, only_root_receives, root_keeps; /* the root receives nothing */
};

static const struct collective_work collective_works[] = {
    {"barrier", COLLECTIVE_NONE, COLLECTIVE_NONE, false, false, false},
    {"broadcast", COLLECTIVE_ONE, COLLECTIVE_ONE, true, false, true},
    {"reduce", COLLECTIVE_ONE, COLLECTIVE_ONE, false, true, false},
    {"allreduce", COLLECTIVE_ONE, COLLECTIVE_ONE, false, false, false},
    {"reduce_scatter", COLLECTIVE_ALL, COLLECTIVE_ONE, false, false, false},
    {"scan", COLLECTIVE_ONE, COLLECTIVE_ONE, false, false, false},
    {"gather", COLLECTIVE_ONE, COLLECTIVE_ALL, false, true, false},
    {"scatter", COLLECTIVE_ALL, COLLECTIVE_ONE, true, false, false},
    {"allgather", COLLECTIVE_ONE, COLLECTIVE_ALL, false, false, false},
    {"alltoall", COLLECTIVE_ALL, COLLECTIVE_ALL, false, false, false},
};

/* What a peer brings besides. */
struct collective_peer {
    int size;
    unsigned char *src, *dst;     /* of each rank: what it sends, where it receives */
    unsigned char *broadcast_dst; /* the same of a broadcast */
    void (*barrier)(void);
    long (*share)(long value); /* rank 0's */
    const struct collective_call *calls;
    size_t n_calls;
};

static inline const char *collective_sizes(void)
{
    const char *sizes = getenv("PEER_SIZES");

    return sizes != NULL && sizes[0] != '\0' ? sizes : "8,4096,65536,1048576";
}

/* Take the first of them off. */
static inline size_t collective_next_size(const char **sizes)
{
    char *end;
    size_t nbytes = strtoull(*sizes, &end, 0);

    if (nbytes > COLLECTIVE_MAX_NBYTES || end == *sizes) {
        fprintf(stderr, "PEER_SIZES: bad size '%s'\n", *sizes);
        exit(2);
    }
    *sizes = end + (*end == ',');
    return nbytes;
}

/* What buffers have for each rank. */
static inline size_t collective_largest(void)
{
    const char *sizes = collective_sizes();
    size_t largest = 0;

    while (*sizes != '\0') {
        size_t nbytes = collective_next_size(&sizes);

        largest = nbytes > largest ? nbytes : largest;
    }
    return largest;
}

/* Ones, as floats: sums of other bits may be slow numbers. */
static inline void collective_fill(void *memory, size_t nbytes)
{
    float *floats = memory;

    for (size_t i = 0; i < nbytes / sizeof(*floats); i++) {
        floats[i] = 1;
    }
}

/* When each rank began its batch, in memory of all. */
static inline volatile double *collective_starts(void)
{
    static double mine[COLLECTIVE_MAX_RANKS];
    static double *starts;
    const char *path = getenv("PEER_STARTS");
    int fd;

    if (starts != NULL) {
        return starts;
    }
    starts = mine;
    fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0 && ftruncate(fd, sizeof(mine)) == 0) {
        void *memory = mmap(NULL, sizeof(mine), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        starts = memory != MAP_FAILED ? memory : mine;
    }
    return starts;
}

/* ---- data that changes ---- */

/* Small floats, others each time: sums stay whole numbers. */
static inline void collective_write(unsigned char *bytes, size_t nbytes)
{
    static float value;
    float block[4];

    value = value < 64 ? value + 1 : 1;
    for (int i = 0; i < 4; i++) {
        block[i] = value;
    }
    for (size_t at = 0; at + sizeof(block) <= nbytes; at += sizeof(block)) {
        memcpy(bytes + at, block, sizeof(block));
    }
    memcpy(bytes + nbytes / sizeof(block) * sizeof(block), block, nbytes % sizeof(block));
    __asm__ volatile("" : : : "memory");
}

static inline size_t collective_nbytes(const struct collective_peer *peer,
                                       enum collective_blocks blocks)
{
    return blocks == COLLECTIVE_NONE  ? 0
           : blocks == COLLECTIVE_ONE ? peer_nbytes
                                      : (size_t)peer->size * peer_nbytes;
}

static inline void collective_fresh(const struct collective_peer *peer,
                                    const struct collective_call *call,
                                    const struct collective_work *work, int root)
{
    bool is_root = root == peer_rank;

    if (is_root || !work->only_root_sends) {
        collective_write(peer->src, collective_nbytes(peer, work->sent));
    }
    call->fn(root);
    if (is_root ? !work->root_keeps : !work->only_root_receives) {
        peer_read_all(work->root_keeps ? peer->broadcast_dst : peer->dst,
                      collective_nbytes(peer, work->received));
    }
}

static inline const struct collective_work *collective_work_of(const char *name)
{
    for (size_t i = 0; i < sizeof(collective_works) / sizeof(collective_works[0]); i++) {
        if (strcmp(collective_works[i].name, name) == 0) {
            return &collective_works[i];
        }
    }
    fprintf(stderr, "collective.h: no work is known of '%s'\n", name);
    exit(2);
}

/* ---- measuring ---- */

/* Nanoseconds from the first rank's start to the end of all, on rank 0. */
static inline double collective_batch(const struct collective_peer *peer,
                                      const struct collective_call *call,
                                      const struct collective_work *fresh, long n)
{
    volatile double *starts = collective_starts();
    double first, end;

    peer->barrier();
    first = starts[peer_rank] = peer_now_ns();
    for (long i = 0; i < n; i++) {
        if (fresh != NULL) {
            collective_fresh(peer, call, fresh, (int)(i % peer->size));
        } else {
            call->fn((int)(i % peer->size));
        }
    }
    peer->barrier();
    end = peer_now_ns();
    for (int i = 0; i < peer->size && starts[i] > 0; i++) {
        first = starts[i] < first ? starts[i] : first;
    }
    peer->barrier(); /* before the next batch begins */
    return end - first;
}

/* fresh: with data that changes; or NULL. */
static inline void collective_measure(const struct collective_peer *peer,
                                      const struct collective_call *call,
                                      const struct collective_work *fresh)
{
    double samples[PEER_MAX_SAMPLES], elapsed;
    double enough = peer->size > sysconf(_SC_NPROCESSORS_ONLN) ? COLLECTIVE_CROWDED_BATCH_NS
                                                               : COLLECTIVE_BATCH_NS;
    char name[64];
    long n = 1, n_samples;

    collective_batch(peer, call, fresh, COLLECTIVE_WARM_UP);
    for (;;) {
        elapsed = collective_batch(peer, call, fresh, n);
        if (n == COLLECTIVE_MAX_BATCH || peer->share(elapsed >= enough)) {
            break;
        }
        n *= 2;
    }
    n_samples = (long)(peer_number("PEER_BUDGET", 100) * 1e6 / elapsed);
    n_samples = n_samples < COLLECTIVE_MIN_SAMPLES ? COLLECTIVE_MIN_SAMPLES
                : n_samples > PEER_MAX_SAMPLES     ? PEER_MAX_SAMPLES
                                                   : n_samples;
    n_samples = peer->share(n_samples);
    for (long i = 0; i < n_samples; i++) {
        samples[i] = collective_batch(peer, call, fresh, n) / (double)n;
    }
    snprintf(name, sizeof(name), "%s%s/%d", fresh != NULL ? "fresh_" : "", call->name, peer->size);
    peer_print(name, samples, n_samples);
}

static inline void collective_measure_both(const struct collective_peer *peer,
                                           const struct collective_call *call)
{
    const struct collective_work *work = collective_work_of(call->name);
    char name[64];

    if (peer_is_wanted(call->name)) {
        collective_measure(peer, call, NULL);
    }
    snprintf(name, sizeof(name), "fresh_%s", call->name);
    if (work->sent != COLLECTIVE_NONE && peer_is_wanted(name)) {
        collective_measure(peer, call, work);
    }
}

/* Writing and reading alone, by rank 0. */
static inline void collective_touch(const struct collective_peer *peer)
{
    double samples[PEER_MIN_SAMPLES];
    long n = 1 + (long)(1000000 / (peer_nbytes + 1));

    for (int i = 0; i < PEER_MIN_SAMPLES && peer_rank == 0; i++) {
        double start = peer_now_ns();

        for (long k = 0; k < n; k++) {
            collective_write(peer->src, peer_nbytes);
            peer_read_all(peer->src, peer_nbytes);
        }
        samples[i] = (peer_now_ns() - start) / (double)n;
    }
    if (peer_rank == 0) {
        peer_print("touch", samples, PEER_MIN_SAMPLES);
    }
    peer->barrier();
}

static inline void collective_run(const struct collective_peer *peer)
{
    const char *sizes = collective_sizes();
    bool is_first = true;

    while (*sizes != '\0') {
        size_t nbytes = collective_next_size(&sizes);

        for (size_t i = 0; i < peer->n_calls; i++) {
            bool is_barrier = strcmp(peer->calls[i].name, "barrier") == 0;

            peer_nbytes = is_barrier ? 0 : nbytes;
            if (is_first || !is_barrier) {
                collective_measure_both(peer, &peer->calls[i]);
            }
        }
        peer_nbytes = nbytes;
        if (peer_is_wanted("touch")) {
            collective_touch(peer);
        }
        is_first = false;
    }
    peer->barrier();
}

#endif
