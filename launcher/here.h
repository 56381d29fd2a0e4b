/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the names that a user gives to hosts mean this one? */
#ifndef NIXLRUN_LAUNCHER_HERE_H
#define NIXLRUN_LAUNCHER_HERE_H

#include <stdbool.h>

/*
 * Is this the name of this host, with its domain or without, localhost, or a name or number of one
 * of its addresses? May query a name server.
 */
bool here_is(const char *name);

#endif
