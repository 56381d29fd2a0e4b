/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of the command line. It goes from left to right: options up to a program's name, then
 * the program's own words up to a lone ':', then the next program. Options of the whole job must
 * precede the first program. The parser stops at the first mistake and describes it in one line.
 */
#include "launcher/parser.h"
#include "launcher/allocation.h"
#include "launcher/hosts.h"
#include "launcher/inspect.h"
#include "launcher/values.h"
#include "launcher/xalloc.h"
#include "util/clock.h"

#include <stdarg.h>

#define DEFAULT_GRACE_NS   (2 * NXR_S)
#define EXPLAIN_DEFAULT_NP 2 /* there is something to explain */

int parser_fail(struct parser *parser, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(parser->why, parser->why_nbytes, format, args);
    va_end(args);
    return -1;
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
            return parser_fail(parser, "option %s is not supported; %s", shown,
                               foreign_table[i].advice);
        }
    }
    near = value_near(given);
    for (size_t i = 0; i < option_count; i++) {
        near = value_nearest(given, option_table[i].names, near, nearest);
    }
    if (nearest[0] != '\0') {
        return parser_fail(parser, "option %s is unknown; did you mean %s%s?", shown,
                           option_dashes(nearest, strlen(nearest)), nearest);
    }
    return parser_fail(parser, "option %s is unknown; 'nixlrun --help options' lists all", shown);
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

/* Set an option, unless it is one of the whole job and follows the first program. */
static int options_apply(struct parser *parser, const struct option *option, const char *value)
{
    if (option->scope == SCOPE_JOB && parser->options->job.n_apps > 0) {
        return parser_fail(parser,
                           "%.*s stands after ':', but applies to the whole job: write it before "
                           "the first program",
                           parser->given_nbytes, parser->given);
    }
    return option_set(parser, option, value);
}

/* Apply a row of flags: the v and the l of -vl. */
static int apply_flags(struct parser *parser, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        const struct option *flag = find_option(letters, 1);

        if (flag == NULL || options_apply(parser, flag, NULL) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Take the value of an option from its own word (`attached`), or else from the next one. */
static int options_take_value(struct parser *parser, const struct option *option,
                              const char *attached, const char **value_p)
{
    char shown[VALUE_SHOWN_NBYTES], allowed[ALLOWED_NBYTES];

    *value_p = attached;
    if (option->id == OPTION_ENV && attached != NULL) {
        return parser_fail(parser, "%.*s takes no value: to give ranks a variable, write -x %s",
                           parser->given_nbytes, parser->given, value_show(attached, shown));
    }
    if (option->value == VALUE_NONE && attached != NULL) {
        return parser_fail(parser, "%.*s takes no value, but got %s", parser->given_nbytes,
                           parser->given, value_show(attached, shown));
    }
    if (option->value == VALUE_NONE || option->value == VALUE_ATTACHED || attached != NULL) {
        return 0;
    }
    if (parser->word == parser->end && option->value == VALUE_NEEDED) {
        return parser_fail(parser, "%.*s has no value; allowed: %s", parser->given_nbytes,
                           parser->given, option_allowed(option, allowed));
    }
    if (option->value == VALUE_NEEDED ||
        (parser->word < parser->end && parser->word[0][0] != '-')) {
        *value_p = *parser->word++;
    }
    return 0;
}

/* Apply the option at parser->word and skip it and its value. */
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
    }
    if (option == NULL) {
        return fail_unknown(parser, name);
    }
    parser->word++;
    if (option->value == VALUE_NONE && value == NULL && parser->given_nbytes == 2) {
        return apply_flags(parser, name);
    }
    return options_take_value(parser, option, value, &value) != 0
               ? -1
               : options_apply(parser, option, value);
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
        return parser_fail(parser,
                           "the program's name is ''; allowed: the name or path of a program");
    }
    while (parser->word < parser->end && strcmp(*parser->word, ":") != 0) {
        parser->word++;
    }
    n = (size_t)(parser->word - first);
    if (job->np > OPTIONS_MAX_NP - parser->app.np) {
        return parser_fail(parser, "the programs have %d ranks together; allowed: %d",
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

/* A program is missing: say what was written instead. */
static int fail_no_program(struct parser *parser)
{
    int n_apps = parser->options->job.n_apps;

    if (parser->word < parser->end) {
        return parser_fail(parser, "no program %s ':'; allowed: [options] program [args] : ...",
                           n_apps > 0 ? "between ':' and" : "before the first");
    }
    if (n_apps > 0) {
        return parser_fail(parser,
                           "no program after the last ':'; allowed: [options] program [args]");
    }
    return parser_fail(parser,
                       "no program given; try 'nixlrun -n 4 ./program' or 'nixlrun --help'");
}

/* The end of a command line with --explain or --info: no program may follow, we run our own. */
static int parse_report(struct parser *parser)
{
    static char program[] = INSPECT_PROGRAM, explain[] = "--explain", json[] = "--json";
    static char *words[] = {program, explain, json};
    const struct options *options = parser->options;
    char shown[VALUE_SHOWN_NBYTES];

    if (options->action == ACTION_RUN) {
        return parser_fail(parser, "--json is allowed only with --explain or --info");
    }
    if (parser->word < parser->end) {
        return parser_fail(parser, "%s does not start your program: omit %s",
                           options->action == ACTION_INFO ? "--info" : "--explain",
                           value_show(*parser->word, shown));
    }
    if (options->action == ACTION_EXPLAIN_JOB && parser->is_np_given) {
        return parser_fail(parser, "--explain=%s starts no ranks: omit -n", options->explained);
    }
    if (options->action != ACTION_EXPLAIN) {
        return 0;
    }
    if (!parser->is_np_given) {
        parser->app.np = EXPLAIN_DEFAULT_NP;
    }
    parser->word = words;
    parser->end = words + (options->is_json ? 3 : 2);
    return parse_program(parser);
}

/* --env means something else in other launchers: words after it are a mistake. */
static int check_env(struct parser *parser)
{
    char shown[VALUE_SHOWN_NBYTES];

    if (parser->word == parser->end) {
        return 0;
    }
    value_show(*parser->word, shown);
    if (strchr(*parser->word, '=') != NULL) {
        return parser_fail(parser,
                           "--env prints the NIXLRUN_ variables and starts no program: to give "
                           "ranks a variable, write -x %s",
                           shown);
    }
    return parser_fail(parser, "--env prints the NIXLRUN_ variables and starts no program: omit %s",
                       shown);
}

static int parse_programs(struct parser *parser)
{
    do {
        while (parser->word < parser->end && parser->word[0][0] == '-' &&
               parser->word[0][1] != '\0' && strcmp(*parser->word, "--") != 0) {
            if (parse_option(parser) != 0) {
                return -1;
            }
            if (parser->options->action >= ACTION_HELP) {
                return parser->options->action == ACTION_ENV ? check_env(parser) : 0;
            }
        }
        if (parser->options->action != ACTION_RUN || parser->options->is_json) {
            return parse_report(parser);
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

/* Find out how many ranks there are and on which hosts. */
static int check_hosts(struct parser *parser)
{
    struct launch_job *job = &parser->options->job;
    int capacity = job->n_hosts > 0 ? hosts_capacity(job) : allocation_capacity(job);

    if (!parser->is_np_given && job->n_apps == 1 && capacity > 0) {
        if (capacity > OPTIONS_MAX_NP) {
            return parser_fail(parser, "the hosts have %d slots; allowed: %d ranks; give -np",
                               capacity, OPTIONS_MAX_NP);
        }
        job->np = job->apps[0].np = capacity;
    }
    return hosts_deal(job, parser->why, parser->why_nbytes);
}

/* Check what can be checked only after everything is parsed. */
static int check_job(struct parser *parser)
{
    struct launch_job *job = &parser->options->job;
    static const enum launch_bind bind_of_map[] = {
        [MAP_SLOT] = BIND_NONE,
        [MAP_CORE] = BIND_CORE,
        [MAP_NUMA] = BIND_NUMA,
        [MAP_SOCKET] = BIND_SOCKET,
    };

    job->is_oversubscribe_given = parser->oversubscribe == OVERSUBSCRIBE_YES;
    if (check_hosts(parser) != 0) {
        return -1;
    }
    if (job->stdin_mode == STDIN_RANK && job->stdin_rank >= job->np) {
        return parser_fail(
            parser, "--stdin '%d': the job has %d rank%s; allowed: a rank below %d, all or none",
            job->stdin_rank, job->np, job->np == 1 ? "" : "s", job->np);
    }
    if (parser->options->topology != NULL && !job->dry_run) {
        char shown[VALUE_SHOWN_NBYTES];

        return parser_fail(parser,
                           "--topology %s: a recorded machine is allowed only with --dry-run",
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
        .word = argv + (argc > 0 ? 1 : 0),
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
    if (status == 0 && options->action <= ACTION_EXPLAIN) {
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
    hosts_free(job);
    for (size_t i = 0; i < options->n_notes; i++) {
        free(options->notes[i]);
    }
    free(options->notes);
    *options = (struct options){0};
}
