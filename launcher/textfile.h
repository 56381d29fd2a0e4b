/* SPDX-License-Identifier: Apache-2.0 */
/* Text files that options name, read whole: files of variables and of hosts. */
#ifndef NIXLRUN_LAUNCHER_TEXTFILE_H
#define NIXLRUN_LAUNCHER_TEXTFILE_H

#include <stddef.h>

enum { TEXTFILE_CAUSE_NBYTES = 192 };

/* What to do with a line. Returns NULL, or what is wrong with it ("has no '='"). */
typedef const char *textfile_line_fn(char *line, void *arg);

/*
 * Pass each line of a text of `nbytes` bytes to `line_fn`, up to the first bad one. The text is
 * changed and must have room for one more byte. Returns 0, or -1 and a cause with the line's
 * number.
 */
int textfile_parse(char *text, size_t nbytes, textfile_line_fn *line_fn, void *arg,
                   char cause[TEXTFILE_CAUSE_NBYTES]);

/* The same for a file, which may be a pipe; more than 1 MiB is refused. */
int textfile_read(const char *path, textfile_line_fn *line_fn, void *arg,
                  char cause[TEXTFILE_CAUSE_NBYTES]);

#endif
