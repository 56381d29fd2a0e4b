/* SPDX-License-Identifier: Apache-2.0 */
/* How a process ended, as an exit code and as text. */
#ifndef NIXLRUN_LAUNCHER_ENDING_H
#define NIXLRUN_LAUNCHER_ENDING_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { ENDING_NBYTES = 128 };

/* The exit code, or 128 + the signal that killed the process. */
static inline int ending_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/*
 * Ranks notice the death of another within microseconds, and may fail because of it: with an exit
 * code, by abort() or by a broken pipe. Did this rank die for any other reason?
 */
static inline bool ending_is_cause(int wait_status)
{
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) != SIGABRT &&
           WTERMSIG(wait_status) != SIGPIPE;
}

/* "exited with code 3", "was killed by signal 9 (Killed)". Writes to and returns `text`. */
static inline const char *ending_text(int wait_status, char text[ENDING_NBYTES])
{
    if (WIFSIGNALED(wait_status)) {
        snprintf(text, ENDING_NBYTES, "was killed by signal %d (%s)%s", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)), WCOREDUMP(wait_status) ? ", core dumped" : "");
    } else {
        snprintf(text, ENDING_NBYTES, "exited with code %d", WEXITSTATUS(wait_status));
    }
    return text;
}

/* Why a rank that exited with 0 counts as failed. */
#define ENDING_NOT_LEFT "exited with code 0 but without nixl_finalize"

#endif
