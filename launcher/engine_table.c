/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines of the site, and the choice of one. Whatever an engine does not support is found
 * here, before anything is started, so that no user learns it from a job that hangs. The facts
 * behind the table were measured; see ENGINES in nixlrun(1).
 */
#include "config.h"

#include "launcher/engine.h"
#include "launcher/allocation.h"
#include "launcher/helper.h"
#include "launcher/hosts.h"
#include "launcher/probe.h"
#include "launcher/values.h"
#include "launcher/xalloc.h"

#include <unistd.h>

static const struct engine *const engines[] = {&engine_slurm, &engine_prrte, &engine_openmpi,
                                               &engine_flux};
static const char engine_words[] = LAUNCH_ENGINE_WORDS;
static const char map_words[] = "slot core numa socket";
static const char bind_words[] = "none core numa socket";

enum { WORD_NBYTES = ENGINE_NAME_NBYTES, LACK_NBYTES = 512 };

/* Word number `index` of a list. */
static const char *nth_word(const char *list, int index, char word[WORD_NBYTES])
{
    for (; index > 0; index--) {
        list = strchr(list, ' ') + 1;
    }
    snprintf(word, WORD_NBYTES, "%.*s", (int)strcspn(list, " "), list);
    return word;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Is this program the engine? Fills the task if it is. */
static bool is_engine(const struct engine *engine, const char *name, struct engine_task *task)
{
    char answer[PROBE_ANSWER_NBYTES];

    if (!probe_find(name, task->path) ||
        !probe_ask(task->path, "--version", answer, sizeof(answer)) ||
        !probe_version(answer, engine->mark, task->version)) {
        return false;
    }
    task->major = atoi(task->version);
    return true;
}

static int count_names(const struct engine *engine)
{
    int n_names = 1;

    for (const char *c = engine->programs; *c != '\0'; c++) {
        n_names += *c == ' ';
    }
    return n_names;
}

/* Describe the unexpected answer of a program that has the engine's name. */
static void tell_answer(const struct engine *engine, const char *name, const char *answer,
                        char *text, size_t text_nbytes)
{
    size_t nbytes = strlen(answer);
    const char *last;

    if (engine->error_mark == NULL ||
        strncmp(answer, engine->error_mark, strlen(engine->error_mark)) != 0) {
        snprintf(
            text, text_nbytes,
            "the output of '%s --version' is not that of %s: '%.*s'; if it is another program: %s",
            name, engine->title, (int)strcspn(answer, "\n"), answer, engine->package);
        return;
    }
    while (nbytes > 0 && answer[nbytes - 1] == '\n') {
        nbytes--;
    }
    last = memrchr(answer, '\n', nbytes);
    last = last != NULL ? last + 1 : answer;
    snprintf(text, text_nbytes, "%s does not work on this host: '%.*s'; %s", engine->title,
             (int)(answer + nbytes - last), last, engine->error_advice);
}

/*
 * Why find_engine() finds none: the program is not there, is something else, or does not work.
 * Returns false if it is not there.
 */
static bool tell_lack(const struct engine *engine, char *text, size_t text_nbytes)
{
    char name[WORD_NBYTES], path[PATH_MAX], answer[PROBE_ANSWER_NBYTES];

    for (int i = 0; i < count_names(engine); i++) {
        if (probe_find(nth_word(engine->programs, i, name), path)) {
            if (!probe_ask(path, "--version", answer, sizeof(answer))) {
                answer[0] = '\0';
            }
            tell_answer(engine, name, answer, text, text_nbytes);
            return true;
        }
    }
    snprintf(text, text_nbytes, "not in PATH; %s", engine->package);
    return false;
}

/* Find the engine's program in PATH. Returns false if no program of its names is the engine. */
static bool find_engine(const struct engine *engine, struct engine_task *task)
{
    char name[WORD_NBYTES];

    for (int i = 0; i < count_names(engine); i++) {
        if (is_engine(engine, nth_word(engine->programs, i, name), task)) {
            task->engine = engine;
            return true;
        }
    }
    return false;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static const struct engine *engine_of_allocation(void)
{
    enum launch_engine id = allocation_engine();

    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
        if (engines[i]->id == id) {
            return engines[i];
        }
    }
    return NULL;
}

static int fail_not_found(const struct engine *engine, const char *reason, char *why,
                          size_t why_nbytes)
{
    char lack[LACK_NBYTES];

    if (tell_lack(engine, lack, sizeof(lack))) {
        snprintf(why, why_nbytes, "%s: %s", reason, lack);
    } else {
        snprintf(why, why_nbytes, "%s: %s is %s", reason, engine->title, lack);
    }
    return -1;
}

static int choose_auto(const struct launch_job *job, struct engine_task *task, char *why,
                       size_t why_nbytes)
{
    const struct engine *engine = engine_of_allocation();

    if (hosts_are_here(job) && (job->n_hosts > 0 || engine == NULL)) {
        return 0;
    }
    if (engine != NULL) {
        return find_engine(engine, task)
                   ? 0
                   : fail_not_found(engine, "this is an allocation", why, why_nbytes);
    }
    if (find_engine(&engine_prrte, task) || find_engine(&engine_openmpi, task)) {
        return 0;
    }
    snprintf(
        why, why_nbytes,
        "host '%.64s' is not this host, and no engine is installed that starts ranks on other "
        "hosts: install Open MPI's mpirun (Debian package openmpi-bin) or prterun (libprrte-bin)",
        job->hosts[0].name);
    return -1;
}

static int choose_named(const struct launch_job *job, struct engine_task *task, char *why,
                        size_t why_nbytes)
{
    char word[ENGINE_NAME_NBYTES], reason[64];

    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
        if (engines[i]->id == job->engine && !find_engine(engines[i], task)) {
            engine_name(job->engine, word);
            snprintf(reason, sizeof(reason), "--engine %s", word);
            return fail_not_found(engines[i], reason, why, why_nbytes);
        }
    }
    return 0;
}

/* ---- what the job wants ---------------------------------------------------------------------- */

/* May the job run with ranks on this host only? */
static int check_local(const struct launch_job *job, char *why, size_t why_nbytes)
{
    char here[HOST_NAME_MAX + 1] = "";

    gethostname(here, sizeof(here) - 1);
    if (!hosts_are_here(job)) {
        snprintf(
            why, why_nbytes,
            "--engine local starts ranks only on this host (%.64s), and other hosts are listed",
            here);
        return -1;
    }
    if (job->ppn > 0 && job->np > job->ppn) {
        snprintf(why, why_nbytes,
                 "-np %d: --ppn %d on one host has room for %d; name more hosts with --host",
                 job->np, job->ppn, job->ppn);
        return -1;
    }
    return 0;
}

static bool is_uneven(const struct launch_job *job)
{
    for (int i = 1; i < job->n_hosts; i++) {
        if (job->hosts[i].n_ranks != job->hosts[0].n_ranks) {
            return true;
        }
    }
    return false;
}

/* Write why this engine refuses: "OPTION: ENGINE VERSION cannot ...; ADVICE". Returns -1. */
static int engine_refuse(const struct engine_task *task, const char *what, const char *advice,
                         char *why, size_t why_nbytes)
{
    snprintf(why, why_nbytes, "%s: %s %s cannot do this; %s", what, task->engine->title,
             task->version, advice);
    return -1;
}

/* Check a word of --map-by or --bind-to. */
static int check_word(const struct engine_task *task, const char *option, const char *word,
                      const char *allowed, char *why, size_t why_nbytes)
{
    char what[64], advice[96];

    if (value_word(word, allowed) >= 0) {
        return 0;
    }
    snprintf(what, sizeof(what), "%s %s", option, word);
    snprintf(advice, sizeof(advice), "allowed: %s", allowed);
    return engine_refuse(task, what, advice, why, why_nbytes);
}

/* What an engine cannot do, and what to do instead; `what` is NULL if it lacks nothing. */
struct engine_lack {
    const char *what;
    const char *advice;
};

static struct engine_lack lack_of_features(const struct engine_task *task)
{
    const struct engine *engine = task->engine;
    const struct launch_job *job = task->job;

    if (task->major < engine->oldest_major) {
        return (struct engine_lack){"starting ranks", "use a newer version"};
    }
    if (job->on_failure == ON_FAILURE_CONTINUE && task->major < engine->continue_since) {
        return (struct engine_lack){
            "--on-failure continue",
            "it ends a job that has lost a rank; use a newer version or another engine"};
    }
    if (job->n_apps > 1 && !engine->has_programs) {
        return (struct engine_lack){"several programs in one job (':')",
                                    "start one program that branches on its rank"};
    }
    if (job->stdin_mode == STDIN_ALL && task->major < engine->stdin_all_since) {
        return (struct engine_lack){
            "--stdin all",
            "it does not deliver input to ranks on its own host; allowed: a rank, none"};
    }
    return (struct engine_lack){NULL, NULL};
}

static struct engine_lack lack_of_placement(const struct engine_task *task)
{
    const struct engine *engine = task->engine;
    const struct launch_job *job = task->job;

    if (is_uneven(job) && !engine->has_uneven) {
        return (struct engine_lack){"hosts with different numbers of ranks",
                                    "give each the same number"};
    }
    if (job->n_hosts == 0 && job->ppn > 0 && job->np % job->ppn != 0 && !engine->has_rest) {
        return (struct engine_lack){"-np that is not a multiple of --ppn",
                                    "name the hosts with --host"};
    }
    if (engine->has_rest && job->map != MAP_SLOT && command_is_by_rank(job)) {
        return (struct engine_lack){"--map-by with this host among the hosts, but not first",
                                    "name it first"};
    }
    if (job->is_oversubscribe_given && engine->has_cores_only && job->n_hosts == 0 &&
        job->ppn == 0) {
        return (struct engine_lack){"--oversubscribe without hosts",
                                    "name the hosts with --host, or give --ppn"};
    }
    if (job->report_bindings && !engine->has_report) {
        return (struct engine_lack){"--report-bindings", "omit it"};
    }
    return (struct engine_lack){NULL, NULL};
}

/* Check what the engine does not support; `why` gets it as text. */
static int check_foreign(const struct engine_task *task, char *why, size_t why_nbytes)
{
    const struct engine *engine = task->engine;
    const struct launch_job *job = task->job;
    struct engine_lack lack = lack_of_features(task);
    char word[WORD_NBYTES];

    if (lack.what == NULL) {
        lack = lack_of_placement(task);
    }
    if (lack.what != NULL) {
        return engine_refuse(task, lack.what, lack.advice, why, why_nbytes);
    }
    if (check_word(task, "--map-by", nth_word(map_words, (int)job->map, word), engine->maps, why,
                   why_nbytes) != 0) {
        return -1;
    }
    return check_word(task, "--bind-to", nth_word(bind_words, (int)job->bind, word), engine->binds,
                      why, why_nbytes);
}

/* Does it have the plugin that connects the ranks? Some sites build Slurm without. */
static int check_pmix(const struct engine_task *task, char *why, size_t why_nbytes)
{
    char answer[PROBE_ANSWER_NBYTES];

    if (task->engine->pmix_arg == NULL ||
        (probe_ask(task->path, task->engine->pmix_arg, answer, sizeof(answer)) &&
         strstr(answer, "pmix") != NULL)) {
        return 0;
    }
    snprintf(why, why_nbytes, "%s %s has no PMIx: '%.300s %s' does not list pmix",
             task->engine->title, task->version, task->path, task->engine->pmix_arg);
    return -1;
}

int engine_choose(const struct launch_job *job, bool is_recorded, struct engine_task *task,
                  char *why, size_t why_nbytes)
{
    int status = 0;

    *task = (struct engine_task){.job = job};
    if (job->engine == ENGINE_AUTO && !is_recorded) {
        status = choose_auto(job, task, why, why_nbytes);
    } else if (job->engine > ENGINE_LOCAL) {
        status = choose_named(job, task, why, why_nbytes);
    }
    if (status != 0) {
        return -1;
    }
    if (task->engine == NULL) {
        return check_local(job, why, why_nbytes);
    }
    if (is_recorded) {
        return engine_refuse(task, "--topology", "only --engine local can use a recorded machine",
                             why, why_nbytes);
    }
    if (!helper_find("nixlrun-rank", task->rank_program)) {
        snprintf(why, why_nbytes, "%.400s is missing: run 'make install'", task->rank_program);
        return -1;
    }
    return check_foreign(task, why, why_nbytes) != 0 ? -1 : check_pmix(task, why, why_nbytes);
}

void engine_name(enum launch_engine id, char name[ENGINE_NAME_NBYTES])
{
    nth_word(engine_words, (int)id, name);
}

void engine_build(const struct engine_task *task, struct engine_command *command)
{
    *command = (struct engine_command){0};
    command_add(command, "%s", strrchr(task->path, '/') + 1);
    task->engine->build(task, command);
}

bool engine_look(size_t index, struct engine_task *task, char name[ENGINE_NAME_NBYTES], char *why,
                 size_t why_nbytes)
{
    const struct engine *engine;

    if (index >= sizeof(engines) / sizeof(engines[0])) {
        return false;
    }
    engine = engines[index];
    engine_name(engine->id, name);
    why[0] = '\0';
    *task = (struct engine_task){0};
    if (!find_engine(engine, task)) {
        *task = (struct engine_task){.engine = engine};
        tell_lack(engine, why, why_nbytes);
    } else if (task->major < engine->oldest_major) {
        snprintf(why, why_nbytes, "too old; version %d or newer is needed", engine->oldest_major);
    } else {
        check_pmix(task, why, why_nbytes);
    }
    return true;
}
