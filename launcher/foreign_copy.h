/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of pages of ranks on other hosts, shared by foreign_waits.c and foreign_pages.c. */
#ifndef NIXLRUN_LAUNCHER_FOREIGN_COPY_H
#define NIXLRUN_LAUNCHER_FOREIGN_COPY_H

#include "util/observe.h"

#include <stdbool.h>
#include <stddef.h>

/* Copies of pages that ranks had before; the last ones are kept. Each has a descriptor, too. */
enum { FOREIGN_COPY_MOST_FORMER = 64 };

/* The copy of a rank's page, with one section at least, and its descriptor; NULL: none yet. */
struct nxr_observe_head *foreign_copy_of(int rank, int *fd_p);

/* False: these are not the digits of exactly so many bytes. */
bool foreign_copy_read_digits(const char *digits, void *bytes, size_t nbytes);

#endif
