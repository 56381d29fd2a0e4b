/* SPDX-License-Identifier: Apache-2.0 */
/* Writing of nixlrun-rank: the output of its program, and reports (rank_report.h), in frames. */
#ifndef NIXLRUN_LAUNCHER_RANK_SAY_H
#define NIXLRUN_LAUNCHER_RANK_SAY_H

#include "launcher/rank_report.h"
#include "util/observe.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Write all; false when the reader is gone. */
bool rank_say_write(int fd, const char *data, size_t nbytes);

/* Pass on output of the program. False when the reader is gone. */
bool rank_say_output(int fd, const char *text, size_t nbytes);

/* A report about the process with that pid. */
void rank_say(pid_t pid, enum rank_report_kind kind, int value);

/* A part of what the program waits for, and one of a section of its page. */
void rank_say_waits(pid_t pid, int part, const void *bytes, size_t nbytes);
void rank_say_page(pid_t pid, const struct nxr_observe_section *section, size_t offset,
                   const void *bytes, size_t nbytes);

#endif
