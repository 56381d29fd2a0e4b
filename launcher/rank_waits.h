/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long waits of a rank, told by the nixlrun-rank before it to nixlrun, which cannot read the page
 * of a rank on another host. A report of kind RANK_REPORT_WAITS has one part of a snapshot; its
 * value is the number of the part, and behind it stand the part's bytes as hexadecimal digits:
 *
 *   0        struct rank_waits_head; a snapshot begins, and what was known before is void
 *   1 to n   a struct nxr_wait_record each, up to its members of the first 256 ranks
 *   n+1, n+2 the notes and the flights, with the first RANK_WAITS_LISTED entries
 *
 * Times are durations until then. Sent when a wait lasts RANK_WAITS_LONG_NS, ends after that, or
 * the process is stopped or continues, and once of a program that has not called nixl_init().
 */
#ifndef NIXLRUN_LAUNCHER_RANK_WAITS_H
#define NIXLRUN_LAUNCHER_RANK_WAITS_H

#include "util/clock.h"
#include "util/observe.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RANK_WAITS_TICK_NS (1 * NXR_S)
#define RANK_WAITS_LONG_NS (1 * NXR_S)
#define RANK_WAITS_THREADS 8 /* the threads that have waited longest */
#define RANK_WAITS_LISTED  8

struct rank_waits_head {
    uint64_t job;
    int32_t rank, size, pid;
    uint32_t incarnation, life, n_threads;
    uint32_t state; /* letter of the process, as in /proc, or WAITS_LETTER_ABSENT */
    uint32_t unused;
    int64_t began_ns; /* of the page: with the pid it tells pages of one incarnation apart */
};

/* What of a record, of notes and of flights is sent. */
#define RANK_WAITS_RECORD_NBYTES (offsetof(struct nxr_wait_record, members) + 32)
#define RANK_WAITS_NOTES_NBYTES                                                                    \
    (offsetof(struct nxr_wait_notes, listed) +                                                     \
     RANK_WAITS_LISTED * sizeof(((struct nxr_wait_notes *)NULL)->listed[0]))
#define RANK_WAITS_FLIGHTS_NBYTES                                                                  \
    (offsetof(struct nxr_wait_flights, listed) +                                                   \
     RANK_WAITS_LISTED * sizeof(((struct nxr_wait_flights *)NULL)->listed[0]))
#define RANK_WAITS_PART_MOST 256

/* ---- nixlrun-rank (rank_waits.c) ------------------------------------------------------------- */

/* Sends one part. */
typedef void rank_waits_send_fn(pid_t pid, int part, const void *bytes, size_t nbytes);

/* Look at the page of the program with that pid, and send what is new. Once per tick. */
void rank_waits_look(pid_t pid, rank_waits_send_fn *send);

/* The page of the process, from itself: the descriptor is ours from now on. */
void rank_waits_keep(int fd);

/* Is it the page that is looked at already? Otherwise another process has joined, or it again. */
bool rank_waits_is_kept(int fd);

/* Its descriptor; 0: it is not known, or nixlrun has not heard of it. */
int rank_waits_page(void);

/* The process has ended: send what it waited for, and that it has left if so. */
void rank_waits_end(rank_waits_send_fn *send);

/* ---- nixlrun (foreign_waits.c) --------------------------------------------------------------- */

/* A part has arrived. What no nixlrun-rank sends is dropped. */
void foreign_waits_take(int rank, const char *host, int part, const char *digits);

/* The rank has ended. */
void foreign_waits_ended(int rank);

#endif
