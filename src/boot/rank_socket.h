/* SPDX-License-Identifier: Apache-2.0 */
/* The channel to the nixlrun-rank before this process, if an engine started it (rank_message.h). */
#ifndef NXR_BOOT_RANK_SOCKET_H
#define NXR_BOOT_RANK_SOCKET_H

#include "util/rank_message.h"

#include <stdbool.h>

/*
 * Send it a message as this rank of this PMIx namespace. False if this rank has no nixlrun-rank, or
 * if that does not accept the message within seconds.
 */
bool nxr_rank_socket_send(unsigned rank, const char *nspace, enum nxr_rank_message_kind kind,
                          int value);

/* Has this rank of this PMIx namespace a nixlrun-rank? */
bool nxr_rank_socket_is_of(unsigned rank, const char *nspace);

#endif
