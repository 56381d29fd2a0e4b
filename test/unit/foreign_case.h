/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of an engine of the site in one process, without the engine: the test writes what the
 * engine would write, makes the reports, ends the engine, and sets the time. What nixlrun writes
 * goes into memory, and the signals that it sends are noted instead.
 */
#ifndef NXR_TEST_FOREIGN_CASE_H
#define NXR_TEST_FOREIGN_CASE_H

#include "launcher/ending.h"
#include "launcher/foreign.h"
#include "launcher/foreign_output.h"
#include "launcher/foreign_ranks.h"
#include "launcher/job.h"
#include "launcher/sink.h"

#include "test/unit/unit.h"

/* Change it, or foreign.task->engine's copy, before case_open(). */
extern struct launch_job case_job;
extern struct engine case_engine;

/* A job of np ranks, one on each of the hosts h0, h1, ... */
void case_prepare(const struct engine *engine, int np);
void case_open(void);

/* Both, and all ranks have started; in the second, the others continue after a failure. */
void case_run(const struct engine *engine, int np);
void case_continue(const struct engine *engine, int np);

/* Let so much time pass, and serve what is due and what has been written. */
void case_pass(int64_t ns);

/* What nixlrun has written so far: 0 to stdout, 1 to stderr. Valid until the next call. */
const char *case_text(int which);

/* The signals that the engine was sent, "15 18 ", or the words of the program that sends them. */
const char *case_signals(void);

/* Reports of the nixlrun-rank of a rank. */
void case_report(int rank, enum rank_report_kind kind, int value);
void case_start(int rank);
void case_end(int rank, int wait_status);
#define CASE_CODE(_code) W_EXITCODE(_code, 0)

/*
 * The engine writes this to its stdout or stderr; case_leave(): nothing reads it yet;
 * case_leaves_all(): nor may all be taken, and any thread may call it.
 */
void case_write(int which, const char *text);
void case_leave(int which, const char *text);
bool case_leaves_all(int which, const char *text);
void case_close(int which);

/* The engine has ended: the exit code of nixlrun. */
int case_judge(int wait_status);

/* It ends so: nixlrun does with this code, having written these lines to stderr. */
void case_ends(int wait_status, int code, const char *lines);

#endif
