/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine writes: lines of ranks in our own form, reports of nixlrun-rank, its own lines. */
#ifndef NIXLRUN_LAUNCHER_FOREIGN_OUTPUT_H
#define NIXLRUN_LAUNCHER_FOREIGN_OUTPUT_H

#include "launcher/engine.h"
#include "launcher/rank_report.h"

#include "launcher/loop.h"

#include <stdbool.h>
#include <stdint.h>
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
 * For how long all that the engine writes has been read; 0 while a full sink keeps us from it. What
 * was written before that time may still be unread, reports of ranks too.
 */
int64_t foreign_output_heard_ns(void);

/*
 * For a timer that waits for the engine or its ranks, and is due: have they been heard for
 * `wait_ns`? If not, it is set again.
 */
bool foreign_output_has_waited(struct loop_timer *timer, int64_t wait_ns);

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
