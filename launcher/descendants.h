/* SPDX-License-Identifier: Apache-2.0 */
/* Killing all processes that this one, a subreaper, has started. */
#ifndef NIXLRUN_LAUNCHER_DESCENDANTS_H
#define NIXLRUN_LAUNCHER_DESCENDANTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Signal each child of this process. */
void descendants_signal(int signal);

/* Reap children until none is left, or this time is over. */
void descendants_await(int64_t timeout_ns);

/* SIGKILL all children, and theirs as we adopt them, until none is left. Reaps them. */
void descendants_kill(void);

/* Is this process exiting, or has it been killed, although it cannot be reaped yet? */
bool descendant_is_ending(pid_t pid);

/* Has a process group more than zombies, which nobody but their parents can remove? */
bool descendants_group_lives(pid_t group);

#endif
