/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs programs of the site with --version and the like, before anything else: one thread, no event
 * loop yet. A program that hangs is killed when its time is over, and counts as silent.
 */
#include "config.h"

#include "launcher/probe.h"
#include "launcher/program.h"
#include "util/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_NS (60 * NXR_S) /* drivers of GPUs take many seconds on a machine that is busy */

bool probe_find(const char *name, char path[PATH_MAX])
{
    return program_find(name, NULL, getenv("PATH"), path) == 0;
}

/* Read until the end, or until the time is over. Returns false in the second case. */
static bool read_answer(int fd, char *answer, size_t answer_nbytes)
{
    int64_t deadline = nxr_now_ns() + PROBE_NS;
    size_t used = 0;
    char rest[512] = "";

    for (;;) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        int64_t left_ns = deadline - nxr_now_ns();
        size_t room = answer_nbytes - 1 - used;
        ssize_t n;

        if (left_ns <= 0 || poll(&polled, 1, (int)(left_ns / NXR_MS) + 1) == 0) {
            return false;
        }
        n = read(fd, room > 0 ? answer + used : rest, room > 0 ? room : sizeof(rest));
        if (n <= 0) {
            answer[used] = '\0';
            return true;
        }
        used += room > 0 ? (size_t)n : 0;
    }
}

bool probe_run(const char *path, const char *const argv[], char *answer, size_t answer_nbytes)
{
    posix_spawn_file_actions_t actions;
    int fds[2], error, status = -1;
    bool is_whole;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) != 0) {
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
    error = posix_spawn(&pid, path, &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    is_whole = error == 0 && read_answer(fds[0], answer, answer_nbytes);
    close(fds[0]);
    if (error == 0) {
        if (!is_whole) {
            kill(pid, SIGKILL);
        }
        waitpid(pid, &status, 0);
    }
    return is_whole && WIFEXITED(status);
}

bool probe_ask(const char *path, const char *arg, char *answer, size_t answer_nbytes)
{
    const char *const argv[] = {path, arg, NULL};

    return probe_run(path, argv, answer, answer_nbytes);
}

bool probe_version(const char *answer, const char *mark, char version[PROBE_VERSION_NBYTES])
{
    const char *at = strstr(answer, mark);

    for (; at != NULL && *at != '\0'; at++) {
        size_t n = strspn(at, "0123456789"), whole = strspn(at, "0123456789.");

        if (n > 0 && at[n] == '.' && whole > n + 1 && whole < PROBE_VERSION_NBYTES) {
            snprintf(version, PROBE_VERSION_NBYTES, "%.*s", (int)whole, at);
            return true;
        }
        at += n > 0 ? n - 1 : 0;
    }
    return false;
}
