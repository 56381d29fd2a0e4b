/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun: start the ranks of a job. This file decides what is done, in which order, and with which
 * exit code. Nothing is started or written before the whole command line is known to be valid.
 * Single-threaded until the engine runs.
 */
#include "config.h"

#include "launcher/allocation.h"
#include "launcher/engine.h"
#include "launcher/help.h"
#include "launcher/helper.h"
#include "launcher/info.h"
#include "launcher/inspect.h"
#include "launcher/jobs.h"
#include "launcher/options.h"
#include "launcher/placement.h"
#include "launcher/reach.h"
#include "launcher/report.h"
#include "launcher/trace.h"
#include "launcher/values.h"
#include "launcher/xalloc.h"
#include "nixlrun.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WHY_NBYTES = 512 };

/* Both live until exit, since the engine points into them. */
static struct options options;
static struct launch_place *main_places;

static int fail_usage(const char *why)
{
    fprintf(stderr, "nixlrun: %s\n", why);
    return LAUNCH_EXIT_USAGE;
}

/*
 * Everything printed on stdout must be written: a full disk or a closed pipe is a failure. A write
 * that has failed earlier may leave an empty buffer, which fflush() has nothing to say of.
 */
static int finish_stdout(void)
{
    bool is_flushed = fflush(stdout) == 0;

    if (!is_flushed || ferror(stdout) != 0) {
        fprintf(stderr, "nixlrun: cannot write to standard output: %s\n",
                is_flushed ? "a part of it was lost" : strerror(errno));
        return LAUNCH_EXIT_FAILED;
    }
    return 0;
}

/* The name of this host, or of the file that describes one. */
static const char *host_name(void)
{
    static char name[HOST_NAME_MAX + 1];
    const char *slash;

    if (options.topology != NULL) {
        slash = strrchr(options.topology, '/');
        return slash != NULL ? slash + 1 : options.topology;
    }
    if (gethostname(name, sizeof(name) - 1) != 0) {
        return "localhost";
    }
    return name;
}

/* Make a directory and those above it; one that is there is fine. */
static int make_output_dir(const char *path)
{
    char shown[VALUE_SHOWN_NBYTES];
    char *made = x_strdup(path);
    int status;

    for (char *slash = strchr(made + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(made, 0777);
        *slash = '/';
    }
    status = mkdir(made, 0777) != 0 && errno != EEXIST ? -1 : 0;
    if (status != 0) {
        fprintf(stderr, "nixlrun: --output-dir %s: cannot create it: %s\n", value_show(path, shown),
                strerror(errno));
    }
    free(made);
    return status;
}

/* A job that an engine of the site starts. */
static int run_foreign(const struct engine_task *task, const struct engine_command *command)
{
    if (options.job.dry_run) {
        report_command(stdout, command->env.vars, command->words);
        return finish_stdout();
    }
    if (options.job.verbose > 0) {
        fputs("nixlrun: ", stderr);
        report_command(stderr, command->env.vars, command->words);
    }
    if (options.job.output_dir != NULL && make_output_dir(options.job.output_dir) != 0) {
        return LAUNCH_EXIT_USAGE;
    }
    return engine_foreign_run(task, command);
}

/* Each rank would refuse bad variables of -x and --env-file by itself: refuse them once, here. */
static int check_variables(const struct launch_job *job, char *why, size_t why_nbytes)
{
    for (int i = 0; i < job->n_apps; i++) {
        for (char *const *var = job->apps[i].env; *var != NULL; var++) {
            if (nxr_env_check(*var, why, why_nbytes) != NIXL_OK) {
                return -1;
            }
        }
    }
    return 0;
}

static void warn_unknown(const struct launch_job *job)
{
    nxr_env_warn_unknown(NULL);
    for (int i = 0; i < job->n_apps; i++) {
        nxr_env_warn_unknown(job->apps[i].env);
    }
}

#define EXPLAIN_LIMIT_NS (300 * NXR_S) /* hosts answer in seconds, drivers of GPUs in a minute */

/* The job of --explain ends, unless it may have to wait in a queue first. */
static void limit_explain(const struct engine_task *task)
{
    bool may_queue = task->engine->id == ENGINE_SLURM || task->engine->id == ENGINE_FLUX;

    if (options.job.timeout_ns == INT64_MAX && (!may_queue || allocation_engine() != ENGINE_AUTO)) {
        options.job.timeout_ns = EXPLAIN_LIMIT_NS;
    }
}

/*
 * The hosts on which the engine starts no rank stay out of the job of --explain, which lists them.
 * Returns 0, or an exit code if no host is left.
 */
static int leave_out_lost(const struct engine_task *task)
{
    struct launch_job *job = &options.job;
    struct launch_app *app = &job->apps[0];
    struct reach_lost *lost;
    size_t n = reach_hosts(task, job, &lost), n_words = 0;

    limit_explain(task);
    for (size_t i = 0; i < n && job->np == 0; i++) {
        fprintf(stderr, "nixlrun: --explain: no rank can be started on host %s: %s\n", lost[i].host,
                lost[i].why);
    }
    while (app->argv[n_words] != NULL) {
        n_words++;
    }
    app->argv = memcpy(x_calloc(n_words + n + 1, sizeof(*app->argv)), app->argv,
                       n_words * sizeof(*app->argv));
    for (size_t i = 0; i < n; i++) {
        if (asprintf(&app->argv[n_words + i], INSPECT_LOST "%s=%s", lost[i].host, lost[i].why) <
            0) {
            x_checked(NULL);
        }
    }
    free(lost);
    return n > 0 && job->np == 0 ? LAUNCH_EXIT_FAILED : 0;
}

static int run_job(void)
{
    static struct engine_task task; /* the engine points into it */
    const struct launch_job *job = &options.job;
    char why[WHY_NBYTES];

    if (job->is_elastic) {
        setenv("NIXLRUN_ELASTIC", "1", 1);
    }
    if (nxr_env_parse(&nxr_env, why, sizeof(why)) != NIXL_OK ||
        nxr_log_configure(nxr_env.log, why, sizeof(why)) != NIXL_OK ||
        check_variables(job, why, sizeof(why)) != 0 ||
        engine_choose(job, options.topology != NULL, &task, why, sizeof(why)) != 0) {
        return fail_usage(why);
    }
    if (task.engine == NULL &&
        placement_make(job, options.topology, &main_places, why, sizeof(why)) != 0) {
        return fail_usage(why);
    }
    warn_unknown(job);
    trace_ask(job);
    for (size_t i = 0; i < options.n_notes; i++) {
        fprintf(stderr, "nixlrun: %s\n", options.notes[i]);
    }
    if (task.engine != NULL) {
        struct engine_command command;
        int exit_code;

        if (options.action == ACTION_EXPLAIN && !job->dry_run &&
            (exit_code = leave_out_lost(&task)) != 0) {
            return exit_code;
        }
        engine_build(&task, &command);
        exit_code = run_foreign(&task, &command);
        engine_command_free(&command);
        return exit_code;
    }
    if (job->report_bindings) {
        report_bindings(stderr, job, main_places, host_name());
    }
    if (job->dry_run) {
        report_dry_run(stdout, job, main_places, host_name());
        return finish_stdout();
    }
    if (job->output_dir != NULL && make_output_dir(job->output_dir) != 0) {
        return LAUNCH_EXIT_USAGE;
    }
    engine_local_run(job, main_places);
}

#define MAX_EXPLAIN_WORDS 3 /* of nixlrun-inspect (inspect.h), without the last one */

/* A job whose program is our own. */
static int run_explain(void)
{
    static char path[PATH_MAX], measured[sizeof(INSPECT_MEASURED) + PATH_MAX];
    static char *words[MAX_EXPLAIN_WORDS + 2];
    char **argv = options.job.apps[0].argv, why[WHY_NBYTES];
    struct nxr_env env;
    size_t n = 0;

    if (!helper_find(INSPECT_PROGRAM, path)) {
        fprintf(stderr, "nixlrun: %s is missing: run 'make install'\n", path);
        return LAUNCH_EXIT_FAILED;
    }
    for (n = 0; n < MAX_EXPLAIN_WORDS && argv[n] != NULL; n++) {
        words[n] = argv[n];
    }
    words[0] = path;
    if (nxr_env_parse(&env, why, sizeof(why)) == NIXL_OK && env.coll_table_file[0] != '\0') {
        snprintf(measured, sizeof(measured), "%s%s", INSPECT_MEASURED, env.coll_table_file);
        words[n] = measured;
    }
    options.job.apps[0].argv = words;
    return run_job();
}

int main(int argc, char **argv)
{
    char why[WHY_NBYTES];
    int code;

    if (jobs_are_meant(argc, argv)) {
        code = jobs_main(argc, argv);
        return code != 0 ? code : finish_stdout();
    }
    if (options_parse(argc, argv, &options, why, sizeof(why)) != 0) {
        return fail_usage(why);
    }
    switch (options.action) {
    case ACTION_VERSION:
        puts("nixlrun " NIXLRUN_VERSION);
        return finish_stdout();
    case ACTION_ENV:
        nxr_env_print(stdout);
        return finish_stdout();
    case ACTION_HELP:
        if (help_print(stdout, options.help_topic, why, sizeof(why)) != 0) {
            return fail_usage(why);
        }
        return finish_stdout();
    case ACTION_INFO:
        info_print(stdout, options.is_json);
        return finish_stdout();
    case ACTION_EXPLAIN_JOB:
        code = jobs_explain(options.explained, options.is_json);
        return code != 0 ? code : finish_stdout();
    case ACTION_EXPLAIN:
        return run_explain();
    case ACTION_RUN:
        break;
    }
    return run_job();
}
