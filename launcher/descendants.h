/* SPDX-License-Identifier: Apache-2.0 */
/* Killing all that this process, a subreaper, has started. */
#ifndef NIXLRUN_LAUNCHER_DESCENDANTS_H
#define NIXLRUN_LAUNCHER_DESCENDANTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Signal each child of this process. */
void descendants_signal(int signal);

/* Reap children until none is left, or this time is over. */
void descendants_await(int64_t timeout_ns);

/* SIGKILL all children, and theirs as they fall to us, until none is left. Reaps them. */
void descendants_kill(void);

/* Has this process begun to end, or was it killed, though it cannot be reaped yet? */
bool descendant_is_ending(pid_t pid);

#endif
