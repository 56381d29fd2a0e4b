/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of nixlrun: one table. It drives the parser, --help, the bash completion and the
 * check of the manual page, so an option that is not here does not exist.
 */
#ifndef NIXLRUN_LAUNCHER_OPTION_TABLE_H
#define NIXLRUN_LAUNCHER_OPTION_TABLE_H

#include <stddef.h>

enum option_id {
    OPTION_NP,
    OPTION_HOST,
    OPTION_HOSTFILE,
    OPTION_PPN,
    OPTION_ENGINE,
    OPTION_WDIR,
    OPTION_EXPORT,
    OPTION_ENV_FILE,
    OPTION_TAG_OUTPUT,
    OPTION_TIMESTAMP_OUTPUT,
    OPTION_OUTPUT_DIR,
    OPTION_PTY,
    OPTION_NO_PTY,
    OPTION_STDIN,
    OPTION_TIMEOUT,
    OPTION_ON_FAILURE,
    OPTION_KILL_GRACE,
    OPTION_BIND_TO,
    OPTION_MAP_BY,
    OPTION_OVERSUBSCRIBE,
    OPTION_NO_OVERSUBSCRIBE,
    OPTION_REPORT_BINDINGS,
    OPTION_ELASTIC,
    OPTION_NO_MPI_HINTS,
    OPTION_DRY_RUN,
    OPTION_TOPOLOGY,
    OPTION_STATS, /* to OPTION_EXPLAIN: reports on a job */
    OPTION_METRICS,
    OPTION_TRACE,
    OPTION_TRACE_KINDS,
    OPTION_TRACE_EVENTS,
    OPTION_EXPLAIN,
    OPTION_INFO,
    OPTION_JSON,
    OPTION_ENV,
    OPTION_VERBOSE,
    OPTION_VERSION,
    OPTION_HELP,
};

/* What an option applies to: the whole job, or the program that follows on the command line. */
enum option_scope { SCOPE_JOB, SCOPE_PROGRAM };

/*
 * Does it take a value? An optional value is the next word, if that is no option; an attached one
 * stands behind "=", or there is none.
 */
enum option_value { VALUE_NONE, VALUE_NEEDED, VALUE_OPTIONAL, VALUE_ATTACHED };

struct option {
    enum option_id id;
    enum option_scope scope;
    enum option_value value;
    const char *names;    /* separated by a blank; names of one letter are written with one dash */
    const char *arg;      /* what help calls the value; NULL with VALUE_NONE */
    const char *words;    /* the fixed words that the value may be, or NULL */
    const char *complete; /* what else bash completes: "file", "dir", "variable"; or NULL */
    const char *allowed;  /* the value, for error lines; NULL: the words say it */
    const char *topic;    /* the help topic that explains it; "job" and "information" have none */
    const char *brief;    /* line of the short help; NULL: not there */
    const char *help;
};

extern const struct option option_table[];
extern const size_t option_count;

/* The dashes before a name in messages: "-" or "--". The parser accepts both. */
const char *option_dashes(const char *name, size_t name_nbytes);

/* An option that people know from other launchers, and what to do here instead. */
struct foreign_option {
    const char *names;
    const char *advice;
};

extern const struct foreign_option foreign_table[];
extern const size_t foreign_count;

#endif
