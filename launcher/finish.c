/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a job ends. Every failure is judged once, when the wait status of the rank is known: the
 * first one decides nixlrun's exit code, each gets a line of output, and the survivors get the PMIx
 * event at once. With --on-failure restart the rank is then started again (restart.c). Unless it is
 * continue, or that was done, the other ranks are asked to end (SIGTERM), and killed when the grace
 * period is over. What a rank does after it was asked is no failure.
 */
#include "config.h"

#include "launcher/ending.h"
#include "launcher/guardian.h"
#include "launcher/server.h"
#include "launcher/sink.h"
#include "launcher/processes.h"
#include "launcher/waits.h"
#include "util/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static int exit_code;      /* of the first failure; 0: none so far */
static bool is_code_given; /* by nixl_job_end() */
static bool has_begun;     /* the ranks were asked to end */
static bool is_code_late;  /* exit_code is of a rank that failed when others were dying already */
static bool is_abandoned;
static struct loop_timer grace_timer, timeout_timer;

bool finish_has_begun(void)
{
    return has_begun;
}

int finish_exit_code(void)
{
    if (exit_code == 0 && sink_has_failed()) {
        return LAUNCH_EXIT_FAILED;
    }
    return exit_code;
}

static void set_exit_code(int code)
{
    if (exit_code == 0 && !is_code_given) {
        exit_code = code;
    }
}

/* ---- the end of all -------------------------------------------------------------------------- */

void finish_kill(void)
{
    guardian_kill_all();
}

void finish_abandon(int code)
{
    set_exit_code(code);
    is_abandoned = true;
}

bool finish_is_abandoned(void)
{
    return is_abandoned;
}

static void grace_is_over(struct loop_timer *timer)
{
    (void)timer;
    if (session.n_live > 0) {
        finish_kill();
    }
}

void finish_begin(int signal, int code)
{
    set_exit_code(code);
    if (has_begun) {
        return;
    }
    has_begun = true;
    set_exit_code(restart_give_up());
    for (int i = 0; i < session.n_ranks; i++) {
        struct rank *rank = session.ranks[i];

        rank->was_told_to_end = rank->was_told_to_end || rank->state != RANK_ENDED;
    }
    guardian_signal(-1, signal);
    guardian_signal(-1, SIGCONT); /* a stopped rank would not handle it */
    grace_timer.fire = grace_is_over;
    loop_timer_set(&grace_timer, nxr_deadline(session.job->grace_ns));
}

void finish_broken(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    sink_say("%s; killing the job", text);
    set_exit_code(LAUNCH_EXIT_FAILED);
    has_begun = true;
    set_exit_code(restart_give_up());
    for (int i = 0; i < session.n_ranks; i++) {
        session.ranks[i]->state = RANK_ENDED;
    }
    session.n_live = 0;
}

/* ---- failures of one rank -------------------------------------------------------------------- */

/*
 * Why the rank failed, in words; NULL if it did not. A rank that may leave has called
 * nixl_finalize(). That is enough: its PMIx_Finalize may fail if PMIx's thread here is stuck.
 */
static const char *judge(const struct rank *rank, int *code_p, pmix_status_t *event_p)
{
    static char why[ENDING_NBYTES];
    int status = rank->wait_status;

    if (rank->has_aborted) {
        *code_p = rank->abort_code;
        *event_p = PMIX_ERR_PROC_REQUESTED_ABORT;
        snprintf(why, sizeof(why), "aborted the job with code %d", rank->abort_code);
    } else if (WIFSIGNALED(status)) {
        *code_p = ending_code(status);
        *event_p = PMIX_ERR_PROC_ABORTED_BY_SIG;
        ending_text(status, why);
    } else if (WEXITSTATUS(status) != 0) {
        *code_p = ending_code(status);
        *event_p = PMIX_ERR_EXIT_NONZERO_TERM;
        ending_text(status, why);
    } else if (rank->is_connected && !rank->may_leave) {
        *code_p = LAUNCH_EXIT_FAILED;
        *event_p = PMIX_ERR_PROC_TERM_WO_SYNC;
        snprintf(why, sizeof(why), ENDING_NOT_LEFT " or PMIx_Finalize");
    } else {
        *code_p = 0;
        *event_p = PMIX_EVENT_PROC_TERMINATED;
        return NULL;
    }
    return why;
}

/*
 * The reader of our output has gone, as in "nixlrun ... | head": ranks that die of it are not
 * reported.
 */
static bool is_reader_gone(const struct rank *rank)
{
    return WIFSIGNALED(rank->wait_status) && WTERMSIG(rank->wait_status) == SIGPIPE &&
           sink_standard(0)->is_broken;
}

/* Then restart_rank() has said why the job ends. */
static bool has_used_up_restarts(const struct rank *rank)
{
    return session.job->on_failure == ON_FAILURE_RESTART && rank->space->number == 0 &&
           !is_reader_gone(rank);
}

static bool finish_start_again(struct rank *rank)
{
    int code = rank_start_again(rank);

    if (code > 0) {
        restart_end(rank);
        finish_start_failure(rank, code);
    }
    return code != -EAGAIN;
}

/*
 * A rank often fails because it has learned of the death of another one, and that may reach us
 * before the wait status of the dead rank does: its mutexes are marked before its memory is given
 * back. The first failure is that of the rank that is dying already.
 */
static void mark_fallen(const struct rank *failed)
{
    if (has_begun || exit_code != 0) {
        return;
    }
    for (int i = 0; i < session.n_ranks; i++) {
        struct rank *rank = session.ranks[i];

        if (rank != failed && rank->state == RANK_RUNNING && process_is_dying(rank->pid)) {
            rank->fell_first = is_code_late = true;
        }
    }
}

/* Only a signal tells for certain that the rank did not end because of the others. */
static bool has_fallen_first(const struct rank *rank)
{
    return is_code_late && rank->fell_first && WIFSIGNALED(rank->wait_status) &&
           !is_reader_gone(rank);
}

static void finish_fallen(struct rank *rank, int code, const char *why)
{
    rank->has_failed = true;
    is_code_late = false; /* of several, one is told */
    sink_say("%s on host %s (pid %d) %s, which was first", rank_name(rank), session.host,
             (int)rank->pid, why);
    if (!is_code_given) {
        exit_code = code;
    }
}

static void finish_fail(struct rank *rank, int code, const char *why)
{
    bool is_first = exit_code == 0 && !is_reader_gone(rank);

    if (!is_reader_gone(rank) && restart_rank(rank, why, finish_start_again)) {
        return;
    }
    rank->has_failed = true;
    if (WIFEXITED(rank->wait_status) && session.job->on_failure != ON_FAILURE_CONTINUE) {
        mark_fallen(rank);
    }
    set_exit_code(code);
    if (session.job->on_failure == ON_FAILURE_CONTINUE) {
        sink_say("%s on host %s (pid %d) %s; the other ranks continue", rank_name(rank),
                 session.host, (int)rank->pid, why);
        return;
    }
    if (is_first && !has_used_up_restarts(rank)) {
        sink_say("%s on host %s (pid %d) %s", rank_name(rank), session.host, (int)rank->pid, why);
    }
    finish_begin(SIGTERM, code);
}

void finish_rank_ended(struct rank *rank)
{
    pmix_status_t event;
    int code;
    const char *why = judge(rank, &code, &event);
    pmix_proc_t proc = rank_proc(rank);

    if (why != NULL || rank->was_connected) {
        server_notify_end(rank, event, code);
    }
    data_forget(&proc);
    if (why != NULL && !rank->was_ended_by_request && !rank->has_aborted) {
        if (has_fallen_first(rank)) {
            finish_fallen(rank, code, why);
        } else if (rank->was_told_to_end) {
            set_exit_code(code);
        } else {
            finish_fail(rank, code, why);
        }
    }
    if (rank->space->n_live == 0) {
        spawn_space_ended(rank->space);
    }
}

void finish_rank_left(struct rank *rank)
{
    rank->has_failed = true;
    set_exit_code(LAUNCH_EXIT_FAILED);
    if (rank->space->n_live == 0) {
        spawn_space_ended(rank->space);
    }
}

void finish_start_failure(struct rank *rank, int code)
{
    rank->has_failed = true;
    if (!spawn_rank_failed(rank)) {
        finish_begin(SIGTERM, code);
    }
}

void finish_abort(struct rank *rank, int code, const char *message)
{
    bool has_message = message != NULL && message[0] != '\0';

    rank->has_aborted = rank->has_failed = true;
    rank->abort_code = (code & 0xff) != 0 ? code & 0xff : LAUNCH_EXIT_FAILED;
    mark_fallen(rank);
    stream_drain(&rank->streams[0]);
    stream_drain(&rank->streams[1]);
    sink_say("%s on host %s (pid %d) aborts the job with code %d%s%s", rank_name(rank),
             session.host, (int)rank->pid, rank->abort_code, has_message ? ": " : "",
             has_message ? message : "");
    finish_begin(SIGTERM, rank->abort_code);
}

void finish_by_rank(int code)
{
    if (!is_code_given) {
        is_code_given = true;
        exit_code = code;
        finish_begin(SIGTERM, code);
    }
}

void finish_abort_some(struct rank *rank, const char *message)
{
    sink_say("%s aborts some processes%s%s", rank_name(rank),
             message != NULL && message[0] != '\0' ? ": " : "", message != NULL ? message : "");
}

/* ---- --timeout ------------------------------------------------------------------------------- */

static void say_rank_state(const struct rank *rank)
{
    static const struct {
        char letter;
        const char *text;
    } states[] = {{'R', "running"}, {'S', "sleeping"}, {'D', "waiting for the disk"},
                  {'T', "stopped"}, {'t', "traced"},   {'Z', "a zombie"}};
    const char *text = "unknown", *pmix = "has not called PMIx_Init";
    char letter;

    if (rank->state == RANK_ENDED || rank->state == RANK_WAITING) {
        int status = rank->wait_status;

        sink_say("  %s (pid %d): ended with %s %d%s", rank_name(rank), (int)rank->pid,
                 WIFSIGNALED(status) ? "signal" : "code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                 rank->state == RANK_WAITING ? ", waits to be started again" : "");
        return;
    }
    letter = process_letter(rank->pid);
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (states[i].letter == letter) {
            text = states[i].text;
        }
    }
    if (rank->was_connected) {
        pmix = rank->is_connected ? "initialized" : "has called PMIx_Finalize";
    }
    sink_say("  %s (pid %d): %s, %s", rank_name(rank), (int)rank->pid, text, pmix);
}

static void finish_timeout_is_over(struct loop_timer *timer)
{
    (void)timer;
    sink_give_up_at(nxr_deadline(session.n_live > 0 ? session.job->grace_ns : 0));
    if (session.n_live == 0) {
        sink_say("the timeout of %g s expired before the output was read",
                 (double)session.job->timeout_ns / (double)NXR_S);
        set_exit_code(LAUNCH_EXIT_TIMEOUT);
        return;
    }
    if (has_begun) {
        return;
    }
    sink_say("the timeout of %g s has expired; killing the job",
             (double)session.job->timeout_ns / (double)NXR_S);
    for (int i = 0; i < session.n_ranks; i++) {
        say_rank_state(session.ranks[i]);
    }
    waits_tell(false);
    exit_code = LAUNCH_EXIT_TIMEOUT;
    finish_begin(SIGTERM, LAUNCH_EXIT_TIMEOUT);
}

void finish_arm_timeout(void)
{
    timeout_timer.fire = finish_timeout_is_over;
    if (session.job->timeout_ns != INT64_MAX) {
        loop_timer_set(&timeout_timer, nxr_deadline(session.job->timeout_ns));
    }
}
