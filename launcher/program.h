/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as files: where one is, and what it lacks to run. Both nixlrun and nixlrun-rank look. */
#ifndef NIXLRUN_LAUNCHER_PROGRAM_H
#define NIXLRUN_LAUNCHER_PROGRAM_H

#include <limits.h>

/* 0 if `path` can be executed (X_OK) or read (R_OK), as seen from `wdir` (or NULL); or an errno. */
int program_test(const char *wdir, const char *path, int mode);

/*
 * Find the path of a program for execve(): the name itself if it has a slash, else by `dirs`, as in
 * PATH (NULL: the usual ones). Both are seen from `wdir`. Returns 0 or an errno.
 */
int program_find(const char *name, const char *wdir, const char *dirs, char path[PATH_MAX]);

/*
 * What the kernel does not find when it calls a program "not found" that is there. Below 0, so that
 * it can stand for an errno.
 */
enum program_missing {
    PROGRAM_LOADER = -1,
    PROGRAM_INTERPRETER = -2,
    PROGRAM_CARRIAGE_RETURN = -3, /* the interpreter, since this belongs to its name */
};

enum { PROGRAM_WHY_NBYTES = 512 };

/* Which of these does the program lack? `name`: the interpreter, as the first line has it. */
enum program_missing program_missing(const char *wdir, const char *path,
                                     char name[PROGRAM_WHY_NBYTES]);

/* Why execvp() has failed with that errno: that, or what a program lacks that is there. */
int program_why_not(const char *name, int error);

/* Turn the name into words for "cannot run '%s': %s". It is "" if it is not known. */
void program_missing_text(enum program_missing missing, char why[PROGRAM_WHY_NBYTES]);

#endif
