/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the local engine until that has landed, which then deletes this file: plain fork.
 */
#include "launcher/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void run_rank(const struct launch_app *app)
{
    for (char **var = app->env; *var != NULL; var++) {
        putenv(*var);
    }
    if (app->wdir != NULL && chdir(app->wdir) != 0) {
        _exit(LAUNCH_EXIT_FAILED);
    }
    execvp(app->argv[0], app->argv);
    dprintf(STDERR_FILENO, "nixlrun: %s: %s\n", app->argv[0], strerror(errno));
    _exit(errno == ENOENT ? LAUNCH_EXIT_NO_PROGRAM : LAUNCH_EXIT_NOT_EXEC);
}

int engine_local_run(const struct launch_job *job, const struct launch_place *places)
{
    int first = 0, status;

    (void)places;
    for (int i = 0; i < job->n_apps; i++) {
        for (int rank = 0; rank < job->apps[i].np; rank++) {
            if (fork() == 0) {
                run_rank(&job->apps[i]);
            }
        }
    }
    while (wait(&status) > 0) {
        if (first == 0 && status != 0) {
            first = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
    return first;
}
