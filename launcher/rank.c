/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a process: its program is found, it is handed to the guardian with environment, pipes
 * and place, and its start and end are reported back. Programs are tested before anything starts,
 * so the common mistake (a wrong name) costs one line of output and starts no rank.
 */
#include "config.h"

#include "launcher/environ.h"
#include "launcher/guardian.h"
#include "launcher/program.h"
#include "launcher/server.h"
#include "launcher/sink.h"
#include "launcher/world.h"
#include "launcher/xalloc.h"
#include "util/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAVE_NS (1 * NXR_S) /* for a rank that cannot be killed to end by itself */

/* ---- programs -------------------------------------------------------------------------------- */

/* Find the path of the app's program for execve(), by its PATH. Returns 0 or an errno. */
static int find_program(const struct launch_app *app, char path[PATH_MAX])
{
    const char *dirs = getenv("PATH");

    for (char **env = app->env; env != NULL && *env != NULL; env++) {
        if (strncmp(*env, "PATH=", 5) == 0) {
            dirs = *env + 5;
        }
    }
    return program_find(app->argv[0], app->wdir, dirs, path);
}

/* What a user forgot before the name of a program that is a file here; or NULL. */
static const char *missing_prefix(const struct launch_app *app, int error)
{
    const char *name = app->argv[0], *suffix = strrchr(name, '.');
    bool is_script = suffix != NULL && strcmp(suffix, ".py") == 0;
    bool can_run = program_test(app->wdir, name, X_OK) == 0;

    if (can_run && error == ENOENT && strchr(name, '/') == NULL) {
        return "./";
    }
    if (is_script && (!can_run || error == ENOEXEC) && program_test(app->wdir, name, R_OK) == 0) {
        return "python3 ";
    }
    return NULL;
}

/* Print why a program does not run. Returns the exit code for it. */
static int say_program_error(const struct launch_app *app, int error)
{
    const char *name = app->argv[0], *prefix = missing_prefix(app, error);
    bool is_sought = error == ENOENT && strchr(name, '/') == NULL;
    const char *why = is_sought ? "not found in PATH" : strerror(error);

    if (prefix != NULL) {
        sink_say("cannot run '%s': %s; did you mean '%s%s'?", name, why, prefix, name);
    } else if (error == ENOENT && !is_sought && app->wdir != NULL && name[0] != '/') {
        sink_say("cannot run '%s' in '%s': %s", name, app->wdir, why);
    } else {
        sink_say("cannot run '%s': %s", name, why);
    }
    return error == ENOENT || error == ENOTDIR ? LAUNCH_EXIT_NO_PROGRAM : LAUNCH_EXIT_NOT_EXEC;
}

/* The same for a program that was there when the job began. */
static void say_exec_error(const struct launch_app *app, int error)
{
    char path[PATH_MAX], why[PROGRAM_WHY_NBYTES];

    if (error == ENOENT && find_program(app, path) == 0) {
        program_missing_text(program_missing(app->wdir, path, why), why);
        sink_say("cannot run '%s': %s", path, why);
    } else {
        say_program_error(app, error);
    }
}

int rank_check_programs(const struct launch_app *apps, int n_apps)
{
    char path[PATH_MAX];

    for (int i = 0; i < n_apps; i++) {
        struct stat st;
        int error;

        if (apps[i].wdir != NULL && (stat(apps[i].wdir, &st) != 0 || !S_ISDIR(st.st_mode))) {
            sink_say("cannot change to directory '%s': %s", apps[i].wdir,
                     strerror(errno != 0 ? errno : ENOTDIR));
            return LAUNCH_EXIT_FAILED;
        }
        error = find_program(&apps[i], path);
        if (error != 0) {
            return say_program_error(&apps[i], error);
        }
    }
    return 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Parse a list such as "0-3,8" into a mask. Returns false if it is empty or malformed. */
static bool parse_cpus(const char *list, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    while (list != NULL && *list != '\0' && *list != '\n') {
        char *end;
        long first = strtol(list, &end, 10), last = first;

        if (end == list) {
            return false;
        }
        if (*end == '-') {
            last = strtol(end + 1, &end, 10);
        }
        for (long cpu = first; cpu >= 0 && cpu <= last && cpu < CPU_SETSIZE; cpu++) {
            CPU_SET(cpu, cpus);
        }
        list = *end == ',' ? end + 1 : end;
    }
    return CPU_COUNT(cpus) > 0;
}

static bool wants_stdin(const struct rank *rank)
{
    const struct launch_job *job = session.job;

    return rank->space->number == 0 &&
           (job->stdin_mode == STDIN_ALL ||
            (job->stdin_mode == STDIN_RANK && job->stdin_rank == rank->rank));
}

static void rank_set_variable(const char *name, const char *value, void *env_p)
{
    char *assignment;

    if (value != NULL) {
        assignment = x_checked(asprintf(&assignment, "%s=%s", name, value) < 0 ? NULL : assignment);
        environ_set(env_p, assignment);
        free(assignment);
    }
}

/* Only ranks that may be started again have this variable. */
static void tell_incarnation(const struct rank *rank, char ***env_p)
{
    char text[16];

    if (session.job->on_failure == ON_FAILURE_RESTART) {
        snprintf(text, sizeof(text), "%u", rank->incarnation);
        rank_set_variable("NIXLRUN_INCARNATION", text, env_p);
    }
}

/*
 * The environment of one rank: ours, its place in the job, what the user has set for its app, and
 * the variables of PMIx. NULL: PMIx failed.
 */
static char **make_env(const struct rank *rank, char *const *app_env)
{
    const struct world world = {
        .rank = rank->rank,
        .size = rank->space->n_ranks,
        .local_rank = rank->rank,
        .local_size = rank->space->n_ranks,
        .master = "127.0.0.1",
        .port = rank->space->master_port,
    };
    pmix_proc_t proc = rank_proc(rank);
    char **env, **pmix_env = x_calloc(1, sizeof(*pmix_env));

    if (PMIx_server_setup_fork(&proc, &pmix_env) != PMIX_SUCCESS) {
        environ_free(pmix_env);
        return NULL;
    }
    env = environ_copy(NULL);
    world_tell(&world, rank_set_variable, &env);
    tell_incarnation(rank, &env);
    for (char *const *at = app_env; at != NULL && *at != NULL; at++) {
        environ_set(&env, *at);
    }
    for (char **at = pmix_env; *at != NULL; at++) {
        environ_set(&env, *at);
    }
    environ_free(pmix_env);
    return env;
}

static int start_with(struct rank *rank, const char *path, char **env, const int fds[3])
{
    const struct launch_app *app = &rank->space->apps[rank->app_num];
    const struct launch_place *places = rank->space->places;
    cpu_set_t cpus;
    bool is_bound = places != NULL && parse_cpus(places[rank->rank].cpu_list, &cpus);
    struct guardian_start start = {
        .id = rank->id,
        .path = path,
        .argv = app->argv,
        .env = env,
        .wdir = app->wdir,
        .cpus = is_bound ? &cpus : NULL,
        .fds = {fds[0], fds[1], fds[2]},
        .ends_group = session.job->on_failure == ON_FAILURE_RESTART,
    };

    return guardian_start(&start);
}

/* Why the guardian could not be asked, from a negative errno. */
static const char *start_error(int rc)
{
    return rc == -EPIPE || rc == -ECONNRESET ? "the guardian process has died" : strerror(-rc);
}

static int rank_start(struct rank *rank)
{
    const struct launch_app *app = &rank->space->apps[rank->app_num];
    int fds[3] = {-1, -1, -1}, rc = -1, error;
    char path[PATH_MAX];
    char **env = make_env(rank, app->env);

    find_program(app, path);
    fds[0] = inlet_open(&rank->inlet, wants_stdin(rank));
    error = fds[0] < 0 ? errno : 0;
    fds[1] = stream_open(&rank->streams[0], rank, 0);
    fds[2] = fds[1] >= 0 ? stream_open(&rank->streams[1], rank, 1) : -1;
    if (env == NULL || fds[0] < 0) {
        sink_say("cannot start %s: %s", rank_name(rank),
                 env == NULL ? "PMIx provided no environment for it" : strerror(error));
    } else if (fds[2] >= 0) {
        rc = start_with(rank, path, env, fds);
        if (rc != 0) {
            sink_say("cannot start %s: %s", rank_name(rank), start_error(rc));
        }
    }
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    environ_free(env);
    return rc == 0 ? 0 : LAUNCH_EXIT_FAILED;
}

/* Close a stream of the former process. False: its sink has no room for what is left. */
static bool rank_close_stream(struct stream *stream)
{
    stream_finish(stream); /* what has left its group may hold it open */
    return !stream_is_open(stream);
}

static void rank_is_over(struct rank *rank)
{
    if (rank->state == RANK_ENDED) {
        return;
    }
    rank->state = RANK_ENDED;
    rank->ended_ns = nxr_now_ns();
    rank->space->n_live--;
    session.n_live--;
    inlet_close(&rank->inlet);
    input_continue();
    meet_rank_ended(rank);
    query_look(rank->space);
}

/* The ranks of the space from `first` on are not going to be started. */
static void rank_give_up(struct space *space, int first)
{
    for (int i = first; i < space->n_ranks; i++) {
        struct rank *rank = &space->ranks[i];

        rank_close_stream(&rank->streams[0]); /* no process has the other end */
        rank_close_stream(&rank->streams[1]);
        rank_is_over(rank);
    }
}

int rank_start_all(struct space *space)
{
    for (int i = 0; i < space->n_ranks; i++) {
        int exit_code = rank_start(&space->ranks[i]);

        if (exit_code != 0) {
            rank_give_up(space, i);
            return exit_code;
        }
    }
    return 0;
}

int rank_start_again(struct rank *rank)
{
    int exit_code;

    if (!rank_close_stream(&rank->streams[0]) || !rank_close_stream(&rank->streams[1])) {
        return -EAGAIN;
    }
    if (rank->has_joined || rank->space->has_met) {
        rank->incarnation++;
    }
    rank->n_restarts++;
    rank->state = RANK_STARTING;
    rank->pid = rank->met_pid = 0;
    rank->is_connected = rank->was_connected = rank->has_joined = false;
    rank->may_leave = rank->has_left = false;
    rank->was_replaced = rank->was_ended_by_request = rank->has_failed = false;
    rank->is_refused = rank->is_beyond_reach = false;
    exit_code = rank_start(rank);
    if (exit_code == 0) {
        input_join(&rank->inlet);
    }
    return exit_code;
}

/* ---- reports of the guardian ----------------------------------------------------------------- */

static void rank_on_started(int id, pid_t pid)
{
    struct rank *rank = session.ranks[id];

    rank->pid = pid;
    rank->state = RANK_RUNNING;
    if (session.job->verbose > 0) {
        sink_say("%s started as pid %d: %s", rank_name(rank), (int)pid,
                 rank->space->apps[rank->app_num].argv[0]);
    }
    spawn_rank_started(rank);
    query_look(rank->space);
}

static void rank_on_failed(int id, enum guardian_step step, int error)
{
    struct rank *rank = session.ranks[id];
    const struct launch_app *app = &rank->space->apps[rank->app_num];
    int exit_code = LAUNCH_EXIT_FAILED;

    rank_is_over(rank);
    switch (step) {
    case GUARDIAN_FORK:
        sink_say("cannot create a process for %s: %s", rank_name(rank), strerror(error));
        break;
    case GUARDIAN_BIND:
        sink_say("cannot bind %s to cpus %s: %s", rank_name(rank),
                 rank->space->places[rank->rank].cpu_list, strerror(error));
        break;
    case GUARDIAN_CHDIR:
        sink_say("cannot change to directory '%s': %s", app->wdir, strerror(error));
        break;
    case GUARDIAN_EXEC:
        if (!finish_has_begun()) {
            say_exec_error(app, error);
        }
        exit_code = error == ENOENT ? LAUNCH_EXIT_NO_PROGRAM : LAUNCH_EXIT_NOT_EXEC;
        break;
    }
    finish_start_failure(rank, exit_code);
    meet_look(rank->space);
}

/* They have had time to end by themselves: the job ends without them. */
static void rank_leave_behind(struct loop_timer *timer)
{
    (void)timer;
    for (int i = 0; i < session.n_ranks; i++) {
        struct rank *rank = session.ranks[i];

        if (rank->is_beyond_reach && rank->state == RANK_RUNNING) {
            rank_is_over(rank);
            finish_rank_left(rank);
        }
    }
}

static void rank_on_refused(int id, pid_t pid, int signal)
{
    static struct loop_timer leave_timer = {.fire = rank_leave_behind};
    struct rank *rank = session.ranks[id];

    if (!rank->is_refused) {
        rank->is_refused = true;
        sink_say("%s on host %s (pid %d) cannot be signalled, as it runs as another user; end it "
                 "as that user",
                 rank_name(rank), session.host, (int)pid);
    }
    if (signal == SIGKILL && !rank->is_beyond_reach) {
        rank->is_beyond_reach = true;
        loop_timer_set(&leave_timer, nxr_deadline(LEAVE_NS));
    }
}

static void rank_on_ended(int id, int wait_status)
{
    struct rank *rank = session.ranks[id];

    if (rank->state == RANK_ENDED) {
        return; /* it had been left behind */
    }
    server_serve(); /* first serve what the rank requested before it ended */
    server_hear_out(rank);
    rank->wait_status = wait_status;
    rank_is_over(rank);
    if (session.job->verbose > 0) {
        sink_say("%s ended with %s %d", rank_name(rank),
                 WIFSIGNALED(wait_status) ? "signal" : "code",
                 WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    }
    finish_rank_ended(rank);
    meet_look(rank->space);
}

static void rank_on_lost(void)
{
    finish_broken("the guardian process has died");
}

int rank_listen(void)
{
    static const struct guardian_reports reports = {.started = rank_on_started,
                                                    .failed = rank_on_failed,
                                                    .ended = rank_on_ended,
                                                    .refused = rank_on_refused,
                                                    .lost = rank_on_lost};

    return guardian_listen(&reports);
}
