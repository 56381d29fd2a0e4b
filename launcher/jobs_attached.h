/* SPDX-License-Identifier: Apache-2.0 */
/* What nixlrun ps shows of attached processes. */
#ifndef NIXLRUN_LAUNCHER_JOBS_ATTACHED_H
#define NIXLRUN_LAUNCHER_JOBS_ATTACHED_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Print the processes that are attached to that one, a line for each, and before the first of all
 * the head of the table. False: it has not called nixl_init(), or may not be read.
 */
bool attached_show(pid_t pid, bool *has_head);

/* The same for a process that is no rank of nixlrun. -1: as above, and nothing is printed. */
int attached_show_process(pid_t pid);

#endif
