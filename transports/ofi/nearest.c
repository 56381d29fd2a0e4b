/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a way. Pure: no state, no lock. */
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

int nxr_ofi_best_way(const struct nxr_ofi_choice *ways, unsigned n_ways, bool is_cut)
{
    int best = -1;

    for (unsigned i = 0; i < n_ways; i++) {
        if (ways[i].has_room &&
            (best < 0 || ofi_nearest_is_better(&ways[i], &ways[best], is_cut))) {
            best = (int)i;
        }
    }
    return best;
}
