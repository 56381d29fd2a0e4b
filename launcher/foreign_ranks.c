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
#include <limits.h>
#include <netdb.h>
#include <signal.h>

#define MOST_MISSED    4            /* beats; then it counts as lost, until it is heard of again */
#define MOST_UNSTARTED 7            /* the same since the first rank has started */
#define ENGINE_LAST_NS (10 * NXR_S) /* how long it may live on when all ranks have ended */
#define LAST_WORDS_NS  (2 * NXR_S)  /* for a report of a rank that the engine says has ended */

enum member_state { MEMBER_UNKNOWN, MEMBER_STARTED, MEMBER_ENDED };

/* A rank, as far as nixlrun-rank has told. */
struct member {
    enum member_state state;
    char *host; /* NULL, pid 0: nothing was told */
    pid_t pid;
    int wait_status;
    int n_missed; /* beats since it was last heard of */
    bool is_out_ended;
    bool is_gone;  /* the engine says so */
    int gone_code; /* and with which code */
};

/* How a rank is called: "rank 3 on host b (pid 17)". */
struct who {
    char text[HOST_NAME_MAX + 64];
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

/* The host that the user has given a rank, or NULL. */
static const char *asked_host(int rank)
{
    const struct launch_job *job = foreign.job;

    for (int i = 0; i < job->n_hosts; i++) {
        if (rank < job->hosts[i].n_ranks) {
            return job->hosts[i].name;
        }
        rank -= job->hosts[i].n_ranks;
    }
    return NULL;
}

/* As far as it is known: a rank that has told nothing has no pid. */
static struct who who_is(int rank)
{
    const struct member *member = &members[rank];
    const char *host = member->host != NULL ? member->host : asked_host(rank);
    struct who who;
    size_t used = (size_t)snprintf(who.text, sizeof(who.text), "rank %d", rank);

    if (host != NULL) {
        used += (size_t)snprintf(who.text + used, sizeof(who.text) - used, " on host %.*s",
                                 HOST_NAME_MAX, host);
    }
    if (member->pid > 0) {
        snprintf(who.text + used, sizeof(who.text) - used, " (pid %d)", (int)member->pid);
    }
    return who;
}

/* ---- silence --------------------------------------------------------------------------------- */

/*
 * Engines may never tell that a host is lost, nor end then. In a job that goes on after failures
 * each rank therefore gives a sign of life; the job has ended when no other rank is left.
 */
/* How many beats this rank may miss. */
static int most_missed(const struct member *member)
{
    return member->state == MEMBER_UNKNOWN ? MOST_UNSTARTED : MOST_MISSED;
}

/* One beat without a word of this rank. Returns true if it is silent for too long. */
static bool miss(int rank)
{
    struct member *member = &members[rank];
    int most = most_missed(member);

    if (member->state == MEMBER_ENDED || n_started == 0 || ++member->n_missed < most) {
        return false;
    }
    if (member->n_missed == most && !foreign.has_begun) {
        sink_say(member->state == MEMBER_UNKNOWN
                     ? "%s has not started within %d s of the first one; the other ranks go on"
                     : "%s has not been heard of for %d s; the other ranks go on",
                 who_is(rank).text, (most - 1) * RANK_BEAT_S);
    }
    return true;
}

static void beat_is_due(struct loop_timer *timer)
{
    int n_silent = 0;

    for (int rank = 0; rank < foreign.job->np; rank++) {
        n_silent += miss(rank);
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

    if (member->n_missed >= most_missed(member) && !foreign.has_begun) {
        sink_say("%s is heard of %s", who_is(rank).text,
                 member->state == MEMBER_UNKNOWN ? "now" : "again");
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
    bool goes_on = foreign.job->on_failure == ON_FAILURE_CONTINUE && foreign.is_running;

    if (foreign.exit_code == 0) {
        foreign.exit_code = code;
    }
    if (foreign.has_begun) {
        return;
    }
    foreign_output_silence_engine();
    sink_say("%s %s%s", who_is(rank).text, why, goes_on ? "; the other ranks go on" : "");
    if (!goes_on && foreign.is_running) {
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

/*
 * The engine's word was right, and nothing more has come. Only SIGKILL keeps nixlrun-rank from
 * telling of an end; before the start it may have been unable to run at all.
 */
static void lose(int rank)
{
    struct member *member = &members[rank];
    bool is_killed = member->state == MEMBER_STARTED || member->gone_code == 128 + SIGKILL;
    char why[ENDING_NBYTES + 64];

    if (is_killed) {
        snprintf(why, sizeof(why), "was lost: its nixlrun-rank was killed");
    } else {
        snprintf(why, sizeof(why), "did not start: its nixlrun-rank exited with code %d",
                 member->gone_code);
    }
    member->state = MEMBER_ENDED;
    member->wait_status = is_killed ? SIGKILL : W_EXITCODE(member->gone_code, 0);
    n_ended++;
    fail(rank, ending_code(member->wait_status), why);
}

static void lose_the_gone(void)
{
    for (int rank = 0; rank < foreign.job->np; rank++) {
        if (members[rank].is_gone && members[rank].state != MEMBER_ENDED) {
            lose(rank);
        }
    }
}

static void gone_are_lost(struct loop_timer *timer)
{
    (void)timer;
    if (suspect < 0 && foreign.end_signal == 0) { /* else they may well have been ended by that */
        lose_the_gone();
    }
    if (n_ended == foreign.job->np) {
        foreign_end_soon(ENGINE_LAST_NS);
    }
}

void foreign_ranks_gone(int rank, int code)
{
    if (members[rank].state != MEMBER_ENDED) {
        members[rank].is_gone = true;
        members[rank].gone_code = code;
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
            sink_say("  %s: has not started", who_is(i).text);
        } else {
            sink_say("  %s: %s", who_is(i).text,
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
 * was, or the engine names it. That is why the engine has killed the first one that we heard of,
 * unless it ends with the code of that one. Returns -1 if there is none.
 */
static int find_lost(int code)
{
    int found = -1;

    for (int rank = 0; rank < foreign.job->np && code != foreign.exit_code; rank++) {
        if (members[rank].state != MEMBER_ENDED && members[rank].is_gone) {
            return rank;
        }
        if (members[rank].state == MEMBER_STARTED && found < 0) {
            found = rank;
        }
    }
    return found;
}

static int judge_lost(int rank, int code)
{
    sink_say("%s was lost: %s", who_is(rank).text,
             members[rank].is_gone && code == 128 + SIGKILL ? "its nixlrun-rank was killed"
                                                            : "how it ended is not known");
    return code > 128 && code < 128 + NSIG ? code : LAUNCH_EXIT_FAILED;
}

/* The first rank that failed was killed: by somebody, or by the engine for PMIx_Abort of a rank? */
static int judge_suspect(int code)
{
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
    sink_say("%s %s", who_is(suspect).text, ending_text(members[suspect].wait_status, why));
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
    if (!foreign.has_begun) {
        lose_the_gone(); /* the last word was heard */
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
