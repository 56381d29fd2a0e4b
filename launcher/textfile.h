/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that options name: read whole, of variables and of hosts; or written, of statistics and
 * traces.
 */
#ifndef NIXLRUN_LAUNCHER_TEXTFILE_H
#define NIXLRUN_LAUNCHER_TEXTFILE_H

#include <stddef.h>
#include <stdio.h>

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

/*
 * Make or empty a file to write. NULL: errno says why not. A pipe must have a reader (EPIPE): to
 * wait for one would have no end.
 */
FILE *textfile_create(const char *path);

/*
 * Close a file that was written. Returns 0, or the errno of why not all of it is there: the last
 * bytes, or a disk quota of another host, may fail as late as here.
 */
int textfile_close(FILE *file);

#endif
