/* SPDX-License-Identifier: Apache-2.0 */
/* The way to the nixlrun-rank before this process, where an engine started it (rank_word.h). */
#ifndef NXR_BOOT_RANK_LINK_H
#define NXR_BOOT_RANK_LINK_H

#include "util/rank_word.h"

#include <stdbool.h>

/*
 * Tell it something, as this rank of this PMIx namespace. False if there is none for it, or it does
 * not take it within seconds.
 */
bool nxr_rank_link_tell(unsigned rank, const char *nspace, enum nxr_rank_word_kind kind, int value);

#endif
