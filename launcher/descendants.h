/* SPDX-License-Identifier: Apache-2.0 */
/* Killing all processes that this one, a subreaper, has started. */
#ifndef NIXLRUN_LAUNCHER_DESCENDANTS_H
#define NIXLRUN_LAUNCHER_DESCENDANTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Called with a child that this process may not signal: it runs as another user. */
typedef void (*descendants_refused)(pid_t pid);

/* Signal each child of this process. Returns how many could be; refused() gets the others. */
int descendants_signal(int signal, descendants_refused refused);

/* Reap children until none is left, or this time is over. */
void descendants_await(int64_t timeout_ns);

/*
 * SIGKILL all children, and theirs as we adopt them, until none is left. Reaps them. Those that may
 * not be signalled have a second to end by themselves; the ones that do not are given to left().
 */
void descendants_kill(descendants_refused left);

/* Is this process exiting, or has it been killed, although it cannot be reaped yet? */
bool descendant_is_ending(pid_t pid);

/* Has a process group more than zombies, which nobody but their parents can remove? */
bool descendants_group_lives(pid_t group);

#endif
