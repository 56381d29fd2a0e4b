/* SPDX-License-Identifier: Apache-2.0 */
/* nixlrun-rank's end of the link on which its rank tells what no exit code says (rank_word.h). */
#ifndef NIXLRUN_LAUNCHER_RANK_LINK_H
#define NIXLRUN_LAUNCHER_RANK_LINK_H

#include "util/rank_word.h"

#include <stdbool.h>

/*
 * Make the socket and name it in the environment for the program. Returns a descriptor, or -1
 * where there is no engine or no socket: then no rank tells anything.
 */
int rank_link_open(void);

/* Take the next word of the rank. False: there is none now. */
bool rank_link_read(int fd, struct nxr_rank_word *word);

#endif
