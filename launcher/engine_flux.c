/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flux: 'flux run' inside an instance. Written from its documentation (flux-run(1) and
 * flux-shell-options(7) of 0.48 and newer), never run. Its PMIx plugin has only put, fence and get,
 * so with --on-failure continue ranks leave PMIx early. Ending 'flux run' does not end its job;
 * only a cancel does: two SIGINT within two seconds.
 */
#include "config.h"

#include "launcher/engine.h"
#include "launcher/xalloc.h"

#include <signal.h>

static void engine_flux_add_hosts(const struct launch_job *job, struct engine_command *command)
{
    char *names = x_strdup("");
    int n_used = 0;

    for (int i = 0; i < job->n_hosts; i++) {
        char *longer;

        if (job->hosts[i].n_ranks > 0) {
            if (asprintf(&longer, "%s%s%s", names, n_used > 0 ? "," : "", job->hosts[i].name) < 0) {
                longer = NULL;
            }
            free(names);
            names = x_checked(longer);
            n_used++;
        }
    }
    if (n_used == 0 && job->ppn > 0) {
        n_used = job->np / job->ppn;
    }
    if (n_used > 0) {
        command_add(command, "--nodes=%d", n_used);
    }
    /* --ntasks requests a core for each task, --tasks-per-node requests whole nodes. */
    if (job->is_oversubscribe_given && n_used > 0) {
        command_add(command, "--tasks-per-node=%d", job->np / n_used);
    } else {
        command_add(command, "--ntasks=%d", job->np);
    }
    if (names[0] != '\0') {
        command_add(command, "--requires=hosts:%s", names);
    }
    free(names);
}

static void flux_build(const struct engine_task *task, struct engine_command *command)
{
    const struct launch_job *job = task->job;

    command_add(command, "run");
    command_add(command, "-o");
    command_add(command, "pmi=pmix");
    command_add(command, "-o");
    command_add(command, "exit-timeout=none"); /* by default 30 s after the first rank */
    if (job->on_failure == ON_FAILURE_ABORT) {
        command_add(command, "-o");
        command_add(command, "exit-on-error");
    }
    command_add(command, "-o");
    command_add(command, "cpu-affinity=%s", job->bind == BIND_CORE ? "per-task" : "off");
    command_add(command, "--label-io");
    if (job->stdin_mode != STDIN_ALL) { /* its default, for which it has no name */
        command_add(command, "--input=%s",
                    job->stdin_mode == STDIN_NONE ? "/dev/null" : command_stdin(job));
    }
    engine_flux_add_hosts(job, command);
    command_set_variables(command, task);
    command_add_program(command, task, &job->apps[0]);
}

static enum engine_tags flux_tags(const struct engine_task *task)
{
    (void)task;
    return TAGS_LABEL;
}

const struct engine engine_flux = {
    .id = ENGINE_FLUX,
    .title = "Flux",
    .programs = "flux",
    .mark = "flux-core",
    .start_advice = "check with 'flux jobs' whether the job is waiting for resources",
    .package = "Debian has no package of it; see flux-framework.org",
    .maps = "slot",
    .binds = "none core",
    .has_cores_only = true,
    .oldest_major = 0,
    .tags = flux_tags,
    .build = flux_build,
    .end_signal = SIGINT,
};
