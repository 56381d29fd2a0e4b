/* SPDX-License-Identifier: Apache-2.0 */
/* The shares of members in a reduction, also of more than 4 GiB. No byte of them is touched. */
#include "collective/node_collective.h"

#include "test/unit/unit.h"

#define GIB (1ull << 30)

static const uint64_t sizes[] = {4 * GIB - 1, 4 * GIB,     4 * GIB + 1,      4 * GIB + 4096,
                                 5 * GIB,     8 * GIB + 7, 33 * GIB + 12345, 1ull << 46};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Each element belongs to one member, and no member has much more than others. */
Test(shares, cover_everything)
{
    static const size_t elements[] = {1, 2, 4, 8, 24, 256};
    static struct nixl_team team;

    for (size_t i = 0; i < N_SIZES * 6; i++) {
        size_t element = elements[i % 6];
        struct nxr_reduction what = {.kind = NXR_ALLREDUCE,
                                     .combine = {.element_nbytes = element},
                                     .nbytes = sizes[i / 6] / element * element};

        for (int size = 2; size <= 2000; size += size / 3 + 1) {
            size_t share, even = what.nbytes / (size_t)size;

            team.node.size = size;
            share = nxr_reduce_share(&team, &what);
            cr_assert(share % element == 0 && share >= even && share <= even + 64 * 1024,
                      "%zu bytes of %zu each, %d members: shares of %zu", what.nbytes, element,
                      size, share);
            cr_assert(share * (size_t)size >= what.nbytes);
        }
    }
}
