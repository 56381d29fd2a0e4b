/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx_Spawn: a client asks for more processes, which become a space of their own. The answer waits
 * until all of them run; if one cannot start, the others are killed, the spawn fails, and the
 * caller's job continues. Once they run they belong to the job: their failure is its failure.
 */
#include "config.h"

#include "launcher/environ.h"
#include "launcher/guardian.h"
#include "launcher/server_upcalls.h"
#include "launcher/xalloc.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- translating PMIx's description ---------------------------------------------------------- */

static char **copy_strings(char *const *strings, const char *if_none)
{
    size_t n = 0;
    char **copy;

    while (strings != NULL && strings[n] != NULL) {
        n++;
    }
    copy = x_calloc(n + 2, sizeof(*copy));
    for (size_t i = 0; i < n; i++) {
        copy[i] = x_strdup(strings[i]);
    }
    if (n == 0 && if_none != NULL) {
        copy[0] = x_strdup(if_none);
    }
    return copy;
}

/* The working directory that the app or the whole spawn names; NULL: ours. */
static char *find_wdir(const pmix_app_t *app, const struct upcall *call)
{
    const pmix_info_t *wdir = info_find(app->info, app->ninfo, PMIX_WDIR);

    if (wdir == NULL) {
        wdir = info_find(call->info, call->n_info, PMIX_WDIR);
    }
    if (app->cwd != NULL) {
        return x_strdup(app->cwd);
    }
    return wdir != NULL && wdir->value.type == PMIX_STRING ? x_strdup(wdir->value.data.string)
                                                           : NULL;
}

/* Apply PMIX_SET_ENVAR of the app. */
static void add_envars(const pmix_app_t *app, char ***env_p)
{
    for (size_t i = 0; i < app->ninfo; i++) {
        const pmix_envar_t *envar = &app->info[i].value.data.envar;

        if (PMIX_CHECK_KEY(&app->info[i], PMIX_SET_ENVAR)) {
            size_t nbytes = strlen(envar->envar) + strlen(envar->value) + 2;
            char *assignment = x_calloc(nbytes, 1);

            snprintf(assignment, nbytes, "%s=%s", envar->envar, envar->value);
            environ_set(env_p, assignment);
            free(assignment);
        }
    }
}

static void free_apps(struct launch_app *apps, size_t n_apps)
{
    for (size_t i = 0; i < n_apps; i++) {
        environ_free(apps[i].argv);
        environ_free(apps[i].env);
        free((char *)apps[i].wdir);
    }
    free(apps);
}

/* The apps of a spawn; they live until exit once ranks point to them. */
static struct launch_app *copy_apps(const struct upcall *call)
{
    struct launch_app *apps = x_calloc(call->n_apps, sizeof(*apps));

    for (size_t i = 0; i < call->n_apps; i++) {
        const pmix_app_t *from = &call->apps[i];

        apps[i].np = from->maxprocs;
        apps[i].argv = copy_strings(from->argv, from->cmd);
        apps[i].env = copy_strings(from->env, NULL);
        apps[i].wdir = find_wdir(from, call);
        add_envars(from, &apps[i].env);
        if (from->cmd != NULL) {
            free(apps[i].argv[0]);
            apps[i].argv[0] = x_strdup(from->cmd);
        }
    }
    return apps;
}

/* ---- the spawn ------------------------------------------------------------------------------- */

static void fail_spawn(struct space *space, pmix_status_t status)
{
    struct upcall *call = space->spawn;

    space->spawn = NULL;
    for (int i = 0; i < space->n_ranks; i++) {
        struct rank *rank = &space->ranks[i];

        rank->was_ended_by_request = true;
        if (rank->pid == 0 && rank->state == RANK_STARTING) {
            continue; /* its report is still to come */
        }
        guardian_signal(rank->id, SIGKILL);
    }
    upcall_answer(call, status);
}

static bool is_sane(const struct upcall *call)
{
    for (size_t i = 0; i < call->n_apps; i++) {
        const pmix_app_t *app = &call->apps[i];

        if (app->maxprocs <= 0 ||
            (app->cmd == NULL && (app->argv == NULL || app->argv[0] == NULL))) {
            return false;
        }
    }
    return call->n_apps > 0;
}

static void do_spawn(struct upcall *call)
{
    const pmix_info_t *notify = info_find(call->info, call->n_info, PMIX_NOTIFY_COMPLETION);
    struct launch_app *apps;
    struct space *space;

    if (!is_sane(call)) {
        upcall_answer(call, PMIX_ERR_BAD_PARAM);
        return;
    }
    apps = copy_apps(call);
    if (finish_has_begun() || rank_check_programs(apps, (int)call->n_apps) != 0) {
        free_apps(apps, call->n_apps);
        upcall_answer(call,
                      finish_has_begun() ? PMIX_ERR_JOB_CANCELED : PMIX_ERR_JOB_EXE_NOT_FOUND);
        return;
    }
    space = space_make(apps, (int)call->n_apps, NULL, &call->from);
    if (space == NULL) {
        upcall_answer(call, PMIX_ERR_JOB_FAILED_TO_LAUNCH);
        return;
    }
    space->spawn = call;
    space->n_starting = space->n_ranks;
    space->tells_parent_of_end = notify != NULL && PMIX_INFO_TRUE(notify);
    if (rank_start_all(space) != 0 && space->spawn != NULL) {
        fail_spawn(space, PMIX_ERR_JOB_FAILED_TO_LAUNCH);
    }
}

pmix_status_t up_spawn(const pmix_proc_t *from, const pmix_info_t info[], size_t n_info,
                       const pmix_app_t apps[], size_t n_apps, pmix_spawn_cbfunc_t done, void *arg)
{
    return upcall_queue(&(struct upcall){.serve = do_spawn,
                                         .from = *from,
                                         .info = info,
                                         .n_info = n_info,
                                         .apps = apps,
                                         .n_apps = n_apps,
                                         .spawn_done = done,
                                         .done_arg = arg});
}

void spawn_rank_started(struct rank *rank)
{
    struct space *space = rank->space;
    struct upcall *call = space->spawn;

    if (rank->was_ended_by_request) {
        guardian_signal(rank->id, SIGKILL); /* it started after its spawn had failed */
        return;
    }
    if (call == NULL || --space->n_starting > 0) {
        return;
    }
    space->spawn = NULL;
    call->text = x_strdup(space->nspace);
    upcall_answer(call, PMIX_SUCCESS);
}

bool spawn_rank_failed(struct rank *rank)
{
    bool is_spawned = rank->space->number > 0;

    if (rank->space->spawn != NULL) {
        fail_spawn(rank->space, PMIX_ERR_JOB_FAILED_TO_LAUNCH);
    }
    return is_spawned;
}

void spawn_space_ended(struct space *space)
{
    if (space->number > 0 && space->tells_parent_of_end) {
        server_notify_job_end(space);
    }
}
