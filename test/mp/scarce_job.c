/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining and leaving a job without memory: `scarce_job`, a job of one rank. In nixl_init() the
 * first, the second, the third ... request of the library for memory fails. The call returns
 * NIXL_E_NO_MEMORY, and succeeds when it is made again; or it does without. The same in
 * nixl_finalize(), which succeeds. Neither leaves descriptors behind.
 */
#include "lack.h"
#include "mptest.h"

#include <stdio.h>

#define MOST_REQUESTS 200 /* of one call */

static void join_again(int k)
{
    int status = nixl_init(NULL);

    if (status != NIXL_OK) {
        mpt_fail(__FILE__, __LINE__, "after request %d failed: %s", k, nixl_last_error()->text);
    }
}

/* The k-th request of nixl_init() fails. Returns false if it has not so many. */
static bool join_without(int k)
{
    bool was_lacking;
    int status;

    lack_begin(k);
    status = nixl_init(NULL);
    was_lacking = lack_end();
    printf("init without request %d: %s\n", k, status < 0 ? nixl_last_error()->text : "joined");
    if (status != NIXL_OK) {
        MPT_STATUS(status, NIXL_E_NO_MEMORY);
        MPT_EQ(was_lacking, true);
        join_again(k);
    }
    MPT_OK(nixl_finalize());
    return was_lacking;
}

static bool leave_without(int k)
{
    bool was_lacking;

    MPT_OK(nixl_init(NULL));
    lack_begin(k);
    MPT_OK(nixl_finalize());
    was_lacking = lack_end();
    printf("finalize without request %d\n", k);
    return was_lacking;
}

static void run_all(bool (*run)(int k))
{
    int n_descriptors, k = 1;

    MPT_EQ(run(0), false);
    n_descriptors = mpt_n_descriptors();
    while (run(k)) {
        MPT_EQ(mpt_n_descriptors(), n_descriptors);
        MPT_LT(k++, MOST_REQUESTS);
    }
}

int main(void)
{
    mpt_start();
    lack_find_library();
    run_all(join_without);
    run_all(leave_without);
    return mpt_passed();
}
