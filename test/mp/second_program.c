/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of a rank behind another one: both join the job. Rank 0's first program leaves so late
 * that rank 1's second one waits for all already; it must not take rank 0's former card.
 *
 *     second_program first MARK    leaves when there is a file MARK, as rank 0
 *     second_program second MARK   makes that file, as rank 1
 */
#include "config.h"

#include "mptest.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pmix.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *awaited, *made; /* NULL: none */

/* ---- calls that a program has before the library that makes them ----------------------------- */

NIXL_API pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t n_info)
{
    static const struct timespec nap = {.tv_nsec = 1000 * 1000};
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    pmix_status_t (*real)(const pmix_info_t[], size_t);

    while (awaited != NULL && access(awaited, F_OK) != 0) {
        MPT_LT(mpt_now_ns(), end_ns);
        nanosleep(&nap, NULL);
    }
    *(void **)&real = dlsym(RTLD_NEXT, "PMIx_Finalize");
    return real(info, n_info);
}

NIXL_API pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t n_procs,
                                     const pmix_info_t info[], size_t n_info,
                                     pmix_op_cbfunc_t ended_fn, void *arg)
{
    pmix_status_t (*real)(const pmix_proc_t[], size_t, const pmix_info_t[], size_t,
                          pmix_op_cbfunc_t, void *);
    pmix_status_t status;

    *(void **)&real = dlsym(RTLD_NEXT, "PMIx_Fence_nb");
    status = real(procs, n_procs, info, n_info, ended_fn, arg);
    if (made != NULL) {
        int fd = open(made, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        MPT_LT(-1, fd);
        close(fd);
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    bool is_first;

    MPT_EQ(argc, 3);
    MPT_TRUE(rank != NULL);
    is_first = strcmp(argv[1], "first") == 0;
    awaited = is_first && strcmp(rank, "0") == 0 ? argv[2] : NULL;
    made = !is_first && strcmp(rank, "1") == 0 ? argv[2] : NULL;
    mpt_start();
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
