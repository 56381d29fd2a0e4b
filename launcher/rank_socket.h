/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket on which nixlrun-rank receives from its rank what no exit code shows
 * (rank_message.h).
 */
#ifndef NIXLRUN_LAUNCHER_RANK_SOCKET_H
#define NIXLRUN_LAUNCHER_RANK_SOCKET_H

#include "util/rank_message.h"

#include <stdbool.h>

/*
 * Make the socket and name it in the environment for the program. Returns a descriptor, or -1
 * if there is no engine or no socket: then no rank reports anything.
 */
int rank_socket_open(void);

/*
 * Read the next message of the rank, and the descriptor that came with it, which is the caller's;
 * -1: none. False: there is no message now.
 */
bool rank_socket_read(int fd, struct nxr_rank_message *message, int *sent_fd_p);

#endif
