/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nixlrun knows about the ranks of an engine: from the reports of each nixlrun-rank, from the
 * engine's lines, and from the silence of a rank. foreign_verdict.c derives the exit code from it.
 */
#include "config.h"

#include "launcher/ending.h"
#include "launcher/foreign.h"
#include "launcher/foreign_output.h"
#include "launcher/foreign_ranks.h"
#include "launcher/loop.h"
#include "launcher/program.h"
#include "launcher/rendezvous.h"
#include "launcher/sink.h"
#include "launcher/xalloc.h"
#include "util/clock.h"

#include <errno.h>
#include <signal.h>

#define MOST_MISSED    4 /* beats; then it counts as lost until the next message from it */
#define MOST_UNSTARTED 7 /* the same since the first rank has started */
#define START_SLOW_NS  (10 * NXR_S)   /* a word then if a rank has not started */
#define ANSWER_NS      (200 * NXR_MS) /* how late the report of a death may be */
#define LAST_WORDS_NS  (2 * NXR_S)    /* for a report of a rank that the engine says has ended */

struct foreign_ranks foreign_ranks = {.suspect = -1};

static struct loop_timer beat_timer, gone_timer, start_timer, answer_timer;
static int *answers, n_answers; /* ranks whose failure is judged when answer_timer is due */
static int n_out_ended;
static bool has_blamed; /* of a rank that has failed */
static int step_job = -1, step_number = -1;

void foreign_ranks_open(void)
{
    foreign_ranks.members = x_calloc((size_t)foreign.job->np, sizeof(*foreign_ranks.members));
    answers = x_calloc((size_t)foreign.job->np, sizeof(*answers));
}

/* The host that the user has chosen for a rank, or NULL. */
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

struct rank_name foreign_rank_name(int rank)
{
    const struct member *member = &foreign_ranks.members[rank];
    const char *host = member->host != NULL ? member->host : asked_host(rank);
    struct rank_name name;
    size_t used = (size_t)snprintf(name.text, sizeof(name.text), "rank %d", rank);

    if (host != NULL) {
        used += (size_t)snprintf(name.text + used, sizeof(name.text) - used, " on host %.*s",
                                 HOST_NAME_MAX, host);
    }
    if (member->pid > 0) {
        snprintf(name.text + used, sizeof(name.text) - used, " (pid %d)", (int)member->pid);
    }
    return name;
}

/* ---- the start ------------------------------------------------------------------------------- */

int foreign_ranks_missing(void)
{
    for (int rank = 0; rank < foreign.job->np; rank++) {
        if (foreign_ranks.members[rank].state == MEMBER_UNKNOWN) {
            return rank;
        }
    }
    return -1;
}

/* Print which rank nixlrun still waits for, on which host, and the likely reason. */
static void say_missing(void)
{
    int first = foreign_ranks_missing();

    if (first >= 0) {
        sink_say("%d of %d ranks have started; %s is waiting for %s: %s", foreign_ranks.n_started,
                 foreign.job->np, foreign.name, foreign_rank_name(first).text,
                 foreign.task->engine->start_advice);
    }
}

/* The start takes long: tell the user now, not when --timeout ends the job, if it ever does. */
static void start_is_slow(struct loop_timer *timer)
{
    (void)timer;
    if (foreign.has_begun || foreign_ranks_missing() < 0) {
        return;
    }
    say_missing();
    if (foreign.job->timeout_ns == INT64_MAX) {
        sink_say("this wait has no limit: press Ctrl-C to end it, or start the job with --timeout");
    } else {
        sink_say("--timeout kills the job %g s after its start",
                 (double)foreign.job->timeout_ns / (double)NXR_S);
    }
}

/* ---- silence --------------------------------------------------------------------------------- */

/*
 * Engines may never report a lost host, nor end then. In a job that does not end with the first
 * failure each rank therefore sends beats. The job is over when only silent ranks are left; with
 * restarts, when there is one, since nobody there can start it again. Beats come with the output:
 * while its reader is slow, none counts as missed.
 */

/* How many beats this rank may miss. */
static int most_missed(const struct member *member)
{
    return member->state == MEMBER_UNKNOWN ? MOST_UNSTARTED : MOST_MISSED;
}

static const char *after_silence(void)
{
    return foreign.job->on_failure == ON_FAILURE_RESTART ? "the job ends"
                                                         : "the other ranks continue";
}

/* One beat has passed without a message of this rank. Returns true if it is silent for too long. */
static bool miss(int rank)
{
    struct member *member = &foreign_ranks.members[rank];
    int most = most_missed(member);

    if (member->state == MEMBER_ENDED || foreign_ranks.n_started == 0 ||
        ++member->n_missed < most) {
        return false;
    }
    if (member->n_missed == most && !foreign.has_begun && member->state == MEMBER_UNKNOWN) {
        sink_say("%s has not started within %d s of the first one; %s; is %s on that host?",
                 foreign_rank_name(rank).text, (most - 1) * RANK_BEAT_S, after_silence(),
                 foreign.task->rank_program);
    } else if (member->n_missed == most && !foreign.has_begun) {
        sink_say("%s has been silent for %d s; %s", foreign_rank_name(rank).text,
                 (most - 1) * RANK_BEAT_S, after_silence());
    }
    return true;
}

static void beat_is_due(struct loop_timer *timer)
{
    bool could_hear = foreign_output_heard_ns() > RANK_BEAT_S * NXR_S;
    int n_silent = 0;

    for (int rank = 0; could_hear && rank < foreign.job->np; rank++) {
        n_silent += miss(rank);
    }
    if (n_silent > 0 && foreign_ranks.n_ended + n_silent == foreign.job->np) {
        foreign.exit_code = foreign.exit_code != 0 ? foreign.exit_code : LAUNCH_EXIT_FAILED;
        foreign_output_silence_engine();
        foreign_end_soon(0);
    } else if (n_silent > 0 && foreign.job->on_failure == ON_FAILURE_RESTART) {
        foreign.exit_code = foreign.exit_code != 0 ? foreign.exit_code : LAUNCH_EXIT_FAILED;
        foreign_output_silence_engine();
        foreign_end_failed();
    }
    loop_timer_set(timer, nxr_now_ns() + RANK_BEAT_S * NXR_S);
}

static void foreign_ranks_hear(int rank)
{
    struct member *member = &foreign_ranks.members[rank];

    if (member->n_missed >= most_missed(member) && !foreign.has_begun) {
        sink_say("%s is responding %s", foreign_rank_name(rank).text,
                 member->state == MEMBER_UNKNOWN ? "now" : "again");
    }
    member->n_missed = 0;
}

void foreign_ranks_watch(void)
{
    if (foreign.job->on_failure != ON_FAILURE_ABORT) {
        beat_timer.fire = beat_is_due;
        loop_timer_set(&beat_timer, nxr_now_ns() + RANK_BEAT_S * NXR_S);
    }
    start_timer.fire = start_is_slow;
    loop_timer_set(&start_timer, nxr_now_ns() + START_SLOW_NS);
}

/* ---- reports --------------------------------------------------------------------------------- */

/*
 * A rank has failed. The first sets the exit code; once the job is ending, none is reported. If the
 * engine has ended before its last reports were read, the first failure was the end of the job too.
 */
static void foreign_ranks_fail(int rank, int code, const char *why)
{
    bool continues = foreign.job->on_failure == ON_FAILURE_CONTINUE;
    bool goes_on = continues && foreign.is_running;
    char more[160] = "";

    if (foreign.exit_code == 0) {
        foreign.exit_code = code;
    }
    if (foreign.has_begun || (has_blamed && !continues)) {
        return;
    }
    has_blamed = true;
    foreign_output_silence_engine();
    if (foreign.job->on_failure == ON_FAILURE_RESTART &&
        foreign_ranks.members[rank].n_restarts == foreign.job->most_restarts) {
        snprintf(more, sizeof(more),
                 "; it was started again %d times, as often as --on-failure restart=%d allows: the "
                 "job ends",
                 foreign.job->most_restarts, foreign.job->most_restarts);
    }
    sink_say("%s %s%s", foreign_rank_name(rank).text, why,
             goes_on ? "; the other ranks continue" : more);
    if (!goes_on && foreign.is_running) {
        foreign_end_failed();
    }
}

/* The program of a rank: ranks are assigned to the programs of the job in order. */
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
                 foreign_ranks.members[rank].host, strerror(error));
        foreign.exit_code = LAUNCH_EXIT_FAILED;
        foreign_end_failed();
    }
}

/* `error`: an errno, or an enum program_missing. */
static void not_exec(int rank, int error)
{
    const char *program = app_of(rank)->argv[0], *why = strerror(error);
    char lack[PROGRAM_WHY_NBYTES] = "";

    if (error < 0) {
        program_missing_text((enum program_missing)error, lack);
        why = lack;
        error = ENOENT;
    } else if (error == ENOENT && strchr(program, '/') == NULL) {
        why = "not found in PATH";
    }

    if (!foreign.has_begun) {
        foreign_output_silence_engine();
        sink_say("cannot run '%s' on host %s: %s", program, foreign_ranks.members[rank].host, why);
        foreign.exit_code =
            error == ENOENT || error == ENOTDIR ? LAUNCH_EXIT_NO_PROGRAM : LAUNCH_EXIT_NOT_EXEC;
        foreign_end_failed();
    }
}

/* Judge the end of a rank, when no earlier event can still arrive. */
static void judge_end(int rank)
{
    int wait_status = foreign_ranks.members[rank].wait_status;
    char why[ENDING_NBYTES];
    int code = ending_code(wait_status);
    int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;

    if (code != 0 && foreign.exit_code == 0 && foreign.job->on_failure != ON_FAILURE_CONTINUE &&
        (signal == SIGTERM || signal == SIGKILL)) {
        foreign_ranks.suspect = rank; /* the engine does this when a rank has aborted the job */
        foreign.exit_code = code;
        foreign_output_silence_engine();
        foreign_end_failed();
    } else if (code != 0) {
        foreign_ranks_fail(rank, code, ending_text(wait_status, why));
    }
}

void foreign_ranks_settle(void)
{
    loop_timer_clear(&answer_timer);
    for (int i = 0; i < n_answers; i++) {
        judge_end(answers[i]);
    }
    n_answers = 0;
}

static void answers_are_due(struct loop_timer *timer)
{
    if (foreign_output_has_waited(timer, ANSWER_NS)) {
        foreign_ranks_settle();
    }
}

/*
 * Reports of ranks come in any order. May this first failure be a reaction to a death that is not
 * reported yet? Not if the engine kills the others at once: then their deaths are its doing.
 */
static bool may_be_answer(int wait_status)
{
    return wait_status != 0 && !ending_is_cause(wait_status) && foreign.exit_code == 0 &&
           !foreign.has_begun && foreign_ranks.n_ended < foreign.job->np &&
           (foreign.task->engine->is_left_to_us || foreign.job->on_failure == ON_FAILURE_CONTINUE);
}

static void foreign_ranks_ended(int rank, int wait_status)
{
    bool is_signal = WIFSIGNALED(wait_status);

    foreign_ranks.members[rank].wait_status = wait_status;
    if (foreign.job->verbose > 0) {
        sink_say("rank %d ended with %s %d", rank, is_signal ? "signal" : "code",
                 is_signal ? WTERMSIG(wait_status) : ending_code(wait_status));
    }
    if (may_be_answer(wait_status)) {
        answers[n_answers++] = rank;
        if (!answer_timer.is_set) {
            answer_timer.fire = answers_are_due;
            loop_timer_set(&answer_timer, nxr_now_ns() + ANSWER_NS);
        }
        return;
    }
    if (wait_status != 0 && !ending_is_cause(wait_status)) {
        foreign_ranks_settle(); /* it came after those, and is no cause either */
    }
    judge_end(rank);
    if (wait_status != 0 || foreign_ranks.n_ended == foreign.job->np) {
        foreign_ranks_settle();
    }
    foreign_end_after_ranks();
}

/* The rank has called nixl_init() and then exited with 0: the others may wait for it. */
static void not_left(int rank)
{
    foreign_ranks.members[rank].wait_status = W_EXITCODE(LAUNCH_EXIT_FAILED, 0);
    foreign_ranks_fail(rank, LAUNCH_EXIT_FAILED, ENDING_NOT_LEFT);
    foreign_end_after_ranks();
}

/*
 * Nothing more will arrive: each stream of each rank has been read to its end. If the engine does
 * not exit by itself after a job has lost a rank, do not wait for it.
 */
static void look_for_the_last(void)
{
    const struct engine_task *task = foreign.task;

    if (foreign_ranks.n_ended == foreign.job->np && n_out_ended == foreign.job->np &&
        foreign.exit_code != 0 && foreign.job->on_failure == ON_FAILURE_CONTINUE &&
        !foreign.is_asked && task->major < task->engine->leaves_since) {
        if (foreign.job->verbose > 0) {
            sink_say("all ranks have ended, but %s has not, after a failure; asking it to end",
                     foreign.name);
        }
        foreign_end_at_once();
    }
}

/* It may arrive before the report that the rank has started. */
static void take_stdout_report(struct member *member, enum rank_report_kind kind, int value)
{
    if (kind == RANK_REPORT_JOB) {
        step_job = value;
    } else if (kind == RANK_REPORT_STEP) {
        step_number = value;
    } else {
        n_out_ended += !member->is_out_ended;
        member->is_out_ended = true;
        look_for_the_last();
    }
}

/* nixlrun-rank starts its program again. */
static void started_again(int rank, const char *why)
{
    struct member *member = &foreign_ranks.members[rank];

    member->n_restarts++;
    if (!foreign.has_begun) {
        sink_say("%s %s; it is started again (%d of %d)", foreign_rank_name(rank).text, why,
                 member->n_restarts, foreign.job->most_restarts);
    }
}

void foreign_ranks_say_restarts(void)
{
    for (int rank = 0; rank < foreign.job->np; rank++) {
        int n = foreign_ranks.members[rank].n_restarts;

        if (n > 0) {
            sink_say("rank %d was started again %d time%s", rank, n, n == 1 ? "" : "s");
        }
    }
}

/* A report on standard error, of a rank that has not ended. */
static void take_report(int rank, const char *host, pid_t pid, enum rank_report_kind kind,
                        int value)
{
    struct member *member = &foreign_ranks.members[rank];
    char why[ENDING_NBYTES];

    switch (kind) {
    case RANK_REPORT_WAITS: /* for foreign_waits.c */
    case RANK_REPORT_PAGE:  /* for foreign_pages.c */
    case RANK_REPORT_LEFT:  /* for foreign_output.c */
    case RANK_REPORT_OUT_ENDED:
    case RANK_REPORT_JOB:
    case RANK_REPORT_STEP:
    case RANK_REPORT_ALIVE:
        break;
    case RANK_REPORT_STARTED:
        member->state = MEMBER_STARTED;
        member->pid = pid;
        if (foreign.job->verbose > 0) {
            sink_say("rank %d started as pid %d on host %s", rank, (int)pid, host);
        }
        break;
    case RANK_REPORT_NOT_EXEC:
        member->state = MEMBER_ENDED;
        foreign_ranks.n_ended++;
        not_exec(rank, value);
        break;
    case RANK_REPORT_NOT_CHDIR:
        member->state = MEMBER_ENDED;
        foreign_ranks.n_ended++;
        not_chdir(rank, value);
        break;
    case RANK_REPORT_AGAIN:
        started_again(rank, ending_text(value, why));
        break;
    case RANK_REPORT_AGAIN_NOT_LEFT:
        started_again(rank, ENDING_NOT_LEFT);
        break;
    case RANK_REPORT_ENDS_JOB:
        if (foreign.job->verbose > 0) {
            sink_say("rank %d ends the job with code %d", rank, value & 0xff);
        }
        foreign_end_by_rank(value & 0xff);
        break;
    case RANK_REPORT_ENDED:
    case RANK_REPORT_NOT_LEFT:
        member->state = MEMBER_ENDED;
        foreign_ranks.n_ended++;
        if (kind == RANK_REPORT_NOT_LEFT) {
            not_left(rank);
        } else {
            foreign_ranks_ended(rank, value);
        }
        look_for_the_last();
        break;
    }
}

void foreign_ranks_report(int rank, const char *host, pid_t pid, enum rank_report_kind kind,
                          int value)
{
    struct member *member = &foreign_ranks.members[rank];
    bool was_known = member->state != MEMBER_UNKNOWN;

    if (rank_report_is_of_stdout(kind)) {
        take_stdout_report(member, kind, value);
        return;
    }
    if (member->state == MEMBER_ENDED) {
        return;
    }
    if (!was_known) {
        member->host = x_strdup(host);
        member->pid = pid;
        foreign_ranks.n_started++;
    }
    foreign_ranks_hear(rank);
    take_report(rank, host, pid, kind, value);
    if (member->state == MEMBER_ENDED) {
        rendezvous_ended(rank);
    }
}

/* Only SIGKILL keeps nixlrun-rank from reporting an end. */
static bool foreign_ranks_is_killed(const struct member *member)
{
    return member->state == MEMBER_STARTED || member->gone_code == 128 + SIGKILL;
}

const char *foreign_rank_why_lost(int rank)
{
    static char why[PATH_MAX + 160];
    const struct member *member = &foreign_ranks.members[rank];
    int code = member->gone_code;

    if (foreign_ranks_is_killed(member)) {
        return "was lost: its nixlrun-rank was killed";
    }
    if (code == LAUNCH_EXIT_NO_PROGRAM || code == LAUNCH_EXIT_NOT_EXEC || code == ENOENT) {
        snprintf(why, sizeof(why),
                 "did not start (code %d): is %s on that host? nixlrun must be installed at the "
                 "same path on all hosts",
                 code, foreign.task->rank_program);
    } else {
        snprintf(why, sizeof(why), "did not start: its nixlrun-rank exited with code %d", code);
    }
    return why;
}

/* The engine's line was right, and nothing more has arrived. */
static void foreign_ranks_lose(int rank)
{
    struct member *member = &foreign_ranks.members[rank];
    const char *why = foreign_rank_why_lost(rank);

    member->wait_status =
        foreign_ranks_is_killed(member) ? SIGKILL : W_EXITCODE(member->gone_code, 0);
    member->state = MEMBER_ENDED;
    foreign_ranks.n_ended++;
    foreign_ranks_fail(rank, ending_code(member->wait_status), why);
}

void foreign_ranks_lose_gone(void)
{
    for (int rank = 0; rank < foreign.job->np; rank++) {
        const struct member *member = &foreign_ranks.members[rank];

        if (member->is_gone && member->state != MEMBER_ENDED) {
            foreign_ranks_lose(rank);
        }
    }
}

static void gone_are_lost(struct loop_timer *timer)
{
    if (!foreign_output_has_waited(timer, LAST_WORDS_NS)) {
        return;
    }
    /* Otherwise the end of the job may have ended them. */
    if (foreign_ranks.suspect < 0 && foreign.end_signal == 0) {
        foreign_ranks_lose_gone();
    }
    foreign_end_after_ranks();
}

void foreign_ranks_gone(int rank, int code)
{
    struct member *member = &foreign_ranks.members[rank];

    if (member->state != MEMBER_ENDED) {
        member->is_gone = true;
        member->gone_code = code;
        gone_timer.fire = gone_are_lost;
        loop_timer_set(&gone_timer, nxr_now_ns() + LAST_WORDS_NS);
    }
}

void foreign_ranks_say(void)
{
    for (int i = 0; i < foreign.job->np; i++) {
        const struct member *member = &foreign_ranks.members[i];
        char why[ENDING_NBYTES];

        if (member->state == MEMBER_UNKNOWN) {
            sink_say("  %s: has not started", foreign_rank_name(i).text);
        } else {
            sink_say("  %s: %s", foreign_rank_name(i).text,
                     member->state == MEMBER_STARTED ? "running"
                                                     : ending_text(member->wait_status, why));
        }
    }
    say_missing();
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
