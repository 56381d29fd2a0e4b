/* SPDX-License-Identifier: Apache-2.0 */
/* nixlrun --explain: the part of its ranks. */
#ifndef NIXLRUN_LAUNCHER_EXPLAIN_H
#define NIXLRUN_LAUNCHER_EXPLAIN_H

#include <stdbool.h>

/* A host of the job on which no rank could be started. Call it before explain(); texts are kept. */
void explain_add_lost(char *host, char *why);

/*
 * Run as a rank of a job that finds out how its hosts reach each other; rank 0 prints. Returns the
 * exit code.
 */
int explain(bool is_json);

#endif
