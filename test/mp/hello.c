/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest job: every rank joins, meets the others and leaves. */
#include "mptest.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    if (argc > 1) {
        MPT_EQ(nixl_size(), atoi(argv[1]));
    }
    MPT_GE(nixl_rank(), 0);
    MPT_LT(nixl_rank(), nixl_size());
    mpt_barrier();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
