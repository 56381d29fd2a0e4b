/* SPDX-License-Identifier: Apache-2.0 */
/* The format and destination of a rank's lines, whichever engine started the rank. */
#ifndef NIXLRUN_LAUNCHER_LINE_H
#define NIXLRUN_LAUNCHER_LINE_H

#include "launcher/job.h"

#include <stddef.h>

enum { LINE_PREFIX_NBYTES = 96 };

/* Do lines get a prefix? */
bool line_is_decorated(const struct launch_job *job);

/* Is the standard output of a rank a pseudo-terminal? */
bool line_has_pty(const struct launch_job *job);

/*
 * Write the prefix of a rank's line, "2026-11-20T11:22:34.123456 [3] ", or those of its parts that
 * the job wants. `space` is 0 for the job of the command line. Returns the bytes written.
 */
size_t line_prefix(const struct launch_job *job, int space, int rank,
                   char prefix[LINE_PREFIX_NBYTES]);

/*
 * Make DIR/rank.N.out or .err (`which` 1); DIR/job2.rank.N.out for ranks of a spawned job. Returns
 * a descriptor, or -1 after a line on stderr.
 */
int line_open_file(const struct launch_job *job, int space, int rank, int which, bool is_again);

#endif
