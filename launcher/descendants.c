/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The children of a subreaper, and what falls to it when they end. No memory is taken, so that it
 * works in any state.
 */
#include "config.h"

#include "launcher/descendants.h"
#include "util/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 10

/* The parent of the process in /proc/NAME, or 0. */
static pid_t parent_of(const char *name)
{
    char path[64], line[512];
    const char *after;
    int ppid = 0, fd;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    n = read(fd, line, sizeof(line) - 1);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    after = strrchr(line, ')'); /* a program may have any name, also one with a ')' */
    if (after == NULL || sscanf(after, ") %*c %d", &ppid) != 1) {
        return 0;
    }
    return ppid;
}

void descendants_signal(int signal)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    pid_t self = getpid();

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            parent_of(entry->d_name) == self) {
            kill(atoi(entry->d_name), signal);
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
}

/* Reap what has ended. Returns false when no child is left. */
static bool reap_all(void)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
    }
    return pid == 0 || errno != ECHILD;
}

/* SIGCHLD may be blocked here or not, so nothing wakes us. */
void descendants_await(int64_t timeout_ns)
{
    int64_t deadline = nxr_deadline(timeout_ns);

    while (reap_all() && nxr_now_ns() < deadline) {
        poll(NULL, 0, LOOK_MS);
    }
}

void descendants_kill(void)
{
    while (reap_all()) {
        descendants_signal(SIGKILL);
        waitpid(-1, NULL, 0); /* its children are ours now: look again */
    }
}
