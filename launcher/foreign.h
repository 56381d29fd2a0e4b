/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of an engine of the site, shared by four files: foreign.c runs the engine,
 * foreign_ranks.c tracks the ranks, foreign_end.c ends the job, foreign_verdict.c finds the exit
 * code.
 */
#ifndef NIXLRUN_LAUNCHER_FOREIGN_H
#define NIXLRUN_LAUNCHER_FOREIGN_H

#include "launcher/engine.h"
#include "launcher/rank_report.h"

#include <stdbool.h>
#include <sys/types.h>

/* Names of our processes for the guardian. */
enum foreign_process { FOREIGN_ENGINE, FOREIGN_SIGNALLER };

struct foreign_run {
    const struct engine_task *task;
    const struct launch_job *job;
    const char *name;      /* of the engine's program */
    bool is_running;       /* the engine lives */
    int wait_status;       /* of the engine */
    int exit_code;         /* of the first failure; 0: none so far */
    int end_signal;        /* the signal that ended the job; 0: none */
    bool is_ended_by_rank; /* by nixl_job_end(), */
    int given_code;        /* with this code */
    bool has_begun;        /* the engine is to end */
    bool is_asked;         /* it was asked to end */
    bool is_timed_out, is_abandoned, is_unread;
};
extern struct foreign_run foreign;

/* ---- foreign.c ------------------------------------------------------------------------------- */

/* Start a program as a child of the guardian. Returns 0 or -errno. */
int foreign_start(enum foreign_process id, const char *path, const struct engine_command *command,
                  int fds[3], int end_signal);

/* ---- foreign_ranks.c ------------------------------------------------------------------------- */

void foreign_ranks_open(void);

/* Start watching for ranks that have stopped sending beats. */
void foreign_ranks_watch(void);

/* A report of nixlrun-rank. */
void foreign_ranks_report(int rank, const char *host, pid_t pid, enum rank_report_kind kind,
                          int value);

/*
 * The engine reports that a rank has ended with this code; nixlrun-rank may not have reported it.
 */
void foreign_ranks_gone(int rank, int code);

/* Judge what has been reported, although more may follow. */
void foreign_ranks_settle(void);

/* Print one line per rank: where it is and its state. */
void foreign_ranks_say(void);

/* Print which ranks were started again, and how often. */
void foreign_ranks_say_restarts(void);

/* Slurm's name of the running step, "JOB.STEP", in a static buffer; NULL: not reported yet. */
const char *foreign_ranks_step(void);

/* ---- foreign_end.c --------------------------------------------------------------------------- */

/* The job is over. The engine should end by itself; if it has not after `wait_ns`, ask it. */
void foreign_end_soon(int64_t wait_ns);

/* Have all ranks ended? Then the engine should end by itself, soon after its output was read. */
void foreign_end_after_ranks(void);

/* Nothing is left of the job but the engine: ask it now. */
void foreign_end_at_once(void);

/* A rank has failed: the engine ends the others, or we do if it would continue. */
void foreign_end_failed(void);

/* End the job as the local engine does: send the ranks the signal, and give them time. */
void foreign_end_by_signal(int signal);

/* The same at the request of a rank; nixlrun's exit code is then `code`. */
void foreign_end_by_rank(int code);

/* The engine has ended. */
void foreign_end_done(void);

/* ---- foreign_verdict.c ----------------------------------------------------------------------- */

/* The exit code of nixlrun, when the engine has ended. May print a line. */
int foreign_judge(void);

#endif
