/* SPDX-License-Identifier: Apache-2.0 */
/* Running programs of the site to identify them. */
#ifndef NIXLRUN_LAUNCHER_PROBE_H
#define NIXLRUN_LAUNCHER_PROBE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { PROBE_ANSWER_NBYTES = 4096 };

/* Find a program in PATH. Returns false if it is not there. */
bool probe_find(const char *name, char path[PATH_MAX]);

/*
 * Run a program with one argument and read what it writes to stdout and stderr, for a minute at
 * most; output that does not fit is dropped. Returns false if it could not be run, took longer or
 * was ended by a signal.
 */
bool probe_ask(const char *path, const char *arg, char *answer, size_t answer_nbytes);

/* The same with any arguments; argv[0] is the program's name. */
bool probe_run(const char *path, const char *const argv[], char *answer, size_t answer_nbytes);

enum { PROBE_VERSION_NBYTES = 16 };

/* Copy the first N.N... after `mark` in an answer. Returns false if there is none. */
bool probe_version(const char *answer, const char *mark, char version[PROBE_VERSION_NBYTES]);

#endif
