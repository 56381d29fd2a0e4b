/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How modules cut large transfers for several rails, and how long they leave a rail alone that has
 * failed. Pure.
 */
#ifndef NXR_TRANSPORTS_STRIPE_H
#define NXR_TRANSPORTS_STRIPE_H

#include "util/clock.h"

#include <stddef.h>
#include <stdint.h>

/* Pieces are short so that a failed rail leaves little behind. */
#define NXR_STRIPE_PIECE_MIN ((size_t)64 * 1024)
#define NXR_STRIPE_PIECE_MAX ((size_t)512 * 1024)

#define NXR_RAIL_FIRST_PAUSE (50 * NXR_MS)
#define NXR_RAIL_LAST_PAUSE  (2 * NXR_S)

/* How long the pieces are, if a transfer is cut for that many rails. */
static inline size_t nxr_stripe_piece_nbytes(size_t nbytes, unsigned n_rails)
{
    size_t share = nbytes / (n_rails > 0 ? n_rails : 1);

    return share > NXR_STRIPE_PIECE_MAX   ? NXR_STRIPE_PIECE_MAX
           : share < NXR_STRIPE_PIECE_MIN ? NXR_STRIPE_PIECE_MIN
                                          : (share + 7) & ~(size_t)7;
}

/* The pause before a rail is tried again, after one of that length; 0: it has failed just now. */
static inline int64_t nxr_rail_longer_pause(int64_t pause_ns)
{
    return pause_ns == 0                        ? NXR_RAIL_FIRST_PAUSE
           : 2 * pause_ns < NXR_RAIL_LAST_PAUSE ? 2 * pause_ns
                                                : NXR_RAIL_LAST_PAUSE;
}

#endif
