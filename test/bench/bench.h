/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl_bench inside: what its files share. A test measures lanes: one is nixlrun, the others are
 * what the machine can do for the same work without it: on one host over shared memory, between
 * hosts over a TCP connection. Lanes run in turn, batch by batch, in the same processes and on the
 * same cores, so that a ratio compares equal states of the machine.
 */
#ifndef NIXL_BENCH_H
#define NIXL_BENCH_H

#include "nixlrun.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define BENCH_MAX_TESTS      64
#define BENCH_MAX_PATTERNS   8
#define BENCH_MAX_THREADS    64
#define BENCH_MAX_SIZES      32
#define BENCH_MAX_ALIGNMENTS 16
#define BENCH_MAX_LANES      8
#define BENCH_MAX_RANKS      1024
#define BENCH_MAX_SAMPLES    4096
#define BENCH_MAX_SINGLES    200000        /* samples of --single */
#define BENCH_MARGIN         8192          /* room behind the largest size, for alignments */
#define BENCH_TIMEOUT_NS     60000000000ll /* of one wait; longer: something is lost */
#define BENCH_LINE           128 /* two cache lines: some processors fetch them in pairs */

/* ---- options.c ------------------------------------------------------------------------------- */

enum bench_format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

/* Offsets from a page boundary. */
struct bench_alignment {
    size_t dst, src;
};

struct bench_options {
    uint64_t sizes[BENCH_MAX_SIZES];
    int n_sizes; /* 0: the test's own */
    struct bench_alignment alignments[BENCH_MAX_ALIGNMENTS];
    int n_alignments;
    int64_t budget_ns; /* for one row */
    long n_samples;    /* per lane and row; 0: as many as the budget allows */
    long window;
    double seconds; /* of idling */
    bool is_registered;
    enum nixl_mem_kind there, here; /* of the segments, and of the caller's memory */
    bool is_by_tcp;                 /* as between hosts, also on one */
    bool is_unpinned;
    bool is_single;  /* a sample is one operation, not a batch */
    bool is_fresh;   /* what is sent is written before, what arrives is read after */
    bool is_checked; /* exit 1 if a goal is missed */
    enum bench_format format;
    const char *patterns[BENCH_MAX_PATTERNS];
    int n_patterns;
    int n_threads;                /* of each rank, in patterns */
    int n_pairs;                  /* that send in patterns made of pairs; 0: all */
    const char *plot;             /* the file of a picture; NULL: none */
    const char *publish, *attach; /* where to meet the other process; NULL: ranks of a job */
    const char *etcd;             /* where a name is published for `attach', too; NULL: nowhere */
    const char *object;           /* the URL of a place for objects; NULL: none */
    const struct bench_test *tests[BENCH_MAX_TESTS];
    int n_tests;
};

/* Fill *options; a bad command line, --help and --version end the process. */
void options_parse(struct bench_options *options, int argc, char **argv);

/* ---- stage.c: what the ranks share besides what is measured ---------------------------------- */

struct bench;
struct bench_test;

/* In rank 0's memory, mapped by every rank. Each word that is written often has its own line. */
struct bench_page {
    _Alignas(BENCH_LINE) _Atomic uint32_t arrived; /* barrier */
    _Alignas(BENCH_LINE) _Atomic uint32_t epoch;
    _Alignas(BENCH_LINE) _Atomic uint64_t flag_a; /* written by rank 0 */
    _Alignas(BENCH_LINE) _Atomic uint64_t flag_b; /* written by rank 1 */
    _Alignas(BENCH_LINE) _Atomic uint32_t futex;
    _Alignas(BENCH_LINE) _Atomic int64_t stamp_ns; /* when something happened on another rank */
    _Alignas(BENCH_LINE) _Atomic uint64_t ready;
    _Alignas(BENCH_LINE) _Atomic uint64_t done;
    _Atomic bool has_slept;                     /* behind `done' */
    _Alignas(BENCH_LINE) _Atomic uint64_t told; /* by rank 0 */
    _Alignas(BENCH_LINE) int64_t decision;      /* of rank 0, valid after a barrier */
    double shares[BENCH_MAX_RANKS];             /* of stage_spread() */
    pid_t pids[BENCH_MAX_RANKS];
    uint64_t user_memory[BENCH_MAX_RANKS]; /* address of the registered memory in its owner */
};

typedef void bench_fn(struct bench *bench, long n, int arg);

struct bench {
    struct bench_options options;
    int rank, size,
        peer;          /* peer: the number of the other one of two; of rank 0, if there are more */
    struct wire *wire; /* between hosts or with --tcp; else NULL */
    struct nixl_region *page_region;
    struct bench_page *page;    /* where there is no wire */
    struct nixl_region *region; /* the data of the current test */
    unsigned char *mine;        /* own segment of it */
    bool is_registered;         /* it is malloc memory, not allocated by the library */
    unsigned char *theirs;      /* the peer's segment, mapped; NULL where that cannot be */
    unsigned char *local;       /* ordinary memory of this process, as large */
    uint64_t local_nbytes;
    struct nixl_region *local_region; /* where `local' is GPU memory; else NULL */
    struct {
        struct nixl_region *region; /* between hosts */
        unsigned char *src;
        bench_fn *fn;
    } beside;               /* device.c */
    bool is_oversubscribed; /* more ranks than cores, none is bound */
    char method[48];        /* how the library reaches the peer's segment */
    uint64_t flag_seq;      /* of the flag ping-pong */
    uint64_t n_missed;      /* goals */

    /* the current case */
    uint64_t nbytes;
    struct bench_alignment alignment;
    unsigned char *src;
    unsigned char *raw_dst; /* theirs, with the alignment */
};

void stage_open(struct bench *bench);
void stage_close(struct bench *bench);

/* Make the data region, of the options' kind, at least `nbytes` and the margin, touched everywhere.
 */
void stage_data_open(struct bench *bench, bool is_registered, uint64_t nbytes);
void stage_data_close(struct bench *bench);

/* Memory of this process, touched. */
unsigned char *stage_map_private(uint64_t nbytes);
void stage_unmap_private(unsigned char *memory, uint64_t nbytes);

/* Set the current case. */
void stage_case(struct bench *bench, uint64_t nbytes, const struct bench_alignment *alignment);

/*
 * All ranks: spins, then yields. Orders memory on one host; between hosts a waiting rank polls the
 * library.
 */
void stage_barrier(struct bench *bench);

/* Rank 0 tells ranks 1 .. n_ranks to end what they do, each time by a new number; they look. */
void stage_tell(struct bench *bench, int n_ranks, uint64_t number);
bool stage_is_told(struct bench *bench, uint64_t number);

/* Rank 0's number for all. Collective. */
int64_t stage_decide(struct bench *bench, int64_t value);

/* The least and the most of all ranks' values, on rank 0. Collective. */
void stage_spread(struct bench *bench, double value, double *least_p, double *most_p);

/* End the job with a line that says what failed, unless `status` is NIXL_OK. */
void bench_check(int status, const char *what);
void bench_die(const char *format, ...) NIXL_PRINTF(1, 2) NIXL_NORETURN;

/* Spin a little, then let others run: for waits that are not measured. */
void bench_pause(unsigned *n_spins);

/* ---- apart.c: two processes that are started separately -------------------------------------- */

bool apart_is_asked(const struct bench_options *options);

/* Can that test run between them? */
bool apart_is_possible(const struct bench_test *test);

/* Meet the other one, and become rank 0 or 1 of two. */
void apart_open(struct bench *bench);

/* A team of the two, in the order of these ranks; it is to be freed. Collective. */
struct nixl_team *apart_team(const struct bench *bench);

void apart_close(const struct bench *bench);

/* ---- sample.c -------------------------------------------------------------------------------- */

/*
 * The ranks that run a lane's function: rank 0; ranks 0 and 1; all. The others wait in the
 * barrier.
 */
enum bench_actors { ACTOR_FIRST, ACTOR_PAIR, ACTOR_ALL };

struct bench_lane {
    const char *name;
    bench_fn *fn; /* does the operation n times */
    int arg;
    enum bench_actors actors;
    double n_steps; /* operations that one turn of fn counts for: 2 in a ping-pong */
};

struct bench_stats {
    double median_ns, p99_ns, min_ns;
    double median_low_ns, median_high_ns; /* in 19 of 20 cases the true median is between them */
    double p90_ns, p999_ns, p9999_ns, max_ns;
    double fastest_ns, slowest_ns; /* means of one rank, where all act; else 0 */
    long n_samples;
};

/* Run all lanes in turn. A sample is a batch of so many operations that the clock does not matter.
 */
void sample_lanes(struct bench *bench, const struct bench_lane *lanes, int n_lanes,
                  struct bench_stats *stats);

void sample_stats(double *samples_ns, long n_samples, struct bench_stats *stats_p);

/* Of a test that takes so many samples by itself: these, or the fewer that --iters asks for. */
int sample_turns(const struct bench *bench, int own);

/*
 * One way of a flag between ranks 0 and 1, now. Collective over them; 0 with one rank, and with
 * more ranks than cores.
 */
double sample_flag_ns(struct bench *bench);
const char *sample_placement(double flag_ns);

/* ---- fresh.c: data that changes -------------------------------------------------------------- */

/* With --fresh; else nothing. */
void fresh_write(const struct bench *bench, unsigned char *bytes, uint64_t nbytes);
void fresh_read(const struct bench *bench, const unsigned char *bytes, uint64_t nbytes);
void fresh_read_all(const unsigned char *bytes, uint64_t nbytes); /* always */
/* What a row says of it: how long writing and reading alone take. NULL without it. Collective. */
const char *fresh_note(struct bench *bench);

/* ---- device.c: data in GPU memory ------------------------------------------------------------ */

bool device_is_used(const struct bench *bench);
/* Called with the data region, where it is used. */
void device_open(struct bench *bench, uint64_t nbytes);
void device_close(struct bench *bench, uint64_t nbytes);
/* The lane that a lane in GPU memory is held beside; one such pair at a time. */
struct bench_lane device_beside_lane(struct bench *bench, const struct bench_lane *lane);
double device_goal(const struct bench *bench);

/* ---- wire.c: the stage between hosts --------------------------------------------------------- */

/* The other one of two; the library may give it another number (bench->peer). */
static inline int bench_other(const struct bench *bench)
{
    return bench->rank == 0 ? 1 : 0;
}

/* Where the ranks are on several hosts, or --tcp was given, connect all with rank 0. */
void wire_open(struct bench *bench);
void wire_close(struct bench *bench);
void wire_barrier(struct bench *bench);
int64_t wire_decide(struct bench *bench, int64_t value);
void wire_tell(struct bench *bench, int n_ranks);
bool wire_is_told(struct bench *bench);
void wire_send(struct bench *bench, int rank, const void *data, size_t nbytes);
/* Spins, unless it may sleep. */
void wire_receive(struct bench *bench, int rank, void *data, size_t nbytes, bool may_sleep);

/* ---- bare_tcp.c: the same work over that connection ------------------------------------------ */

enum tcp_work {
    TCP_PUT_SENT,   /* sent, as far as the sender can tell */
    TCP_PUT,        /* and answered */
    TCP_PUT_WINDOW, /* a stream of --window, answered once */
    TCP_GET,
    TCP_GET_WINDOW,
    TCP_ONE_WAY,
    TCP_WORD_ONE_WAY, /* 8 bytes, half of there and back */
    TCP_ROUND_TRIP,   /* 8 bytes there and back */
};

struct bench_lane bare_tcp_lane(const struct bench *bench, enum tcp_work work);
/* 8 bytes there and back, n times; rank 1 spins for them or sleeps, rank 0 spins. */
void bare_tcp_round_trip(struct bench *bench, long n, int is_asleep);
/* What a round trip of 8 bytes takes longer if rank 1 sleeps: its being woken. */
double bare_tcp_wake_ns(struct bench *bench);

/* ---- bare_target.c: a target that computes, over that connection ----------------------------- */

/* Rank 1: a thread takes so many puts, or gives so many gets, while the caller computes. */
void bare_target_start(struct bench *bench, long n_ops, bool is_get);
bool bare_target_has_ended(void);
void bare_target_join(void);

/* Rank 0: one of them, until it is answered. */
void bare_target_reach(struct bench *bench, bool is_get);

/* ---- report_json.c: the same for programs ---- */

/* What follows from a row. Numbers that do not apply are negative. */
struct bench_derived {
    double gbps, per_second, ratio;
    bool has_goal, is_met;
};

struct bench_row;
/* One object: the machine, the command, and an array of rows. */
void report_json_begin(FILE *file, const struct bench *bench);
void report_json_row(FILE *file, const struct bench *bench, const struct bench_row *row,
                     const struct bench_derived *derived);
void report_json_end(FILE *file);

/* ---- figures.c: what scripts do -------------------------------------------------------------- */

/* `nixl_bench compare ...' and `nixl_bench plot ...': does not return. */
void figures_main(char **argv) NIXL_NORETURN;
/* `nixl_bench peers ...', whose options begin at argv: likewise. */
void peers_main(char **argv) NIXL_NORETURN;
/* A new file for the rows of a picture, and drawing it from them; on rank 0. */
FILE *figures_begin(void);
void figures_draw(FILE *rows, const char *picture);

/* ---- report.c: rank 0 prints ----------------------------------------------------------------- */

/* A line of the result. Fields that do not apply stay 0 or NULL. */
struct bench_row {
    const char *test;
    const char *what;
    uint64_t nbytes;
    bool has_nbytes;
    struct bench_alignment alignment;
    const char *unit; /* "ns", "%", "MiB", "1/s" */
    double value;     /* median */
    double p99, min;
    double fastest, slowest; /* rank's mean, where all do the same */
    double bytes_per_op;     /* for GB/s, where the unit is ns */
    bool is_rate_shown;      /* also as operations per second, where the unit is ns */
    const char *limit_name;
    double limit;
    double goal;        /* allowed: value (or value / limit where there is a limit) <= goal */
    bool is_goal_floor; /* the ratio must be at least the goal */
    bool is_goal_p99;   /* the goal is for p99, not the median */
    double flag_ns;
    const char *note;
    const double *matrix_gbps;       /* of each pair of ranks, [from * size + to]; NULL: none */
    const struct bench_stats *stats; /* of the samples; NULL: only what stands above */
};

void report_begin(struct bench *bench);
void report_row(struct bench *bench, const struct bench_row *row);
void report_end(struct bench *bench);

/* The row of nixlrun's lane 0 beside the fastest of the others. */
void report_lanes(struct bench *bench, const char *test, const char *what,
                  const struct bench_lane *lanes, int n_lanes, const struct bench_stats *stats,
                  double goal);

/* ---- traffic.c: who sends how much to whom --------------------------------------------------- */

struct traffic {
    int size;
    uint64_t *nbytes; /* [from * size + to] */
};

bool traffic_is_name(const char *text);
/* Is each rank in one pair at most? */
bool traffic_has_pairs(const char *pattern);
/*
 * By the name of a pattern, `nbytes` for each pair that it has, or from a file with a matrix. Of
 * patterns made of pairs only the first n_pairs; 0: all.
 */
void traffic_make(struct traffic *traffic, const char *pattern, int size, int n_pairs,
                  uint64_t nbytes);
void traffic_free(struct traffic *traffic);
uint64_t traffic_between(const struct traffic *traffic, int from, int to);
/* What a rank sends to the ranks below `up_to`, and receives from them. */
uint64_t traffic_sent(const struct traffic *traffic, int from, int up_to);
uint64_t traffic_received(const struct traffic *traffic, int to, int up_to);
uint64_t traffic_most(const struct traffic *traffic); /* that any rank sends or receives */
uint64_t traffic_total(const struct traffic *traffic);

/* ---- tests ----------------------------------------------------------------------------------- */

struct bench_test {
    const char *name;
    const char *help;
    void (*run)(struct bench *bench);
    int min_ranks, max_ranks;
    unsigned flags;
};

#define BENCH_ALONE      1u /* starts the library itself: it shares a run with no other test */
#define BENCH_ON_HOST    2u /* works with memory that all ranks share */
#define BENCH_COLLECTIVE 4u /* knows others by their place in a team only */

extern const struct bench_test bench_tests[];
extern const int bench_n_tests;

void test_put(struct bench *bench);
void test_put_flush(struct bench *bench);
void test_get(struct bench *bench);
void test_put_strided(struct bench *bench);
void test_put_nb(struct bench *bench);
void test_get_nb(struct bench *bench);
void test_flush(struct bench *bench);
void test_copy_read(struct bench *bench);
void test_nb_read(struct bench *bench);
void test_get_read(struct bench *bench);
void test_put_notify(struct bench *bench);
void test_notify(struct bench *bench);
void test_put_signal(struct bench *bench);
void test_signal(struct bench *bench);
void test_fetch_add(struct bench *bench);
void test_atomic(struct bench *bench);
void test_xfer(struct bench *bench);
void test_extents(struct bench *bench);
void test_channel(struct bench *bench);
void test_pair(struct bench *bench);
void test_grant(struct bench *bench);
void test_notify_barrier(struct bench *bench);
void test_team(struct bench *bench);
void test_pattern(struct bench *bench);
void test_rate(struct bench *bench);
void test_passive(struct bench *bench);
void test_sleep(struct bench *bench);
void test_idle(struct bench *bench);
void test_death(struct bench *bench);
void test_memory(struct bench *bench);
void test_alloc(struct bench *bench);
void test_storage(struct bench *bench);
void test_objects(struct bench *bench);
void test_contact(struct bench *bench);
void test_attach(struct bench *bench);
void test_trace(struct bench *bench);
void test_limits(struct bench *bench);

/* Each rank notifies all others and receives from all; in bench_memory.c. */
void bench_notify_all(const struct bench *bench);

/* Those of collectives, in bench_collective.c. */
void test_barrier(struct bench *bench);
void test_broadcast(struct bench *bench);
void test_reduce(struct bench *bench);
void test_allreduce(struct bench *bench);
void test_reduce_scatter(struct bench *bench);
void test_scan(struct bench *bench);
void test_gather(struct bench *bench);
void test_scatter(struct bench *bench);
void test_allgather(struct bench *bench);
void test_alltoall(struct bench *bench);
void test_alltoall_strided(struct bench *bench);
void test_gatherv(struct bench *bench);
void test_scatterv(struct bench *bench);
void test_allgatherv(struct bench *bench);
void test_alltoallv(struct bench *bench);

/* ---- bench_tune.c ---------------------------------------------------------------------------- */

/* `nixl_bench tune ...', which is no job: argv[0] is `tune'. Returns the exit code. */
int tune_main(int argc, char **argv);

/* ---- bare.c: the same work without nixlrun --------------------------------------------------- */

/* Lanes of every copy method of this processor into `raw_dst`; returns how many. */
int bare_copy_lanes(struct bench_lane *lanes, bool is_get);
void bare_flag(struct bench *bench, long n, int arg);       /* ping-pong of a word */
void bare_copy_flag(struct bench *bench, long n, int arg);  /* memcpy, then the word */
void bare_process_vm(struct bench *bench, long n, int arg); /* arg 0: writev, 1: readv */
bool bare_process_vm_works(struct bench *bench);
/* Of the current case, there and back: the data and a flag, or over TCP; is_word: only a word. */
struct bench_lane bare_one_way_lane(const struct bench *bench, bool is_word);
void bare_wake_rows(struct bench *bench); /* futex wake, in bench_wait.c */

/* The sizes of the options, or the defaults of the test. */
int bench_sizes(const struct bench *bench, const uint64_t *defaults, int n_defaults,
                const uint64_t **sizes_p);
uint64_t bench_largest(const uint64_t *sizes, int n_sizes);

/* The blocks of one test take at most this much memory, whatever --sizes says. */
#define BENCH_BLOCKS_NBYTES (512ull << 20)
/* How many blocks of `nbytes` fit into it: at least 1, at most `most`. */
uint64_t bench_fitting(uint64_t most, uint64_t nbytes);

#endif
