/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nixlrun knows of the ranks that an engine runs, and the verdict. Engines differ most in what
 * they say when something fails: a code of the last rank or of the highest, 0 after a death that
 * the job has survived, or nothing since they hang. So the verdict is nixlrun's own, from what
 * nixlrun-rank tells of each rank; the engine's code counts only where no rank explains the end.
 */
#include "config.h"

#include "launcher/ending.h"
#include "launcher/foreign.h"
#include "launcher/foreign_output.h"
#include "launcher/loop.h"
#include "launcher/sink.h"
#include "launcher/xalloc.h"
#include "util/clock.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>

#define MOST_MISSED    4            /* beats; then it counts as lost, until it is heard of again */
#define ENGINE_LAST_NS (10 * NXR_S) /* how long it may live on when all ranks have ended */
#define LAST_WORDS_NS  (2 * NXR_S)  /* for a report of a rank that the engine says has ended */

enum member_state { MEMBER_UNKNOWN, MEMBER_STARTED, MEMBER_ENDED };

/* A rank, as far as nixlrun-rank has told. */
struct member {
    enum member_state state;
    char *host;
    pid_t pid;
    int wait_status;
    int n_missed; /* beats since it was last heard of */
    bool is_out_ended;
    bool is_gone; /* the engine says so */
};

static struct member *members;
static struct loop_timer beat_timer, gone_timer;
static int n_started, n_ended, n_out_ended;
static int suspect = -1; /* the rank of the first failure, if the engine may have killed it */
static int step_job = -1, step_number = -1;

void foreign_ranks_open(void)
{
    members = x_calloc((size_t)foreign.job->np, sizeof(*members));
}

/* ---- silence --------------------------------------------------------------------------------- */

/*
 * Engines may never tell that a host is lost, nor end then. In a job that goes on after failures
 * each rank therefore gives a sign of life; the job has ended when no other rank is left.
 */
static void beat_is_due(struct loop_timer *timer)
{
    int n_silent = 0;

    for (int rank = 0; rank < foreign.job->np; rank++) {
        struct member *member = &members[rank];

        if (member->state != MEMBER_STARTED || ++member->n_missed < MOST_MISSED) {
            continue;
        }
        if (member->n_missed == MOST_MISSED && !foreign.has_begun) {
            sink_say("rank %d on host %s (pid %d) has not been heard of for %d s; the other ranks "
                     "go on",
                     rank, member->host, (int)member->pid, (MOST_MISSED - 1) * RANK_BEAT_S);
        }
        n_silent++;
    }
    if (n_silent > 0 && n_ended + n_silent == foreign.job->np) {
        foreign.exit_code = foreign.exit_code != 0 ? foreign.exit_code : LAUNCH_EXIT_FAILED;
        foreign_output_silence_engine();
        foreign_end_soon(0);
    }
    loop_timer_set(timer, nxr_now_ns() + RANK_BEAT_S * NXR_S);
}

static void hear(int rank)
{
    struct member *member = &members[rank];

    if (member->n_missed >= MOST_MISSED && !foreign.has_begun) {
        sink_say("rank %d on host %s (pid %d) is heard of again", rank, member->host,
                 (int)member->pid);
    }
    member->n_missed = 0;
}

void foreign_ranks_watch(void)
{
    if (foreign.job->on_failure == ON_FAILURE_CONTINUE) {
        beat_timer.fire = beat_is_due;
        loop_timer_set(&beat_timer, nxr_now_ns() + RANK_BEAT_S * NXR_S);
    }
}

/* ---- reports --------------------------------------------------------------------------------- */

/* A rank has failed. The first gives the exit code; after the end has begun it is no news. */
static void fail(int rank, int code, const char *why)
{
    const struct member *member = &members[rank];
    bool goes_on = foreign.job->on_failure == ON_FAILURE_CONTINUE;

    if (foreign.exit_code == 0) {
        foreign.exit_code = code;
    }
    if (foreign.has_begun) {
        return;
    }
    foreign_output_silence_engine();
    sink_say("rank %d on host %s (pid %d) %s%s", rank, member->host, (int)member->pid, why,
             goes_on ? "; the other ranks go on" : "");
    if (!goes_on) {
        foreign_end_failed();
    }
}

/* The program of a rank: ranks go in order through the programs of the job. */
static const struct launch_app *app_of(int rank)
{
    const struct launch_app *app = foreign.job->apps;

    for (; rank >= app->np; app++) {
        rank -= app->np;
    }
    return app;
}

static void not_chdir(int rank, int error)
{
    if (!foreign.has_begun) {
        foreign_output_silence_engine();
        sink_say("cannot change to directory '%s' on host %s: %s", app_of(rank)->wdir,
                 members[rank].host, strerror(error));
        foreign.exit_code = LAUNCH_EXIT_FAILED;
        foreign_end_failed();
    }
}

static void not_exec(int rank, int error)
{
    const char *program = app_of(rank)->argv[0];

    if (!foreign.has_begun) {
        foreign_output_silence_engine();
        sink_say("cannot run '%s' on host %s: %s", program, members[rank].host,
                 error == ENOENT && strchr(program, '/') == NULL ? "not found in PATH"
                                                                 : strerror(error));
        foreign.exit_code =
            error == ENOENT || error == ENOTDIR ? LAUNCH_EXIT_NO_PROGRAM : LAUNCH_EXIT_NOT_EXEC;
        foreign_end_failed();
    }
}

static void ended(int rank, int wait_status)
{
    struct member *member = &members[rank];
    char why[ENDING_NBYTES];
    int code = ending_code(wait_status);
    int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;

    member->wait_status = wait_status;
    if (foreign.job->verbose > 0) {
        sink_say("rank %d ended with %s %d", rank, signal != 0 ? "signal" : "code",
                 signal != 0 ? signal : code);
    }
    if (code != 0 && foreign.exit_code == 0 && foreign.job->on_failure == ON_FAILURE_ABORT &&
        (signal == SIGTERM || signal == SIGKILL)) {
        suspect = rank; /* the engine does this to a job that a rank has aborted: see judge() */
        foreign.exit_code = code;
        foreign_output_silence_engine();
        foreign_end_failed();
    } else if (code != 0) {
        fail(rank, code, ending_text(wait_status, why));
    }
    if (n_ended == foreign.job->np) {
        foreign_end_soon(ENGINE_LAST_NS);
    }
}

/*
 * Nothing comes any more: each stream of each rank has been read to its end. An engine that stays
 * although a job has lost a rank is not waited for then.
 */
static void look_for_the_last(void)
{
    const struct engine_task *task = foreign.task;

    if (n_ended == foreign.job->np && n_out_ended == foreign.job->np && foreign.exit_code != 0 &&
        foreign.job->on_failure == ON_FAILURE_CONTINUE && !foreign.is_asked &&
        task->major < task->engine->leaves_since) {
        if (foreign.job->verbose > 0) {
            sink_say("all ranks have ended, and %s stays after a failure; it is asked to end",
                     foreign.name);
        }
        foreign_end_at_once();
    }
}

void foreign_ranks_report(int rank, const char *host, pid_t pid, enum rank_report_kind kind,
                          int value)
{
    struct member *member = &members[rank];
    bool was_known = member->state != MEMBER_UNKNOWN;

    if (kind == RANK_REPORT_OUT_ENDED) {
        n_out_ended += !member->is_out_ended;
        member->is_out_ended = true;
        look_for_the_last();
        return;
    }
    if (member->state == MEMBER_ENDED) {
        return;
    }
    if (!was_known) {
        member->host = x_strdup(host);
        member->pid = pid;
        n_started++;
    }
    hear(rank);
    switch (kind) {
    case RANK_REPORT_OUT_ENDED:
    case RANK_REPORT_ALIVE:
        break;
    case RANK_REPORT_STARTED:
        member->state = MEMBER_STARTED;
        if (foreign.job->verbose > 0) {
            sink_say("rank %d started as pid %d on host %s", rank, (int)pid, host);
        }
        break;
    case RANK_REPORT_JOB:
        step_job = value;
        break;
    case RANK_REPORT_STEP:
        step_number = value;
        break;
    case RANK_REPORT_NOT_EXEC:
        member->state = MEMBER_ENDED;
        n_ended++;
        not_exec(rank, value);
        break;
    case RANK_REPORT_NOT_CHDIR:
        member->state = MEMBER_ENDED;
        n_ended++;
        not_chdir(rank, value);
        break;
    case RANK_REPORT_ENDED:
        member->state = MEMBER_ENDED;
        n_ended++;
        ended(rank, value);
        look_for_the_last();
        break;
    }
}

/* Only SIGKILL keeps nixlrun-rank from telling of an end. */
static void gone_are_lost(struct loop_timer *timer)
{
    (void)timer;
    for (int rank = 0; rank < foreign.job->np; rank++) {
        struct member *member = &members[rank];

        if (member->is_gone && member->state == MEMBER_STARTED) {
            member->state = MEMBER_ENDED;
            member->wait_status = SIGKILL;
            n_ended++;
            fail(rank, 128 + SIGKILL, "was lost: its nixlrun-rank was killed");
        }
    }
    if (n_ended == foreign.job->np) {
        foreign_end_soon(ENGINE_LAST_NS);
    }
}

void foreign_ranks_gone(int rank)
{
    if (members[rank].state == MEMBER_STARTED) {
        members[rank].is_gone = true;
        gone_timer.fire = gone_are_lost;
        loop_timer_set(&gone_timer, nxr_now_ns() + LAST_WORDS_NS);
    }
}

void foreign_ranks_say(void)
{
    for (int i = 0; i < foreign.job->np; i++) {
        const struct member *member = &members[i];
        char why[ENDING_NBYTES];

        if (member->state == MEMBER_UNKNOWN) {
            sink_say("  rank %d: has not started", i);
        } else {
            sink_say("  rank %d on host %s (pid %d): %s", i, member->host, (int)member->pid,
                     member->state == MEMBER_STARTED ? "running"
                                                     : ending_text(member->wait_status, why));
        }
    }
}

const char *foreign_ranks_step(void)
{
    static char text[32];

    if (step_job < 0 || step_number < 0) {
        return NULL;
    }
    snprintf(text, sizeof(text), "%d.%d", step_job, step_number);
    return text;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/*
 * Engines that start by ssh say little where a name is wrong. That it has no address here explains
 * a failure, and is none by itself: ssh may know the name.
 */
static void say_unresolved(void)
{
    const struct launch_job *job = foreign.job;
    struct addrinfo *found;

    if (foreign.task->engine->id != ENGINE_PRRTE && foreign.task->engine->id != ENGINE_OPENMPI) {
        return;
    }
    for (int i = 0; i < job->n_hosts; i++) {
        if (getaddrinfo(job->hosts[i].name, NULL, NULL, &found) != 0) {
            sink_say("host '%s' has no address here; see --host and --hostfile",
                     job->hosts[i].name);
            return;
        }
        freeaddrinfo(found);
    }
}

/* No rank explains how the engine ended. */
static int judge_engine(void)
{
    int code = ending_code(foreign.wait_status);
    char why[ENDING_NBYTES];

    ending_text(foreign.wait_status, why);
    if (n_started == 0) {
        sink_say("%s %s before a rank has started", foreign.name, why);
        say_unresolved();
        return LAUNCH_EXIT_FAILED;
    }
    if (n_ended < foreign.job->np) {
        sink_say("%s %s; how %d rank%s ended is not known", foreign.name, why,
                 foreign.job->np - n_ended, foreign.job->np - n_ended == 1 ? "" : "s");
        return code != 0 && WIFEXITED(foreign.wait_status) ? code : LAUNCH_EXIT_FAILED;
    }
    sink_say("%s %s, although all ranks have ended with 0", foreign.name, why);
    return LAUNCH_EXIT_FAILED;
}

/*
 * A rank whose end nobody has told: it and its nixlrun-rank were killed together, or its daemon
 * was. That is why the engine has killed the first one that we heard of, unless it ends with the
 * code of that one. Returns -1 if there is none.
 */
static int find_lost(int code)
{
    for (int rank = 0; rank < foreign.job->np && code != foreign.exit_code; rank++) {
        if (members[rank].state == MEMBER_STARTED) {
            return rank;
        }
    }
    return -1;
}

static int judge_lost(int rank, int code)
{
    sink_say("rank %d on host %s (pid %d) was lost: how it ended is not known", rank,
             members[rank].host, (int)members[rank].pid);
    return code > 128 && code < 128 + NSIG ? code : LAUNCH_EXIT_FAILED;
}

/* The first rank that failed was killed: by somebody, or by the engine for PMIx_Abort of a rank? */
static int judge_suspect(int code)
{
    const struct member *member = &members[suspect];
    int lost = find_lost(code);
    char why[ENDING_NBYTES];

    if (foreign.end_signal != 0) {
        return 128 + foreign.end_signal;
    }
    if (WIFEXITED(foreign.wait_status) && code > 0 && code < 128 && !foreign.is_asked) {
        sink_say("%s has ended the job with code %d", foreign.name, code);
        return code;
    }
    if (lost >= 0) {
        return judge_lost(lost, code);
    }
    sink_say("rank %d on host %s (pid %d) %s", suspect, member->host, (int)member->pid,
             ending_text(member->wait_status, why));
    return foreign.exit_code;
}

int foreign_ranks_judge(void)
{
    int code = ending_code(foreign.wait_status);

    if (foreign.is_timed_out) {
        return LAUNCH_EXIT_TIMEOUT;
    }
    if (foreign.is_unread) {
        return 128 + SIGPIPE;
    }
    if (suspect >= 0) {
        return judge_suspect(code);
    }
    if (foreign.exit_code != 0) {
        return foreign.exit_code;
    }
    if (foreign.end_signal != 0) {
        return n_ended == foreign.job->np ? 0 : 128 + foreign.end_signal;
    }
    if (n_ended == foreign.job->np && (code == 0 || foreign.is_asked)) {
        return sink_has_failed() ? LAUNCH_EXIT_FAILED : 0;
    }
    return judge_engine();
}
