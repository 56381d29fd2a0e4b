/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of traffic: all ranks send at once, each what a matrix of bytes says, by puts that it
 * starts together and then flushes, from one thread or several. Then the bandwidth of each pair
 * while all others send, too, and one round of which the receivers check every byte.
 *
 * A rank's threads wait for `round` to change and count themselves in `n_done`; only they and the
 * rank's main thread use either.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS     BENCH_MAX_THREADS
#define PAIR_ROUNDS     20
#define N_PATTERN_SIZES 3

static const uint64_t pattern_sizes[N_PATTERN_SIZES] = {4096, 65536, 1 << 20};

static struct pattern {
    struct bench *bench;
    struct traffic traffic;
    uint64_t *here, *there; /* by rank: offsets of what goes to it, in `local` and at the target */
    double *gbps;           /* rank 0, [from * size + to] */
    pthread_t threads[MAX_THREADS];
    _Atomic uint64_t round;
    _Atomic uint64_t n_done;
    _Atomic bool is_over;
} pattern;

/* ---- sending --------------------------------------------------------------------------------- */

/* The part of a block that one of the threads moves: whole cache lines but for the last. */
static void part_of(uint64_t nbytes, int thread, uint64_t *start_p, uint64_t *nbytes_p)
{
    uint64_t n = (uint64_t)pattern.bench->options.n_threads;
    uint64_t each = (nbytes / n + BENCH_LINE - 1) / BENCH_LINE * BENCH_LINE;
    uint64_t start = each * (uint64_t)thread < nbytes ? each * (uint64_t)thread : nbytes;

    *start_p = start;
    *nbytes_p = nbytes - start < each || thread == (int)n - 1 ? nbytes - start : each;
}

/* Start this thread's part for a rank; returns false if there is none. */
static bool put_begin(int to, int thread, struct nixl_req **req_p)
{
    const struct bench *bench = pattern.bench;
    uint64_t start, nbytes;
    int status;

    *req_p = NULL;
    part_of(traffic_between(&pattern.traffic, bench->rank, to), thread, &start, &nbytes);
    if (nbytes == 0) {
        return false;
    }
    status = nixl_put_x(to, bench->region, pattern.there[to] + start,
                        bench->local + pattern.here[to] + start, nbytes, NULL, req_p);
    bench_check(status == NIXL_INPROGRESS ? NIXL_OK : status, "nixl_put_x");
    return true;
}

static void put_end(struct nixl_req **req_p)
{
    if (*req_p != NULL) {
        bench_check(nixl_req_wait(req_p, BENCH_TIMEOUT_NS), "nixl_req_wait");
    }
}

/* What this thread sends in a round, the next rank first, so that all begin elsewhere. */
static void send_parts(int thread)
{
    static struct nixl_req *reqs[MAX_THREADS][BENCH_MAX_RANKS];
    const struct bench *bench = pattern.bench;

    for (int i = 1; i <= bench->size; i++) {
        int to = (bench->rank + i) % bench->size;

        (void)put_begin(to, thread, &reqs[thread][to]);
    }
    for (int to = 0; to < bench->size; to++) {
        put_end(&reqs[thread][to]);
    }
}

static void *send_in_thread(void *arg)
{
    int thread = (int)(intptr_t)arg;

    for (uint64_t round = 1;; round++) {
        unsigned n_spins = 0;

        while (atomic_load_explicit(&pattern.round, memory_order_acquire) < round) {
            if (atomic_load(&pattern.is_over)) {
                return NULL;
            }
            bench_pause(&n_spins);
        }
        send_parts(thread);
        atomic_fetch_add_explicit(&pattern.n_done, 1, memory_order_release);
    }
}

static void send_all(void)
{
    struct bench *bench = pattern.bench;
    uint64_t n_others = (uint64_t)bench->options.n_threads - 1;
    unsigned n_spins = 0;

    atomic_store_explicit(&pattern.n_done, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&pattern.round, 1, memory_order_release);
    send_parts(0);
    while (atomic_load_explicit(&pattern.n_done, memory_order_acquire) < n_others) {
        bench_pause(&n_spins);
    }
    bench_check(nixl_flush(NIXL_ALL_RANKS, BENCH_TIMEOUT_NS), "nixl_flush");
}

static void send_rounds(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        fresh_write(bench, bench->local, traffic_sent(&pattern.traffic, bench->rank, bench->size));
        send_all();
        fresh_read(bench, bench->mine,
                   traffic_received(&pattern.traffic, bench->rank, bench->size));
    }
}

/* ---- the bandwidth of each pair -------------------------------------------------------------- */

/* Nanoseconds of a put and flush to each rank, on average, while the others send, too. */
static void time_pairs(double *ns)
{
    struct bench *bench = pattern.bench;

    for (int round = 0; round < PAIR_ROUNDS; round++) {
        for (int i = 1; i <= bench->size; i++) {
            int to = (bench->rank + i) % bench->size;
            uint64_t nbytes = traffic_between(&pattern.traffic, bench->rank, to);
            int64_t start = nxr_now_ns();

            if (nbytes == 0) {
                continue;
            }
            bench_check(nixl_put(to, bench->region, pattern.there[to],
                                 bench->local + pattern.here[to], nbytes),
                        "nixl_put");
            bench_check(nixl_flush(to, BENCH_TIMEOUT_NS), "nixl_flush");
            ns[to] += (double)(nxr_now_ns() - start) / PAIR_ROUNDS;
        }
    }
}

/* Rank 0 gets the figures of all by a region of their own. */
static void measure_pairs(void)
{
    struct bench *bench = pattern.bench;
    uint64_t nbytes = (uint64_t)bench->size * sizeof(double);
    struct nixl_region *region;
    double *own;

    bench_check(nixl_region_alloc("bench.pairs", nbytes, NULL, &region), "allocating memory");
    own = nixl_region_addr(region);
    memset(own, 0, nbytes);
    stage_barrier(bench);
    time_pairs(own);
    for (int to = 0; to < bench->size; to++) {
        uint64_t sent = traffic_between(&pattern.traffic, bench->rank, to);

        own[to] = own[to] > 0 ? (double)sent / own[to] : 0;
    }
    stage_barrier(bench);
    for (int from = 0; bench->rank == 0 && from < bench->size; from++) {
        bench_check(
            nixl_get(from, region, 0, pattern.gbps + (size_t)from * (size_t)bench->size, nbytes),
            "nixl_get");
    }
    stage_barrier(bench);
    bench_check(nixl_region_close(region, BENCH_TIMEOUT_NS), "closing the region of figures");
}

/* ---- checking -------------------------------------------------------------------------------- */

static unsigned char byte_of(int from, int to, uint64_t i)
{
    return (unsigned char)((uint64_t)from * 31 + (uint64_t)to * 17 + i * 7 + (i >> 8) * 3);
}

static void check_bytes(void)
{
    struct bench *bench = pattern.bench;
    uint64_t at = 0;

    for (int to = 0; to < bench->size; to++) {
        uint64_t nbytes = traffic_between(&pattern.traffic, bench->rank, to);

        for (uint64_t i = 0; i < nbytes; i++) {
            bench->local[pattern.here[to] + i] = byte_of(bench->rank, to, i);
        }
    }
    memset(bench->mine, 0, traffic_received(&pattern.traffic, bench->rank, bench->size));
    stage_barrier(bench);
    send_all();
    stage_barrier(bench);
    for (int from = 0; from < bench->size; from++) {
        uint64_t nbytes = traffic_between(&pattern.traffic, from, bench->rank);

        for (uint64_t i = 0; i < nbytes; i++, at++) {
            if (bench->mine[at] != byte_of(from, bench->rank, i)) {
                bench_die("nixl_bench: byte %llu from rank %d is wrong at rank %d",
                          (unsigned long long)i, from, bench->rank);
            }
        }
    }
    stage_barrier(bench);
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* Rank 0 comes first, so that it alone complains about a file. */
static void pattern_read(struct bench *bench, const char *name, uint64_t nbytes)
{
    if (bench->rank != 0) {
        stage_barrier(bench);
    }
    traffic_make(&pattern.traffic, name, bench->size, bench->options.n_pairs, nbytes);
    if (traffic_total(&pattern.traffic) == 0) {
        bench_die("nixl_bench: the pattern '%s' moves no bytes between %d ranks", name,
                  bench->size);
    }
    if (bench->rank == 0) {
        stage_barrier(bench);
    }
}

static void pattern_open(struct bench *bench, const char *name, uint64_t nbytes)
{
    size_t n = (size_t)bench->size;

    pattern.bench = bench;
    pattern_read(bench, name, nbytes);
    pattern.here = calloc(n, sizeof(*pattern.here));
    pattern.there = calloc(n, sizeof(*pattern.there));
    pattern.gbps = calloc(n * n, sizeof(*pattern.gbps));
    if (pattern.here == NULL || pattern.there == NULL || pattern.gbps == NULL) {
        bench_die("nixl_bench: no memory for the figures of %d ranks", bench->size);
    }
    for (int to = 0; to < bench->size; to++) {
        pattern.here[to] = traffic_sent(&pattern.traffic, bench->rank, to);
        pattern.there[to] = traffic_received(&pattern.traffic, to, bench->rank);
    }
    stage_data_open(bench, bench->options.is_registered, traffic_most(&pattern.traffic));
    stage_case(bench, nbytes, &(struct bench_alignment){0, 0});
    atomic_store(&pattern.is_over, false);
    atomic_store(&pattern.round, 0);
    for (int i = 1; i < bench->options.n_threads; i++) {
        if (pthread_create(&pattern.threads[i], NULL, send_in_thread, (void *)(intptr_t)i) != 0) {
            bench_die("nixl_bench: cannot start thread %d of %d", i, bench->options.n_threads);
        }
    }
}

static void pattern_close(struct bench *bench)
{
    atomic_store(&pattern.is_over, true);
    for (int i = 1; i < bench->options.n_threads; i++) {
        pthread_join(pattern.threads[i], NULL);
    }
    stage_data_close(bench);
    traffic_free(&pattern.traffic);
    free(pattern.here);
    free(pattern.there);
    free(pattern.gbps);
}

/* Which pair is slowest and which is fastest, as a remark. */
static const char *pairs_note(char *note, size_t note_nbytes)
{
    size_t n = (size_t)pattern.bench->size, low = n * n, high = 0;

    for (size_t i = 0; i < n * n; i++) {
        if (pattern.gbps[i] > 0 && (low == n * n || pattern.gbps[i] < pattern.gbps[low])) {
            low = i;
        }
        high = pattern.gbps[i] > pattern.gbps[high] ? i : high;
    }
    snprintf(note, note_nbytes, "pairs from %.2f GB/s (%zu to %zu) to %.2f GB/s (%zu to %zu)",
             low < n * n ? pattern.gbps[low] : 0, low / n, low % n, pattern.gbps[high], high / n,
             high % n);
    return note;
}

static void pattern_row(struct bench *bench, const char *name, uint64_t nbytes, bool has_nbytes)
{
    static const struct bench_lane lane = {"nixlrun", send_rounds, 0, ACTOR_ALL, 1};
    struct bench_stats stats;
    char what[96], note[128];
    struct bench_row row = {.test = "pattern",
                            .what = what,
                            .nbytes = nbytes,
                            .has_nbytes = has_nbytes,
                            .unit = "ns",
                            .note = note,
                            .stats = &stats};

    pattern_open(bench, name, nbytes);
    snprintf(what, sizeof(what), "%s, %d thread%s%s%s", name, bench->options.n_threads,
             bench->options.n_threads > 1 ? "s" : "", bench->wire != NULL ? " by " : "",
             bench->wire != NULL ? bench->method : "");
    sample_lanes(bench, &lane, 1, &stats);
    measure_pairs();
    check_bytes();
    if (bench->rank == 0) {
        row.value = stats.median_ns;
        row.p99 = stats.p99_ns;
        row.min = stats.min_ns;
        row.fastest = stats.fastest_ns;
        row.slowest = stats.slowest_ns;
        row.bytes_per_op = (double)traffic_total(&pattern.traffic);
        row.matrix_gbps = pattern.gbps;
        pairs_note(note, sizeof(note));
    }
    report_row(bench, &row);
    pattern_close(bench);
}

void test_pattern(struct bench *bench)
{
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, pattern_sizes, N_PATTERN_SIZES, &sizes);

    for (int i = 0; i < bench->options.n_patterns; i++) {
        const char *name = bench->options.patterns[i];

        for (int j = 0; traffic_is_name(name) && j < n_sizes; j++) {
            pattern_row(bench, name, sizes[j], true);
        }
        if (!traffic_is_name(name)) {
            pattern_row(bench, name, 0, false); /* the file has the sizes */
        }
    }
}
