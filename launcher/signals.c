/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: blocked in every thread and read from a signalfd, so nothing runs in a handler. All go
 * to the process group of each rank. SIGINT, SIGTERM, SIGQUIT and SIGHUP start ending the job (with
 * SIGKILL after the grace); a second one kills at once. SIGTSTP stops the ranks, then us. SIGUSR2
 * shows who waits for whom, and so does SIGQUIT by a key (Ctrl-\), unless it comes twice in 2 s.
 */
#include "config.h"

#include "launcher/signals.h"
#include "launcher/guardian.h"
#include "launcher/input.h"
#include "launcher/loop.h"
#include "launcher/sink.h"
#include "launcher/waits.h"
#include "util/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define KEY_AGAIN_NS (2 * NXR_S) /* so soon after Ctrl-\ was pressed, it is meant */

static const int signals_served[] = {SIGINT,  SIGTERM, SIGQUIT, SIGHUP,   SIGUSR1,
                                     SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD};
static struct loop_fd signals_watch = {.fd = -1};
static int n_end_signals;
static const struct signals_actions *actions;

void signals_block(sigset_t *before_p)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t set;

    sigaction(SIGCHLD, &usual, NULL);  /* if it is ignored, children cannot be waited for */
    sigaction(SIGPIPE, &ignore, NULL); /* a write error shows the same, in the right place */
    sigaction(SIGXFSZ, &ignore, NULL); /* likewise; PMIx makes files of some MiB */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals_served) / sizeof(signals_served[0]); i++) {
        struct sigaction now;

        /* what the user had ignored (nohup) stays ignored, for us and the ranks */
        if (sigaction(signals_served[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            sigaddset(&set, signals_served[i]);
        }
    }
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, before_p);
}

static void end_by(int signal)
{
    n_end_signals++;
    if (n_end_signals > 1 || !actions->is_running()) {
        sink_say("caught signal %d (%s) %s; killing all ranks", signal, strsignal(signal),
                 n_end_signals > 1 ? "again" : "after the last rank had ended");
        actions->abandon(128 + signal);
        return;
    }
    sink_say("caught signal %d (%s); forwarding it to all ranks", signal, strsignal(signal));
    actions->end(signal);
}

/* Ctrl-\ is not meant to end the job, unless it is pressed again. */
static void quit_by_key(void)
{
    static int64_t shown_ns;
    int64_t now = nxr_now_ns();

    if (n_end_signals > 0 || (shown_ns != 0 && now - shown_ns < KEY_AGAIN_NS)) {
        end_by(SIGQUIT);
        return;
    }
    waits_tell(true);
    sink_say("Ctrl-\\ again within %d s ends the job", (int)(KEY_AGAIN_NS / NXR_S));
    shown_ns = nxr_now_ns();
}

/* Those that do not catch it would be killed. */
static void show_waits(int signal)
{
    waits_tell(true);
    if (actions->pass_on != NULL) {
        actions->pass_on(signal);
    }
}

/* Stop as a terminal user expects: first the ranks, then ourselves, until SIGCONT. */
static void signals_stop(void)
{
    guardian_signal(-1, SIGTSTP);
    raise(SIGSTOP);
}

static void signals_serve(int signal, bool is_by_key)
{
    if (signal == SIGQUIT && is_by_key) {
        quit_by_key();
        return;
    }
    switch (signal) {
    case SIGINT:
    case SIGTERM:
    case SIGQUIT:
    case SIGHUP:
        end_by(signal);
        break;
    case SIGTSTP:
        signals_stop();
        break;
    case SIGCHLD:
        guardian_continue();
        break;
    case SIGCONT:
        guardian_signal(-1, SIGCONT);
        input_continue();
        break;
    case SIGWINCH:
        if (actions->resize != NULL) {
            actions->resize();
        }
        guardian_signal(-1, SIGWINCH);
        break;
    case SIGUSR2:
        show_waits(signal);
        break;
    default:
        guardian_signal(-1, signal);
        break;
    }
}

static void signals_ready(struct loop_fd *ready, uint32_t events)
{
    struct signalfd_siginfo info;

    (void)events;
    while (read(ready->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        signals_serve((int)info.ssi_signo, info.ssi_code == SI_KERNEL);
    }
}

int signals_listen(const struct signals_actions *wanted)
{
    sigset_t set;

    actions = wanted;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals_served) / sizeof(signals_served[0]); i++) {
        sigaddset(&set, signals_served[i]);
    }
    signals_watch = (struct loop_fd){.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                                     .ready = signals_ready};
    return signals_watch.fd < 0 ? -errno : loop_watch(&signals_watch, EPOLLIN);
}
