/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PRRTE's prterun, also as the mpirun of Open MPI 5. It always gets --bind-to: version 2 crashes
 * without it. Since version 3 a job can continue after a death, and the survivors are notified;
 * prterun then exits with 0, which nixlrun ignores (foreign.c).
 */
#include "config.h"

#include "launcher/engine.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

void prrte_build(const struct engine_task *task, struct engine_command *command)
{
    const struct launch_job *job = task->job;

    if (geteuid() == 0) {
        command_add(command, "--allow-run-as-root");
    }
    command_add(command, "--output");
    command_add(command, "tag");
    if (task->engine->passes_end_signal(task)) {
        command_add(command, "--forward-signals"); /* the ones of its default, and ours */
        command_add(command, "SIGTSTP,SIGCONT,SIGUSR1,SIGUSR2,SIGABRT,SIGALRM,SIGURG");
    }
    command_add(command, "--stdin");
    command_add(command, "%s", command_stdin(job));
    command_add_mpirun_places(command, job, "package");
    if (job->report_bindings) {
        command_add(command, "--display");
        command_add(command, "bind");
    }
    if (job->on_failure == ON_FAILURE_CONTINUE) {
        if (task->engine->id == ENGINE_OPENMPI) {
            command_add(command, "--with-ft");
            command_add(command, "ulfm");
        }
        command_add(command, "--runtime-options");
        command_add(command, "recoverable,notifyerrors");
    }
    for (int i = 0; i < job->n_apps; i++) {
        command_add_mpirun_app(command, task, i);
    }
}

static enum engine_tags prrte_tags(const struct engine_task *task)
{
    (void)task;
    return TAGS_BRACKET_BLANK;
}

/* Tested with 5; some earlier versions pass on a different signal than they got. */
static bool prrte_passes_end_signal(const struct engine_task *task)
{
    return task->major >= 5;
}

/* The rank whose number follows the words, or -1. */
static int rank_behind(const struct launch_job *job, const char *words, const char *line,
                       size_t nbytes)
{
    const char *at = memmem(line, nbytes, words, strlen(words)), *end = line + nbytes;
    long rank = 0;

    if (at == NULL) {
        return -1;
    }
    at += strlen(words);
    if (at == end || *at < '0' || *at > '9') {
        return -1;
    }
    for (; at < end && *at >= '0' && *at <= '9' && rank < job->np; at++) {
        rank = 10 * rank + (*at - '0');
    }
    return rank < job->np ? (int)rank : -1;
}

/*
 * "prterun noticed that process rank 2 with PID 17 on node b exited on signal 9 (Killed).", which
 * PRRTE itself writes over several lines. It kills all others before it writes this, and nothing
 * else reports a nixlrun-rank that was killed first. The same goes for a host on which it cannot
 * execute nixlrun-rank: "while attempting to start process rank 1.".
 */
void prrte_tell_ended(const struct launch_job *job, const char *line, size_t nbytes,
                      engine_ended_fn *ended_fn)
{
    int rank = rank_behind(job, " noticed that process rank ", line, nbytes);

    if (rank >= 0) {
        ended_fn(rank, 128 + SIGKILL);
    }
    rank = rank_behind(job, "while attempting to start process rank ", line, nbytes);
    if (rank >= 0) {
        ended_fn(rank, LAUNCH_EXIT_NO_PROGRAM);
    }
}

/*
 * A process that starts a daemon by ssh makes itself a process group, and mpirun makes it one, too.
 * mpirun's call fails harmlessly if that process has executed ssh by then.
 */
bool prrte_is_needless(const struct launch_job *job, const char *line, size_t nbytes)
{
    static const char late[] = " Warning: setpgid(";

    (void)job;
    return memmem(line, nbytes, late, sizeof(late) - 1) != NULL;
}

const struct engine engine_prrte = {
    .id = ENGINE_PRRTE,
    .title = "PRRTE's prterun",
    .programs = "prterun",
    .mark = "PRRTE",
    .start_advice = PRRTE_START_ADVICE,
    .package = "install it (Debian package libprrte-bin, since Debian 14)",
    .maps = "slot core numa socket",
    .binds = "none core numa socket",
    .continue_since = 3,
    .pmix_since = 3,
    .has_programs = true,
    .has_uneven = true,
    .has_rest = true,
    .has_report = true,
    .oldest_major = 2,
    .is_needless = prrte_is_needless,
    .tell_ended = prrte_tell_ended,
    .tags = prrte_tags,
    .build = prrte_build,
    .end_signal = SIGTERM,
    .passes_end_signal = prrte_passes_end_signal,
};
