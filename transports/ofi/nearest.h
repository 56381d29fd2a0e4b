/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which path a piece takes, by the distance of its rail and the load there. Does not use libfabric.
 */
#ifndef NXR_OFI_NEAREST_H
#define NXR_OFI_NEAREST_H

#include <stdbool.h>

/* A path as a piece sees it. */
struct nxr_ofi_choice {
    bool has_room;
    unsigned n_pieces; /* under way */
    unsigned far;      /* distance from the memory to the rail */
};

/*
 * The path for a piece; -1: none has room. Pieces of a cut operation take the path with the most
 * room, so that all paths work, and among equals the nearest. An operation in one piece takes the
 * nearest path, and among equals the one with the most room. Remaining ties go to the lowest
 * number.
 */
int nxr_ofi_best_path(const struct nxr_ofi_choice *paths, unsigned n_paths, bool is_cut);

#endif
