/* SPDX-License-Identifier: Apache-2.0 */
/* nixlrun ps, nixlrun kill and nixlrun --explain=JOB: the jobs of this user on this host. */
#ifndef NIXLRUN_LAUNCHER_JOBS_H
#define NIXLRUN_LAUNCHER_JOBS_H

#include <stdbool.h>

/*
 * Is it a command line of one of them? argv[1] decides; a program of such a name is started as
 * ./ps, or behind an option.
 */
bool jobs_are_meant(int argc, char **argv);

/* Do what the command line says. Returns the exit code; lines are on stdout, failures on stderr. */
int jobs_main(int argc, char **argv);

/*
 * nixlrun --explain=JOB: how the processes of other jobs are reached that are attached to a job, or
 * to a process that was started by other means. Likewise.
 */
int jobs_explain(const char *word, bool is_json);

#endif
