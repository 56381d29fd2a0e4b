/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of nixlrun that only nixlrun starts. */
#ifndef NIXLRUN_LAUNCHER_HELPER_H
#define NIXLRUN_LAUNCHER_HELPER_H

#include <limits.h>
#include <stdbool.h>

/*
 * Find one: beside nixlrun (not installed yet), or where "make install" puts it. Returns false if
 * it cannot be run; `path` is then the last place that was tried.
 */
bool helper_find(const char *name, char path[PATH_MAX]);

#endif
