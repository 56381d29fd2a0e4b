/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of nixlrun, parsed and checked. */
#ifndef NIXLRUN_LAUNCHER_OPTIONS_H
#define NIXLRUN_LAUNCHER_OPTIONS_H

#include "launcher/job.h"

#include <stddef.h>

/* ACTION_EXPLAIN runs a job, too: its program is our own. */
enum options_action {
    ACTION_RUN,
    ACTION_EXPLAIN,
    ACTION_EXPLAIN_JOB,
    ACTION_INFO,
    ACTION_HELP,
    ACTION_VERSION,
    ACTION_ENV,
};

struct options {
    enum options_action action;
    const char *help_topic; /* for ACTION_HELP; NULL: the short help */
    const char *topology;   /* file of a recorded machine, only with job.dry_run; or NULL */
    const char *explained;  /* for ACTION_EXPLAIN_JOB: a pid, not checked yet */
    bool is_json;           /* for ACTION_EXPLAIN, ACTION_EXPLAIN_JOB and ACTION_INFO */
    struct launch_job job;  /* complete only for ACTION_RUN and ACTION_EXPLAIN */
    char **notes;           /* lines that the user should see before the job starts */
    size_t n_notes;
};

enum { OPTIONS_MAX_NP = 65536 };

/*
 * Parse a command line. Reads the files that it names, but writes and prints nothing. Texts in
 * *options point into argv, which must live as long. Returns 0, or -1 and one line in `why` that
 * names the option, its value and what is allowed. In both cases options_free() is needed.
 */
int options_parse(int argc, char **argv, struct options *options, char *why, size_t why_nbytes);

void options_free(struct options *options);

#endif
