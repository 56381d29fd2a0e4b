/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom in a job: what the observation pages of its ranks say (util/observe.h), read
 * without their help, with the states of their processes. A snapshot is not of one moment: each
 * rank is read by itself.
 *
 *   waits_read.c   reads the pages (pages.h)
 *   waits_graph.c  finds circles of waits, and what each wait comes down to
 *   waits_show.c   prints
 *   waits_tell.c   tells of nixlrun's own job
 */
#ifndef NIXLRUN_LAUNCHER_WAITS_H
#define NIXLRUN_LAUNCHER_WAITS_H

#include "util/observe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum waits_state {
    WAITS_ABSENT,  /* its process has not called nixl_init() */
    WAITS_RUNS,    /* uses a processor */
    WAITS_SLEEPS,  /* or waits for the disk */
    WAITS_STOPPED, /* by a signal, or by a debugger */
    WAITS_LEFT,    /* has called nixl_finalize() */
    WAITS_DEAD,    /* its process has ended without that */
    WAITS_UNKNOWN, /* on another host, from which nothing was heard */
};

/* A process of another job that is attached to a rank. */
struct waits_attached {
    int number; /* by which the rank's calls name it */
    int rank;   /* in its job */
    uint64_t job;
    char host[72];
};

struct waits_rank {
    struct nxr_wait_notes notes;     /* n 0 unless they are of these waits */
    struct nxr_wait_flights flights; /* likewise */
    uint64_t job;
    int64_t began_ns; /* of its page */
    int rank, size;
    uint32_t incarnation;
    pid_t pid; /* 0: unknown */
    enum waits_state state;
    uint32_t life;                   /* enum nxr_observe_life */
    bool is_told;                    /* by its nixlrun-rank */
    bool is_kept;                    /* from a descriptor of nixlrun, not of the process itself */
    char host[72];                   /* "": this one */
    struct nxr_wait_record *threads; /* those that wait, checked; by time */
    int n_threads;
    uint32_t n_unrecorded;
    struct waits_attached *attached;
    int n_attached;
};

/* All that is known of a rank whose nixlrun-rank has told of no wait. */
#define WAITS_TOLD_TEXT "is in no wait of a second or more"

/* By job, then by rank. */
struct waits {
    struct waits_rank *ranks;
    int n;
    int64_t now_ns; /* when it was read, CLOCK_MONOTONIC */
};

/* ---- waits_read.c ---------------------------------------------------------------------------- */

/* Of the job of the nixlrun with that pid, which may be this process. */
struct waits waits_read(pid_t nixlrun);

/* The same by what was just read of all processes. */
struct processes;
struct waits waits_of(pid_t nixlrun, const struct processes *processes);
void waits_free(struct waits *waits);

/* Add what a page says of a rank. `state`: of its process. */
void waits_add(struct waits *waits, const struct nxr_observe_page *page, pid_t pid,
               enum waits_state state);

/* The letter of a process that has not called nixl_init(), in place of one of /proc. */
#define WAITS_LETTER_ABSENT 'A'

/* Of a process in that state, a letter as in /proc. */
enum waits_state waits_state_of(char letter);

/* Sort, and keep the last process of each rank. */
void waits_sort(struct waits *waits);

/* The index of a rank; -1: unknown. After waits_sort(). */
int waits_find(const struct waits *waits, uint64_t job, int rank);

/* ---- waits_graph.c --------------------------------------------------------------------------- */

/* Takes one sentence, without an end of line. */
typedef void waits_say_fn(const char *line);

/* Name each circle of waits, and what the other waits come down to. Returns how many sentences. */
int waits_explain(const struct waits *waits, waits_say_fn *say);

/* ---- waits_show.c ---------------------------------------------------------------------------- */

/* One line for each rank and thread, then the sentences. */
void waits_show(const struct waits *waits, waits_say_fn *say);

/* ---- waits_tell.c ---------------------------------------------------------------------------- */

/* Show the waits of this nixlrun's job on stderr; unless the user has asked only if there are. */
void waits_tell(bool is_asked);

#endif
