/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a piece takes, by how far its rail is and how much is under way there. No libfabric. */
#ifndef NXR_OFI_NEAREST_H
#define NXR_OFI_NEAREST_H

#include <stdbool.h>

/* A way as a piece sees it. */
struct nxr_ofi_choice {
    bool has_room;
    unsigned n_pieces; /* under way */
    unsigned far;      /* from the memory to the rail */
};

/*
 * The way for a piece; -1: none has room. Pieces of a cut operation take the way with the most
 * room, so that all work, and of those the nearest; an operation in one piece takes the nearest
 * way, and of several the one with the most room. What is alike goes by number.
 */
int nxr_ofi_best_way(const struct nxr_ofi_choice *ways, unsigned n_ways, bool is_cut);

#endif
