/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local engine: all ranks on this host, PMIx served by nixlrun itself. The order of the start
 * matters: signals are blocked and the guardian is made while there is one thread and our limits
 * are the user's; then come the temporary directory, which the guardian removes if we cannot, the
 * PMIx server and the ranks. The end is the reverse, with one rule: all output is written before we
 * exit.
 */
#include "config.h"

#include "launcher/engine.h"
#include "launcher/environ.h"
#include "launcher/foundation.h"
#include "launcher/guardian.h"
#include "launcher/line.h"
#include "launcher/processes.h"
#include "launcher/pty.h"
#include "launcher/server.h"
#include "launcher/sink.h"
#include "launcher/stats.h"
#include "launcher/trace.h"
#include "launcher/tmpdir.h"
#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FDS_PER_RANK   4  /* pipes of both outputs, PMIx's socket, the observation page */
#define FDS_OF_OUR_OWN 32 /* about 20, and what the start of a rank has open for a moment */
#define FDS_OF_METRICS 20 /* its 16 connections, and what it listens and waits with */
#define LINGER_NS      (500 * NXR_MS)

#define PMIX_FILE_NBYTES (4u << 20) /* what it shares with the ranks, up to 4.2 */

struct session session;

/* Processes that a rank left behind may hold its pipes: kill them, and soon stop waiting. */
static struct loop_timer local_linger_timer;
static bool is_lingering;

/* How many descriptors nixlrun needs for the job. */
static rlim_t count_fds(const struct launch_job *job)
{
    rlim_t per_rank = FDS_PER_RANK + (job->stdin_mode == STDIN_ALL);

    if (job->output_dir != NULL && (line_is_decorated(job) || job->pty == PTY_YES)) {
        per_rank += 2; /* nixlrun writes the files itself */
    }
    return (rlim_t)job->np * per_rank + FDS_OF_OUR_OWN +
           (job->metrics != NULL ? FDS_OF_METRICS : 0);
}

/*
 * If a PMIx server runs out of descriptors, or of room in its files, ranks wait until their
 * timeout. False after a line on stderr.
 */
static bool raise_limits(const struct launch_job *job)
{
    rlim_t needed = count_fds(job);
    rlim_t fds = foundation_raise_limit(RLIMIT_NOFILE), file = foundation_raise_limit(RLIMIT_FSIZE);

    if (fds < needed) {
        foundation_say_few_fds(job->np, needed, fds);
        return false;
    }
    if (file < PMIX_FILE_NBYTES) {
        sink_say("PMIx makes files of %u bytes, the limit is %llu: raise it (ulimit -f)",
                 PMIX_FILE_NBYTES, (unsigned long long)file);
        return false;
    }
    session.n_spare_fds = fds - needed;
    return true;
}

static void local_linger(struct loop_timer *timer)
{
    guardian_kill_all(); /* each time: the children of what it kills become the guardian's */
    if (!is_lingering) {
        is_lingering = true;
    } else {
        for (int i = 0; i < session.n_ranks; i++) {
            stream_finish(&session.ranks[i]->streams[0]);
            stream_finish(&session.ranks[i]->streams[1]);
        }
    }
    loop_timer_set(timer, nxr_now_ns() + LINGER_NS);
}

static bool has_open_streams(void)
{
    for (int i = 0; i < session.n_ranks; i++) {
        if (stream_is_open(&session.ranks[i]->streams[0]) ||
            stream_is_open(&session.ranks[i]->streams[1])) {
            return true;
        }
    }
    return false;
}

/* Until no rank lives, no stream is open and no output waits. */
static void local_run(void)
{
    local_linger_timer.fire = local_linger;
    while (!finish_is_abandoned()) {
        bool is_flushed = sink_flush_all();

        if (session.n_live == 0) {
            if (!has_open_streams() && is_flushed) {
                return;
            }
            if (!local_linger_timer.is_set) {
                loop_timer_set(&local_linger_timer, nxr_now_ns() + LINGER_NS);
            }
        }
        loop_step();
    }
}

static bool local_is_running(void)
{
    return session.n_live > 0;
}

static void end_by_signal(int signal)
{
    finish_begin(signal, 0);
}

static void resize(void)
{
    struct winsize size = pty_own_size();

    for (int i = 0; i < session.n_ranks; i++) {
        stream_resize(&session.ranks[i]->streams[0], &size);
    }
}

static void pass_on(int signal)
{
    for (int i = 0; i < session.n_ranks; i++) {
        const struct rank *rank = session.ranks[i];

        if (rank->state == RANK_RUNNING && process_catches(rank->pid, signal)) {
            guardian_signal(rank->id, signal);
        }
    }
}

/* Everything up to the first rank. Returns 0, or an exit code after a line on stderr. */
static int local_prepare(const struct launch_job *job)
{
    static const struct signals_actions actions = {.is_running = local_is_running,
                                                   .end = end_by_signal,
                                                   .abandon = finish_abandon,
                                                   .resize = resize,
                                                   .pass_on = pass_on};
    sigset_t mask;
    int rc = rank_check_programs(job->apps, job->n_apps);

    if (rc != 0) {
        return rc;
    }
    environ_leave_outer_job();
    if (job->mpi_hints) {
        environ_add_mpi_hints();
    }
    setenv("NIXLRUN_TERMINAL", isatty(STDERR_FILENO) ? "1" : "0", 1);
    signals_block(&mask);
    rc = tmpdir_share() ? foundation_open(&mask, &actions) : -errno;
    if (rc != 0) {
        sink_say("cannot start: %s", strerror(-rc));
        return LAUNCH_EXIT_FAILED;
    }
    if (metrics_open(job) != 0) {
        return LAUNCH_EXIT_USAGE;
    }
    session.tmpdir = tmpdir_make();
    if (session.tmpdir == NULL || !raise_limits(job)) {
        return LAUNCH_EXIT_FAILED;
    }
    return server_open() == 0 ? 0 : LAUNCH_EXIT_FAILED;
}

static int local_start(const struct launch_job *job, const struct launch_place *places)
{
    struct space *space = space_make(job->apps, job->n_apps, places, NULL);
    int rc = rank_listen();

    if (rc != 0) {
        sink_say("cannot hear the guardian process: %s", strerror(-rc));
    }
    if (space == NULL || rc != 0) {
        return LAUNCH_EXIT_FAILED;
    }
    finish_arm_timeout();
    rc = rank_start_all(space);
    if (rc != 0) {
        return rc;
    }
    rc = input_open();
    if (rc != 0) {
        sink_say("cannot read stdin: %s", strerror(-rc));
        finish_begin(SIGTERM, LAUNCH_EXIT_FAILED);
    }
    return 0;
}

/* Run until the lines that follow the ranks' output are written, too. Returns the exit code. */
static int local_end(const struct launch_job *job)
{
    bool is_written;

    local_run();
    restart_say_sum();
    local_run(); /* statistics follow all output */
    sink_flush_and_check();
    is_written = trace_and_stats_end(job);
    local_run();
    return finish_exit_code() == 0 && !is_written ? LAUNCH_EXIT_FAILED : finish_exit_code();
}

void engine_local_run(const struct launch_job *job, const struct launch_place *places)
{
    int exit_code;

    session.job = job;
    sink_fill_standard_files();
    gethostname(session.host, sizeof(session.host) - 1);
    exit_code = local_prepare(job);
    if (exit_code == 0) {
        exit_code = local_start(job, places);
    }
    if (exit_code == 0) {
        exit_code = local_end(job);
    }
    guardian_close();
    tmpdir_remove();
    /* not exit(): PMIx's threads still run, and what they use must not be torn down under them */
    fflush(NULL);
    _exit(exit_code);
}
