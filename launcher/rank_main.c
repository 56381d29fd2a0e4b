/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun-rank [WORDS] PROGRAM [ARGS] (rank_report.h): runs between an engine's daemon and a rank,
 * on any host. It starts the program, passes its output on in a form that no engine damages, kills
 * what the program leaves behind, reports to nixlrun how it ended, and ends in the same way, or,
 * with --calm, with 0. With --restart it first starts a program that fails again, which the engine
 * does not see. So nixlrun can reach its own verdict, although engines
 * report ends inconsistently or not at all. It dies with the daemon, and the rank with it: no
 * orphans on hosts that nixlrun cannot reach.
 *
 * It stays in the engine's process group, with the program: engines signal the group. One thread.
 */
#include "config.h"

#include "launcher/descendants.h"
#include "launcher/ending.h"
#include "launcher/job.h"
#include "launcher/program.h"
#include "launcher/pty.h"
#include "launcher/rank_socket.h"
#include "launcher/rank_pages.h"
#include "launcher/rank_report.h"
#include "launcher/rank_say.h"
#include "launcher/rank_waits.h"
#include "launcher/rank_world.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { READ_NBYTES = 4096, LINGER_MS = 500, WAIT_STEP_MS = 50, SETTLE_MS = 300 };

static const int helper_held[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};

/* The program has ended: report what nixlrun does not have of its page. */
static void report_last(void)
{
    rank_waits_end(rank_say_waits);
    if (rank_waits_page() > 0) {
        rank_pages_end(rank_waits_page(), rank_say_page);
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Pass on what one stream has. At its end, or when the reader is gone, it is closed: fd -1. */
static void pump(struct pollfd *from, int to_fd)
{
    char text[READ_NBYTES];
    ssize_t n = read(from->fd, text, sizeof(text));

    if ((n < 0 && errno == EINTR) || (n > 0 && rank_say_output(to_fd, text, (size_t)n))) {
        return;
    }
    close(from->fd);
    from->fd = -1;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Pipes between the program and us: [0] is ours. The last one reports a failed start. */
struct pipes {
    int out[2], err[2], error[2];
};

/* `size`: of the terminal that the program writes to; no columns: it writes to a pipe. */
static bool open_pipes(struct pipes *pipes, const struct winsize *size)
{
    bool has_out = size->ws_col > 0 && pty_open(size, pipes->out) == 0;

    return (has_out || pipe2(pipes->out, O_CLOEXEC) == 0) && pipe2(pipes->err, O_CLOEXEC) == 0 &&
           pipe2(pipes->error, O_CLOEXEC) == 0;
}

/* Runs in the child: execute the program. */
static void helper_become_program(char **argv, const sigset_t *mask, const struct pipes *pipes)
{
    int error;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    dup2(pipes->out[1], STDOUT_FILENO);
    dup2(pipes->err[1], STDERR_FILENO);
    execvp(argv[0], argv);
    error = errno;
    rank_say_write(pipes->error[1], (const char *)&error, sizeof(error));
    _exit(LAUNCH_EXIT_NO_PROGRAM);
}

/* Start the program. Returns its pid, or 0 after a report that it cannot run. */
static pid_t helper_start(char **argv, const sigset_t *mask, const struct winsize *size,
                          struct pipes *pipes, int *error_p)
{
    pid_t pid = open_pipes(pipes, size) ? fork() : -1;

    *error_p = 0;
    if (pid == 0) {
        helper_become_program(argv, mask, pipes);
    }
    if (pid < 0) {
        *error_p = errno;
    } else {
        close(pipes->out[1]);
        close(pipes->err[1]);
        close(pipes->error[1]);
        if (read(pipes->error[0], error_p, sizeof(*error_p)) == (ssize_t)sizeof(*error_p)) {
            waitpid(pid, NULL, 0);
        }
        close(pipes->error[0]);
    }
    if (*error_p != 0) {
        rank_say(getpid(), RANK_REPORT_NOT_EXEC, program_why_not(argv[0], *error_p));
        return 0;
    }
    rank_say(pid, RANK_REPORT_STARTED, 0);
    return pid;
}

/* Report Slurm's name of this step, by which nixlrun can signal the ranks. */
static void report_step(pid_t pid)
{
    const char *rank = getenv("PMIX_RANK"), *job = getenv("SLURM_JOB_ID");
    const char *step = getenv("SLURM_STEP_ID");

    if (rank != NULL && strcmp(rank, "0") == 0 && job != NULL && step != NULL) {
        rank_say(pid, RANK_REPORT_JOB, atoi(job));
        rank_say(pid, RANK_REPORT_STEP, atoi(step));
    }
}

/* nixlrun wants the program to end: signal it, with all that it has started in our group. */
static void ask_to_end(pid_t pid)
{
    pid_t target = getpgrp() == getpid() ? 0 : pid; /* otherwise it is the group of a daemon */

    kill(target, SIGTERM);
    kill(target, SIGCONT);
}

/* A process that the program has left is of another user: nixlrun tells. */
static void helper_leaves(pid_t pid)
{
    char path[32];
    struct stat info;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &info) == 0) {
        rank_say(pid, RANK_REPORT_LEFT, (int)info.st_uid);
    }
}

/* Reap; true if the program itself has ended. */
static bool helper_reap(pid_t pid, int *status_p)
{
    bool has_ended = false;
    pid_t ended;
    int status;

    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
        if (ended == pid) {
            *status_p = status;
            has_ended = true;
        }
    }
    return has_ended;
}

/* A descriptor that is ready every so many seconds, -1 if none is wanted. */
static int open_timer(bool is_wanted, time_t seconds)
{
    const struct itimerspec every = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    int fd = is_wanted ? timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK) : -1;

    if (fd >= 0) {
        timerfd_settime(fd, 0, &every, NULL);
    }
    return fd;
}

/* Has the time come? */
static bool timer_is_due(int fd)
{
    uint64_t n;

    return read(fd, &n, sizeof(n)) == (ssize_t)sizeof(n);
}

/* What is known of one process of the rank. */
struct life {
    bool is_member;  /* it has yet to call nixl_finalize() */
    bool has_joined; /* it has been in the job */
};

static bool is_job_ending; /* nixlrun or the rank says so */

/* Read what the rank has reported so far. */
static void helper_hear(pid_t pid, int message_fd, struct life *life)
{
    struct nxr_rank_message message;
    int page_fd = -1;

    while (rank_socket_read(message_fd, &message, &page_fd)) {
        if (page_fd >= 0) {
            if (!rank_waits_is_kept(page_fd)) {
                report_last(); /* of the one that the rank had before */
                rank_pages_forget();
            }
            rank_waits_keep(page_fd);
        }
        life->is_member = message.kind == NXR_RANK_JOINED;
        life->has_joined |= life->is_member;
        if (message.kind == NXR_RANK_ENDS_JOB) {
            is_job_ending = true;
            rank_say(pid, RANK_REPORT_ENDS_JOB, message.value);
        }
    }
}

/* What is served besides the output. */
struct sources {
    int signal_fd, beat_fd, message_fd, waits_fd;
};

static void helper_tick(pid_t pid, const struct sources *sources, bool is_beat, bool is_waits)
{
    if (is_beat && timer_is_due(sources->beat_fd)) {
        rank_say(pid, RANK_REPORT_ALIVE, 0);
    }
    if (is_waits && timer_is_due(sources->waits_fd)) {
        rank_waits_look(pid, rank_say_waits);
        if (rank_waits_page() > 0) {
            rank_pages_look(rank_waits_page(), rank_say_page);
        }
    }
}

/*
 * Pass on output until the program has ended and all its output is written. Returns its wait
 * status.
 */
static int helper_serve(pid_t pid, const struct pipes *pipes, const struct sources *sources,
                        struct life *life)
{
    struct pollfd polled[] = {
        {.fd = pipes->out[0], .events = POLLIN},      {.fd = pipes->err[0], .events = POLLIN},
        {.fd = sources->signal_fd, .events = POLLIN}, {.fd = sources->message_fd, .events = POLLIN},
        {.fd = sources->beat_fd, .events = POLLIN},   {.fd = sources->waits_fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    bool has_ended = false;
    int status = 0;

    while (!has_ended || polled[0].fd >= 0 || polled[1].fd >= 0) {
        if (poll(polled, has_ended ? 3 : 6, has_ended ? LINGER_MS : -1) == 0) {
            break; /* a process out of our reach holds the pipes */
        }
        for (int i = 0; i < 2; i++) {
            if (polled[i].fd >= 0 && polled[i].revents != 0) {
                pump(&polled[i], i == 0 ? STDOUT_FILENO : STDERR_FILENO);
            }
        }
        if (!has_ended) {
            helper_tick(pid, sources, polled[4].revents != 0, polled[5].revents != 0);
        }
        if (polled[3].revents != 0) {
            helper_hear(pid, sources->message_fd, life);
        }
        if (polled[2].revents == 0 || read(sources->signal_fd, &info, sizeof(info)) <= 0 ||
            has_ended) {
            continue;
        }
        if (info.ssi_signo == RANK_END_SIGNAL) {
            is_job_ending = true;
            ask_to_end(pid);
        } else if (helper_reap(pid, &status)) {
            helper_hear(pid, sources->message_fd, life);
            has_ended = true;
            descendants_kill(helper_leaves);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (polled[i].fd >= 0) {
            close(polled[i].fd);
        }
    }
    return status;
}

/* End as the program did. */
static void end_like(int wait_status) __attribute__((noreturn));
static void end_like(int wait_status)
{
    struct rlimit no_core = {0, 0};
    sigset_t set;

    if (WIFSIGNALED(wait_status)) {
        setrlimit(RLIMIT_CORE, &no_core);
        signal(WTERMSIG(wait_status), SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, WTERMSIG(wait_status));
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(WTERMSIG(wait_status));
    }
    _exit(ending_code(wait_status));
}

/* The VALUE of the next word if it is NAME=VALUE of this name, which is then skipped; or NULL. */
static char *helper_take_value(char ***words_p, const char *name)
{
    size_t nbytes = strlen(name);
    char *word = **words_p;

    if (word == NULL || strncmp(word, name, nbytes) != 0 || word[nbytes] != '=') {
        return NULL;
    }
    ++*words_p;
    return word + nbytes + 1;
}

/* Change to the directory if the next word gives one. Returns an errno. */
static int enter_wdir(char ***words_p)
{
    const char *dir = helper_take_value(words_p, RANK_WDIR_WORD);

    if (dir == NULL) {
        return 0;
    }
    if (chdir(dir) != 0) {
        return errno;
    }
    setenv("PWD", dir, 1);
    return 0;
}

/* Set the variables of the program's place in the job, if the next words give it. */
static void tell_world(char ***words_p)
{
    char *world = helper_take_value(words_p, RANK_WORLD_WORD);
    const char *kept = helper_take_value(words_p, RANK_KEEP_WORD);

    if (world != NULL) {
        rank_world_set(world, kept);
    }
}

/* The size of a terminal if the next word gives one, which is skipped. */
static struct winsize take_pty(char ***words_p)
{
    const char *value = helper_take_value(words_p, RANK_PTY_WORD);
    struct winsize size = {.ws_col = 0};

    if (value != NULL && sscanf(value, "%hux%hu", &size.ws_col, &size.ws_row) != 2) {
        size.ws_col = 0;
    }
    return size;
}

/* Skip the next word if it is this one. Returns whether it was. */
static bool take_word(char ***words_p, const char *word)
{
    bool is_there = **words_p != NULL && strcmp(**words_p, word) == 0;

    *words_p += is_there;
    return is_there;
}

/* ---- starting it again ----------------------------------------------------------------------- */

struct restarts {
    int n, most;
    unsigned incarnation; /* processes of the rank that were in the job before */
    long long delay_ns;
};

static struct restarts take_restarts(char ***words_p)
{
    const char *value = helper_take_value(words_p, RANK_RESTART_WORD);
    struct restarts restarts = {.most = 0};

    if (value != NULL && sscanf(value, "%d,%lld", &restarts.most, &restarts.delay_ns) != 2) {
        restarts.most = 0;
    }
    if (value != NULL) {
        setenv("NIXLRUN_INCARNATION", "0", 1);
    }
    return restarts;
}

/*
 * Is the engine ending the job? Then it has sent a signal to the program and to us, where it waits,
 * as we hold it.
 */
static bool is_engine_ending(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
    bool is_any = false;
    sigset_t pending;

    sigpending(&pending);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        is_any |= sigismember(&pending, ends[i]) == 1;
    }
    return is_any;
}

/* Wait before the next start. False: the job ends meanwhile. */
static bool wait_for_start(const struct sources *sources, pid_t pid, long long delay_ns)
{
    int64_t deadline = nxr_deadline(delay_ns), now;
    struct pollfd polled = {.fd = sources->signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;

    while (!is_job_ending && !is_engine_ending() && (now = nxr_now_ns()) < deadline) {
        int64_t left = deadline - now;
        int64_t step = left < WAIT_STEP_MS * NXR_MS ? left : WAIT_STEP_MS * NXR_MS;
        struct timespec time = nxr_timespec(step);

        if (ppoll(&polled, 1, &time, NULL) > 0 &&
            read(sources->signal_fd, &info, sizeof(info)) > 0) {
            is_job_ending |= info.ssi_signo == RANK_END_SIGNAL;
        }
        helper_tick(pid, sources, sources->beat_fd >= 0, false);
    }
    return !is_job_ending && !is_engine_ending();
}

/*
 * Has it ended by a signal that engines and Slurm's scancel send to end a job? They may signal
 * process by process, so ours is on its way then.
 */
static bool may_be_asked(int status)
{
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;

    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

/* The program has ended like that. Is it to be started again? Then it is time for it. */
static bool starts_again(struct restarts *restarts, const struct sources *sources, pid_t pid,
                         int status, const struct life *life)
{
    bool has_not_left = status == 0 && life->is_member;
    char text[16];

    if ((status == 0 && !has_not_left) || restarts->n == restarts->most ||
        !wait_for_start(sources, pid, may_be_asked(status) ? SETTLE_MS * NXR_MS : 0)) {
        return false;
    }
    restarts->n++;
    restarts->incarnation += life->has_joined;
    snprintf(text, sizeof(text), "%u", restarts->incarnation);
    setenv("NIXLRUN_INCARNATION", text, 1);
    rank_say(pid, has_not_left ? RANK_REPORT_AGAIN_NOT_LEFT : RANK_REPORT_AGAIN, status);
    return wait_for_start(sources, pid, restarts->delay_ns);
}

int main(int argc, char **argv)
{
    char **words = argv + (argc > 0);
    bool has_beat = take_word(&words, RANK_BEAT_WORD);
    bool is_calm = take_word(&words, RANK_CALM_WORD);
    struct restarts restarts = take_restarts(&words);
    struct winsize size;
    int wdir_error;
    sigset_t set, served, mask;
    struct sources sources = {.message_fd = rank_socket_open(),
                              .beat_fd = open_timer(has_beat, RANK_BEAT_S),
                              .waits_fd = open_timer(true, RANK_WAITS_TICK_NS / NXR_S)};
    struct life life;
    struct pipes pipes;
    int error, status;
    pid_t pid;

    tell_world(&words);
    size = take_pty(&words);
    wdir_error = enter_wdir(&words);
    if (*words == NULL) {
        fputs("nixlrun-rank is internal to nixlrun; do not run it directly\n", stderr);
        return LAUNCH_EXIT_USAGE;
    }
    if (wdir_error != 0) {
        rank_say(getpid(), RANK_REPORT_NOT_CHDIR, wdir_error);
        return LAUNCH_EXIT_FAILED;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(helper_held) / sizeof(helper_held[0]); i++) {
        sigaddset(&set, helper_held[i]);
    }
    sigemptyset(&served);
    sigaddset(&served, SIGCHLD);
    sigaddset(&served, RANK_END_SIGNAL);
    sigorset(&set, &set, &served);
    sigprocmask(SIG_BLOCK, &set, &mask);
    sources.signal_fd = signalfd(-1, &served, SFD_CLOEXEC | SFD_NONBLOCK);
    do {
        pid = helper_start(words, &mask, &size, &pipes, &error);
        if (pid == 0) {
            return error == ENOENT || error == ENOTDIR ? LAUNCH_EXIT_NO_PROGRAM
                                                       : LAUNCH_EXIT_NOT_EXEC;
        }
        if (restarts.n == 0) {
            report_step(pid);
        }
        life = (struct life){false, false};
        status = helper_serve(pid, &pipes, &sources, &life);
        report_last();
    } while (starts_again(&restarts, &sources, pid, status, &life));
    rank_say(pid, RANK_REPORT_OUT_ENDED, 0);
    if (status == 0 && life.is_member) {
        rank_say(pid, RANK_REPORT_NOT_LEFT, status);
        status = W_EXITCODE(LAUNCH_EXIT_FAILED, 0);
    } else {
        rank_say(pid, RANK_REPORT_ENDED, status);
    }
    end_like(is_calm ? 0 : status);
}
