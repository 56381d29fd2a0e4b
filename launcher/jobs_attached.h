/* SPDX-License-Identifier: Apache-2.0 */
/* What nixlrun ps and nixlrun --explain=JOB show of attached processes. */
#ifndef NIXLRUN_LAUNCHER_JOBS_ATTACHED_H
#define NIXLRUN_LAUNCHER_JOBS_ATTACHED_H

#include "launcher/table.h"
#include "util/observe.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * A process that is attached to rank `owner` of the job that is shown. At last, if a page has not
 * listed all, how many more there are: in the note of a record that is not used.
 */
typedef void attached_fn(void *arg, int owner, const struct nxr_attached_record *record);

/*
 * Call `each` for all that are attached to that process. False: it has not called nixl_init(), or
 * may not be read.
 */
bool attached_take(pid_t pid, attached_fn *each, void *arg);

/* Print a line, and before the first of all the head of the table. arg: bool *has_head. */
attached_fn attached_show;

/* All lines of a process that is no rank of nixlrun. -1: as above, and nothing is printed. */
int attached_show_process(pid_t pid);

/* The same as a table, without rows; adding a row; and writing it. arg: struct table *. */
struct table attached_table(void);
attached_fn attached_tabulate;
void attached_write(const struct table *table, bool is_json);

#endif
