/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank closes all descriptors but those for its output, the library's among them. It leaves soon,
 * and hears why; the others see that it has left.
 */
#define _GNU_SOURCE 1
#include "mptest.h"

#include <unistd.h>

int main(void)
{
    int64_t began_ns;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    began_ns = mpt_now_ns();
    if (nixl_rank() == nixl_size() - 1) {
        closefrom(3);
        MPT_STATUS(nixl_finalize(), NIXL_E_TRANSPORT);
    } else {
        MPT_OK(nixl_finalize());
    }
    MPT_LT(mpt_now_ns() - began_ns, 8 * MPT_S);
    return mpt_passed();
}
