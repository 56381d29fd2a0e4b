/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun --trace: when what happened in a job. The traces of its ranks (util/trace_page.h) are
 * read from the pages that nixlrun keeps of them (pages.h), so those of ranks that were killed are
 * there as well, and written as one file for Perfetto.
 *
 *   trace_read.c    the ranks, and their events in nanoseconds
 *   trace_clock.c   how much the clocks of the hosts differ
 *   trace_tracks.c  the tracks of a rank: its threads, its operations
 *   trace_end.c     the option, and the line that says what was written
 *   perfetto.c      the format
 */
#ifndef NIXLRUN_LAUNCHER_TRACE_H
#define NIXLRUN_LAUNCHER_TRACE_H

#include "launcher/perfetto.h"
#include "util/observe.h"
#include "util/trace_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One process of a rank. */
struct trace_rank {
    struct nxr_observe_page page; /* mapped until trace_free() */
    const struct nxr_trace_head *trace;
    uint64_t job; /* of the library: another one for ranks that a rank has spawned */
    int rank, size;
    uint32_t incarnation;
    int32_t pid;
    int64_t began_ns; /* of the page: CLOCK_MONOTONIC of its host */
    unsigned turn;    /* how often this incarnation was in the job before, and had left it */
    bool has_left;    /* by nixl_finalize() */
    char host_name[72];
    int host; /* its number */
    struct nxr_tick_pair *pairs;
    size_t n_pairs;
};

/* A host: ranks of the same name have the same clock. */
struct trace_host {
    const char *name;
    int64_t offset_ns;    /* to be added to its times, so that they are those of the first host */
    int64_t precision_ns; /* ... to within that; -1: nothing is known */
};

/* Events with `begin` and `end` in nanoseconds, by the clock of the first host. */
struct trace_events {
    struct nxr_trace_event *all;
    size_t n;
    uint64_t n_lost;    /* overwritten */
    uint64_t n_without; /* of threads that found no ring */
};

struct trace_job {
    struct trace_rank *ranks; /* by job, rank and incarnation */
    size_t n;
    struct trace_host *hosts;
    int n_hosts;
    int64_t end_ns; /* of the last event, or of the reading */
    int n_unread;   /* pages of processes for which nixlrun has no address space */
};

/* What was written. */
struct trace_sums {
    uint64_t n_events, n_lost, n_without;
};

/* ---- trace_read.c ---------------------------------------------------------------------------- */

/* Of the job of this nixlrun, with the offsets of its hosts. */
struct trace_job trace_read(void);
void trace_free(struct trace_job *job);

/* The events of a rank, ring by ring. Free `all`. */
struct trace_events trace_events_of(const struct trace_job *job, const struct trace_rank *rank);

/* A moment of the rank in nanoseconds of the first host's clock. */
int64_t trace_ns(const struct trace_job *job, const struct trace_rank *rank, uint64_t ticks);

/* The text of a name, "other" if there is none. */
const char *trace_name(const struct trace_rank *rank, uint16_t name);

/*
 * The number of the arrow of what is sent or taken; 0: there is none. The same at both ends, and of
 * no other arrow.
 */
uint64_t trace_flow_of(const struct trace_rank *rank, const struct nxr_trace_event *event);

/* ---- trace_clock.c --------------------------------------------------------------------------- */

/* Find the offsets of the hosts from what was sent and taken, and from meetings of all ranks. */
void trace_align(struct trace_job *job);

/* ---- trace_tracks.c -------------------------------------------------------------------------- */

/* Write the tracks of a rank. */
void trace_write_rank(struct perfetto *out, const struct trace_job *job,
                      const struct trace_rank *rank, struct trace_sums *sums);

/* ---- trace_end.c ----------------------------------------------------------------------------- */

struct launch_job;

/* Ask the ranks to record, before any is started. */
void trace_ask(const struct launch_job *job);

/* At the end of a job: write what was asked for. False: after a line on stderr. */
bool trace_end(const struct launch_job *job);

/* Both --stats and --trace, also if one of them fails. False: one did, and has said so. */
bool trace_and_stats_end(const struct launch_job *job);

#endif
