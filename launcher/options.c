/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of the command line. It goes from left to right: options up to a program's name, then
 * the program's own words up to a lone ':', then the next program. Options of the whole job stand
 * before the first program. The parser stops at the first mistake and describes it in one line.
 */
#include "launcher/options.h"
#include "launcher/envfile.h"
#include "launcher/envlist.h"
#include "launcher/option_table.h"
#include "launcher/values.h"
#include "launcher/xalloc.h"
#include "nixlrun.h"
#include "util/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_GRACE_NS (2 * NXR_S)

struct parser {
    struct options *options;
    char **word; /* the next one */
    char **end;  /* behind the last one */
    char *why;
    size_t why_nbytes;
    const char *given; /* the option as the user wrote it, without =VALUE */
    int given_nbytes;
    struct envlist env;    /* of the program that comes next */
    struct launch_app app; /* the same program */
    bool is_bind_given;
    enum { OVERSUBSCRIBE_DEFAULT, OVERSUBSCRIBE_YES, OVERSUBSCRIBE_NO } oversubscribe;
};

static int fail(struct parser *parser, const char *format, ...) NIXL_PRINTF(2, 3);

static int fail(struct parser *parser, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(parser->why, parser->why_nbytes, format, args);
    va_end(args);
    return -1;
}

/* What an option allows, in words. */
static const char *allowed_text(const struct option *option, char *text, size_t text_nbytes)
{
    size_t used = 0;

    if (option->allowed != NULL) {
        return option->allowed;
    }
    for (const char *word = option->words; *word != '\0';) {
        size_t nbytes = strcspn(word, " ");
        const char *next = word + nbytes + (word[nbytes] == ' ');
        const char *joint = used == 0 ? "" : *next == '\0' ? " or " : ", ";

        used +=
            (size_t)snprintf(text + used, text_nbytes - used, "%s%.*s", joint, (int)nbytes, word);
        word = next;
    }
    return text;
}

/* A bad value; `cause` is what the system says about it, or NULL. */
static int fail_value(struct parser *parser, const struct option *option, const char *value,
                      const char *cause)
{
    char shown[VALUE_SHOWN_NBYTES], allowed[128];

    return fail(parser, "%.*s %s: %s%sallowed is %s", parser->given_nbytes, parser->given,
                value_show(value, shown), cause != NULL ? cause : "", cause != NULL ? "; " : "",
                allowed_text(option, allowed, sizeof(allowed)));
}

/* ---- one option ------------------------------------------------------------------------------ */

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

static int set_variable(struct parser *parser, const struct option *option, const char *value)
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
        char shown[VALUE_SHOWN_NBYTES];

        fprintf(stderr, "nixlrun: %.*s %s: not set in the environment, so not passed\n",
                parser->given_nbytes, parser->given, value_show(value, shown));
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
    if (option->id == OPTION_ON_FAILURE) {
        job->on_failure = word == 0 ? ON_FAILURE_ABORT : ON_FAILURE_CONTINUE;
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

static int set_np(struct parser *parser, const struct option *option, const char *value)
{
    if (value_count(value, 1, OPTIONS_MAX_NP, &parser->app.np) != 0) {
        return fail_value(parser, option, value, NULL);
    }
    return 0;
}

static void set_flag(struct parser *parser, enum option_id id)
{
    struct launch_job *job = &parser->options->job;

    switch (id) {
    case OPTION_TAG_OUTPUT:
        job->tag_output = true;
        break;
    case OPTION_TIMESTAMP_OUTPUT:
        job->timestamp_output = true;
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
    case OPTION_ENV:
        parser->options->action = ACTION_ENV;
        break;
    default:
        break;
    }
}

static int set_option(struct parser *parser, const struct option *option, const char *value)
{
    switch (option->id) {
    case OPTION_NP:
        return set_np(parser, option, value);
    case OPTION_WDIR:
        return set_directory(parser, option, value);
    case OPTION_EXPORT:
        return set_variable(parser, option, value);
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
        set_flag(parser, option->id);
        return 0;
    }
}

/* ---- finding options ------------------------------------------------------------------------- */

/* The option with this name of `nbytes` bytes, or NULL. */
static const struct option *find_option(const char *name, size_t nbytes)
{
    char wanted[64];

    if (nbytes == 0 || nbytes >= sizeof(wanted)) {
        return NULL;
    }
    memcpy(wanted, name, nbytes);
    wanted[nbytes] = '\0';
    for (size_t i = 0; i < option_count; i++) {
        if (value_word(wanted, option_table[i].names) >= 0) {
            return &option_table[i];
        }
    }
    return NULL;
}

static int fail_unknown(struct parser *parser, const char *name)
{
    char shown[VALUE_SHOWN_NBYTES], given[64], nearest[VALUE_WORD_NBYTES] = "";
    unsigned near;

    snprintf(given, sizeof(given), "%.*s", (int)strcspn(name, "="), name);
    value_show(*parser->word, shown);
    for (size_t i = 0; i < foreign_count; i++) {
        if (value_word(given, foreign_table[i].names) >= 0) {
            return fail(parser, "option %s is not one of nixlrun: %s", shown,
                        foreign_table[i].advice);
        }
    }
    near = value_near(given);
    for (size_t i = 0; i < option_count; i++) {
        near = value_nearest(given, option_table[i].names, near, nearest);
    }
    if (nearest[0] != '\0') {
        return fail(parser, "option %s is unknown; did you mean %s%s?", shown,
                    option_dashes(nearest, strlen(nearest)), nearest);
    }
    return fail(parser, "option %s is unknown; 'nixlrun --help options' lists all", shown);
}

/*
 * Short options in one word: -n4, -xNAME, -vv. The value of the first must not begin with a small
 * letter, so that a misspelt long option is not taken for one. Returns the option of the first
 * letter and where its value starts (NULL: the word is a row of flags), or NULL.
 */
static const struct option *find_short(const char *letters, const char **value_p)
{
    const struct option *option = find_option(letters, 1);

    *value_p = NULL;
    if (option == NULL) {
        return NULL;
    }
    if (option->value == VALUE_NEEDED) {
        *value_p = letters + 1;
        return letters[1] < 'a' || letters[1] > 'z' ? option : NULL;
    }
    for (const char *letter = letters; *letter != '\0'; letter++) {
        const struct option *flag = find_option(letter, 1);

        if (flag == NULL || flag->value != VALUE_NONE) {
            return NULL;
        }
    }
    return option;
}

/* Set an option, unless it is one of the whole job and stands behind the first program. */
static int apply(struct parser *parser, const struct option *option, const char *value)
{
    if (option->scope == SCOPE_JOB && parser->options->job.n_apps > 0) {
        return fail(parser,
                    "%.*s stands behind ':', but it is for the whole job: write it before the "
                    "first program",
                    parser->given_nbytes, parser->given);
    }
    return set_option(parser, option, value);
}

/* Apply the option at parser->word and go on behind it and its value. */
static int parse_option(struct parser *parser)
{
    const char *word = *parser->word;
    const char *name = word + (word[1] == '-' ? 2 : 1);
    size_t name_nbytes = strcspn(name, "=");
    const struct option *option = find_option(name, name_nbytes);
    const char *value = name[name_nbytes] == '=' ? name + name_nbytes + 1 : NULL;

    parser->given = word;
    parser->given_nbytes = (int)(name + name_nbytes - word);
    if (option == NULL && word[1] != '-') {
        option = find_short(name, &value);
        parser->given_nbytes = 2;
        if (option != NULL && value == NULL) {
            for (; name[1] != '\0'; name++) {
                if (apply(parser, find_option(name, 1), NULL) != 0) {
                    return -1;
                }
            }
            option = find_option(name, 1);
        }
    }
    if (option == NULL) {
        return fail_unknown(parser, name);
    }
    parser->word++;
    if (option->value == VALUE_NONE && value != NULL) {
        char shown[VALUE_SHOWN_NBYTES];

        return fail(parser, "%.*s takes no value, but is given %s", parser->given_nbytes,
                    parser->given, value_show(value, shown));
    }
    if (option->value == VALUE_NEEDED && value == NULL) {
        char allowed[128];

        if (parser->word == parser->end) {
            return fail(parser, "%.*s has no value; allowed is %s", parser->given_nbytes,
                        parser->given, allowed_text(option, allowed, sizeof(allowed)));
        }
        value = *parser->word++;
    }
    if (option->value == VALUE_OPTIONAL && value == NULL && parser->word < parser->end &&
        parser->word[0][0] != '-') {
        value = *parser->word++;
    }
    return apply(parser, option, value);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void start_program(struct parser *parser)
{
    parser->app = (struct launch_app){.np = 1};
    parser->env = (struct envlist){0};
}

/* Take the words from parser->word up to a ':' or the end as a program and its arguments. */
static int parse_program(struct parser *parser)
{
    struct launch_job *job = &parser->options->job;
    char **first = parser->word;
    size_t n;

    if (first[0][0] == '\0') {
        return fail(parser, "the program's name is ''; allowed is the name or path of a program");
    }
    while (parser->word < parser->end && strcmp(*parser->word, ":") != 0) {
        parser->word++;
    }
    n = (size_t)(parser->word - first);
    if (job->np > OPTIONS_MAX_NP - parser->app.np) {
        return fail(parser, "the programs have %d ranks together; allowed are %d",
                    job->np + parser->app.np, OPTIONS_MAX_NP);
    }
    job->np += parser->app.np;
    parser->app.argv = x_array(NULL, n + 1, sizeof(*parser->app.argv));
    memcpy(parser->app.argv, first, n * sizeof(*first));
    parser->app.argv[n] = NULL;
    parser->app.env = x_array(parser->env.vars, parser->env.n + 1, sizeof(*parser->env.vars));
    parser->app.env[parser->env.n] = NULL;
    job->apps = x_array(job->apps, (size_t)job->n_apps + 1, sizeof(*job->apps));
    job->apps[job->n_apps++] = parser->app;
    start_program(parser);
    return 0;
}

/* No program where one must be: say what was written instead. */
static int fail_no_program(struct parser *parser)
{
    int n_apps = parser->options->job.n_apps;

    if (parser->word < parser->end) {
        return fail(parser, "no program %s ':'; allowed is [options] program [args] : ...",
                    n_apps > 0 ? "between ':' and" : "before the first");
    }
    if (n_apps > 0) {
        return fail(parser, "no program behind the last ':'; allowed is [options] program [args]");
    }
    return fail(parser, "no program given; try 'nixlrun -n 4 ./program' or 'nixlrun --help'");
}

static int parse_programs(struct parser *parser)
{
    do {
        while (parser->word < parser->end && parser->word[0][0] == '-' &&
               parser->word[0][1] != '\0' && strcmp(*parser->word, "--") != 0) {
            if (parse_option(parser) != 0) {
                return -1;
            }
            if (parser->options->action != ACTION_RUN) {
                return 0;
            }
        }
        if (parser->word < parser->end && strcmp(*parser->word, "--") == 0) {
            parser->word++;
        }
        if (parser->word == parser->end || strcmp(*parser->word, ":") == 0) {
            return fail_no_program(parser);
        }
        if (parse_program(parser) != 0) {
            return -1;
        }
        if (parser->word == parser->end) {
            return 0;
        }
        parser->word++;
    } while (parser->word < parser->end);
    return fail_no_program(parser);
}

/* What can be judged only when everything was read. */
static int check_job(struct parser *parser)
{
    struct launch_job *job = &parser->options->job;
    static const enum launch_bind bind_of_map[] = {
        [MAP_SLOT] = BIND_NONE,
        [MAP_CORE] = BIND_CORE,
        [MAP_NUMA] = BIND_NUMA,
        [MAP_SOCKET] = BIND_SOCKET,
    };

    if (job->stdin_mode == STDIN_RANK && job->stdin_rank >= job->np) {
        return fail(parser,
                    "--stdin '%d': the job has %d rank%s; allowed is a rank below %d, all or none",
                    job->stdin_rank, job->np, job->np == 1 ? "" : "s", job->np);
    }
    if (parser->options->topology != NULL && !job->dry_run) {
        char shown[VALUE_SHOWN_NBYTES];

        return fail(parser, "--topology %s: a recorded machine is allowed only with --dry-run",
                    value_show(parser->options->topology, shown));
    }
    if (!parser->is_bind_given) {
        job->bind = bind_of_map[job->map];
    }
    job->oversubscribe = parser->oversubscribe == OVERSUBSCRIBE_YES ||
                         (parser->oversubscribe == OVERSUBSCRIBE_DEFAULT && job->bind == BIND_NONE);
    return 0;
}

int options_parse(int argc, char **argv, struct options *options, char *why, size_t why_nbytes)
{
    struct parser parser = {
        .options = options,
        .word = argv + 1,
        .end = argv + argc,
        .why = why,
        .why_nbytes = why_nbytes,
    };
    int status;

    *options = (struct options){
        .job = {.timeout_ns = INT64_MAX, .grace_ns = DEFAULT_GRACE_NS, .mpi_hints = true},
    };
    start_program(&parser);
    status = parse_programs(&parser);
    if (status == 0 && options->action == ACTION_RUN) {
        status = check_job(&parser);
    }
    envlist_free(&parser.env);
    return status;
}

void options_free(struct options *options)
{
    struct launch_job *job = &options->job;

    for (int i = 0; i < job->n_apps; i++) {
        struct envlist env = {.vars = job->apps[i].env};

        while (env.vars[env.n] != NULL) {
            env.n++;
        }
        envlist_free(&env);
        free(job->apps[i].argv);
    }
    free(job->apps);
    *options = (struct options){0};
}
