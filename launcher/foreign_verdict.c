/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict on a job that an engine has run. Engines differ most in what they say when something
 * fails: a code of the last rank or of the highest, 0 after a death that the job has survived, or
 * none, since they hang. So nixlrun finds its own verdict, from what nixlrun-rank reports about
 * each rank; the engine's code counts only if no rank explains the end.
 */
#include "config.h"

#include "launcher/ending.h"
#include "launcher/foreign.h"
#include "launcher/foreign_ranks.h"
#include "launcher/sink.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>

/*
 * Engines that start ranks by ssh say little if a host name is wrong. A name without an address
 * here explains a failure, but is no failure by itself: ssh may know the name.
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
            sink_say("cannot resolve host '%s'; check --host and --hostfile", job->hosts[i].name);
            return;
        }
        freeaddrinfo(found);
    }
}

/*
 * Has the engine ended the job because a rank called PMIx_Abort? Then it exits with the code of
 * that call. A request of ours makes mpirun exit with 1, if it has no code yet, and srun with one
 * of a rank.
 */
static bool is_own_code(int code)
{
    int least = foreign.is_asked ? 2 : 1;

    return WIFEXITED(foreign.wait_status) && code >= least && code < 128 &&
           !(foreign.is_asked && foreign.task->engine->is_left_to_us);
}

/*
 * Does the engine's code leave open whether a nixlrun-rank could be started? Those of an abort do
 * not: the reports of ranks that it has killed are lost.
 */
static bool may_lack_rank_program(int code)
{
    return !is_own_code(code) || code == LAUNCH_EXIT_FAILED || code == ENOENT ||
           code == LAUNCH_EXIT_NOT_EXEC || code == LAUNCH_EXIT_NO_PROGRAM;
}

/* No rank explains how the engine ended. */
static int judge_engine(void)
{
    int code = ending_code(foreign.wait_status);
    char why[ENDING_NBYTES];

    ending_text(foreign.wait_status, why);
    if (foreign_ranks.n_started == 0) {
        sink_say("%s %s before any rank started", foreign.name, why);
        say_unresolved();
        return LAUNCH_EXIT_FAILED;
    }
    if (foreign_ranks.n_ended < foreign.job->np) {
        sink_say("%s %s; how %d rank%s ended is unknown", foreign.name, why,
                 foreign.job->np - foreign_ranks.n_ended,
                 foreign.job->np - foreign_ranks.n_ended == 1 ? "" : "s");
        if (foreign_ranks_missing() >= 0 && may_lack_rank_program(code)) {
            sink_say("%s has not started: is %s on that host?",
                     foreign_rank_name(foreign_ranks_missing()).text, foreign.task->rank_program);
        }
        return code != 0 && WIFEXITED(foreign.wait_status) ? code : LAUNCH_EXIT_FAILED;
    }
    sink_say("%s %s, although all ranks have ended with 0", foreign.name, why);
    return LAUNCH_EXIT_FAILED;
}

/*
 * How well this rank explains that the engine ended with this code; 0: not at all. The best is one
 * that the engine names but that has reported no end: it and its nixlrun-rank were killed together,
 * or its daemon was. An engine that kills the others exits with the code of the rank for which it
 * does so. One that was killed before its first report may be named by nobody: mpirun 4 forgets it
 * if another rank starts meanwhile.
 */
static int explains(const struct member *member, int code)
{
    if (member->state == MEMBER_ENDED) {
        return !foreign.task->engine->is_left_to_us && code != 0 &&
                       ending_code(member->wait_status) == code
                   ? 3
                   : 0;
    }
    if (member->is_gone) {
        return 4;
    }
    if (member->state == MEMBER_STARTED) {
        return 2;
    }
    return code > 128 && !foreign.is_asked ? 1 : 0;
}

/*
 * srun ends the other ranks by SIGTERM, and exits with the highest code of all. That of SIGTERM is
 * therefore no reason to doubt that the first rank, killed by SIGKILL, is the cause.
 */
static bool is_code_of_the_others(int code)
{
    return foreign.task->engine->id == ENGINE_SLURM && code == 128 + SIGTERM &&
           foreign.exit_code == 128 + SIGKILL;
}

/*
 * Find the rank whose end is why the engine killed the first failed rank that we heard of. The
 * order in which reports and lines of the engine have arrived says nothing. Returns -1 if there is
 * none, or if the engine's code is explained by that first one.
 */
static int find_cause(int code)
{
    int found = -1, most = 0;

    if (code == foreign.exit_code || is_code_of_the_others(code)) {
        return -1;
    }
    for (int rank = 0; rank < foreign.job->np; rank++) {
        int how_well = explains(&foreign_ranks.members[rank], code);

        if (how_well > most) {
            most = how_well;
            found = rank;
        }
    }
    return found;
}

/* Does the engine itself say that it could not start this rank? */
static bool has_not_started(int rank)
{
    const struct member *member = &foreign_ranks.members[rank];

    return member->is_gone && member->state == MEMBER_UNKNOWN && member->gone_code < 128;
}

static int judge_lost(int rank, int code)
{
    const struct member *member = &foreign_ranks.members[rank];
    bool is_known;

    if (has_not_started(rank)) {
        sink_say("%s %s", foreign_rank_name(rank).text, foreign_rank_why_lost(rank));
        return member->gone_code;
    }
    is_known = code == 128 + SIGKILL && (member->is_gone || member->state == MEMBER_UNKNOWN);
    sink_say("%s was lost: %s", foreign_rank_name(rank).text,
             is_known ? "its nixlrun-rank was killed" : "how it ended is unknown");
    return code > 128 && code < 128 + NSIG ? code : LAUNCH_EXIT_FAILED;
}

static int judge_abort(int code)
{
    sink_say("%s has ended the job with code %d", foreign.name, code);
    return code;
}

/*
 * Has the engine killed the ranks whose end it names, each with its nixlrun-rank? Then no rank has
 * reported a failure, and none has ended with the engine's code.
 */
static bool has_killed_the_gone(int code)
{
    bool is_any_gone = false;

    for (int rank = 0; rank < foreign.job->np; rank++) {
        const struct member *member = &foreign_ranks.members[rank];

        if (member->is_gone && member->gone_code == code) {
            return false;
        }
        is_any_gone = is_any_gone || member->is_gone;
    }
    return is_any_gone && foreign.exit_code == 0 && is_own_code(code);
}

static int judge_ended(int rank)
{
    int wait_status = foreign_ranks.members[rank].wait_status;
    char why[ENDING_NBYTES];

    sink_say("%s %s", foreign_rank_name(rank).text, ending_text(wait_status, why));
    return ending_code(wait_status);
}

/*
 * Asked to end the job, srun exits with the code of a rank. If the end of each rank is known, and
 * none has ended so, it is the code of PMIx_Abort after all.
 */
static bool is_code_of_nobody(int code)
{
    if (!WIFEXITED(foreign.wait_status) || code <= LAUNCH_EXIT_FAILED || code >= 128) {
        return false;
    }
    for (int rank = 0; rank < foreign.job->np; rank++) {
        const struct member *member = &foreign_ranks.members[rank];
        bool is_ended = member->state == MEMBER_ENDED;

        if ((!is_ended && !member->is_gone) ||
            (is_ended && ending_code(member->wait_status) == code) ||
            (member->is_gone && member->gone_code == code)) {
            return false;
        }
    }
    return true;
}

/* The first rank that failed was killed: by a third party, or by the engine as the job aborts? */
static int judge_suspect(int code)
{
    int cause = find_cause(code);
    bool is_ended = cause >= 0 && foreign_ranks.members[cause].state == MEMBER_ENDED;

    if (foreign.end_signal != 0) {
        return 128 + foreign.end_signal;
    }
    if (is_own_code(code) && !is_ended && (cause < 0 || !has_not_started(cause))) {
        return judge_abort(code);
    }
    if (is_code_of_nobody(code)) {
        return judge_abort(code);
    }
    if (cause >= 0 && !is_ended) {
        return judge_lost(cause, code);
    }
    return judge_ended(is_ended ? cause : foreign_ranks.suspect);
}

int foreign_judge(void)
{
    int code = ending_code(foreign.wait_status);

    foreign_ranks_settle();
    if (foreign.is_timed_out) {
        return LAUNCH_EXIT_TIMEOUT;
    }
    if (foreign.is_ended_by_rank) {
        return foreign.given_code;
    }
    if (foreign.is_unread) {
        return 128 + SIGPIPE;
    }
    if (foreign_ranks.suspect >= 0) {
        return judge_suspect(code);
    }
    if (!foreign.has_begun) { /* and all reports have been read */
        if (has_killed_the_gone(code)) {
            return judge_abort(code);
        }
        foreign_ranks_lose_gone();
    }
    if (foreign.exit_code != 0) {
        return foreign.exit_code;
    }
    if (foreign.end_signal != 0) {
        return foreign_ranks.n_ended == foreign.job->np ? 0 : 128 + foreign.end_signal;
    }
    if (foreign_ranks.n_ended == foreign.job->np && (code == 0 || foreign.is_asked)) {
        return sink_has_failed() ? LAUNCH_EXIT_FAILED : 0;
    }
    return judge_engine();
}
