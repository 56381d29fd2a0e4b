/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of its own for each case of storage/directory: `where`, open as `root`. */
#ifndef DIRECTORY_CASE_H
#define DIRECTORY_CASE_H

#include "test/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char where[64];
static int root = -1;

static inline void set_up(void)
{
    snprintf(where, sizeof(where), "/tmp/nixlrun-directory.XXXXXX");
    cr_assert(mkdtemp(where) != NULL);
    root = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert(root >= 0);
}

static inline void take_down(void)
{
    char command[100];

    close(root);
    snprintf(command, sizeof(command), "rm -rf %s", where);
    cr_assert(eq(int, system(command), 0));
}

#endif
