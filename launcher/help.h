/* SPDX-License-Identifier: Apache-2.0 */
/* --help and --help TOPIC. */
#ifndef NIXLRUN_LAUNCHER_HELP_H
#define NIXLRUN_LAUNCHER_HELP_H

#include <stddef.h>
#include <stdio.h>

/*
 * Print the short help (topic NULL), which fits on a screen of 80 x 24, or the help on a topic.
 * Returns 0, or -1, prints nothing and puts one line in `why` if there is no such topic.
 */
int help_print(FILE *out, const char *topic, char *why, size_t why_nbytes);

#endif
