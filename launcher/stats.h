/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much went where in a job: the counters of its ranks (util/stats_page.h), read from their
 * observation pages without their help. nixlrun keeps a descriptor of each page since that rank
 * has met the others, so what a killed rank has counted is there as well.
 *
 *   stats_read.c     reads the pages of a job
 *   stats_sum.c      adds up: pairs of ranks, routes, the longest waits
 *   stats_items.c    adds up what has a name: collectives, channels, rails
 *   stats_named.c    shows these
 *   stats_show.c     the table at the end of a job, as text and as JSON
 *   stats_end.c      --stats
 *   top.c            nixlrun top
 *   top_screen.c     its terminal
 *   metrics_text.c   OpenMetrics
 *   metrics.c        its HTTP server, --metrics
 *   metrics_parse.c  where that listens
 */
#ifndef NIXLRUN_LAUNCHER_STATS_H
#define NIXLRUN_LAUNCHER_STATS_H

#include "util/stats_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* A wait under way in a collective, or for a channel; the counters have it when it has ended. */
struct stats_waiting {
    uint32_t op; /* NXR_STATS_COLLECTIVE, NXR_STATS_CHANNEL_SEND or NXR_STATS_CHANNEL_RECEIVE */
    uint32_t n_members;
    int32_t peer; /* -1: any */
    char name[NXR_STATS_NAME];
    uint64_t ns;
};

/* One process of a rank. */
struct stats_rank {
    uint64_t job; /* of the library: another one for ranks that a rank has spawned */
    int rank, size;
    uint32_t incarnation;
    pid_t pid;
    int64_t began_ns; /* CLOCK_MONOTONIC of its host */
    uint32_t life;    /* enum nxr_observe_life */
    char letter;      /* of its process, on another host; 0: ask /proc */
    char host[64];
    struct nxr_stats_totals totals;
    struct nxr_stats_reading reading; /* empty if only totals were read */
    struct stats_waiting *waiting;    /* likewise; of a living process */
    size_t n_waiting;
};

/* By job, rank, incarnation and start. */
struct stats_job {
    struct stats_rank *ranks;
    size_t n;
    int64_t read_ns; /* CLOCK_MONOTONIC */
};

/*
 * Of the job of the nixlrun with that pid, which may be this process. Of a rank that was started
 * again all processes that are known; only the last one, if only totals are read.
 */
struct stats_job stats_job_read(pid_t nixlrun, bool only_totals);
void stats_job_free(struct stats_job *job);

/*
 * Make one of the processes of the same rank and incarnation, which is what a script that runs one
 * program after another starts: their counters are added up, the rest is that of the last one.
 */
void stats_job_merge(struct stats_job *job);

/* ---- sums ------------------------------------------------------------------------------------ */

/* What has moved from one rank to another one: by its puts, by the other's gets. All paths. */
struct stats_pair {
    int from, to;
    uint64_t nops, nbytes;          /* puts and gets */
    uint64_t n_notes;               /* notifications */
    uint64_t path_nbytes;           /* of the path that has moved the most */
    uint64_t path_nops;             /* its operations */
    char transport[16], method[12]; /* that path */
};

struct stats_longest {
    int rank;
    struct nxr_stats_wait wait;
};

struct stats_sums {
    struct stats_longest longest[NXR_STATS_N_LONGEST];
    size_t n_longest;
    struct stats_pair *pairs;
    size_t n_pairs; /* by from, to; only those that have moved something */
    int size;       /* ranks are 0 to size - 1 */
    uint64_t nops[NXR_STATS_N_OPS], nbytes[NXR_STATS_N_OPS], n_failed, n_retries, n_stages;
    uint64_t n_lost;
};

/* Of the first of the jobs only; attached processes of other jobs are left out. */
struct stats_sums stats_sums_make(const struct stats_job *job);
void stats_sums_free(struct stats_sums *sums);

/* ---- what has a name ------------------------------------------------------------------------- */

enum stats_item_kind { STATS_COLLECTIVE, STATS_CHANNEL, STATS_RAIL };

/* What one side has counted. */
struct stats_side {
    uint64_t n, nbytes, n_failed;
    uint64_t n_stalls;                              /* it found no room, or no item */
    uint64_t n_timed, complete_ns, max_complete_ns; /* of these the whole time is known */
    uint64_t n_waits, wait_ns, max_wait_ns;
};

struct stats_item {
    enum stats_item_kind kind;
    char name[NXR_STATS_NAME], transport[16];
    uint32_t members;      /* of the teams of a collective */
    int from, to;          /* of a channel, -1: any rank; `from` is the rank of a rail */
    struct stats_side out; /* of collectives all of it */
    struct stats_side in;  /* what was received */
};

/* By kind, and what has moved the most first. */
struct stats_items {
    struct stats_item *items;
    size_t n;
};

static inline bool stats_is_item(const struct nxr_stats_sum *sum)
{
    return sum->op == NXR_STATS_COLLECTIVE || sum->op >= NXR_STATS_CHANNEL_SEND;
}

/* Of the first of the jobs. */
struct stats_items stats_items_make(const struct stats_job *job);
void stats_items_free(struct stats_items *items);

/* The same one in another reading; NULL: it was not there. */
const struct stats_item *stats_items_find(const struct stats_items *items,
                                          const struct stats_item *like);

/* "allreduce of 4", "channel tokens, 0 to 1", "rank 0 by tcp/eth0". */
enum { STATS_ITEM_NBYTES = 160 };
void stats_item_text(const struct stats_item *item, char text[STATS_ITEM_NBYTES]);

/* As text; nothing, if there is none. As tables of JSON: of each rank and peer. */
void stats_named_show(FILE *out, const struct stats_job *job);
struct table;
enum { STATS_NAMED_TABLES = 3 };
void stats_named_fill(struct table *tables, const struct stats_job *job);

/* ---- showing --------------------------------------------------------------------------------- */

enum { STATS_TEXT_NBYTES = 32 };

/* "12.3 MiB", "1.25 s" or "17": at most seven places. Write to and return `text`. */
const char *stats_bytes_text(double nbytes, char text[STATS_TEXT_NBYTES]);
const char *stats_time_text(double ns, char text[STATS_TEXT_NBYTES]);
const char *stats_count_text(double n, char text[STATS_TEXT_NBYTES]);

/* "shm/memcpy", or "shm". */
const char *stats_path_text(const char *transport, const char *method,
                            char text[STATS_TEXT_NBYTES]);

void stats_show(FILE *out, const struct stats_job *job, bool is_json);

/* ---- --stats, --metrics ---------------------------------------------------------------------- */

/* At the end of a job: write what was asked for. False: after a line on stderr. */
struct launch_job;
bool stats_end(const struct launch_job *job);

/* All, in OpenMetrics 1.0, or in the text format 0.0.4 of Prometheus. */
void metrics_write(FILE *out, const struct stats_job *job, bool is_open);

/*
 * Serve it; before any rank is started. Returns 0, or -1 after a line on stderr. The server has
 * threads of its own, which end with the process.
 */
int metrics_open(const struct launch_job *job);
void metrics_close(void);

/* Split "[ADDR:]PORT". Returns 0, or -1: malformed. */
enum { METRICS_ADDRESS_NBYTES = 64 };
int metrics_parse(const char *text, char address[METRICS_ADDRESS_NBYTES], int *port_p);

/* ---- nixlrun top ----------------------------------------------------------------------------- */

/*
 * Show the job of that nixlrun until it has ended or the user quits; or once. Its ranks, or what
 * has a name, which the user can change. Returns the exit code.
 */
int top_run(pid_t nixlrun, bool is_once, bool shows_items);

/* What a rank does, in a word. */
const char *top_state(const struct stats_rank *rank);

/* Is its process in the job? */
bool stats_is_alive(const struct stats_rank *rank);

#endif
