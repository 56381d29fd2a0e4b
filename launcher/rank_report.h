/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of nixlrun-rank to nixlrun, sent through the engine beside the rank's output and in the
 * same kind of frames (frame.h). A report is a frame of its own on the rank's standard error or,
 * where rank_report_is_of_stdout() says so, on its standard output; a rank's output cannot be
 * mistaken for one. An engine may deliver the two streams in any order.
 */
#ifndef NIXLRUN_LAUNCHER_RANK_REPORT_H
#define NIXLRUN_LAUNCHER_RANK_REPORT_H

#include <stdbool.h>

/* Rank, host, pid, one of the kinds below, and a number. */
#define RANK_REPORT_FORMAT "%d %255s %d %c %d"
#define RANK_REPORT_TAIL                                                                           \
    "%n %n" /* behind it, of those that have more: where the number ends,
                                      and where the rest begins */

/*
 * This signal, which programs ignore by default, asks nixlrun-rank to end its program by
 * SIGTERM. An engine forwards it without handling it itself.
 */
#define RANK_END_SIGNAL SIGURG

/* First word of nixlrun-rank: report periodically that the rank is alive. */
#define RANK_BEAT_WORD "--beat"
#define RANK_BEAT_S    5

/* Another: end with 0 whatever the program does, for an engine that miscounts failures. */
#define RANK_CALM_WORD "--calm"

/* Another, "--pty=COLUMNSxLINES": the standard output of the program is such a terminal. */
#define RANK_PTY_WORD "--pty"

/*
 * Another, "--wdir=DIR": the program starts there. It is not left to the engine: if a host has no
 * DIR, one engine ignores that, and each of the others ends the job in a way of its own.
 */
#define RANK_WDIR_WORD "--wdir"

/*
 * Another, "--restart=N,DELAY": start a program that fails again, N times at most, DELAY ns later.
 */
#define RANK_RESTART_WORD "--restart"

/*
 * Two more: "--world=WORD" (world.h), and "--keep=NAMES": the variables of world.h that the user
 * has set, separated by commas.
 */
#define RANK_WORLD_WORD "--world"
#define RANK_KEEP_WORD  "--keep"

enum rank_report_kind {
    RANK_REPORT_STARTED = 's',   /* 0 */
    RANK_REPORT_NOT_EXEC = 'x',  /* an errno, or an enum program_missing */
    RANK_REPORT_NOT_CHDIR = 'd', /* an errno */
    RANK_REPORT_ENDED = 'e',     /* a wait status */
    RANK_REPORT_NOT_LEFT = 'f',  /* the same of a rank that has not called nixl_finalize(): 0 */
    RANK_REPORT_AGAIN = 'r',     /* a wait status: it has failed, and is started again */
    RANK_REPORT_AGAIN_NOT_LEFT = 'g', /* the same, like RANK_REPORT_NOT_LEFT */
    RANK_REPORT_ENDS_JOB = 'z',       /* the rank ends the whole job with this code */
    RANK_REPORT_OUT_ENDED = 'o',      /* it was the last line of standard output; 0 */
    RANK_REPORT_ALIVE = 'a',          /* every RANK_BEAT_S, after the word RANK_BEAT_WORD; 0 */
    RANK_REPORT_WAITS = 'w',          /* a part of what it waits for: rank_waits.h */
    RANK_REPORT_JOB = 'j',            /* Slurm's number of the job */
    RANK_REPORT_STEP = 'p',           /* and of the step in it */
    RANK_REPORT_PAGE = 'c',           /* a part of its page: rank_pages.h */
    RANK_REPORT_LEFT = 'l',           /* a process that cannot be killed; its user */
};

/*
 * Reports that arrive in order with the rank's output: its end, and what nixlrun needs to signal
 * the ranks, so that a job can be signalled once its first output was seen.
 */
static inline bool rank_report_is_of_stdout(enum rank_report_kind kind)
{
    return kind == RANK_REPORT_OUT_ENDED || kind == RANK_REPORT_JOB || kind == RANK_REPORT_STEP;
}

/* The last reports of standard output and of standard error. */
static inline bool rank_report_is_last(enum rank_report_kind kind)
{
    return kind == RANK_REPORT_OUT_ENDED || kind == RANK_REPORT_ENDED ||
           kind == RANK_REPORT_NOT_LEFT;
}

#endif
