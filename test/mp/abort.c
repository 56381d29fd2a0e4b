/* SPDX-License-Identifier: Apache-2.0 */
/* nixl_abort ends the whole job with the code that it was given: `abort CODE`, `abort CODE alone`.
 */
#include "mptest.h"

#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int code = argc > 1 ? atoi(argv[1]) : 0;

    mpt_start();
    if (argc > 2) {
        nixl_abort(code, "not a member of any job");
    }
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    if (nixl_rank() == nixl_size() - 1) {
        nixl_abort(code, "enough is enough");
    }
    for (;;) {
        pause();
    }
}
