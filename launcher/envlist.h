/* SPDX-License-Identifier: Apache-2.0 */
/* Variables for the ranks of a program: what -x and --env-file add to the environment of nixlrun.
 */
#ifndef NIXLRUN_LAUNCHER_ENVLIST_H
#define NIXLRUN_LAUNCHER_ENVLIST_H

#include <stdbool.h>
#include <stddef.h>

/* In the order in which the names were first given; each name is there once. */
struct envlist {
    char **vars; /* NAME=VALUE, NULL-terminated, NULL if empty */
    size_t n;
};

/* Set a variable. `assignment` is NAME=VALUE with a NAME that is not empty; it is copied. */
void envlist_set(struct envlist *list, const char *assignment);

/* Is there a variable of this name? */
bool envlist_has(const struct envlist *list, const char *name);

/* Add a variable of this process. Returns 0, or -1 if it has no variable of this name. */
int envlist_pass(struct envlist *list, const char *name);

/* Add all variables of this process whose names start with `prefix`; there may be none. */
void envlist_pass_prefix(struct envlist *list, const char *prefix);

void envlist_free(struct envlist *list);

#endif
