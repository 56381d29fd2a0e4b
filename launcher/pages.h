/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observation pages (util/observe.h) among the descriptors of a process, found in /proc without
 * its help. A process has one of its own. nixlrun keeps one of each rank since that has met the
 * others (server_meet.c, foreign_waits.c), so the pages of those that have died, or have left, are
 * among nixlrun's.
 */
#ifndef NIXLRUN_LAUNCHER_PAGES_H
#define NIXLRUN_LAUNCHER_PAGES_H

#include "util/observe.h"

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

/* A walk over the pages of one process. */
struct pages {
    DIR *fds;                     /* NULL: it has ended, or may not be read */
    int fd;                       /* of the present page, which the walk closes; -1: none */
    struct nxr_observe_page page; /* the present one */
    int n_unmapped;               /* left out: there is no address space left for them */
};

/* Begin a walk; pages_end() must follow. */
struct pages pages_of(pid_t pid);

/* Go to the next page. False: there is none. A page may come twice: descriptors are shared. */
bool pages_next(struct pages *pages);

/* Keep the descriptor of the present page, which is the caller's from now on. */
int pages_keep(struct pages *pages);

void pages_end(struct pages *pages);

/*
 * Open the page that a process has of itself, for reading; -1: it has none, or may not be read. The
 * descriptor keeps the page when the process has died.
 */
int pages_open_own(pid_t pid);

#endif
