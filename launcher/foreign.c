/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running an engine of the site as a child. For the user it behaves like the local engine: the same
 * lines, signals, times and exit codes. foreign_verdict.c finds the exit code, foreign_end.c ends
 * the job.
 */
#include "config.h"

#include "launcher/foreign.h"
#include "launcher/environ.h"
#include "launcher/foreign_copy.h"
#include "launcher/foreign_output.h"
#include "launcher/foundation.h"
#include "launcher/input.h"
#include "launcher/rendezvous.h"
#include "launcher/sink.h"
#include "launcher/stats.h"
#include "launcher/trace.h"
#include "launcher/waits.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPARE_FDS 64 /* about 20, and those of --metrics */
#define LINGER_NS (500 * NXR_MS)

struct foreign_run foreign;
static struct inlet inlet;
static struct loop_timer timeout_timer, foreign_linger_timer;

static bool foreign_is_running(void)
{
    return foreign.is_running;
}

static void abandon(int exit_code)
{
    foreign.exit_code = foreign.exit_code != 0 ? foreign.exit_code : exit_code;
    foreign.is_abandoned = true;
}

static void foreign_timeout_is_over(struct loop_timer *timer)
{
    (void)timer;
    sink_give_up_at(nxr_deadline(foreign.is_running ? foreign.job->grace_ns : 0));
    if (!foreign.is_running) {
        sink_say("the timeout of %g s expired before the output was read",
                 (double)foreign.job->timeout_ns / (double)NXR_S);
        foreign.is_timed_out = foreign.exit_code == 0;
        return;
    }
    if (foreign.has_begun) {
        return;
    }
    sink_say("the timeout of %g s has expired; killing the job",
             (double)foreign.job->timeout_ns / (double)NXR_S);
    foreign_ranks_say();
    waits_tell(false);
    foreign.is_timed_out = true;
    foreign_end_by_signal(SIGTERM);
}

static void foreign_on_started(int id, pid_t pid)
{
    if (id == FOREIGN_ENGINE && foreign.job->verbose > 0) {
        sink_say("%s started as pid %d", foreign.name, (int)pid);
    }
}

static void foreign_on_failed(int id, enum guardian_step step, int error)
{
    (void)step;
    if (id == FOREIGN_ENGINE) {
        sink_say("cannot run '%s': %s", foreign.task->path, strerror(error));
        abandon(LAUNCH_EXIT_NOT_EXEC);
    }
}

static void foreign_on_ended(int id, int wait_status)
{
    if (id == FOREIGN_ENGINE) {
        foreign.is_running = false;
        foreign.wait_status = wait_status;
        foreign_end_done();
        inlet_close(&inlet);
    }
}

static void foreign_on_lost(void)
{
    sink_say("the guardian process has died; killing the job");
    abandon(LAUNCH_EXIT_FAILED);
}

/* The engine is gone, but something holds its streams: kill that, and soon stop waiting. */
static void foreign_linger(struct loop_timer *timer)
{
    static bool is_second;

    if (is_second) {
        foreign_output_finish();
    }
    is_second = true;
    guardian_kill_all();
    loop_timer_set(timer, nxr_now_ns() + LINGER_NS);
}

static void foreign_serve(void)
{
    foreign_linger_timer.fire = foreign_linger;
    while (!foreign.is_abandoned) {
        bool is_flushed = sink_flush_all();

        foreign_output_continue();
        if (foreign.is_running && !foreign.has_begun && foreign_output_is_unread()) {
            foreign.is_unread = true;
            foreign_end_by_signal(SIGTERM);
        }
        if (!foreign.is_running) {
            if (!foreign_output_is_open() && is_flushed) {
                return;
            }
            if (!foreign_linger_timer.is_set) {
                loop_timer_set(&foreign_linger_timer, nxr_now_ns() + LINGER_NS);
            }
        }
        loop_step();
    }
}

/*
 * Without a descriptor, output of a rank would be lost, its waits, counters and trace, or its
 * connection to the others. False after a line on stderr.
 */
static bool foreign_raise_limits(void)
{
    const struct launch_job *job = foreign.job;
    rlim_t per_rank = 1; /* for the copy of its page */
    rlim_t needed, fds = foundation_raise_limit(RLIMIT_NOFILE);

    per_rank += job->on_failure == ON_FAILURE_RESTART;
    per_rank += job->output_dir != NULL ? 2 : 0;
    needed = (rlim_t)job->np * per_rank + FOREIGN_COPY_MOST_FORMER + SPARE_FDS;
    if (fds < needed) {
        foundation_say_few_fds(job->np, needed, fds);
    }
    return fds >= needed;
}

/* Everything up to the engine. Returns 0, or an exit code after a line on stderr. */
static int foreign_prepare(void)
{
    static const struct signals_actions actions = {
        .is_running = foreign_is_running, .end = foreign_end_by_signal, .abandon = abandon};
    static const struct guardian_reports reports = {.started = foreign_on_started,
                                                    .failed = foreign_on_failed,
                                                    .ended = foreign_on_ended,
                                                    .lost = foreign_on_lost};
    sigset_t mask;
    int rc;

    environ_leave_outer_job();
    setenv("NIXLRUN_TERMINAL", isatty(STDERR_FILENO) ? "1" : "0", 1);
    unsetenv("NIXLRUN_HOSTID"); /* the name of this host must not reach another host */
    signals_block(&mask);
    rc = foundation_open(&mask, &actions);
    if (rc == 0) {
        rc = guardian_listen(&reports);
    }
    if (rc == 0 && !foreign_raise_limits()) {
        return LAUNCH_EXIT_FAILED;
    }
    if (rc == 0 && foreign.job->on_failure == ON_FAILURE_RESTART) {
        rc = rendezvous_open(foreign.job);
    }
    if (rc != 0) {
        sink_say("cannot start: %s", strerror(-rc));
        return LAUNCH_EXIT_FAILED;
    }
    return metrics_open(foreign.job) == 0 ? 0 : LAUNCH_EXIT_USAGE;
}

int foreign_start(enum foreign_process id, const char *path, const struct engine_command *command,
                  int fds[3], int end_signal)
{
    char **env = environ_copy(command->env.vars);
    struct guardian_start start = {
        .id = (int)id, .path = path, .argv = command->words, .env = env, .end_signal = end_signal};
    int rc;

    memcpy(start.fds, fds, sizeof(start.fds));
    rc = guardian_start(&start);
    environ_free(env);
    return rc;
}

static int foreign_do_start(const struct engine_command *command)
{
    int fds[3] = {-1, -1, -1}, rc;

    fds[0] = inlet_open(&inlet, foreign.job->stdin_mode != STDIN_NONE);
    if (fds[0] < 0) {
        sink_say("cannot start %s: %s", foreign.name, strerror(errno));
        return LAUNCH_EXIT_FAILED;
    }
    if (foreign_output_open(foreign.task, foreign_ranks_report, fds + 1) != 0) {
        return LAUNCH_EXIT_FAILED;
    }
    rc = foreign_start(FOREIGN_ENGINE, foreign.task->path, command, fds,
                       foreign.task->engine->end_signal);
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
    if (rc == 0) {
        foreign.is_running = true;
        rc = input_open();
    }
    if (rc != 0) {
        sink_say("cannot start %s: %s", foreign.name, strerror(-rc));
        return LAUNCH_EXIT_FAILED;
    }
    return 0;
}

/* Run until the lines that follow the ranks' output are written, too. Returns the exit code. */
static int foreign_run_to_end(void)
{
    bool is_written;
    int exit_code;

    foreign_serve();
    exit_code = foreign.is_abandoned ? foreign.exit_code : foreign_judge();
    foreign.has_begun = true; /* the verdict is out: report nothing more of the start */
    foreign_ranks_say_restarts();
    foreign_serve(); /* statistics follow all output */
    sink_flush_and_check();
    is_written = trace_and_stats_end(foreign.job);
    foreign_serve();
    if ((!is_written || sink_has_failed()) && exit_code == 0) {
        exit_code = LAUNCH_EXIT_FAILED;
    }
    if (exit_code == 0 && foreign.is_abandoned) {
        return foreign.exit_code;
    }
    return exit_code == 0 && foreign.is_timed_out ? LAUNCH_EXIT_TIMEOUT : exit_code;
}

int engine_foreign_run(const struct engine_task *task, const struct engine_command *command)
{
    int exit_code;

    foreign.task = task;
    foreign.job = task->job;
    foreign.name = command->words[0];
    foreign_ranks_open();
    sink_fill_standard_files();
    exit_code = foreign_prepare();
    if (exit_code == 0) {
        exit_code = foreign_do_start(command);
    }
    if (exit_code == 0) {
        timeout_timer.fire = foreign_timeout_is_over;
        if (foreign.job->timeout_ns != INT64_MAX) {
            loop_timer_set(&timeout_timer, nxr_deadline(foreign.job->timeout_ns));
        }
        foreign_ranks_watch();
        exit_code = foreign_run_to_end();
    }
    sink_flush_all();
    guardian_close();
    return exit_code;
}
