/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The children of a subreaper, and the orphans that it adopts when they end. Allocates no memory,
 * so that it works in any state.
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

#define LOOK_MS    10
#define REFUSED_NS (1 * NXR_S) /* for what may not be signalled */
#define PF_EXITING 0x4u        /* of the kernel's include/linux/sched.h */

/* Read /proc/NAME/FILE; "" if it is not there. */
static void read_proc(const char *name, const char *file, char *text, size_t room)
{
    char path[64];
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%.20s/%.20s", name, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, room - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
}

/* The parent of the process in /proc/NAME, and the process's kernel flags; 0: no such process. */
static pid_t parent_of(const char *name, unsigned *flags_p)
{
    char line[512];
    const char *after;
    int ppid = 0;

    read_proc(name, "stat", line, sizeof(line));
    after = strrchr(line, ')'); /* a program's name may contain a ')' */
    if (after == NULL || sscanf(after, ") %*c %d %*d %*d %*d %*d %u", &ppid, flags_p) != 2) {
        return 0;
    }
    return ppid;
}

/*
 * If another thread ends the process, or a signal kills it, SIGKILL is pending for the main thread,
 * which on a busy machine ends some milliseconds later.
 */
static bool descendants_is_killed(const char *name)
{
    static const char mark[] = "\nSigPnd:";
    char status[4096];
    const char *at;

    read_proc(name, "status", status, sizeof(status));
    at = strstr(status, mark);
    return at != NULL && (strtoull(at + sizeof(mark) - 1, NULL, 16) & (1ull << (SIGKILL - 1))) != 0;
}

bool descendant_is_ending(pid_t pid)
{
    unsigned flags = 0;
    char name[24];

    snprintf(name, sizeof(name), "%d", (int)pid);
    return parent_of(name, &flags) != 0 &&
           ((flags & PF_EXITING) != 0 || descendants_is_killed(name));
}

/*
 * Is the process in /proc/NAME in that group, and more than a zombie? One whose first thread alone
 * has ended is shown as one.
 */
static bool lives_in(const char *name, pid_t group)
{
    char line[512], state;
    const char *after;
    int its_group;
    long n_threads;

    read_proc(name, "stat", line, sizeof(line));
    after = strrchr(line, ')');
    return after != NULL &&
           sscanf(after, ") %c %*d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
                  &state, &its_group, &n_threads) == 3 &&
           its_group == group && ((state != 'Z' && state != 'X') || n_threads > 1);
}

bool descendants_group_lives(pid_t group)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    bool lives = proc == NULL; /* cannot be known: assume so */

    while (!lives && proc != NULL && (entry = readdir(proc)) != NULL) {
        lives =
            entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && lives_in(entry->d_name, group);
    }
    if (proc != NULL) {
        closedir(proc);
    }
    return lives;
}

int descendants_signal(int signal, descendants_refused refused)
{
    int n_signalled = 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    pid_t self = getpid();
    unsigned flags;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            parent_of(entry->d_name, &flags) == self) {
            if (kill(atoi(entry->d_name), signal) == 0) {
                n_signalled++;
            } else if (errno == EPERM && refused != NULL) {
                refused(atoi(entry->d_name));
            }
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
    return n_signalled;
}

/* Reap what has ended. Returns false when no child is left. */
static bool reap_all(void)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
    }
    return pid == 0 || errno != ECHILD;
}

/* Polls: SIGCHLD may or may not be blocked here, so nothing is sure to wake us. */
void descendants_await(int64_t timeout_ns)
{
    int64_t deadline = nxr_deadline(timeout_ns);

    while (reap_all() && nxr_now_ns() < deadline) {
        poll(NULL, 0, LOOK_MS);
    }
}

void descendants_kill(descendants_refused left)
{
    int64_t deadline = 0;

    while (reap_all()) {
        if (descendants_signal(SIGKILL, NULL) > 0) {
            waitpid(-1, NULL, 0); /* its children are ours now: scan again */
            deadline = 0;
        } else if (deadline == 0) {
            deadline = nxr_deadline(REFUSED_NS);
        } else if (nxr_now_ns() < deadline) {
            poll(NULL, 0, LOOK_MS);
        } else {
            descendants_signal(0, left);
            return;
        }
    }
}
