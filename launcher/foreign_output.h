/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine writes: lines of ranks in our own form, reports of nixlrun-rank, its own lines. */
#ifndef NIXLRUN_LAUNCHER_FOREIGN_OUTPUT_H
#define NIXLRUN_LAUNCHER_FOREIGN_OUTPUT_H

#include "launcher/engine.h"
#include "launcher/rank_report.h"

#include <stdbool.h>
#include <sys/types.h>

/* A report of nixlrun-rank about a rank. `host` is valid during the call. */
typedef void foreign_report_fn(int rank, const char *host, pid_t pid, enum rank_report_kind kind,
                               int value);

/*
 * Make the pipes for the engine's stdout and stderr. The caller closes `fds` when the engine has
 * them. Returns 0, or -1 after a line on stderr.
 */
int foreign_output_open(const struct engine_task *task, foreign_report_fn *report_fn, int fds[2]);

/* Resume reading where a full sink had stopped us. Call it in each round of the loop. */
void foreign_output_continue(void);

/*
 * Has a full sink kept us from reading at any time since the last call? Then the pipes
 * may still hold reports of ranks.
 */
bool foreign_output_was_stopped(void);

/* Stop waiting: read what is in the pipes and close them. */
void foreign_output_finish(void);

bool foreign_output_is_open(void);

/* Is the reader of our stdout gone? */
bool foreign_output_is_unread(void);

/*
 * The engine's own lines are held for a moment. When nixlrun reports a rank's failure, what the
 * engine says about it is dropped, now and later.
 */
void foreign_output_silence_engine(void);

#endif
