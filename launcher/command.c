/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of an engine, word by word, and the words that all engines share. */
#include "config.h"

#include "launcher/engine.h"
#include "launcher/hosts.h"
#include "launcher/line.h"
#include "launcher/pty.h"
#include "launcher/rank_report.h"
#include "launcher/rendezvous.h"
#include "launcher/world.h"
#include "launcher/xalloc.h"

#include <stdarg.h>
#include <unistd.h>

#define LEAVE_PMIX "NIXLRUN_LEAVE_PMIX=1"

void command_add(struct engine_command *command, const char *format, ...)
{
    va_list args;
    char *word;

    va_start(args, format);
    if (vasprintf(&word, format, args) < 0) {
        word = NULL;
    }
    va_end(args);
    command->words = x_array(command->words, command->n_words + 2, sizeof(*command->words));
    command->words[command->n_words++] = x_checked(word);
    command->words[command->n_words] = NULL;
}

void engine_command_free(struct engine_command *command)
{
    for (size_t i = 0; i < command->n_words; i++) {
        free(command->words[i]);
    }
    free(command->words);
    envlist_free(&command->env);
    *command = (struct engine_command){0};
}

/* An absolute form of the directory, in a static buffer. */
static const char *absolute_directory(const char *dir)
{
    static char absolute[PATH_MAX];

    if (dir[0] == '/' || realpath(dir, absolute) == NULL) {
        return dir;
    }
    return absolute;
}

/* The variables of world.h that the user has set for an app: "RANK,MASTER_PORT", to be freed. */
static char *kept_names(const struct launch_app *app)
{
    char *names = x_strdup("");

    for (char **var = app->env; *var != NULL; var++) {
        char *longer = NULL;

        if (!world_has(*var)) {
            continue;
        }
        if (asprintf(&longer, "%s%s%.*s", names, names[0] != '\0' ? "," : "",
                     (int)strcspn(*var, "="), *var) < 0) {
            longer = NULL;
        }
        free(names);
        names = x_checked(longer);
    }
    return names;
}

/* The variables that tell the ranks of an app their place in the job. */
static void add_world(struct engine_command *command, const struct launch_job *job,
                      const struct launch_app *app)
{
    char *word = x_calloc(WORLD_WORD_NBYTES, 1), *kept = kept_names(app);

    if (world_print(job, word)) {
        command_add(command, RANK_WORLD_WORD "=%s", word);
    }
    if (kept[0] != '\0') {
        command_add(command, RANK_KEEP_WORD "=%s", kept);
    }
    free(word);
    free(kept);
}

void command_add_program(struct engine_command *command, const struct engine_task *task,
                         const struct launch_app *app)
{
    command_add(command, "%s", task->rank_program);
    if (task->job->on_failure != ON_FAILURE_ABORT) {
        command_add(command, RANK_BEAT_WORD); /* engines do not report a lost host */
    }
    if (task->job->on_failure == ON_FAILURE_CONTINUE && task->major < task->engine->counts_since) {
        command_add(command, RANK_CALM_WORD);
    }
    if (task->job->on_failure == ON_FAILURE_RESTART) {
        command_add(command, RANK_RESTART_WORD "=%d,%lld", task->job->most_restarts,
                    (long long)task->job->restart_delay_ns);
    }
    add_world(command, task->job, app);
    if (line_has_pty(task->job)) {
        struct winsize size = pty_own_size();

        command_add(command, RANK_PTY_WORD "=%dx%d", size.ws_col, size.ws_row);
    }
    if (app->wdir != NULL) {
        command_add(command, RANK_WDIR_WORD "=%s", absolute_directory(app->wdir));
    }
    for (char **word = app->argv; *word != NULL; word++) {
        command_add(command, "%s", *word);
    }
}

/* Must ranks leave PMIx early, since the engine would end or freeze the job when one dies? */
static bool leaves_pmix(const struct engine_task *task)
{
    int since = task->engine->pmix_since;

    return task->job->on_failure == ON_FAILURE_CONTINUE && (since == 0 || task->major < since);
}

/*
 * Our NIXLRUN_ variables, for engines that pass on only named ones. A list to be freed. The name of
 * this host is left out: it must not reach another host.
 */
static struct envlist our_variables(const struct engine_task *task)
{
    static const char *const kept_back[] = {
        "NIXLRUN_TERMINAL=", "NIXLRUN_HOSTID=", RENDEZVOUS_VARIABLE "="};
    struct envlist ours = {0}, kept = {0};

    envlist_pass_prefix(&ours, "NIXLRUN_");
    for (size_t i = 0; i < ours.n; i++) {
        bool is_kept_back = false;

        for (size_t j = 0; j < sizeof(kept_back) / sizeof(kept_back[0]); j++) {
            is_kept_back |= strncmp(ours.vars[i], kept_back[j], strlen(kept_back[j])) == 0;
        }
        if (!is_kept_back) {
            envlist_set(&kept, ours.vars[i]);
        }
    }
    envlist_free(&ours);
    if (isatty(STDERR_FILENO)) {
        envlist_set(&kept, "NIXLRUN_TERMINAL=1");
    }
    if (leaves_pmix(task)) {
        envlist_set(&kept, LEAVE_PMIX);
    }
    return kept;
}

void command_set_variables(struct engine_command *command, const struct engine_task *task)
{
    for (char **var = task->job->apps[0].env; *var != NULL; var++) {
        envlist_set(&command->env, *var);
    }
    if (leaves_pmix(task)) {
        envlist_set(&command->env, LEAVE_PMIX);
    }
}

/* Search paths of programs and libraries: a name without a value forwards the engine's own. */
static void add_search_paths(struct engine_command *command, const struct envlist *given)
{
    static const char *const names[] = {"PATH", "LD_LIBRARY_PATH"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (getenv(names[i]) != NULL && !envlist_has(given, names[i])) {
            command_add(command, "-x");
            command_add(command, "%s", names[i]);
        }
    }
}

bool command_is_by_rank(const struct launch_job *job)
{
    static int answer = -1; /* cached: there is one job, and names may need a name server */

    if (answer < 0) {
        answer = hosts_have_here_late(job);
    }
    return answer > 0;
}

/* Add "NAME:SLOTS", or "NAME" if n_slots is 0, to a list. */
static char *command_add_host(char *list, const char *name, int n_slots)
{
    const char *comma = list[0] != '\0' ? "," : "";
    char *longer;
    int n = n_slots > 0 ? asprintf(&longer, "%s%s%s:%d", list, comma, name, n_slots)
                        : asprintf(&longer, "%s%s%s", list, comma, name);

    free(list);
    return x_checked(n < 0 ? NULL : longer);
}

/* Hosts of `n` ranks from `first` on: "a:2,b:1", or "a,a,b". Empty if no host was named. */
static char *host_list(const struct launch_job *job, int first, int n)
{
    bool is_by_rank = command_is_by_rank(job);
    char *text = x_strdup("");

    for (int i = 0, at = 0; i < job->n_hosts && n > 0; i++) {
        const struct launch_host *host = &job->hosts[i];
        int skipped = first > at ? first - at : 0;
        int here = host->n_ranks > skipped ? host->n_ranks - skipped : 0;
        int n_words, n_each;

        here = here < n ? here : n;
        at += host->n_ranks;
        n -= here;
        n_each = is_by_rank ? 0 : here;
        for (n_words = is_by_rank ? here : here > 0; n_words > 0; n_words--) {
            text = command_add_host(text, host->name, n_each);
        }
    }
    return text;
}

const char *command_stdin(const struct launch_job *job)
{
    static char text[16];

    switch (job->stdin_mode) {
    case STDIN_ALL:
        return "all";
    case STDIN_NONE:
        return "none";
    case STDIN_RANK:
        break;
    }
    snprintf(text, sizeof(text), "%d", job->stdin_rank);
    return text;
}

void command_add_mpirun_places(struct engine_command *command, const struct launch_job *job,
                               const char *socket_word)
{
    const char *levels[] = {"slot", "core", "numa", socket_word};
    const char *binds[] = {"none", "core", "numa", socket_word};
    bool is_bound = job->bind != BIND_NONE;

    command_add(command, "--map-by");
    if (job->ppn > 0 && job->n_hosts == 0) {
        command_add(command, "ppr:%d:node", job->ppn);
    } else if (command_is_by_rank(job)) {
        command_add(command, "seq:OVERSUBSCRIBE");
    } else {
        command_add(command, "%s%s", levels[job->map], job->oversubscribe ? ":OVERSUBSCRIBE" : "");
    }
    command_add(command, "--bind-to");
    command_add(command, "%s%s", binds[job->bind],
                is_bound && job->oversubscribe ? ":overload-allowed" : "");
}

void command_add_mpirun_app(struct engine_command *command, const struct engine_task *task,
                            int app_num)
{
    const struct launch_job *job = task->job;
    const struct launch_app *app = &job->apps[app_num];
    struct envlist ours = our_variables(task);
    int first = 0;
    char *hosts;

    for (int i = 0; i < app_num; i++) {
        first += job->apps[i].np;
    }
    if (app_num > 0) {
        command_add(command, ":");
    }
    command_add(command, "-np");
    command_add(command, "%d", app->np);
    hosts = host_list(job, first, app->np);
    if (hosts[0] != '\0') {
        command_add(command, "--host");
        command_add(command, "%s", hosts);
    }
    free(hosts);
    for (char **var = app->env; *var != NULL; var++) {
        envlist_set(&ours, *var);
    }
    add_search_paths(command, &ours);
    if (job->on_failure == ON_FAILURE_RESTART) { /* its value is a secret, and not known yet */
        command_add(command, "-x");
        command_add(command, "%s", RENDEZVOUS_VARIABLE);
    }
    for (size_t i = 0; i < ours.n; i++) {
        command_add(command, "-x");
        command_add(command, "%s", ours.vars[i]);
    }
    envlist_free(&ours);
    command_add_program(command, task, app);
}
