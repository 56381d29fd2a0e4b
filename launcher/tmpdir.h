/* SPDX-License-Identifier: Apache-2.0 */
/* The private temporary directory of one nixlrun. */
#ifndef NIXLRUN_LAUNCHER_TMPDIR_H
#define NIXLRUN_LAUNCHER_TMPDIR_H

#include <stdbool.h>

/*
 * Call it before the guardian is made, so that the guardian knows the directory. False with errno.
 */
bool tmpdir_share(void);

/*
 * Sweep what dead nixlruns of this user left, then make our own directory (mode 0700). Returns its
 * path, which lives until exit, or NULL after one line on stderr.
 */
const char *tmpdir_make(void);

/* Remove our directory and its contents. Called by nixlrun, or by its guardian. */
void tmpdir_remove(void);

#endif
