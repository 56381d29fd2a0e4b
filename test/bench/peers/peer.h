/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one measuring loop of all peers. A peer brings two connected ranks and its calls; peer_run()
 * goes through sizes and operations and prints, from rank 0, lines as
 *
 *     name,operation,bytes,median_ns,min_ns,p99_ns
 *
 * for one operation, one way. A sample is a batch of so many operations that it takes about 50 us;
 * how many depends only on operation and size, so that both ranks do as many without talking about
 * it.
 *
 * Environment: PEER_NAME (of the line), PEER_SIZES (8,4096,...), PEER_OPS (put,get,...),
 * PEER_BUDGET (milliseconds a line), PEER_WINDOW (operations in flight), PEER_LATENCY (nanoseconds
 * that an operation of no bytes may take, a guess that only fixes how often it is done).
 */
#ifndef PEER_H
#define PEER_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PEER_MAX_NBYTES  (64ul << 20)
#define PEER_DATA_NBYTES (PEER_MAX_NBYTES + 4096) /* a page of flags behind the data */
#define PEER_MAX_WINDOW  1024
#define PEER_MAX_FLIGHT  (128ul << 20) /* bytes of a window */
#define PEER_MIN_SAMPLES 9
#define PEER_MAX_SAMPLES 1000

enum peer_kind {
    PEER_SOLO,        /* rank 0 acts, rank 1 waits in the barrier */
    PEER_PING_PONG,   /* both act; the time is halved */
    PEER_ROUND_TRIP,  /* both act */
    PEER_WINDOW,      /* rank 0 acts; fn does n windows of peer_window operations */
    PEER_BOTH_WINDOW, /* both act, windows */
};

/*
 * What a peer brings. Those that it has not are NULL; all have put and get. All work on
 * peer_nbytes, where no size is given.
 */
struct peer_calls {
    void (*barrier)(void);
    void (*put)(long count); /* so many puts, and one wait until they are visible */
    void (*get)(long count);
    void (*put_signal)(size_t nbytes); /* put, then notify the target; 0 bytes: only notify */
    void (*wait_signal)(void);         /* for the next one from the other */
    void (*send)(size_t nbytes, int tag);
    void (*receive)(size_t nbytes, int tag);
    void (*send_window)(long n); /* rank 0 sends peer_window messages, rank 1 takes them; n times */
    void (*fetch_add)(long n); /* n times: add 1 to a word of the other, and wait for what it was */
    const unsigned char *mine; /* where the other's puts land; NULL: nobody reads it */
    unsigned char *local;      /* what is put; NULL: nobody writes it */
    bool is_two_sided;         /* put, get and their windows run on both ranks */
};

static const struct peer_calls *peer_calls;
static int peer_rank;
static size_t peer_nbytes; /* of the operation that is measured */
static long peer_window;

static inline double peer_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline double peer_number(const char *variable, double initial)
{
    const char *text = getenv(variable);

    return text != NULL && text[0] != '\0' ? atof(text) : initial;
}

/* Rank r on core r, before the library starts its threads. */
static inline void peer_pin(int rank)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)(rank % sysconf(_SC_NPROCESSORS_ONLN)), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* The rank as the launcher tells it in the environment. */
static inline void peer_pin_early(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (getenv(variables[i]) != NULL) {
            peer_pin(atoi(getenv(variables[i])));
            return;
        }
    }
}

static inline bool peer_is_wanted(const char *name)
{
    const char *list = getenv("PEER_OPS");
    size_t nbytes = strlen(name);

    if (list == NULL || list[0] == '\0') {
        return true;
    }
    while (*list != '\0') {
        size_t item = strcspn(list, ",");

        if (item == nbytes && memcmp(list, name, nbytes) == 0) {
            return true;
        }
        list += item + (list[item] == ',');
    }
    return false;
}

/* Every byte once; what a target does with what it got. */
static inline uint64_t peer_read_all(const unsigned char *bytes, size_t nbytes)
{
    typedef uint64_t block __attribute__((vector_size(16), aligned(1), may_alias));
    const block *blocks = (const void *)bytes;
    block sums[4] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};

    for (size_t i = 0; i + 4 <= nbytes / sizeof(block); i += 4) {
        for (size_t j = 0; j < 4; j++) {
            sums[j] ^= blocks[i + j];
        }
    }
    sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
    __asm__ volatile("" : : "r"(sums[0][0] ^ sums[0][1]));
    return sums[0][0];
}

static inline int peer_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A guess of an operation's time, only to fix how often it is done. */
static inline double peer_guess_ns(enum peer_kind kind)
{
    bool is_window = kind == PEER_WINDOW || kind == PEER_BOTH_WINDOW;
    double latency = peer_number("PEER_LATENCY", is_window ? 60 : 300);
    double one = latency + (double)peer_nbytes / 8;

    return is_window ? one * (double)peer_window : one;
}

/* All of what is put, another value each time. */
static inline void peer_write_all(unsigned char *bytes, size_t nbytes)
{
    static unsigned char value;

    memset(bytes, ++value, nbytes);
    __asm__ volatile("" : : : "memory");
}

/* ---- operations made of calls ---- */

static inline void peer_put(long n)
{
    for (long i = 0; i < n; i++) {
        peer_calls->put(1);
    }
}

static inline void peer_get(long n)
{
    for (long i = 0; i < n; i++) {
        peer_calls->get(1);
    }
}

static inline void peer_put_window(long n)
{
    for (long i = 0; i < n; i++) {
        peer_calls->put(peer_window);
    }
}

static inline void peer_get_window(long n)
{
    for (long i = 0; i < n; i++) {
        peer_calls->get(peer_window);
    }
}

static inline void peer_put_notify(long n)
{
    for (long i = 0; i < n; i++) {
        if (peer_rank == 0) {
            peer_calls->put_signal(peer_nbytes);
            peer_calls->wait_signal();
        } else {
            peer_calls->wait_signal();
            peer_calls->put_signal(peer_nbytes);
        }
    }
}

static inline void peer_put_read(long n)
{
    for (long i = 0; i < n; i++) {
        if (peer_rank == 0) {
            peer_calls->put_signal(peer_nbytes);
            peer_calls->wait_signal();
        } else {
            peer_calls->wait_signal();
            peer_read_all(peer_calls->mine, peer_nbytes);
            peer_calls->put_signal(0);
        }
    }
}

/* The same with data that changes: written before each put. */
static inline void peer_fresh_put_read(long n)
{
    for (long i = 0; i < n; i++) {
        if (peer_rank == 0) {
            peer_write_all(peer_calls->local, peer_nbytes);
        }
        peer_put_read(1);
    }
}

static inline void peer_send(long n)
{
    for (long i = 0; i < n; i++) {
        if (peer_rank == 0) {
            peer_calls->send(peer_nbytes, 1);
            peer_calls->receive(peer_nbytes, 1);
        } else {
            peer_calls->receive(peer_nbytes, 1);
            peer_calls->send(peer_nbytes, 1);
        }
    }
}

/* The window, and an answer that says that all is taken. */
static inline void peer_send_window(long n)
{
    for (long i = 0; i < n; i++) {
        peer_calls->send_window(1);
        if (peer_rank == 0) {
            peer_calls->receive(8, 3);
        } else {
            peer_calls->send(8, 3);
        }
    }
}

/* Rank 0 prints a line. */
static inline void peer_print(const char *operation, double *samples, long n_samples)
{
    qsort(samples, (size_t)n_samples, sizeof(samples[0]), peer_compare);
    if (peer_rank == 0) {
        printf("%s,%s,%zu,%.2f,%.2f,%.2f\n", getenv("PEER_NAME") ? getenv("PEER_NAME") : "peer",
               operation, peer_nbytes, samples[n_samples / 2], samples[0],
               samples[(n_samples * 99 + 99) / 100 - 1]);
        fflush(stdout);
    }
}

struct peer_op {
    const char *name;
    enum peer_kind kind;
    void (*fn)(long n);
};

static inline void peer_measure(const struct peer_op *op)
{
    double samples[PEER_MAX_SAMPLES], guess = peer_guess_ns(op->kind);
    double per_batch = op->kind == PEER_PING_PONG ? 2 : 1;
    long inner = (long)(50000 / guess), n_samples;

    inner = inner < 1 ? 1 : inner;
    n_samples = (long)(peer_number("PEER_BUDGET", 100) * 1e6 / ((double)inner * guess));
    n_samples = n_samples < PEER_MIN_SAMPLES   ? PEER_MIN_SAMPLES
                : n_samples > PEER_MAX_SAMPLES ? PEER_MAX_SAMPLES
                                               : n_samples;
    if (op->kind == PEER_WINDOW || op->kind == PEER_BOTH_WINDOW) {
        per_batch *= (double)peer_window;
    }
    for (long i = -n_samples / 10 - 2; i < n_samples; i++) {
        double start = peer_now_ns();

        op->fn(inner);
        if (i >= 0) {
            samples[i] = (peer_now_ns() - start) / ((double)inner * per_batch);
        }
    }
    peer_print(op->name, samples, n_samples);
}

/* One size: every operation that is wanted and that the peer has. */
static inline void peer_run_size(void)
{
    const struct peer_calls *calls = peer_calls;
    bool has_signal = calls->put_signal != NULL, has_send = calls->send_window != NULL;
    const struct peer_op ops[] = {
        {"put", PEER_SOLO, peer_put},
        {"get", PEER_SOLO, peer_get},
        {"fetch_add", PEER_SOLO, peer_nbytes == 8 ? calls->fetch_add : NULL},
        {"put_window", PEER_WINDOW, peer_put_window},
        {"get_window", PEER_WINDOW, peer_get_window},
        {"put_notify", PEER_PING_PONG, has_signal ? peer_put_notify : NULL},
        {"put_read", PEER_ROUND_TRIP, has_signal && calls->mine != NULL ? peer_put_read : NULL},
        {"fresh_put_read", PEER_ROUND_TRIP,
         has_signal && calls->mine != NULL && calls->local != NULL ? peer_fresh_put_read : NULL},
        {"send", PEER_PING_PONG, has_send ? peer_send : NULL},
        {"send_window", PEER_BOTH_WINDOW, has_send ? peer_send_window : NULL},
    };

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        bool is_solo =
            !calls->is_two_sided && (ops[i].kind == PEER_SOLO || ops[i].kind == PEER_WINDOW);

        if (ops[i].fn == NULL || !peer_is_wanted(ops[i].name)) {
            continue;
        }
        calls->barrier();
        if (peer_rank == 0 || !is_solo) {
            peer_measure(&ops[i]);
        }
        calls->barrier();
    }
}

static inline void peer_run(const struct peer_calls *calls)
{
    const char *sizes = getenv("PEER_SIZES");

    peer_calls = calls;
    if (sizes == NULL || sizes[0] == '\0') {
        sizes = "8,4096,65536,1048576,16777216,67108864";
    }
    while (*sizes != '\0') {
        char *end;

        peer_nbytes = strtoull(sizes, &end, 0);
        if (peer_nbytes > PEER_MAX_NBYTES || end == sizes) {
            fprintf(stderr, "PEER_SIZES: bad size '%s'\n", sizes);
            exit(2);
        }
        sizes = end + (*end == ',');
        peer_window = (long)peer_number("PEER_WINDOW", 64);
        if (peer_nbytes > 0 && (size_t)peer_window > PEER_MAX_FLIGHT / peer_nbytes) {
            peer_window = (long)(PEER_MAX_FLIGHT / peer_nbytes);
        }
        peer_run_size();
    }
    calls->barrier();
}

#endif
