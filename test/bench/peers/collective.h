/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one measuring loop of collectives, for any number of ranks. A peer brings its ranks and a
 * list of calls; collective_run() prints, from rank 0, the lines of peer.h with the number of ranks
 * behind the operation, as
 *
 *     name,allreduce/4,bytes,median_ns,min_ns,p99_ns
 *
 * A sample is a batch between two barriers of the peer itself. How long a batch is, is found by
 * doubling it on rank 0's clock; with more ranks than cores it holds many time slices, and it
 * begins when the first rank has left the barrier: rank 0 may do so when others have done all their
 * work. The root goes round, so that no rank runs ahead. Bytes are of an operand, or of what one
 * rank has for another: of reduce_scatter, a part of the result.
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
#define COLLECTIVE_MIN_SAMPLES      5
#define COLLECTIVE_MAX_NBYTES       (16ul << 20)
#define COLLECTIVE_MAX_RANKS        512

struct collective_call {
    const char *name;
    void (*fn)(int root); /* of peer_nbytes */
};

/* What a peer brings besides. */
struct collective_peer {
    int size;
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

/* Nanoseconds from the first rank's start to the end of all, on rank 0. */
static inline double collective_batch(const struct collective_peer *peer,
                                      const struct collective_call *call, long n)
{
    volatile double *starts = collective_starts();
    double first, end;

    peer->barrier();
    first = starts[peer_rank] = peer_now_ns();
    for (long i = 0; i < n; i++) {
        call->fn((int)(i % peer->size));
    }
    peer->barrier();
    end = peer_now_ns();
    for (int i = 0; i < peer->size && starts[i] > 0; i++) {
        first = starts[i] < first ? starts[i] : first;
    }
    peer->barrier(); /* before the next batch begins */
    return end - first;
}

static inline void collective_measure(const struct collective_peer *peer,
                                      const struct collective_call *call)
{
    double samples[PEER_MAX_SAMPLES], elapsed;
    double enough = peer->size > sysconf(_SC_NPROCESSORS_ONLN) ? COLLECTIVE_CROWDED_BATCH_NS
                                                               : COLLECTIVE_BATCH_NS;
    char name[64];
    long n = 1, n_samples;

    collective_batch(peer, call, 1);
    for (;;) {
        elapsed = collective_batch(peer, call, n);
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
        samples[i] = collective_batch(peer, call, n) / (double)n;
    }
    snprintf(name, sizeof(name), "%s/%d", call->name, peer->size);
    peer_print(name, samples, n_samples);
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
            if (peer_is_wanted(peer->calls[i].name) && (is_first || !is_barrier)) {
                collective_measure(peer, &peer->calls[i]);
            }
        }
        is_first = false;
    }
    peer->barrier();
}

#endif
