/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a path. Pure: no state, no lock. */
#include "config.h"

#include "nearest.h"

static bool ofi_nearest_is_better(const struct nxr_ofi_choice *a, const struct nxr_ofi_choice *b,
                                  bool is_cut)
{
    if (a->n_pieces != b->n_pieces && (is_cut || a->far == b->far)) {
        return a->n_pieces < b->n_pieces;
    }
    return a->far < b->far;
}

int nxr_ofi_best_path(const struct nxr_ofi_choice *paths, unsigned n_paths, bool is_cut)
{
    int best = -1;

    for (unsigned i = 0; i < n_paths; i++) {
        if (paths[i].has_room &&
            (best < 0 || ofi_nearest_is_better(&paths[i], &paths[best], is_cut))) {
            best = (int)i;
        }
    }
    return best;
}
