/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a job of an engine in three steps, each after the one before has had its time. First the
 * ranks are signalled without the engine, if possible, so that they get --kill-grace as with the
 * local engine; then the engine is asked to end; then everything on this host is killed.
 */
#include "config.h"

#include "launcher/foreign.h"
#include "launcher/foreign_output.h"
#include "launcher/foreign_ranks.h"
#include "launcher/guardian.h"
#include "launcher/loop.h"
#include "launcher/probe.h"
#include "launcher/sink.h"
#include "util/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define ENGINE_EXTRA_NS (3 * NXR_S)  /* what an engine needs beyond --kill-grace to end its job */
#define ENGINE_LAST_NS  (10 * NXR_S) /* how long it may live on when all ranks have ended */

static struct loop_timer ask_timer, kill_timer;

static void kill_engine(struct loop_timer *timer)
{
    (void)timer;
    if (foreign.is_running) {
        sink_say("%s did not end; killing it", foreign.name);
        guardian_kill_all();
    }
}

static void foreign_end_ask_again(struct loop_timer *timer)
{
    (void)timer;
    if (foreign.is_running) {
        guardian_signal(FOREIGN_ENGINE, foreign.task->engine->end_signal);
    }
}

/* Ask the engine to end its job, and kill it if it does not. */
static void foreign_end_ask_engine(struct loop_timer *timer)
{
    (void)timer;
    foreign.is_asked = true;
    guardian_signal(FOREIGN_ENGINE, foreign.task->engine->end_signal);
    guardian_signal(FOREIGN_ENGINE, SIGCONT);
    if (foreign.task->engine->end_signal == SIGINT) {
        ask_timer.fire = foreign_end_ask_again;
        loop_timer_set(&ask_timer, nxr_deadline(GUARDIAN_AGAIN_NS));
    }
    kill_timer.fire = kill_engine;
    loop_timer_set(&kill_timer, nxr_deadline(foreign.job->grace_ns) + ENGINE_EXTRA_NS);
}

static void ask_after(int64_t wait_ns)
{
    ask_timer.fire = foreign_end_ask_engine;
    loop_timer_set(&ask_timer, nxr_deadline(wait_ns));
}

void foreign_end_soon(int64_t wait_ns)
{
    if (!foreign.has_begun) {
        foreign.has_begun = true;
        ask_after(wait_ns);
    }
}

/* What it still has to write may wait for the reader of our output. */
static void engine_outlives(struct loop_timer *timer)
{
    if (foreign_output_has_waited(timer, ENGINE_LAST_NS)) {
        foreign_end_ask_engine(NULL);
    }
}

void foreign_end_after_ranks(void)
{
    if (!foreign.has_begun && foreign_ranks.n_ended == foreign.job->np) {
        foreign.has_begun = true;
        ask_timer.fire = engine_outlives;
        loop_timer_set(&ask_timer, nxr_deadline(ENGINE_LAST_NS));
    }
}

void foreign_end_at_once(void)
{
    foreign.has_begun = true;
    foreign_end_ask_engine(NULL);
}

/* ---- without the engine ---------------------------------------------------------------------- */

/* Run the engine's program that signals ranks. Returns false if there is none. */
static bool run_signaller(int signal)
{
    const struct engine *engine = foreign.task->engine;
    const char *step = foreign_ranks_step();
    struct engine_command command = {0};
    char path[PATH_MAX];
    int fds[3], rc;

    if (engine->build_signal == NULL || step == NULL || !probe_find(engine->signal_program, path)) {
        return false;
    }
    fds[0] = fds[1] = fds[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fds[0] < 0) {
        return false;
    }
    engine->build_signal(&command, signal, step);
    rc = foreign_start(FOREIGN_SIGNALLER, path, &command, fds, 0);
    engine_command_free(&command);
    close(fds[0]);
    return rc == 0;
}

/*
 * Signal the ranks without the engine's own way to end them. Returns false if that is impossible.
 */
static bool signal_ranks(int signal)
{
    const struct engine *engine = foreign.task->engine;

    if (engine->passes_end_signal != NULL && engine->passes_end_signal(foreign.task)) {
        guardian_signal(FOREIGN_ENGINE, RANK_END_SIGNAL);
        return true;
    }
    return run_signaller(signal);
}

static void end_now(int signal)
{
    foreign.has_begun = true;
    foreign_output_silence_engine();
    if (foreign.job->grace_ns > 0 && signal_ranks(signal)) {
        ask_after(foreign.job->grace_ns);
    } else {
        foreign_end_ask_engine(NULL);
    }
}

void foreign_end_failed(void)
{
    if (foreign.has_begun) {
        return;
    }
    if (foreign.task->engine->is_left_to_us) {
        end_now(SIGTERM);
    } else {
        foreign_end_soon(foreign.job->grace_ns + ENGINE_EXTRA_NS);
    }
}

void foreign_end_by_signal(int signal)
{
    foreign.end_signal = signal;
    end_now(signal);
}

void foreign_end_by_rank(int code)
{
    if (!foreign.is_ended_by_rank) {
        foreign.is_ended_by_rank = true;
        foreign.given_code = code;
        end_now(SIGTERM);
    }
}

void foreign_end_done(void)
{
    loop_timer_clear(&ask_timer);
    loop_timer_clear(&kill_timer);
}
