/* SPDX-License-Identifier: Apache-2.0 */
/* nixlrun ps and nixlrun kill: the jobs of this user on this host. */
#ifndef NIXLRUN_LAUNCHER_JOBS_H
#define NIXLRUN_LAUNCHER_JOBS_H

#include <stdbool.h>

/*
 * Is it a command line of one of them? argv[1] decides; a program of such a name is started as
 * ./ps, or behind an option.
 */
bool jobs_are_meant(int argc, char **argv);

/* Do what the command line says. Returns the exit code; lines are on stdout, failures on stderr. */
int jobs_main(int argc, char **argv);

#endif
