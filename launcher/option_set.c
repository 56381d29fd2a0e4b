/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each option does: its value is checked here, against the host's files and directories if it
 * names one, and stored in the job or in the next program.
 */
#include "config.h"

#include "launcher/parser.h"
#include "launcher/envfile.h"
#include "launcher/hosts.h"
#include "launcher/stats.h"
#include "util/env.h"
#include "util/trace_page.h"
#include "launcher/values.h"
#include "launcher/xalloc.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

const char *option_allowed(const struct option *option, char text[ALLOWED_NBYTES])
{
    size_t used = 0;

    if (option->allowed != NULL) {
        return option->allowed;
    }
    for (const char *word = option->words; *word != '\0';) {
        size_t nbytes = strcspn(word, " ");
        const char *next = word + nbytes + (word[nbytes] == ' ');
        const char *joint = used == 0 ? "" : *next == '\0' ? " or " : ", ";

        used += (size_t)snprintf(text + used, ALLOWED_NBYTES - used, "%s%.*s", joint, (int)nbytes,
                                 word);
        word = next;
    }
    return text;
}

/* A bad value; `cause` is what the system says about it, or NULL. */
static int fail_value(struct parser *parser, const struct option *option, const char *value,
                      const char *cause)
{
    char shown[VALUE_SHOWN_NBYTES], allowed[ALLOWED_NBYTES];

    return parser_fail(parser, "%.*s %s: %s%sallowed: %s", parser->given_nbytes, parser->given,
                       value_show(value, shown), cause != NULL ? cause : "",
                       cause != NULL ? "; " : "", option_allowed(option, allowed));
}

static int set_directory(struct parser *parser, const struct option *option, const char *value)
{
    struct stat status;

    if (stat(value, &status) != 0) {
        return fail_value(parser, option, value, strerror(errno));
    }
    if (!S_ISDIR(status.st_mode)) {
        return fail_value(parser, option, value, strerror(ENOTDIR));
    }
    if (access(value, X_OK) != 0) {
        return fail_value(parser, option, value, strerror(errno));
    }
    parser->app.wdir = value;
    return 0;
}

/* A directory that may not exist yet: nixlrun makes it when the job starts. */
static int set_output_dir(struct parser *parser, const struct option *option, const char *value)
{
    struct stat status;

    if (value[0] == '\0') {
        return fail_value(parser, option, value, NULL);
    }
    if (stat(value, &status) == 0) {
        if (!S_ISDIR(status.st_mode)) {
            return fail_value(parser, option, value, strerror(ENOTDIR));
        }
        if (access(value, W_OK | X_OK) != 0) {
            return fail_value(parser, option, value, strerror(errno));
        }
    } else if (errno != ENOENT) {
        return fail_value(parser, option, value, strerror(errno));
    }
    parser->options->job.output_dir = value;
    return 0;
}

/* Job scripts pass variables that may be unset: print a line, but do not stop. */
static void note_unset(struct parser *parser, const char *name)
{
    struct options *options = parser->options;
    char shown[VALUE_SHOWN_NBYTES];
    char *note;

    if (asprintf(&note, "%.*s %s: not set in the environment, so not passed", parser->given_nbytes,
                 parser->given, value_show(name, shown)) < 0) {
        note = NULL;
    }
    options->notes = x_array(options->notes, options->n_notes + 1, sizeof(*options->notes));
    options->notes[options->n_notes++] = x_checked(note);
}

static int option_set_set_variable(struct parser *parser, const struct option *option,
                                   const char *value)
{
    size_t nbytes = strlen(value);

    if (value[0] == '\0' || value[0] == '=' || value[0] == '-') {
        return fail_value(parser, option, value, NULL);
    }
    if (strchr(value, '=') != NULL) {
        envlist_set(&parser->env, value);
    } else if (value[nbytes - 1] == '*') {
        char *prefix = x_strndup(value, nbytes - 1);

        envlist_pass_prefix(&parser->env, prefix);
        free(prefix);
    } else if (envlist_pass(&parser->env, value) != 0) {
        note_unset(parser, value);
    }
    return 0;
}

static int set_env_file(struct parser *parser, const struct option *option, const char *value)
{
    char cause[ENVFILE_CAUSE_NBYTES];

    if (envfile_read(value, &parser->env, cause) != 0) {
        return fail_value(parser, option, value, cause);
    }
    return 0;
}

static int set_hosts(struct parser *parser, const struct option *option, const char *value)
{
    struct launch_job *job = &parser->options->job;
    char cause[HOSTS_CAUSE_NBYTES];
    int status = option->id == OPTION_HOST ? hosts_parse_list(value, job, cause)
                                           : hosts_read_file(value, job, cause);

    return status == 0 ? 0 : fail_value(parser, option, value, cause);
}

static int set_stdin(struct parser *parser, const struct option *option, const char *value)
{
    struct launch_job *job = &parser->options->job;
    int word = value_word(value, option->words);

    if (word >= 0) {
        job->stdin_mode = word == 0 ? STDIN_ALL : STDIN_NONE;
        return 0;
    }
    if (value_count(value, 0, OPTIONS_MAX_NP - 1, &job->stdin_rank) != 0) {
        return fail_value(parser, option, value, NULL);
    }
    job->stdin_mode = STDIN_RANK;
    return 0;
}

static int set_time(struct parser *parser, const struct option *option, const char *value,
                    int64_t lowest_ns, int64_t *ns_p)
{
    int64_t ns;

    if (value_time(value, &ns) != 0 || ns < lowest_ns) {
        return fail_value(parser, option, value, NULL);
    }
    *ns_p = ns;
    return 0;
}

/* One of the option's fixed words; *index_p counts them from 0. */
static int set_word(struct parser *parser, const struct option *option, const char *value,
                    int *index_p)
{
    *index_p = value_word(value, option->words);
    return *index_p < 0 ? fail_value(parser, option, value, NULL) : 0;
}

static int set_policy(struct parser *parser, const struct option *option, const char *value)
{
    struct launch_job *job = &parser->options->job;
    int word;

    if (set_word(parser, option, value, &word) != 0) {
        return -1;
    }
    if (option->id == OPTION_ENGINE) {
        job->engine = (enum launch_engine)word;
    } else if (option->id == OPTION_BIND_TO) {
        static const enum launch_bind binds[] = {BIND_NONE, BIND_CORE, BIND_NUMA, BIND_SOCKET,
                                                 BIND_SOCKET};

        job->bind = binds[word];
        parser->is_bind_given = true;
    } else {
        static const enum launch_map maps[] = {MAP_SLOT, MAP_CORE, MAP_NUMA, MAP_SOCKET,
                                               MAP_SOCKET};

        job->map = maps[word];
    }
    return 0;
}

/* The N[,DELAY] of restart=N[,DELAY]. Returns 0, or -1: it is malformed. */
static int parse_restarts(const char *text, struct launch_job *job)
{
    char count[16];
    size_t nbytes = strcspn(text, ",");

    if (nbytes >= sizeof(count)) {
        return -1;
    }
    memcpy(count, text, nbytes);
    count[nbytes] = '\0';
    if (value_count(count, 0, LAUNCH_RESTARTS_MAX, &job->most_restarts) != 0) {
        return -1;
    }
    return text[nbytes] == ',' ? value_time(text + nbytes + 1, &job->restart_delay_ns) : 0;
}

static int set_on_failure(struct parser *parser, const struct option *option, const char *value)
{
    static const enum launch_on_failure policies[] = {ON_FAILURE_ABORT, ON_FAILURE_CONTINUE,
                                                      ON_FAILURE_RESTART};
    static const char restart[] = "restart=";
    struct launch_job *job = &parser->options->job;
    int word = value_word(value, option->words);

    job->most_restarts = LAUNCH_RESTARTS_DEFAULT;
    job->restart_delay_ns = 0;
    if (word < 0 && strncmp(value, restart, strlen(restart)) == 0 &&
        parse_restarts(value + strlen(restart), job) == 0) {
        word = value_word("restart", option->words);
    }
    if (word < 0) {
        return fail_value(parser, option, value, NULL);
    }
    job->on_failure = policies[word];
    return 0;
}

/*
 * A file is made at once, so that a job of hours does not end with "permission denied". The reader
 * of a pipe may come later, and would see its end if it was opened now.
 */
static int check_file(struct parser *parser, const struct option *option, const char *value)
{
    struct stat info;
    FILE *file;

    if (value[0] == '\0' || value[0] == '-') {
        return fail_value(parser, option, value, NULL);
    }
    if (stat(value, &info) == 0 && S_ISFIFO(info.st_mode) && access(value, W_OK) == 0) {
        return 0;
    }
    file = fopen(value, "ae");
    if (file == NULL) {
        return fail_value(parser, option, value, strerror(errno));
    }
    fclose(file);
    return 0;
}

static int set_stats(struct parser *parser, const struct option *option, const char *value)
{
    int rc = 0;

    if (value != NULL && (value[0] == '\0' || value_word(value, option->words) < 0)) {
        rc = check_file(parser, option, value);
    }
    parser->options->job.stats = value != NULL ? value : "";
    return rc;
}

/* The file, the kinds or the number of a trace. */
static int set_trace(struct parser *parser, const struct option *option, const char *value)
{
    struct launch_job *job = &parser->options->job;
    char assignment[256], why[512];

    if (option->id == OPTION_TRACE) {
        job->trace = value;
        return check_file(parser, option, value);
    }
    if (option->id == OPTION_TRACE_EVENTS) {
        return value_count(value, NXR_TRACE_LEAST_EVENTS, NXR_TRACE_MOST_EVENTS,
                           &job->trace_events) == 0
                   ? 0
                   : fail_value(parser, option, value, NULL);
    }
    snprintf(assignment, sizeof(assignment), "NIXLRUN_TRACE=%s", value);
    if (value[0] == '\0' || nxr_env_check(assignment, why, sizeof(why)) != NIXL_OK) {
        return fail_value(parser, option, value, NULL);
    }
    job->trace_kinds = value;
    return 0;
}

static int set_metrics(struct parser *parser, const struct option *option, const char *value)
{
    char address[METRICS_ADDRESS_NBYTES];
    int port;

    if (metrics_parse(value, address, &port) != 0) {
        return fail_value(parser, option, value, NULL);
    }
    parser->options->job.metrics = value;
    return 0;
}

/* --explain, or --explain=PID of what runs already. */
static int set_explain(struct parser *parser, const struct option *option, const char *value)
{
    if (value != NULL && (value[0] == '\0' || value[strspn(value, "0123456789")] != '\0')) {
        return fail_value(parser, option, value, NULL);
    }
    parser->options->action = value != NULL ? ACTION_EXPLAIN_JOB : ACTION_EXPLAIN;
    parser->options->explained = value;
    return 0;
}

/* Options that report on a job: statistics, a trace, metrics, how it is reached. */
static int set_report(struct parser *parser, const struct option *option, const char *value)
{
    return option->id == OPTION_STATS     ? set_stats(parser, option, value)
           : option->id == OPTION_METRICS ? set_metrics(parser, option, value)
           : option->id == OPTION_EXPLAIN ? set_explain(parser, option, value)
                                          : set_trace(parser, option, value);
}

/* -np of the next program, or --ppn of the job. */
static int set_count(struct parser *parser, const struct option *option, const char *value)
{
    int *count = option->id == OPTION_NP ? &parser->app.np : &parser->options->job.ppn;

    if (value_count(value, 1, OPTIONS_MAX_NP, count) != 0) {
        return fail_value(parser, option, value, NULL);
    }
    parser->is_np_given = parser->is_np_given || option->id == OPTION_NP;
    return 0;
}

/* What an option without a value does. Each option is handled here or in option_set(). */
static int set_flag(struct parser *parser, const struct option *option)
{
    struct launch_job *job = &parser->options->job;

    switch (option->id) {
    case OPTION_TAG_OUTPUT:
        job->tag_output = true;
        break;
    case OPTION_TIMESTAMP_OUTPUT:
        job->timestamp_output = true;
        break;
    case OPTION_PTY:
        job->pty = PTY_YES;
        break;
    case OPTION_NO_PTY:
        job->pty = PTY_NO;
        break;
    case OPTION_OVERSUBSCRIBE:
        parser->oversubscribe = OVERSUBSCRIBE_YES;
        break;
    case OPTION_NO_OVERSUBSCRIBE:
        parser->oversubscribe = OVERSUBSCRIBE_NO;
        break;
    case OPTION_REPORT_BINDINGS:
        job->report_bindings = true;
        break;
    case OPTION_ELASTIC:
        job->is_elastic = true;
        break;
    case OPTION_NO_MPI_HINTS:
        job->mpi_hints = false;
        break;
    case OPTION_DRY_RUN:
        job->dry_run = true;
        break;
    case OPTION_VERBOSE:
        job->verbose++;
        break;
    case OPTION_VERSION:
        parser->options->action = ACTION_VERSION;
        break;
    case OPTION_INFO:
        parser->options->action = ACTION_INFO;
        break;
    case OPTION_JSON:
        parser->options->is_json = true;
        break;
    case OPTION_ENV:
        parser->options->action = ACTION_ENV;
        break;
    default:
        return parser_fail(parser, "--%.*s is in the table of options, but does nothing",
                           (int)strcspn(option->names, " "), option->names);
    }
    return 0;
}

int option_set(struct parser *parser, const struct option *option, const char *value)
{
    if (option->id >= OPTION_STATS && option->id <= OPTION_EXPLAIN) {
        return set_report(parser, option, value);
    }
    switch (option->id) {
    case OPTION_NP:
    case OPTION_PPN:
        return set_count(parser, option, value);
    case OPTION_HOST:
    case OPTION_HOSTFILE:
        return set_hosts(parser, option, value);
    case OPTION_WDIR:
        return set_directory(parser, option, value);
    case OPTION_EXPORT:
        return option_set_set_variable(parser, option, value);
    case OPTION_ENV_FILE:
        return set_env_file(parser, option, value);
    case OPTION_OUTPUT_DIR:
        return set_output_dir(parser, option, value);
    case OPTION_STDIN:
        return set_stdin(parser, option, value);
    case OPTION_TIMEOUT:
        return set_time(parser, option, value, 1, &parser->options->job.timeout_ns);
    case OPTION_KILL_GRACE:
        return set_time(parser, option, value, 0, &parser->options->job.grace_ns);
    case OPTION_ON_FAILURE:
        return set_on_failure(parser, option, value);
    case OPTION_ENGINE:
    case OPTION_BIND_TO:
    case OPTION_MAP_BY:
        return set_policy(parser, option, value);
    case OPTION_TOPOLOGY:
        parser->options->topology = value;
        return 0;
    case OPTION_HELP:
        parser->options->action = ACTION_HELP;
        parser->options->help_topic = value;
        return 0;
    default:
        return set_flag(parser, option);
    }
}
