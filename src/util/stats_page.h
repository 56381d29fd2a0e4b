/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a rank, a section of its observation page (util/observe.h): rows of counters and
 * times, each for one peer, path and operation; lanes, in which a single thread counts copies to
 * one peer; and records of what has a name: collectives, channels, rails of networks. They are
 * given out one by one and stay until the page is dropped: all numbers only grow, so a reader needs
 * no lock and subtracts two readings.
 *
 * The owner alone writes. What is read is checked: a count beyond the arrays is cut, and texts get
 * an end. Memory is used only where something was counted.
 */
#ifndef NXR_UTIL_STATS_PAGE_H
#define NXR_UTIL_STATS_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_STATS_VERSION   2u
#define NXR_STATS_N_BUCKETS 40 /* of a histogram: bucket i has times from 2^i ns; the last, more */
#define NXR_STATS_NO_PEER   (-1)
#define NXR_STATS_NAME      64 /* bytes of a name, with its end; longer ones are cut */

/* In the order of enum nixl_stats_op. */
enum nxr_stats_op {
    NXR_STATS_PUT,
    NXR_STATS_GET,
    NXR_STATS_ATOMIC,
    NXR_STATS_NOTIFY,
    NXR_STATS_RECEIVE,
    NXR_STATS_COLLECTIVE,
    NXR_STATS_WAIT,
    NXR_STATS_WAKE,
    NXR_STATS_CHANNEL_SEND, /* from here on: bytes that others have counted as well */
    NXR_STATS_CHANNEL_RECEIVE,
    NXR_STATS_RAIL_SEND,
    NXR_STATS_RAIL_RECEIVE,
    NXR_STATS_N_OPS
};

/* The counters of a row. */
enum nxr_stats_counter {
    NXR_STATS_OPS,
    NXR_STATS_NBYTES,
    NXR_STATS_FAILED,
    NXR_STATS_REQUESTS,
    NXR_STATS_RETRIES,
    NXR_STATS_STAGES,
    NXR_STATS_N_COUNTERS
};

struct nxr_stats_row {
    _Alignas(64) _Atomic uint32_t is_ready; /* what follows is constant from then on */
    uint32_t op;                            /* enum nxr_stats_op */
    int32_t peer;                           /* number of the peer, or NXR_STATS_NO_PEER */
    uint32_t serial;                        /* rows and lanes in the order of their making */
    char transport[16];
    char method[12];
    uint32_t has_times;
    uint64_t unused[2];
    _Alignas(64) _Atomic uint64_t n[NXR_STATS_N_COUNTERS];
    uint64_t unused_counters[2];
};
_Static_assert(sizeof(struct nxr_stats_row) == 128, "two cache lines");

/* The counters of a lane. */
enum nxr_stats_lane_counter {
    NXR_LANE_PUTS,
    NXR_LANE_PUT_NBYTES,
    NXR_LANE_GETS,
    NXR_LANE_GET_NBYTES,
    NXR_LANE_ATOMICS,
    NXR_LANE_ATOMIC_NBYTES,
    NXR_LANE_N_COUNTERS
};

/* Copies through memory that is mapped here, by one thread to one peer. */
struct nxr_stats_lane {
    _Alignas(64) _Atomic uint32_t is_ready;
    _Atomic uint32_t is_taken; /* by a thread; else the next one may count on here */
    int32_t peer;
    uint32_t serial;
    char transport[16];
    _Alignas(64) _Atomic uint64_t n[NXR_LANE_N_COUNTERS];
};
_Static_assert(sizeof(struct nxr_stats_lane) == 128, "two cache lines");

/* A histogram of times. */
struct nxr_stats_histogram {
    _Atomic uint64_t sum_ns, max_ns;
    _Atomic uint64_t n[NXR_STATS_N_BUCKETS];
};

/* The times of the row of the same number. */
struct nxr_stats_times {
    struct nxr_stats_histogram post, complete;
};

/*
 * What has a name, of which one thread at a time writes: the calls of a collective on one team, one
 * end of a channel, or its part for one peer, a connection to a peer by one rail. Several that are
 * alike have a record each.
 */
struct nxr_stats_named {
    _Alignas(64) _Atomic uint32_t is_ready;
    _Atomic uint32_t is_taken; /* by such a thing; else the next one that is alike counts on here */
    uint32_t op;               /* enum nxr_stats_op */
    int32_t peer;
    uint32_t serial;
    uint32_t n_members; /* of the team */
    char transport[16]; /* of a rail; of a collective its name, too */
    char name[NXR_STATS_NAME];
    _Alignas(64) _Atomic uint64_t n[NXR_STATS_N_COUNTERS];
    struct nxr_stats_histogram complete; /* the whole, of those timed */
    struct nxr_stats_histogram wait;     /* for others within it */
};
_Static_assert(sizeof(struct nxr_stats_named) % 64 == 0, "whole cache lines");

#define NXR_STATS_N_LONGEST 10

/* One of the longest waits. */
struct nxr_stats_wait {
    _Alignas(64) _Atomic uint32_t counter; /* odd while it is written */
    int32_t peer;
    int64_t began_ns;  /* CLOCK_MONOTONIC */
    int64_t waited_ns; /* 0: none */
    char call[32];
};

struct nxr_stats_head {
    uint32_t max_rows, max_lanes, max_named, unused;
    uint64_t rows_at, lanes_at, times_at, named_at; /* bytes from the beginning of the section */
    uint64_t nbytes;                                /* of the section */
    int64_t began_ns;                               /* CLOCK_MONOTONIC */
    _Atomic uint32_t n_rows, n_lanes, n_named, unused_too;
    _Atomic uint64_t n_lost; /* wanted rows, lanes, records that had no room: they are missing */
    struct nxr_stats_wait longest[NXR_STATS_N_LONGEST];
};

/* ---- making ---------------------------------------------------------------------------------- */

/* The size of the section for a job of that many ranks. */
size_t nxr_stats_section_nbytes(int size);

/* Fill in the head of a section that is all zeros and has that size. */
void nxr_stats_section_init(struct nxr_stats_head *head, int size, int64_t now_ns);

static inline struct nxr_stats_row *nxr_stats_rows(const struct nxr_stats_head *head)
{
    return (struct nxr_stats_row *)((char *)head + head->rows_at);
}

static inline struct nxr_stats_lane *nxr_stats_lanes(const struct nxr_stats_head *head)
{
    return (struct nxr_stats_lane *)((char *)head + head->lanes_at);
}

static inline struct nxr_stats_times *nxr_stats_times_of(const struct nxr_stats_head *head)
{
    return (struct nxr_stats_times *)((char *)head + head->times_at);
}

static inline struct nxr_stats_named *nxr_stats_named(const struct nxr_stats_head *head)
{
    return (struct nxr_stats_named *)((char *)head + head->named_at);
}

/* The bucket of a time. */
static inline unsigned nxr_stats_bucket(int64_t ns)
{
    unsigned bucket = ns > 0 ? 63 - (unsigned)__builtin_clzll((unsigned long long)ns) : 0;

    return bucket < NXR_STATS_N_BUCKETS ? bucket : NXR_STATS_N_BUCKETS - 1;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* -DNXR_UNCOUNTED: a library that counts nothing, for test/bench/counters.sh alone. */
#ifdef NXR_UNCOUNTED
#define NXR_STATS_COUNTS false
#else
#define NXR_STATS_COUNTS true
#endif

/*
 * By the only thread that writes the counter at the time. Compilers make three instructions of an
 * atomic load, an addition and an atomic store; one does the same, and readers see whole numbers.
 */
static inline void nxr_stats_add(_Atomic uint64_t *counter, uint64_t n)
{
    if (!NXR_STATS_COUNTS) {
        return;
    }
#if defined(__x86_64__)
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(n) : "cc");
#else
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
#endif
}

/* By one of several. */
static inline void nxr_stats_add_shared(_Atomic uint64_t *counter, uint64_t n)
{
    if (NXR_STATS_COUNTS) {
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
    }
}

/* A time, by the only thread that writes the histogram. */
static inline void nxr_stats_add_time(struct nxr_stats_histogram *histogram, int64_t ns)
{
    uint64_t time = ns > 0 ? (uint64_t)ns : 0;

    nxr_stats_add(&histogram->n[nxr_stats_bucket(ns)], 1);
    nxr_stats_add(&histogram->sum_ns, time);
    if (time > atomic_load_explicit(&histogram->max_ns, memory_order_relaxed)) {
        atomic_store_explicit(&histogram->max_ns, time, memory_order_relaxed);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The sum of all rows, lanes and records of one peer, path, operation and name. */
struct nxr_stats_sum {
    int32_t peer;
    uint32_t op;
    uint32_t serial; /* of the first of them */
    uint32_t n_members;
    char transport[16], method[12], name[NXR_STATS_NAME];
    uint64_t n[NXR_STATS_N_COUNTERS];
    uint64_t post_ns, complete_ns, wait_ns, max_post_ns, max_complete_ns, max_wait_ns;
    uint64_t post[NXR_STATS_N_BUCKETS], complete[NXR_STATS_N_BUCKETS], wait[NXR_STATS_N_BUCKETS];
};

/* What a section holds; `sums` are allocated, in the order of their making. */
struct nxr_stats_reading {
    struct nxr_stats_sum *sums;
    size_t n_sums;
    struct nxr_stats_wait longest[NXR_STATS_N_LONGEST]; /* the longest first */
    size_t n_longest;
    uint64_t n_lost;
    int64_t began_ns;
};

/*
 * Read a section of nbytes. False: no memory, or it is none.
 */
bool nxr_stats_read(const struct nxr_stats_head *head, size_t nbytes,
                    struct nxr_stats_reading *reading_p);
void nxr_stats_reading_free(struct nxr_stats_reading *reading);

/* Add the sums of another reading to those of the same key. False: no memory, nothing is added. */
bool nxr_stats_reading_add(struct nxr_stats_reading *to, const struct nxr_stats_reading *from);

/* All of a section by operation, without memory and histograms: for who reads often. */
struct nxr_stats_totals {
    uint64_t nops[NXR_STATS_N_OPS], nbytes[NXR_STATS_N_OPS];
    uint64_t n_failed;
    uint64_t waited_ns; /* by all threads together */
};

/* False: it is no section. */
bool nxr_stats_read_totals(const struct nxr_stats_head *head, size_t nbytes,
                           struct nxr_stats_totals *totals_p);

/* Add the counters of a sum to another one, whatever their keys. */
void nxr_stats_sum_add(struct nxr_stats_sum *to, const struct nxr_stats_sum *from);

/* The name of an operation: "put", "get"... */
const char *nxr_stats_op_name(uint32_t op);

#endif
