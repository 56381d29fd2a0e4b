/* SPDX-License-Identifier: Apache-2.0 */
/* What the user sees before the start: --dry-run and --report-bindings. */
#ifndef NIXLRUN_LAUNCHER_REPORT_H
#define NIXLRUN_LAUNCHER_REPORT_H

#include "launcher/job.h"

#include <stdio.h>

/* Print what would be started: the programs, then a line for each rank. */
void report_dry_run(FILE *out, const struct launch_job *job, const struct launch_place *places,
                    const char *host);

/* Print a command in shell syntax, with the variables of `env` (NULL or a vector) before it. */
void report_command(FILE *out, char *const *env, char *const *words);

/* Print where each rank runs, a line for each. */
void report_bindings(FILE *out, const struct launch_job *job, const struct launch_place *places,
                     const char *host);

#endif
