/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open MPI's mpirun. 4.1 has a runtime of its own (ORTE); since 5 it is PRRTE with another name, so
 * engine_prrte.c writes that command. 4.1 reaches hosts by ssh and passes on only the variables
 * named by -x. With its --enable-recovery the survivors of a death never hear of it and later
 * fences hang, so with --on-failure continue ranks leave PMIx early; mpirun does not end then,
 * either. If a rank of another host fails before its daemon has reported the start, mpirun counts
 * it up to three times, and kills the job when the count reaches the number of ranks; so failures
 * are hidden from it.
 */
#include "config.h"

#include "launcher/engine.h"

#include <signal.h>
#include <unistd.h>

static void openmpi_build(const struct engine_task *task, struct engine_command *command)
{
    const struct launch_job *job = task->job;

    if (task->major >= 5) {
        prrte_build(task, command);
        return;
    }
    if (geteuid() == 0) {
        command_add(command, "--allow-run-as-root");
    }
    command_add(command, "--tag-output");
    command_add(command, "--mca");
    command_add(command, "ess_base_forward_signals");
    command_add(command, "SIGURG"); /* RANK_END_SIGNAL */
    command_add(command, "--stdin");
    command_add(command, "%s", command_stdin(job));
    command_add_mpirun_places(command, job, "socket");
    if (job->report_bindings) {
        command_add(command, "--report-bindings");
    }
    if (job->on_failure == ON_FAILURE_CONTINUE) {
        command_add(command, "--enable-recovery");
        command_add(command, "--mca"); /* we end it after --kill-grace, or when no rank is left */
        command_add(command, "odls_base_sigkill_timeout");
        command_add(command, "0");
    }
    for (int i = 0; i < job->n_apps; i++) {
        command_add_mpirun_app(command, task, i);
    }
}

static enum engine_tags openmpi_tags(const struct engine_task *task)
{
    return task->major >= 5 ? TAGS_BRACKET_BLANK : TAGS_BRACKET;
}

static bool openmpi_passes_end_signal(const struct engine_task *task)
{
    return task->major < 5;
}

const struct engine engine_openmpi = {
    .id = ENGINE_OPENMPI,
    .title = "Open MPI's mpirun",
    .programs = "mpirun mpirun.openmpi",
    .mark = "(Open MPI)",
    .start_advice = PRRTE_START_ADVICE,
    .package = "install it (Debian package openmpi-bin)",
    .maps = "slot core numa socket",
    .binds = "none core numa socket",
    .pmix_since = 5,
    .leaves_since = 5,
    .counts_since = 5,
    .stdin_all_since = 5,
    .has_programs = true,
    .has_uneven = true,
    .has_rest = true,
    .has_report = true,
    .oldest_major = 4,
    .is_needless = prrte_is_needless,
    .tell_ended = prrte_tell_ended,
    .tags = openmpi_tags,
    .build = openmpi_build,
    .end_signal = SIGTERM,
    .passes_end_signal = openmpi_passes_end_signal,
};
