/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm's srun, inside an allocation or making one. Variables are passed in its own environment,
 * since --export splits values at commas. Its PMIx plugin kills the step when a rank dies that
 * shares a node with others and still uses PMIx, so with --on-failure continue ranks leave PMIx
 * early. Slurm would sort a plain list of hosts and fill them evenly, so the host of every rank is
 * written out.
 */
#include "config.h"

#include "launcher/engine.h"
#include "launcher/xalloc.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The host of each rank: "a,a,b". */
static char *host_names(const struct launch_job *job)
{
    size_t nbytes = 1;
    char *text, *end;

    for (int i = 0; i < job->n_hosts; i++) {
        nbytes += (strlen(job->hosts[i].name) + 1) * (size_t)job->hosts[i].n_ranks;
    }
    end = text = x_array(NULL, nbytes, 1);
    text[0] = '\0';
    for (int i = 0; i < job->n_hosts; i++) {
        for (int n = job->hosts[i].n_ranks; n > 0; n--) {
            end += sprintf(end, "%s%s", end > text ? "," : "", job->hosts[i].name);
        }
    }
    return text;
}

static void engine_slurm_add_hosts(const struct launch_job *job, struct engine_command *command)
{
    const char *within = job->map == MAP_SLOT ? "" : job->map == MAP_CORE ? ":block" : ":cyclic";
    char *names = host_names(job);

    if (job->n_hosts > 0) {
        command_add(command, "--distribution=arbitrary%s", within);
        command_add(command, "--nodelist=%s", names);
    } else if (job->ppn > 0) {
        command_add(command, "--nodes=%d", (job->np + job->ppn - 1) / job->ppn);
        command_add(command, "--ntasks-per-node=%d", job->ppn);
    } else if (within[0] != '\0') {
        command_add(command, "--distribution=block%s", within);
    }
    free(names);
}

static void slurm_build(const struct engine_task *task, struct engine_command *command)
{
    static const char *const binds[] = {"none", "cores", "ldoms", "sockets"};
    const struct launch_job *job = task->job;
    bool goes_on = job->on_failure == ON_FAILURE_CONTINUE;

    command_add(command, "--mpi=pmix");
    command_add(command, "--label");
    command_add(command, "--export=ALL");
    command_add(command,
                "--kill-on-bad-exit=0"); /* it would kill ranks and hide which failed first */
    command_add(command, "--wait=0");    /* a site may end jobs some time after the first rank */
    if (goes_on) {
        command_add(command, "--no-kill"); /* a lost host is no reason either */
    }
    command_add(command, "--input=%s", command_stdin(job));
    command_add(command, "--cpu-bind=%s%s", job->report_bindings ? "verbose," : "",
                binds[job->bind]);
    /*
     * In an allocation this leaves all cores usable; in a new one it would request a single core.
     */
    if (job->is_oversubscribe_given || (job->oversubscribe && getenv("SLURM_JOB_ID") != NULL)) {
        command_add(command, "--overcommit");
    }
    command_add(command, "--ntasks=%d", job->np);
    engine_slurm_add_hosts(job, command);
    command_set_variables(command, task);
    command_add_program(command, task, &job->apps[0]);
}

/* On a signal that ends a job srun kills the ranks at once; scancel passes it on to them. */
static void slurm_build_signal(struct engine_command *command, int signal, const char *step)
{
    command_add(command, "scancel");
    command_add(command, "--signal=%d", signal);
    command_add(command, "%s", step);
}

static enum engine_tags slurm_tags(const struct engine_task *task)
{
    (void)task;
    return TAGS_LABEL;
}

/*
 * If the cluster has no plugin that binds, srun complains about each --cpu-bind, also in its
 * variable SLURM_CPU_BIND, even about "none". We always pass one, as the site may bind by default;
 * checking beforehand would cost a query to the controller for each job.
 */
static bool slurm_is_needless(const struct launch_job *job, const char *line, size_t nbytes)
{
    static const char lack[] = "cluster configuration lacks support for cpu binding";

    return job->bind == BIND_NONE && !job->report_bindings &&
           memmem(line, nbytes, lack, sizeof(lack) - 1) != NULL;
}

/* One number of srun's list, or a range. Returns where the next one begins, or NULL. */
static const char *tell_range(const struct launch_job *job, const char *at, int code,
                              engine_ended_fn *ended_fn)
{
    char *end;
    long first = strtol(at, &end, 10), last = first;

    if (end == at || first < 0) {
        return NULL;
    }
    if (*end == '-') {
        last = strtol(end + 1, &end, 10);
    }
    for (; first <= last && first < job->np; first++) {
        ended_fn((int)first, code);
    }
    return *end == ',' ? end + 1 : NULL;
}

/*
 * "srun: error: h1: task 3: Killed", "... tasks 0,2-3: Exited with exit code 127": about a
 * nixlrun-rank that was killed or could not run, and so has reported nothing. The other tasks are
 * left running.
 */
static void slurm_tell_ended(const struct launch_job *job, const char *line, size_t nbytes,
                             engine_ended_fn *ended_fn)
{
    static const char mark[] = "srun: error: ", code_mark[] = "Exited with exit code ";
    char text[512];
    const char *at, *code_at;
    int code;

    if (nbytes >= sizeof(text) || nbytes < sizeof(mark) ||
        memcmp(line, mark, sizeof(mark) - 1) != 0) {
        return;
    }
    memcpy(text, line, nbytes);
    text[nbytes] = '\0';
    at = strstr(text, ": task");
    if (at == NULL) {
        return;
    }
    at += strlen(": task");
    at += *at == 's';
    code_at = strstr(at, code_mark);
    code = code_at != NULL ? atoi(code_at + sizeof(code_mark) - 1) : 128 + SIGKILL;
    while (at != NULL) {
        at = tell_range(job, at, code, ended_fn);
    }
}

const struct engine engine_slurm = {
    .id = ENGINE_SLURM,
    .title = "Slurm's srun",
    .programs = "srun",
    .mark = "slurm",
    .start_advice = "check with squeue and sinfo whether the job is waiting for resources",
    .package = "install it (Debian package slurm-client)",
    .error_mark = "srun: ",
    .error_advice = "run nixlrun on a host of the cluster, or set SLURM_CONF to its slurm.conf",
    .pmix_arg = "--mpi=list",
    .maps = "slot core socket",
    .binds = "none core numa socket",
    .is_left_to_us = true,
    .has_uneven = true,
    .has_report = true,
    .oldest_major = 20,
    .own_mark = "slurmstepd-",
    .is_needless = slurm_is_needless,
    .tell_ended = slurm_tell_ended,
    .tags = slurm_tags,
    .build = slurm_build,
    .end_signal = SIGTERM,
    .signal_program = "scancel",
    .build_signal = slurm_build_signal,
};
