/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun-rank's end of the link on which its rank reports what no exit code shows (rank_word.h).
 */
#ifndef NIXLRUN_LAUNCHER_RANK_LINK_H
#define NIXLRUN_LAUNCHER_RANK_LINK_H

#include "util/rank_word.h"

#include <stdbool.h>

/*
 * Make the socket and name it in the environment for the program. Returns a descriptor, or -1
 * if there is no engine or no socket: then no rank reports anything.
 */
int rank_link_open(void);

/* Read the next message of the rank. False: there is none now. */
bool rank_link_read(int fd, struct nxr_rank_word *word);

#endif
